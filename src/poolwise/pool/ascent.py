"""The default way to a pool: greedy picks, then joint ascent from that pool and a few around it."""

from __future__ import annotations

import functools
import math
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from poolwise.acquisition.base_samples import normals
from poolwise.acquisition.expectation import Base
from poolwise.acquisition.integrand import MaxType, ProbabilityOfImprovement, baseline_slots
from poolwise.acquisition.knowledge import KnowledgeGradient
from poolwise.acquisition.volume import VolumeType
from poolwise.belief.gaussian_process import Posterior
from poolwise.maximizers import lbfgsb
from poolwise.maximizers.climb import value_and_gradient
from poolwise.pool.effort import FEWER, Ascent, Found, Limit
from poolwise.pool.field import field_of
from poolwise.pool.greedy import greedy, with_points
from poolwise.pool.joint import GeneralObjective, MaxObjective
from poolwise.pool.knowledge import greedy_knowledge, knowledge_objective
from poolwise.pool.prefix import Prefix, nobody
from poolwise.pool.starts import Room, candidate_sets, evenly, near_best, with_room
from poolwise.pool.volume import greedy_volume, volume_objective
from poolwise.precision import AnyArray, to_numpy
from poolwise.programs import Program, quickly
from poolwise.pytree import pytree

RACE = 3  # rounds that each lane has before the leader climbs on alone
SAMPLED = 16  # pools sampled from the acquisition function, of which the best are climbed


@pytree
class Beginning:
    """What joint ascent starts from: the greedy pool, and single points with their values to make other pools of."""

    pool: Float[Array, "q d"]
    points: Float[AnyArray, "c d"]
    values: Float[AnyArray, " c"]


def max_objective(  # noqa: PLR0913
    posterior: Posterior, integrand: MaxType, q: int, pending: Float[np.ndarray, "w d"], *, samples: int, seed: int
) -> tuple[MaxObjective, Prefix]:
    """The joint objective beside pending points, and the same prefix with q free slots for greedy picks."""
    return _objective(posterior, integrand, *_room(integrand, q, pending, samples, seed))


def _room(integrand: Any, q: int, pending: Float[np.ndarray, "w d"], samples: int, seed: int) -> Room:
    return with_room(pending, normals(samples, len(pending) + q + baseline_slots(integrand), seed=seed), integrand)


def _fewer(integrand: Any) -> int:
    """By how much to divide the samples of a rough search; a probability near one rests on the few that miss."""
    return 1 if isinstance(integrand, ProbabilityOfImprovement) else FEWER


@jax.jit
def _objective(
    posterior: Posterior,
    integrand: MaxType,
    pending: Float[Array, "w d"],
    taken: Float[Array, " w"],
    z: Float[Array, "m c"],
) -> tuple[MaxObjective, Prefix]:
    field, w = field_of(posterior), pending.shape[0]
    few, low = z[: z.shape[0] // _fewer(integrand)], baseline_slots(integrand)
    roomy = with_points(field, integrand, nobody(field, few, low), pending, taken)
    tight = with_points(field, integrand, nobody(field, z[:, :w], low), pending, taken)
    return MaxObjective(field, integrand, tight, z[:, w:]), roomy


def search(  # noqa: PLR0913
    settings: Ascent,
    posterior: Posterior,
    integrand: Any,
    q: int,
    pending: Float[np.ndarray, "w d"],
    *,
    seed: int,
    limit: Limit,
    picks: int | None = None,
) -> Found:
    """Greedy picks, then joint ascent; incremental picks where the integrand allows them.

    Where only picks are made, without polish, `picks` says that no more than the first so many points are wanted.
    """
    d, count = posterior.dimension, max(settings.candidates, q)  # a pool is sampled from one set without replacement
    local = count // 8
    sets = evenly(posterior, candidate_sets(q, count - local, d, seed))
    nearby = near_best(posterior, q * local, seed).reshape(q, local, d)
    offered = np.concatenate([sets, nearby], axis=1)
    chance = np.random.default_rng([seed, 4]).gumbel(size=(max(SAMPLED, settings.lanes), count))
    if isinstance(integrand, MaxType):
        samples = settings.samples * (2 if isinstance(integrand, ProbabilityOfImprovement) else 1)
        room = _room(integrand, q, pending, samples, seed)
        starts = min(settings.starts, settings.candidates)
        given = posterior, integrand, *room, offered, settings.rounds, q if picks is None else picks
        if settings.polish:
            _make_ahead(given, chance, starts, settings.lanes)
        objective, beginning, spent = _begin(*given, starts=starts)
        if not settings.polish:
            return Found(np.asarray(beginning.pool)[:picks], int(spent))
        states = _first_states(objective, beginning, chance, lanes=settings.lanes)
        found = _polished(settings, objective, states, int(spent), limit=limit)
        return Found(np.asarray(beginning.pool), found.evaluations) if integrand.unseen(found.value) else found
    samples = settings.samples // 4
    if (known := _incremental(posterior, integrand, q, pending, samples, seed)) is not None:
        objective, greedily = known
        starts = min(settings.starts, settings.candidates)
        pool, values, spent = greedily(objective, offered, settings.rounds, starts=starts)
        beginning = Beginning(pool, offered[0], values)
        states = _first_states(objective, beginning, chance, lanes=settings.lanes)
        return _polished(settings, objective, states, int(spent), limit=limit)
    general = functools.partial(general_objective, posterior, integrand, samples=samples, seed=seed)
    beginning, spent = _general_greedy(settings, general, pending, offered, limit=limit)
    objective = general(q, pending)
    states = _first_states(objective, beginning, chance, lanes=settings.lanes)
    return _polished(settings, objective, states, spent, limit=limit)


def _incremental(  # noqa: PLR0913
    posterior: Posterior, integrand: Any, q: int, pending: Float[np.ndarray, "w d"], samples: int, seed: int
) -> tuple[Any, Program] | None:
    """The joint objective and the greedy picks of integrands that are no maximum but add one point at a time."""
    if isinstance(integrand, VolumeType):
        return volume_objective(posterior, integrand, pending), greedy_volume
    if isinstance(integrand, KnowledgeGradient) and integrand.candidates is not None:
        return knowledge_objective(posterior, integrand, q, pending, samples=samples, seed=seed), greedy_knowledge
    return None


@quickly("starts")
def _begin(  # noqa: PLR0913
    posterior: Posterior,
    integrand: MaxType,
    pending: Float[Array, "w d"],
    taken: Float[Array, " w"],
    z: Float[Array, "m c"],
    candidates: Float[Array, "q r d"],
    rounds: int | Int[Array, ""],
    picks: int | Int[Array, ""],
    *,
    starts: int,
) -> tuple[MaxObjective, Beginning, Int[Array, ""]]:
    """The joint objective, the greedy pool, and how many evaluations that took."""
    objective, prefix = _objective(posterior, integrand, pending, taken, z)
    options: Any = {"rounds": rounds, "picks": picks, "starts": starts}
    pool, values, spent = greedy(objective.field, integrand, prefix, candidates, **options)
    return objective, Beginning(pool, candidates[0], values), spent


def _make_ahead(given: tuple[Any, ...], chance: Float[np.ndarray, "s c"], starts: int, lanes: int) -> None:
    """Where programs are made for the first time, those of joint ascent beside the one of greedy picks."""
    if (shapes := _begin.outputs(*given, starts=starts)) is None:
        return
    objective, beginning, _ = shapes
    _advance.ahead(objective, _lane(np.zeros(math.prod(beginning.pool.shape))), RACE)
    if lanes > 1:
        _lanes.ahead(objective, beginning, chance, lanes=lanes)


def general_objective(  # noqa: PLR0913
    posterior: Posterior, integrand: Any, q: int, pending: Float[np.ndarray, "w d"], *, samples: int, seed: int
) -> GeneralObjective:
    """The joint objective of any integrand."""
    z = normals(samples, len(pending) + q + baseline_slots(integrand), seed=seed)
    return GeneralObjective(posterior, integrand, jnp.asarray(pending), Base(jnp.asarray(z)))


def _general_greedy(
    settings: Ascent,
    general: Any,
    pending: Float[np.ndarray, "w d"],
    offered: Float[np.ndarray, "q c d"],
    *,
    limit: Limit,
) -> tuple[Beginning, int]:
    """Greedy picks for an integrand that is not a maximum: each pick is a pool of one beside those before it."""
    before, spent, first = pending, 0, None
    for candidates in offered:
        objective = general(1, before)
        values = np.nan_to_num(np.asarray(_values(objective, jnp.asarray(candidates))), nan=-np.inf)
        first = values if first is None else first
        best = candidates[np.argsort(-values, kind="stable")[: settings.starts]]
        end = _climb(objective, jnp.asarray(best), 1 if limit.late() else settings.rounds)
        before = np.concatenate([before, np.asarray(end.points)[[int(jnp.argmax(end.values))]]])
        spent += len(candidates) + int(end.evaluations.sum())
    pool = jnp.asarray(before[len(pending) :])
    return Beginning(pool, jnp.asarray(offered[0]), jnp.asarray(first)), spent


def _polished(settings: Ascent, objective: Any, states: list[lbfgsb.State], spent: int, *, limit: Limit) -> Found:
    """Joint ascent: a short climb of the greedy pool and of others, then the leader alone; a clock is watched."""
    if len(states) > 1:
        spent += max(SAMPLED, len(states))
        left = settings.polish if limit.evaluations is None else (limit.evaluations - spent) // len(states)
        heat = 0 if limit.late() else max(0, min(RACE, settings.polish, left))
        states = [_advance(objective, state, heat) for state in states]
    state = max(states, key=lambda state: np.asarray(state.values)[0])
    spent += sum(int(np.asarray(each.evaluations)[0]) for each in states)
    raced = int(np.asarray(state.evaluations)[0])
    for rounds in limit.chunks(settings.polish - int(state.rounds), spent):
        state = _advance(objective, state, rounds)
        if limit.until is not None and np.asarray(state.done).all():
            break
    pool = np.asarray(state.points).reshape(-1, objective.dimension)
    return Found(pool, spent + int(np.asarray(state.evaluations)[0]) - raced, float(np.asarray(state.values)[0]))


def _first_states(
    objective: Any, beginning: Beginning, chance: Float[Array | np.ndarray, "s c"], lanes: int
) -> list[lbfgsb.State]:
    """Where each lane starts: one on the greedy pool, the others on pools sampled from the acquisition function."""
    if lanes > 1:
        states: list[lbfgsb.State] = _lanes(objective, beginning, chance, lanes=lanes)
        return states
    return [_lane(to_numpy(beginning.pool).ravel())]


@quickly("lanes")
def _lanes(objective: Any, beginning: Beginning, chance: Float[Array, "s c"], lanes: int) -> list[lbfgsb.State]:
    """The greedy pool, and the best of pools sampled from the acquisition function."""
    sampled = _sampled(objective.rough(_fewer(objective.integrand)), beginning, chance, lanes - 1)
    return [_lane(beginning.pool.ravel()), *map(_lane, sampled)]


def _lane(start: Float[Array | np.ndarray, " p"]) -> lbfgsb.State:
    return lbfgsb.init(start[None], gtol=1e-4, ftol=1e-6)


def _sampled(objective: Any, beginning: Beginning, chance: Float[Array, "s c"], count: int) -> Float[Array, "r p"]:
    """The best of some pools whose points are drawn in proportion to their value, without replacement.

    The q largest of log(weight) + Gumbel noise are such a draw.
    """
    weights = beginning.values - jnp.min(beginning.values)
    keys = jnp.log(weights + 1e-9 * jnp.max(weights) + 1e-300)[None, :] + chance
    _, index = jax.lax.top_k(keys, beginning.pool.shape[0])
    drawn = beginning.points[index].reshape(chance.shape[0], -1)
    values = objective(drawn)
    _, order = jax.lax.top_k(jnp.where(jnp.isnan(values), -jnp.inf, values), count)
    return drawn[order]


@quickly()
def _advance(objective: Any, state: lbfgsb.State, rounds: int | Int[Array, ""]) -> lbfgsb.State:
    state = replace(state, unit=jnp.asarray(objective.unit))
    return lbfgsb.advance(functools.partial(value_and_gradient, objective), state, rounds)


@jax.jit
def _climb(objective: Any, starts: Float[Array, "r p"], rounds: int | Int[Array, ""]) -> lbfgsb.State:
    climbs = functools.partial(value_and_gradient, objective)
    return lbfgsb.ascend(climbs, starts, rounds=rounds, gtol=1e-4, ftol=1e-6, unit=objective.unit)


@jax.jit
def _values(objective: Any, flat: Float[Array, "r p"]) -> Float[Array, " r"]:
    return objective(flat)
