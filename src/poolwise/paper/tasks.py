"""Tasks: functions drawn from a Gaussian process prior, and their maxima."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

import poolwise as pw
from poolwise.belief.turning import cos_and_sin
from poolwise.errors import PoolwiseError
from poolwise.maximizers.climb import value_and_gradient
from poolwise.maximizers.lbfgsb import ascend
from poolwise.paper.settings import Setup
from poolwise.pytree import pytree

CLIMBS = 2**10  # local climbs from the best points of the screening: of 32, a task's highest hill may have none
FINE = 32  # of these the best are climbed to the end, and as many from the points of runs
CHUNK = 2**10
SLACK = 1e-9  # rounding that a regret may have


class NegativeRegret(PoolwiseError, ArithmeticError):
    """A run that found more than the search for the optimum did."""


@dataclass(frozen=True, eq=False)
class Task:
    """One function on the unit cube, without noise, with a stream of its own for starts and noise."""

    index: int
    frequencies: Float[np.ndarray, "f d"]
    weights: Float[np.ndarray, "2 f"]

    def __call__(self, points: Float[np.ndarray, "p d"]) -> Float[np.ndarray, " p"]:
        angles = points @ self.frequencies.T
        return np.asarray(np.cos(angles) @ self.weights[0] + np.sin(angles) @ self.weights[1])


@pytree
class Surface:
    """The same function as an objective for a maximizer."""

    frequencies: Float[Array, "f d"]
    weights: Float[Array, "2 f"]

    def __call__(self, points: Float[Array, "p d"]) -> Float[Array, " p"]:
        cosines, sines = cos_and_sin(points @ self.frequencies.T)
        return cosines @ self.weights[0] + sines @ self.weights[1]


def prior(setup: Setup) -> pw.GaussianProcess:
    """The process that tasks are drawn from, which every run knows."""
    return pw.GaussianProcess(pw.Matern52(setup.lengthscale), noise=setup.noise)


@functools.lru_cache(maxsize=32)
def task(setup: Setup, index: int) -> Task:
    """The task of that number; the same for every run."""
    seed = stream(setup, index, 0)
    waves = pw.sample_paths(prior(setup), 1, dimension=setup.d, features=setup.features, seed=seed).waves
    return Task(index, np.asarray(waves.frequencies), np.asarray(waves.weights[0]))


def stream(setup: Setup, index: int, *words: int) -> int:
    """A seed for one purpose of one task."""
    return int(np.random.SeedSequence([setup.seed, index, *words]).generate_state(1)[0] >> 1)


def first_points(setup: Setup, index: int) -> Float[np.ndarray, "q d"]:
    """The random points that every run of the task begins with."""
    return np.random.default_rng(stream(setup, index, 1)).random((setup.q, setup.d))


def noises(setup: Setup, index: int, round: int) -> Float[np.ndarray, " q"]:
    """The noise of a round's observations; the same for every run of the task."""
    rng = np.random.default_rng(stream(setup, index, 2, round))
    return np.sqrt(setup.noise) * rng.standard_normal(setup.q)


def optimum(setup: Setup, index: int, known: Float[np.ndarray, "k d"]) -> tuple[Float[np.ndarray, " d"], float]:
    """The maximum of a task: the best of many points, and of those `known` from runs, each climbed on its own.

    On the paper's tasks about one climb of twenty ends on the highest hill, and one of fifty where it is hardest.
    """
    function = task(setup, index)
    rng = np.random.default_rng(stream(setup, index, 3))
    points = rng.random((setup.screening, setup.d))
    surface = Surface(jnp.float32(function.frequencies), jnp.float32(function.weights))
    values = np.asarray(_screen(surface, jnp.float32(points).reshape(-1, min(CHUNK, len(points)), setup.d))).ravel()
    ends, heights = _climb(surface, jnp.float32(points[np.argsort(-values, kind="stable")[:CLIMBS]]))
    best = np.asarray(ends, float)[np.argsort(-np.asarray(heights), kind="stable")[:FINE]]
    starts = np.concatenate([best, known[np.argsort(-function(known), kind="stable")[:FINE]]])
    with jax.enable_x64(True):
        exact = Surface(jnp.asarray(function.frequencies), jnp.asarray(function.weights))
        climb = pw.Lbfgsb(rounds=200, gtol=1e-9, ftol=1e-15)(exact, starts)
    found = np.concatenate([climb.points, starts, known])
    heights = function(found)
    top = int(np.argmax(heights))
    return found[top], float(heights[top])


@jax.jit
def _screen(surface: Surface, chunks: Float[Array, "k c d"]) -> Float[Array, "k c"]:
    return jax.lax.map(surface, chunks)


@jax.jit
def _climb(surface: Surface, starts: Float[Array, "r d"]) -> tuple[Float[Array, "r d"], Float[Array, " r"]]:
    """Rough climbs, all at once."""
    end = ascend(functools.partial(value_and_gradient, surface), starts, rounds=40, gtol=1e-3, ftol=1e-6)
    return end.points, end.values


def regret(best: float, values: Float[np.ndarray, " r"]) -> Float[np.ndarray, " r"]:
    """How far values are below the optimum; a value above it is an error."""
    if (excess := float(np.max(values)) - best) > SLACK:
        raise NegativeRegret(f"a run reached {excess:.3g} more than the task's optimum {best:.6g}: search longer")
    return np.maximum(best - values, 0.0)
