"""Choose the pools of all tasks at once, with each optimizer of the paper's comparison: `choosing` for many tasks.

Beliefs, integrands and base samples are stacked along a first axis of tasks, so that one compiled program serves all.
Every task has the seeds that it has alone. What chance brings (pools, candidates, base samples) is drawn on the host;
only the fresh samples of stochastic ascent are drawn on the device.
"""

from __future__ import annotations

import copy
import functools
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

import poolwise as pw
from poolwise.acquisition.base_samples import normals
from poolwise.acquisition.expectation import Base
from poolwise.acquisition.integrand import ExpectedImprovement, MaxType, ProbabilityOfImprovement
from poolwise.belief.gaussian_process import Data, GaussianProcess, Posterior, _condition
from poolwise.paper import choosing, tasks
from poolwise.paper.choosing import JUDGE_SEED, JUDGES, OUTER, REPRESENTERS
from poolwise.paper.meeting import side_by_side
from poolwise.paper.screening import best_pools_of_all
from poolwise.paper.settings import Setup
from poolwise.pool.ascent import (
    RACE,
    SAMPLED,
    Ascent,
    Beginning,
    Found,
    _advance,
    _begin,
    _climb,
    _first_states,
)
from poolwise.pool.field import field_of
from poolwise.pool.joint import GeneralObjective, MaxObjective
from poolwise.pool.judge import FRESH, FRESH_SEED
from poolwise.pool.prefix import nobody
from poolwise.pool.proposal import CANDIDATES, STARTS, _distinct
from poolwise.pool.starts import around_best, candidate_sets, spread
from poolwise.pytree import pytree, static

NEARBY = 64  # points near the best observations, among which pools to start from are sampled
CHUNK = 64  # pools at a time of an integrand that is no maximum, whose evaluation takes memory

Pools = Float[np.ndarray, "t q d"]


@dataclass(frozen=True, eq=False)
class Beliefs:
    """What was observed of each task, as much of each, and the posteriors of all of them."""

    X: Float[np.ndarray, "t n d"]
    y: Float[np.ndarray, "t n"]
    posteriors: Any  # a Posterior whose arrays have a first axis of tasks


@dataclass(frozen=True, eq=False)
class Ask:
    """A pool of each task is asked for: beliefs, an integrand each, stacked as well, and a seed each."""

    beliefs: Beliefs
    worths: Any
    seeds: tuple[int, ...]

    @property
    def max_type(self) -> bool:
        """Whether the integrands take the maximum over a pool."""
        return isinstance(self.worths, MaxType)


@dataclass(frozen=True, eq=False)
class Choices:
    """A pool of each task, the evaluations each took, and the seconds of the clock that all took together."""

    pools: Pools
    evaluations: Int[np.ndarray, " t"]
    seconds: float


@pytree
class Together:
    """The objectives of so many tasks as one, on the rows of one task after another, as many of each."""

    each: Any
    count: int = static()

    def __call__(self, flat: Float[Array, "r p"]) -> Float[Array, " r"]:
        rows = flat.reshape(self.count, -1, flat.shape[1])
        return jax.vmap(lambda objective, own: objective(own))(self.each, rows).ravel()

    def redraw(self, key: Array, samples: int) -> Together:
        """The same with fresh independent base samples for each task."""
        keys = jax.random.split(key, self.count)
        return Together(jax.vmap(functools.partial(_redrawn, samples=samples))(self.each, keys), self.count)


def _redrawn(objective: Any, key: Array, samples: int) -> Any:
    if isinstance(objective, MaxObjective):
        z = jax.random.normal(key, (samples, objective.normals.shape[1]), objective.normals.dtype)
        return MaxObjective(objective.field, objective.integrand, nobody(objective.field, z[:, :0]), z)
    return objective.redraw(key, samples)


def beliefs(setup: Setup, X: Float[np.ndarray, "t n d"], y: Float[np.ndarray, "t n"], size: int) -> Beliefs:
    """The beliefs about all tasks after as many observations of each, padded to `size` rows."""
    room = ((0, 0), (0, size - X.shape[1]))
    live = np.broadcast_to(np.arange(size) < X.shape[1], (len(X), size))
    with jax.enable_x64(True):
        posteriors = _conditioned(tasks.prior(setup), np.pad(X, (*room, (0, 0))), np.pad(y, room), live)
    return Beliefs(X, y, posteriors)


@jax.jit
def _conditioned(
    process: GaussianProcess, X: Float[Array, "t n d"], y: Float[Array, "t n"], live: Bool[Array, "t n"]
) -> Any:
    def one(X: Float[Array, "n d"], y: Float[Array, " n"], live: Bool[Array, " n"]) -> Posterior:
        data = Data(X, y, jnp.where(live, jnp.asarray(process.noise), 0.0), live)
        return Posterior(process, data, *_condition(process, data))

    return jax.vmap(one)(X, y, live)


def ask(acquisition: str, known: Beliefs, setup: Setup, seeds: Sequence[int]) -> Ask:
    """Ask for pools by the acquisition function of that name: thresholds are the best outcomes observed so far."""
    bests = known.y.max(axis=1)
    if acquisition == "es":
        first = Ask(known, _stacked([choosing.over("ei", float(best)) for best in bests]), tuple(seeds))
        found = _sampled(first, 128, 2 * NEARBY, REPRESENTERS, 1)[:, 0]
        return Ask(known, _stacked([choosing.entropy_search(points, setup) for points in found]), tuple(seeds))
    return Ask(known, _stacked([choosing.over(acquisition, float(best)) for best in bests]), tuple(seeds))


def _stacked(each: Sequence[Any]) -> Any:
    return jax.tree.map(lambda *leaves: np.stack(leaves), *each)


def _samples(asked: Ask, setup: Setup) -> int:
    """Base samples of searches and of the last choice."""
    return setup.samples if asked.max_type else OUTER


def _normals(samples: int, q: int, seeds: Sequence[int]) -> Float[np.ndarray, "t m q"]:
    return np.stack([normals(samples, q, seed=seed) for seed in seeds])


def choose(optimizer: str, asked: Ask, setup: Setup, evaluations: int | None) -> Choices:
    """Choose a pool of each task with so many evaluations each; without a number, with the optimizer's own default.

    The base samples that optimizers share are drawn before the clock counts: on the host, one task after another, they
    would take longer than the search itself does on an accelerator.
    """
    for seeds in (asked.seeds, [seed + 1 for seed in asked.seeds]):
        _normals(_samples(asked, setup), setup.q, seeds)  # kept by `normals`
    began = time.perf_counter()
    search = {"random": _random, "direct": _direct, "default": _default}.get(optimizer, _ascent(optimizer))
    with jax.enable_x64(True):
        pools, used = search(asked, setup, evaluations)
    return Choices(pools, np.broadcast_to(np.asarray(used), len(pools)), time.perf_counter() - began)


def judged(asked: Ask, pools: Pools) -> Float[np.ndarray, " t"]:
    """The acquisition values of one pool of each task on many samples, always the same ones."""
    samples = JUDGES if asked.max_type else JUDGES // 16
    return _values_of(asked, pools[:, None], (samples, [JUDGE_SEED] * len(pools)))[:, 0]


def _values_of(
    asked: Ask, pools: Float[np.ndarray, "t r q d"], base: tuple[int, Sequence[int]]
) -> Float[np.ndarray, "t r"]:
    """Values of some pools of each task on so many base samples of these seeds."""
    z = _normals(base[0], pools.shape[2], base[1])
    rows = np.asarray(pools, float).reshape(*pools.shape[:2], -1)
    with jax.enable_x64(True):
        return np.asarray(_values(asked.beliefs.posteriors, asked.worths, z, rows))


@jax.jit
def _values(posteriors: Any, worths: Any, z: Float[Array, "t m q"], rows: Float[Array, "t r p"]) -> Float[Array, "t r"]:
    def one(posterior: Posterior, worth: Any, z: Float[Array, "m q"], rows: Float[Array, "r p"]) -> Float[Array, " r"]:
        objective, (r, p) = _objective(posterior, worth, z), rows.shape
        if isinstance(worth, MaxType) or r % CHUNK:
            return objective(rows)
        return jax.lax.map(objective, rows.reshape(-1, CHUNK, p)).ravel()

    return jax.vmap(one)(posteriors, worths, z, rows)


def _objective(posterior: Posterior, worth: Any, z: Float[Array, "m q"]) -> Any:
    """The acquisition value of whole pools on base samples, as a part of a program."""
    if isinstance(worth, MaxType):
        field = field_of(posterior)
        return MaxObjective(field, worth, nobody(field, z[:, :0]), z)
    return GeneralObjective(posterior, worth, jnp.zeros((0, posterior.dimension)), Base(z))


_objectives = jax.jit(jax.vmap(_objective))


def _together(asked: Ask, setup: Setup) -> Together:
    """What searches climb: the acquisition values of all tasks on fixed base samples."""
    z = _normals(_samples(asked, setup), setup.q, asked.seeds)
    return Together(_objectives(asked.beliefs.posteriors, asked.worths, z), len(asked.seeds))


def _final(asked: Ask, pools: Float[np.ndarray, "t r q d"], setup: Setup) -> Pools:
    """The best of a few pools of each task on base samples that the search has not seen."""
    values = _values_of(asked, pools, (_samples(asked, setup), [seed + 1 for seed in asked.seeds]))
    return np.asarray(pools[np.arange(len(pools)), np.nanargmax(values, axis=1)], float)


def _random(asked: Ask, setup: Setup, evaluations: int | None) -> tuple[Pools, int]:
    count = evaluations or setup.pools
    pools = _uniform(asked.seeds, (count, setup.q, setup.d))
    if asked.max_type:
        z = _normals(setup.samples, setup.q, asked.seeds)
        best = best_pools_of_all(asked.beliefs.posteriors, asked.worths, z, pools, keep=setup.starts)
        return _final(asked, best, setup), count
    seen = np.stack([_seen(first[: setup.starts], count, seed) for first, seed in zip(pools, asked.seeds, strict=True)])
    values = np.nan_to_num(_values_of(asked, seen, (OUTER, asked.seeds)), nan=-np.inf)
    order = np.argsort(-values, axis=1, kind="stable")[:, : setup.starts]
    return _final(asked, np.take_along_axis(seen, order[:, :, None, None], axis=1), setup), count


def _uniform(seeds: Sequence[int], shape: tuple[int, int, int]) -> Float[np.ndarray, "t r q d"]:
    """Random pools of each task."""
    pools = np.empty((len(seeds), *shape), np.float32)
    each(lambda seed, own: np.random.default_rng([seed, 7]).random(out=own, dtype=np.float32), seeds, pools)
    return pools


def each(function: Callable[..., Any], *columns: Any) -> list[Any]:
    """A function of every task, on all cores where NumPy lets go of the interpreter."""
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        return list(threads.map(function, *columns))


def _seen(first: Float[np.ndarray, "s q d"], count: int, seed: int) -> Float[np.ndarray, "r q d"]:
    """The pools that `RandomSearch` in chunks of 64 looks at, when it starts with `first`."""
    pools = np.random.default_rng(seed).random((count, *first.shape[1:]))
    return np.concatenate([first, pools[: CHUNK - len(first)], pools[CHUNK:]])


def _direct(asked: Ask, setup: Setup, evaluations: int | None) -> tuple[Pools, Int[np.ndarray, " t"]]:
    """SciPy's DIRECT in a thread for each task; each evaluation is one of all tasks."""
    goal, p = _together(asked, setup), setup.q * setup.d

    def evaluate(points: Float[np.ndarray, "t p"]) -> Float[np.ndarray, " t"]:
        with jax.enable_x64(True):
            return np.asarray(_at(goal, points))

    search = functools.partial(pw.Direct().by, starts=np.full((1, p), 0.5), budget=pw.Budget(evaluations))
    climbs = side_by_side(evaluate, [search] * len(asked.seeds), p)
    pools = np.stack([climb.best for climb in climbs]).reshape(-1, setup.q, setup.d)
    return pools, np.array([climb.evaluations for climb in climbs])


@jax.jit
def _at(objective: Any, flat: Float[Array, "r p"]) -> Float[Array, " r"]:
    return objective(flat)


def _ascent(optimizer: str) -> Callable[[Ask, Setup, int | None], tuple[Pools, int]]:
    def search(asked: Ask, setup: Setup, evaluations: int | None) -> tuple[Pools, int]:
        t, size = len(asked.seeds), setup.batch_size if asked.max_type else OUTER
        maximizer = pw.Lbfgsb(rounds=1000) if optimizer == "gradient" else choosing.stochastic(optimizer, size, setup)
        samples, count = (128, setup.starts) if asked.max_type else (32, setup.entropy_starts)
        starts = _sampled(asked, samples, NEARBY, setup.q, STARTS)[:, :count]
        budget = pw.Budget(None if evaluations is None else evaluations * t)
        climb = maximizer(_together(asked, setup), starts.reshape(t * count, -1), budget, seed=asked.seeds[0])
        ends = climb.points.reshape(t, count, setup.q, setup.d)
        return _final(asked, ends, setup), climb.evaluations // t

    return search


def _sampled(asked: Ask, samples: int, nearby: int, q: int, count: int) -> Float[np.ndarray, "t r q d"]:
    """Pools of points drawn in proportion to their own acquisition value, of evenly spread and of nearby points."""
    d, known = asked.beliefs.X.shape[2], asked.beliefs

    def candidates(X: Float[np.ndarray, "n d"], y: Float[np.ndarray, " n"], seed: int) -> tuple[Any, Any]:
        points = np.concatenate([spread(2**10, d, seed), around_best(X, y, nearby, seed)])
        return points, np.random.default_rng([seed, 2]).gumbel(size=(count, len(points)))

    points, noise = zip(*each(candidates, known.X, known.y, asked.seeds), strict=True)
    z = _normals(samples, 1, asked.seeds)
    with jax.enable_x64(True):
        found = _marginal(known.posteriors, asked.worths, z, np.stack(points), np.stack(noise), q)
    return np.asarray(found)


@functools.partial(jax.jit, static_argnames=("q",))
def _marginal(  # noqa: PLR0913
    posteriors: Any,
    worths: Any,
    z: Float[Array, "t m 1"],
    points: Float[Array, "t c d"],
    noise: Float[Array, "t r c"],
    q: int,
) -> Float[Array, "t r q d"]:
    """`marginal_pools` on the device."""
    values = _values(posteriors, worths, z, points)
    lowest = jnp.min(jnp.where(jnp.isfinite(values), values, jnp.inf), axis=1, keepdims=True)
    weights = jnp.where(jnp.isfinite(values), values - jnp.minimum(lowest, 0.0), 0.0)
    weights = weights + jnp.maximum(1e-9 * jnp.max(weights, axis=1, keepdims=True), 1e-300)
    _, index = jax.lax.top_k(jnp.log(weights)[:, None, :] + noise, q)
    return jax.vmap(lambda own, chosen: own[chosen])(points, index)


def _default(asked: Ask, setup: Setup, evaluations: int | None) -> tuple[Pools, Int[np.ndarray, " t"]]:
    """What `propose` does by default; where no sample improves, for a threshold within reach."""
    pools, used = _proposed(asked, setup)
    if isinstance(asked.worths, ExpectedImprovement | ProbabilityOfImprovement):
        values = _values_of(asked, pools[:, None], (FRESH, [FRESH_SEED] * len(pools)))[:, 0]
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


def _offered(asked: Ask, settings: Ascent, q: int) -> tuple[Float[np.ndarray, "t q c d"], Float[np.ndarray, "t s c"]]:
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
    offered, chance = _offered(asked, settings, setup.q)
    samples = settings.samples * (2 if isinstance(asked.worths, ProbabilityOfImprovement) else 1)
    z = _normals(samples, setup.q, asked.seeds)
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
    offered, chance = _offered(asked, GENERAL, setup.q)
    before, spent, first = offered[:, 0, :0], np.zeros(len(offered), int), None
    for i in range(setup.q):
        points, values, used = _picked(asked, before, offered[:, i])
        first = values if first is None else first
        before, spent = np.concatenate([before, np.asarray(points)[:, None]], axis=1), spent + np.asarray(used)
    z = _normals(GENERAL.samples // 4, setup.q, asked.seeds)
    pools, used = _joined(asked.beliefs.posteriors, asked.worths, z, before, (offered[:, 0], first, chance))
    return np.asarray(pools), spent + np.asarray(used)


def _picked(asked: Ask, before: Float[np.ndarray, "t w d"], candidates: Float[np.ndarray, "t c d"]) -> Any:
    z = _normals(GENERAL.samples // 4, before.shape[1] + 1, asked.seeds)
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
        objective, (points, values, chance) = _objective(posterior, worth, z), offered
        states = _first_states(objective, Beginning(pool, points, values), chance, GENERAL.lanes)
        return _polished(GENERAL, objective, states, jnp.zeros((), int))

    return jax.vmap(one)(posteriors, worths, z, pools, offered)


def compilers() -> int:
    """How many programs may be compiled, and then run, at a time.

    On the processor one: two that call LAPACK on batches can wait for each other without end.
    """
    return 1 if jax.default_backend() == "cpu" else os.cpu_count() or 1


def rehearse(optimizer: str, asked: Ask, setup: Setup, evaluations: int | None) -> float:
    """Choose once, so that all programs are compiled; the seconds that took."""
    began = time.perf_counter()
    if optimizer == "default" and not asked.max_type:
        offered, _ = _offered(asked, GENERAL, setup.q)
        known = asked.beliefs.X

        def pick(i: int) -> None:
            with jax.enable_x64(True):
                jax.block_until_ready(_picked(asked, known[:, :i], offered[:, i]))  # type: ignore[no-untyped-call]

        with ThreadPoolExecutor(compilers()) as threads:
            list(threads.map(pick, range(setup.q)))
    choose(optimizer, asked, setup, evaluations)
    return time.perf_counter() - began
