"""Choose the pools of all tasks at once, with each optimizer of the paper's comparison: `choosing` for many tasks."""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Float, Int

import poolwise as pw
from poolwise.paper import choosing
from poolwise.paper.choosing import OUTER
from poolwise.paper.crowd import CHUNK, NEARBY, Ask, Pools, Together, each, normals_of, objective_of, sampled, values_of
from poolwise.paper.crowd_default import GENERAL, by_default, offered_to, picked, reseated
from poolwise.paper.meeting import side_by_side
from poolwise.paper.screening import best_pools_of_all
from poolwise.paper.settings import Setup
from poolwise.pool.idle import IMPROVEMENTS
from poolwise.pool.searching import STARTS


@dataclass(frozen=True, eq=False)
class Choices:
    """A pool of each task, the evaluations each took, and the seconds of the clock that all took together."""

    pools: Pools
    evaluations: Int[np.ndarray, " t"]
    seconds: float


def choose(optimizer: str, asked: Ask, setup: Setup, evaluations: int | None) -> Choices:
    """Choose a pool of each task with so many evaluations each; without a number, with the optimizer's own default.

    The base samples that optimizers share are drawn before the clock counts: on the host, one task after another, they
    would take longer than the search itself does on an accelerator.
    """
    for seeds in (asked.seeds, [seed + 1 for seed in asked.seeds]):
        normals_of(_samples(asked, setup), setup.q, seeds)  # kept by `normals`
    began = time.perf_counter()
    search = {"random": _random, "direct": _direct, "default": by_default}.get(optimizer, _ascent(optimizer))
    with jax.enable_x64(True):
        pools, used = search(asked, setup, evaluations)
    return Choices(pools, np.broadcast_to(np.asarray(used), len(pools)), time.perf_counter() - began)


def _samples(asked: Ask, setup: Setup) -> int:
    """Base samples of searches and of the last choice."""
    return setup.samples if asked.max_type else OUTER


_objectives = jax.jit(jax.vmap(objective_of))


def _together(asked: Ask, setup: Setup) -> Together:
    """What searches climb: the acquisition values of all tasks on fixed base samples."""
    z = normals_of(_samples(asked, setup), setup.q, asked.seeds)
    return Together(_objectives(asked.beliefs.posteriors, asked.worths, z), len(asked.seeds))


def _final(asked: Ask, pools: Float[np.ndarray, "t r q d"], setup: Setup) -> Pools:
    """The best of a few pools of each task on base samples that the search has not seen."""
    values = values_of(asked, pools, (_samples(asked, setup), [seed + 1 for seed in asked.seeds]))
    return np.asarray(pools[np.arange(len(pools)), np.nanargmax(values, axis=1)], float)


def _random(asked: Ask, setup: Setup, evaluations: int | None) -> tuple[Pools, int]:
    count = evaluations or setup.pools
    pools = _uniform(asked.seeds, (count, setup.q, setup.d))
    if asked.max_type:
        z = normals_of(setup.samples, setup.q, asked.seeds)
        best = best_pools_of_all(asked.beliefs.posteriors, asked.worths, z, pools, keep=setup.starts)
        return _final(asked, best, setup), count
    seen = np.stack([_seen(first[: setup.starts], count, seed) for first, seed in zip(pools, asked.seeds, strict=True)])
    values = np.nan_to_num(values_of(asked, seen, (OUTER, asked.seeds)), nan=-np.inf)
    order = np.argsort(-values, axis=1, kind="stable")[:, : setup.starts]
    return _final(asked, np.take_along_axis(seen, order[:, :, None, None], axis=1), setup), count


def _uniform(seeds: Sequence[int], shape: tuple[int, int, int]) -> Float[np.ndarray, "t r q d"]:
    """Random pools of each task."""
    pools = np.empty((len(seeds), *shape), np.float32)
    each(lambda seed, own: np.random.default_rng([seed, 7]).random(out=own, dtype=np.float32), seeds, pools)
    return pools


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
        starts = sampled(asked, samples, NEARBY, setup.q, STARTS)[:, :count]
        budget = pw.Budget(None if evaluations is None else evaluations * t)
        climb = maximizer(_together(asked, setup), starts.reshape(t * count, -1), budget, seed=asked.seeds[0])
        ends = climb.points.reshape(t, count, setup.q, setup.d)
        return _final(asked, ends, setup), climb.evaluations // t

    return search


def compilers() -> int:
    """How many programs may be compiled, and then run, at a time.

    On the processor one: two that call LAPACK on batches can wait for each other without end.
    """
    return 1 if jax.default_backend() == "cpu" else os.cpu_count() or 1


def rehearse(optimizer: str, asked: Ask, setup: Setup, evaluations: int | None) -> float:
    """Choose once, so that all programs are compiled; the seconds that took."""
    began = time.perf_counter()
    if optimizer == "default" and not asked.max_type:
        offered, _ = offered_to(asked, GENERAL, setup.q)
        known = asked.beliefs.X

        def pick(i: int) -> None:
            with jax.enable_x64(True):
                jax.block_until_ready(picked(asked, known[:, :i], offered[:, i]))  # type: ignore[no-untyped-call]

        with ThreadPoolExecutor(compilers()) as threads:
            list(threads.map(pick, range(setup.q)))
    found = choose(optimizer, asked, setup, evaluations)
    if optimizer == "default" and isinstance(asked.worths, IMPROVEMENTS):
        reseated(asked, found.pools, np.ones(found.pools.shape[:2], bool), setup)
    return time.perf_counter() - began
