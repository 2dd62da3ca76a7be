"""The default search of `propose` for all tasks at once, as one program; on entropy search one for each greedy pick."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from poolwise.acquisition.base_samples import normals
from poolwise.acquisition.expectation import Base
from poolwise.acquisition.integrand import MaxType, ProbabilityOfImprovement
from poolwise.acquisition.log_space import LogExpectedImprovement
from poolwise.belief.gaussian_process import Posterior
from poolwise.paper.choosing import OUTER
from poolwise.paper.crowd import Ask, Pools, normals_of, objective_of, stacked
from poolwise.paper.settings import Setup
from poolwise.pool.apart import Worth, distinct
from poolwise.pool.ascent import RACE, SAMPLED, Beginning, _advance, _begin, _climb, _first_states
from poolwise.pool.effort import Ascent, Found
from poolwise.pool.idle import IMPROVEMENTS, idle_points, incumbent
from poolwise.pool.joint import GeneralObjective
from poolwise.pool.judge import FRESH, FRESH_SEED, Judged, _judge_max
from poolwise.pool.searching import beside
from poolwise.pool.starts import Room, around_best, candidate_sets


def by_default(asked: Ask, setup: Setup, evaluations: int | None) -> tuple[Pools, Int[np.ndarray, " t"]]:
    """What `propose` does by default: of an improvement, points that add nothing are chosen again, in log space."""
    pools, used = proposed(asked, setup)
    if isinstance(asked.worths, IMPROVEMENTS) and (idle := idle_of(asked, pools)).any():
        others, again = reseated(asked, pools, idle, setup)
        return others, used + np.where(idle.any(axis=1), again, 0)
    return pools, used


def reseated(
    asked: Ask, pools: Pools, idle: Bool[np.ndarray, "t q"], setup: Setup
) -> tuple[Pools, Int[np.ndarray, " t"]]:
    """The pools with idle points where log expected improvement is highest beside the others, as `propose` does it."""
    worths = [LogExpectedImprovement(float(threshold)) for threshold in asked.worths.threshold]
    kept = [pool[~free] for pool, free in zip(pools, idle, strict=True)]
    known = zip(kept, asked.beliefs.X, asked.beliefs.y, strict=True)
    others = [own if len(own) else incumbent(X, y) for own, X, y in known]
    found, used = _max_ascent(asked, worths, others, setup, picks=idle.sum(axis=1))
    return np.stack([np.concatenate([k, p[: setup.q - len(k)]]) for k, p in zip(kept, found, strict=True)]), used


def idle_of(asked: Ask, pools: Pools) -> Bool[np.ndarray, "t q"]:
    """Which points of each pool add nothing beside those before them."""
    z = normals(FRESH, pools.shape[1], seed=FRESH_SEED)
    with jax.enable_x64(True):
        judged = _judged(asked.beliefs.posteriors, asked.worths, pools, z)
    return idle_points(asked.worths, judged)


@jax.jit
def _judged(posteriors: Any, worths: Any, pools: Float[Array, "t q d"], z: Float[Array, "m q"]) -> Judged:
    def one(posterior: Posterior, worth: MaxType, pool: Float[Array, "q d"]) -> Any:
        return _judge_max(worth, posterior, pool, jnp.ones(len(pool), bool), z, q=len(pool))

    return jax.vmap(one)(posteriors, worths, pools)


def proposed(asked: Ask, setup: Setup) -> tuple[Pools, Int[np.ndarray, " t"]]:
    """Greedy picks and joint ascent of every task, and the evaluations each took."""
    nobody = [np.zeros((0, setup.d))] * len(asked.seeds)
    if asked.max_type:
        worths = [jax.tree.map(lambda leaf, i=i: leaf[i], asked.worths) for i in range(len(asked.seeds))]
        return _max_ascent(asked, worths, nobody, setup)
    pools, used = _general_ascent(asked, setup)
    worths = []
    for i, others in enumerate(nobody):
        posterior, goal = jax.tree.map(lambda leaf, i=i: leaf[i], (asked.beliefs.posteriors, asked.worths))
        worths.append(beside(posterior, goal, others))
    return _apart(asked, pools, nobody, worths), used


def _apart(
    asked: Ask, pools: Pools, pending: Sequence[Float[np.ndarray, "_ d"]], worths: Sequence[Worth | None] | None = None
) -> Pools:
    each = zip(pools, pending, asked.seeds, worths or [None] * len(pools), strict=True)
    return np.stack([distinct(Found(pool, 0), others, seed, worth).pool for pool, others, seed, worth in each])


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


def _max_ascent(
    asked: Ask,
    worths: Sequence[MaxType],
    pending: Sequence[Float[np.ndarray, "_ d"]],
    setup: Setup,
    *,
    picks: Int[np.ndarray, " t"] | None = None,
) -> tuple[Pools, Int[np.ndarray, " t"]]:
    """Pools by an integrand each; or so many picks of each task, beside as many pending points as it likes."""
    settings, slots = (Ascent(), 0) if picks is None else (Ascent(polish=0), setup.q)
    counts = np.full(len(worths), setup.q) if picks is None else picks
    offered, chance = offered_to(asked, settings, setup.q)
    samples = settings.samples * (2 if isinstance(worths[0], ProbabilityOfImprovement) else 1)
    rooms = [_room(own, slots, setup.q, samples, seed) for own, seed in zip(pending, asked.seeds, strict=True)]
    room = Room(*(np.stack(part) for part in zip(*rooms, strict=True)))
    with jax.enable_x64(True):
        ended = _ascended(asked.beliefs.posteriors, stacked(worths), room, offered, chance, counts, settings)
    return _apart(asked, np.asarray(ended[0]), pending), np.asarray(ended[1])


def _room(pending: Float[np.ndarray, "w d"], slots: int, q: int, samples: int, seed: int) -> Room:
    """Pending points in so many slots, as many for every task; free ones have base samples of zero."""
    w, z = len(pending), normals(samples, len(pending) + q, seed=seed)
    points = np.concatenate([pending, np.full((slots - w, pending.shape[1]), 0.5)])
    z = np.concatenate([z[:, :w], np.zeros((samples, slots - w)), z[:, w:]], axis=1)
    return Room(points, (np.arange(slots) < w).astype(float), z)


@functools.partial(jax.jit, static_argnames=("settings",))
def _ascended(  # noqa: PLR0913
    posteriors: Any,
    worths: Any,
    room: Room,
    offered: Float[Array, "t q c d"],
    chance: Float[Array, "t s c"],
    counts: Int[Array, " t"],
    settings: Ascent,
) -> tuple[Float[Array, "t q d"], Int[Array, " t"]]:
    def one(posterior: Posterior, worth: MaxType, room: Room, offered: tuple[Any, Any], picks: Any) -> tuple[Any, ...]:
        points, chance = offered
        objective, beginning, spent = _begin(
            posterior, worth, *room, points, settings.rounds, picks, starts=settings.starts
        )
        if not settings.polish:
            return beginning.pool, spent
        states = _first_states(objective, beginning, chance, lanes=settings.lanes)
        return _polished(settings, objective, states, spent)

    return jax.vmap(one)(posteriors, worths, room, (offered, chance), counts)


def _polished(settings: Ascent, objective: Any, states: list[Any], spent: Int[Array, ""]) -> tuple[Any, Any]:
    """A short climb of every lane, then the leader alone; as a part of a program."""
    lanes = jax.tree.map(lambda *leaves: jnp.concatenate(leaves) if leaves[0].ndim else leaves[0], *states)
    raced = _advance(objective, lanes, min(RACE, settings.polish))
    first = jnp.argmax(raced.values)
    leader = jax.tree.map(lambda leaf: leaf[first][None] if leaf.ndim else leaf, raced)
    end = _advance(objective, leader, settings.polish - leader.rounds)
    sampled = SAMPLED if len(states) > 1 else 0
    used = spent + sampled + jnp.sum(raced.evaluations) + end.evaluations[0] - leader.evaluations[0]
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
