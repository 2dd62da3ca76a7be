"""All tasks at once: beliefs, integrands and base samples stacked along a first axis of tasks, for one program.

Every task has the seeds that it has alone. What chance brings (pools, candidates, base samples) is drawn on the host;
only the fresh samples of stochastic ascent are drawn on the device.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from poolwise.acquisition.base_samples import normals
from poolwise.acquisition.expectation import Base
from poolwise.acquisition.integrand import MaxType
from poolwise.belief.gaussian_process import Data, GaussianProcess, Posterior, _condition
from poolwise.paper import choosing, tasks
from poolwise.paper.choosing import JUDGE_SEED, JUDGES, REPRESENTERS
from poolwise.paper.settings import Setup
from poolwise.pool.field import field_of
from poolwise.pool.joint import GeneralObjective, MaxObjective
from poolwise.pool.prefix import nobody
from poolwise.pool.starts import around_best, spread
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
        first = Ask(known, stacked([choosing.over("ei", float(best)) for best in bests]), tuple(seeds))
        found = sampled(first, 128, 2 * NEARBY, REPRESENTERS, 1)[:, 0]
        return Ask(known, stacked([choosing.entropy_search(points, setup) for points in found]), tuple(seeds))
    return Ask(known, stacked([choosing.over(acquisition, float(best)) for best in bests]), tuple(seeds))


def stacked(each: Sequence[Any]) -> Any:
    """One pytree of all, whose arrays have a first axis of tasks."""
    return jax.tree.map(lambda *leaves: np.stack(leaves), *each)


def normals_of(samples: int, q: int, seeds: Sequence[int]) -> Float[np.ndarray, "t m q"]:
    return np.stack([normals(samples, q, seed=seed) for seed in seeds])


def judged(asked: Ask, pools: Pools) -> Float[np.ndarray, " t"]:
    """The acquisition values of one pool of each task on many samples, always the same ones."""
    samples = JUDGES if asked.max_type else JUDGES // 16
    return values_of(asked, pools[:, None], (samples, [JUDGE_SEED] * len(pools)))[:, 0]


def values_of(
    asked: Ask, pools: Float[np.ndarray, "t r q d"], base: tuple[int, Sequence[int]]
) -> Float[np.ndarray, "t r"]:
    """Values of some pools of each task on so many base samples of these seeds."""
    z = normals_of(base[0], pools.shape[2], base[1])
    rows = np.asarray(pools, float).reshape(*pools.shape[:2], -1)
    with jax.enable_x64(True):
        return np.asarray(_values(asked.beliefs.posteriors, asked.worths, z, rows))


@jax.jit
def _values(posteriors: Any, worths: Any, z: Float[Array, "t m q"], rows: Float[Array, "t r p"]) -> Float[Array, "t r"]:
    def one(posterior: Posterior, worth: Any, z: Float[Array, "m q"], rows: Float[Array, "r p"]) -> Float[Array, " r"]:
        objective, (r, p) = objective_of(posterior, worth, z), rows.shape
        if isinstance(worth, MaxType) or r % CHUNK:
            return objective(rows)
        return jax.lax.map(objective, rows.reshape(-1, CHUNK, p)).ravel()

    return jax.vmap(one)(posteriors, worths, z, rows)


def objective_of(posterior: Posterior, worth: Any, z: Float[Array, "m q"]) -> Any:
    """The acquisition value of whole pools on base samples, as a part of a program."""
    if isinstance(worth, MaxType):
        field = field_of(posterior)
        return MaxObjective(field, worth, nobody(field, z[:, :0]), z)
    return GeneralObjective(posterior, worth, jnp.zeros((0, posterior.dimension)), Base(z))


def sampled(asked: Ask, samples: int, nearby: int, q: int, count: int) -> Float[np.ndarray, "t r q d"]:
    """Pools of points drawn in proportion to their own acquisition value, of evenly spread and of nearby points."""
    d, known = asked.beliefs.X.shape[2], asked.beliefs

    def candidates(X: Float[np.ndarray, "n d"], y: Float[np.ndarray, " n"], seed: int) -> tuple[Any, Any]:
        points = np.concatenate([spread(2**10, d, seed), around_best(X, y, nearby, seed)])
        return points, np.random.default_rng([seed, 2]).gumbel(size=(count, len(points)))

    points, noise = zip(*each(candidates, known.X, known.y, asked.seeds), strict=True)
    z = normals_of(samples, 1, asked.seeds)
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
    weights = jnp.where(jnp.isfinite(values), values - lowest, 0.0)
    weights = weights + jnp.maximum(1e-9 * jnp.max(weights, axis=1, keepdims=True), 1e-300)
    _, index = jax.lax.top_k(jnp.log(weights)[:, None, :] + noise, q)
    return jax.vmap(lambda own, chosen: own[chosen])(points, index)


def each(function: Callable[..., Any], *columns: Any) -> list[Any]:
    """A function of every task, on all cores where NumPy lets go of the interpreter."""
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        return list(threads.map(function, *columns))
