"""The default search of `propose` for all tasks at once, as one program; on entropy search one for each greedy pick."""

from __future__ import annotations

import copy
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from poolwise.acquisition.expectation import Base
from poolwise.acquisition.integrand import ExpectedImprovement, MaxType, ProbabilityOfImprovement
from poolwise.belief.gaussian_process import Posterior
from poolwise.paper.choosing import OUTER
from poolwise.paper.crowd import Ask, Pools, normals_of, objective_of, values_of
from poolwise.paper.settings import Setup
from poolwise.pool.ascent import RACE, SAMPLED, Ascent, Beginning, Found, _advance, _begin, _climb, _first_states
from poolwise.pool.field import field_of
from poolwise.pool.joint import GeneralObjective
from poolwise.pool.judge import FRESH, FRESH_SEED
from poolwise.pool.proposal import CANDIDATES, _distinct
from poolwise.pool.starts import around_best, candidate_sets, spread


def by_default(asked: Ask, setup: Setup, evaluations: int | None) -> tuple[Pools, Int[np.ndarray, " t"]]:
    """What `propose` does by default; where no sample improves, for a threshold within reach."""
    pools, used = _proposed(asked, setup)
    if isinstance(asked.worths, ExpectedImprovement | ProbabilityOfImprovement):
        values = values_of(asked, pools[:, None], (FRESH, [FRESH_SEED] * len(pools)))[:, 0]
        if (flat := ~(values > 0)).any():
            lower = np.where(flat, np.minimum(_reach(asked), asked.worths.threshold), asked.worths.threshold)
            worths = copy.copy(asked.worths)
            object.__setattr__(worths, "threshold", lower)
            others, again = _proposed(Ask(asked.beliefs, worths, asked.seeds), setup)
            pools, used = np.where(flat[:, None, None], others, pools), np.where(flat, again, used)
    return pools, used


def _proposed(asked: Ask, setup: Setup) -> tuple[Pools, Int[np.ndarray, " t"]]:
    pools, used = (_max_ascent if asked.max_type else _general_ascent)(asked, setup)
    none = np.zeros((0, setup.d))
    apart = [_distinct(Found(pool, 0), none, seed, False).pool for pool, seed in zip(pools, asked.seeds, strict=True)]
    return np.stack(apart), used


def _reach(asked: Ask) -> Float[np.ndarray, " t"]:
    """An outcome that the most promising point of each task exceeds one time in six."""
    known, d = asked.beliefs, asked.beliefs.X.shape[2]
    points = [
        np.concatenate([spread(CANDIDATES, d, seed), around_best(X, y, CANDIDATES, seed)])
        for X, y, seed in zip(known.X, known.y, asked.seeds, strict=True)
    ]
    return np.asarray(_highest(known.posteriors, np.stack(points)))


@jax.jit
def _highest(posteriors: Any, points: Float[Array, "t c d"]) -> Float[Array, " t"]:
    def one(posterior: Posterior, points: Float[Array, "c d"]) -> Float[Array, ""]:
        field = field_of(posterior)
        rows = field.rows(points)
        return jnp.max(rows.mean + jnp.sqrt(jnp.maximum(field.variance - jnp.sum(rows.k * rows.w, axis=1), 0.0)))

    return jax.vmap(one)(posteriors, points)


def offered_to(asked: Ask, settings: Ascent, q: int) -> tuple[Float[np.ndarray, "t q c d"], Float[np.ndarray, "t s c"]]:
    """Candidates for every pick of each task, and noise to draw pools by."""
    d, local = asked.beliefs.X.shape[2], settings.candidates // 8
    offered = [
        np.concatenate(
            [
                candidate_sets(q, settings.candidates - local, d, seed),
                around_best(X, y, q * local, seed).reshape(q, local, d),
            ],
            axis=1,
        )
        for X, y, seed in zip(asked.beliefs.X, asked.beliefs.y, asked.seeds, strict=True)
    ]
    chance = [np.random.default_rng([seed, 4]).gumbel(size=(SAMPLED, settings.candidates)) for seed in asked.seeds]
    return np.stack(offered), np.stack(chance)


def _max_ascent(asked: Ask, setup: Setup) -> tuple[Pools, Int[np.ndarray, " t"]]:
    settings = Ascent()
    offered, chance = offered_to(asked, settings, setup.q)
    samples = settings.samples * (2 if isinstance(asked.worths, ProbabilityOfImprovement) else 1)
    z = normals_of(samples, setup.q, asked.seeds)
    pools, used = _ascended(asked.beliefs.posteriors, asked.worths, z, offered, chance, settings)
    return np.asarray(pools), np.asarray(used)


@functools.partial(jax.jit, static_argnames=("settings",))
def _ascended(  # noqa: PLR0913
    posteriors: Any,
    worths: Any,
    z: Float[Array, "t m q"],
    offered: Float[Array, "t q c d"],
    chance: Float[Array, "t s c"],
    settings: Ascent,
) -> tuple[Float[Array, "t q d"], Int[Array, " t"]]:
    def one(posterior: Posterior, worth: MaxType, z: Any, offered: Any, chance: Any) -> tuple[Any, Any]:
        nobody_waits = jnp.zeros((0, offered.shape[2])), jnp.zeros(0)
        given = (posterior, worth, *nobody_waits, z, offered, settings.rounds)
        objective, beginning, spent = _begin(*given, starts=settings.starts)
        states = _first_states(objective, beginning, chance, lanes=settings.lanes)
        return _polished(settings, objective, states, spent)

    return jax.vmap(one)(posteriors, worths, z, offered, chance)


def _polished(settings: Ascent, objective: Any, states: list[Any], spent: Int[Array, ""]) -> tuple[Any, Any]:
    """A short climb of every lane, then the leader alone; as a part of a program."""
    lanes = jax.tree.map(lambda *leaves: jnp.concatenate(leaves) if leaves[0].ndim else leaves[0], *states)
    raced = _advance(objective, lanes, min(RACE, settings.polish))
    first = jnp.argmax(raced.values)
    leader = jax.tree.map(lambda leaf: leaf[first][None] if leaf.ndim else leaf, raced)
    end = _advance(objective, leader, settings.polish - leader.rounds)
    used = spent + jnp.sum(raced.evaluations) + end.evaluations[0] - leader.evaluations[0]
    return end.points.reshape(-1, objective.dimension), used


GENERAL = Ascent(4 * OUTER, candidates=64, starts=4, polish=20)  # as `choosing` has it for entropy search


def _general_ascent(asked: Ask, setup: Setup) -> tuple[Pools, Int[np.ndarray, " t"]]:
    """Each pick is a pool of one beside those before it, in a program of its own; then joint ascent."""
    offered, chance = offered_to(asked, GENERAL, setup.q)
    before, spent, first = offered[:, 0, :0], np.zeros(len(offered), int), None
    for i in range(setup.q):
        points, values, used = picked(asked, before, offered[:, i])
        first = values if first is None else first
        before, spent = np.concatenate([before, np.asarray(points)[:, None]], axis=1), spent + np.asarray(used)
    z = normals_of(GENERAL.samples // 4, setup.q, asked.seeds)
    pools, used = _joined(asked.beliefs.posteriors, asked.worths, z, before, (offered[:, 0], first, chance))
    return np.asarray(pools), spent + np.asarray(used)


def picked(asked: Ask, before: Float[np.ndarray, "t w d"], candidates: Float[np.ndarray, "t c d"]) -> Any:
    z = normals_of(GENERAL.samples // 4, before.shape[1] + 1, asked.seeds)
    return _pick(asked.beliefs.posteriors, asked.worths, z, before, candidates)


@jax.jit
def _pick(
    posteriors: Any,
    worths: Any,
    z: Float[Array, "t m w1"],
    before: Float[Array, "t w d"],
    candidates: Float[Array, "t c d"],
) -> tuple[Float[Array, "t d"], Float[Array, "t c"], Int[Array, " t"]]:
    """The best point to add for each task, the values of its candidates, and the evaluations made."""

    def one(posterior: Posterior, worth: Any, z: Any, before: Any, candidates: Any) -> tuple[Any, Any, Any]:
        objective = GeneralObjective(posterior, worth, before, Base(z))
        values = objective(candidates)
        values = jnp.where(jnp.isnan(values), -jnp.inf, values)
        _, order = jax.lax.top_k(values, GENERAL.starts)
        end = _climb(objective, candidates[order], GENERAL.rounds)
        used = candidates.shape[0] + jnp.sum(end.evaluations)
        return end.points[jnp.argmax(end.values)], values, used

    return jax.vmap(one)(posteriors, worths, z, before, candidates)


@jax.jit
def _joined(
    posteriors: Any, worths: Any, z: Float[Array, "t m q"], pools: Float[Array, "t q d"], offered: Any
) -> tuple[Float[Array, "t q d"], Int[Array, " t"]]:
    def one(posterior: Posterior, worth: Any, z: Any, pool: Any, offered: Any) -> tuple[Any, Any]:
        objective, (points, values, chance) = objective_of(posterior, worth, z), offered
        states = _first_states(objective, Beginning(pool, points, values), chance, GENERAL.lanes)
        return _polished(GENERAL, objective, states, jnp.zeros((), int))

    return jax.vmap(one)(posteriors, worths, z, pools, offered)
