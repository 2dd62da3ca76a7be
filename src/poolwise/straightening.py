"""Inputs made straight by what was observed: a warping or a rotation is learned, and taken where it gains enough.

Both begin at a plain fit, and are given up after a few rounds that do not promise the gain that is asked.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from poolwise.belief.gaussian_process import Posterior, cross_covariance, expected, turnable, turned
from poolwise.belief.rotation import MIDDLE
from poolwise.checks import Numbers
from poolwise.evidence import bounds
from poolwise.learning import (
    ROUNDS,
    SCOUTS,
    Problem,
    alone,
    begun,
    climb_ahead,
    cube_of,
    height_of,
    problem_of,
    scouts,
    start_from,
    starts_of,
)
from poolwise.programs import quickly

TRIAL = 8  # rounds after which a warping or a rotation must show what it gains
AGAIN = 4  # rotations, each of which follows the slopes that a belief with the one before expects
BETTER = 1.0  # nats that each but the first must gain over the one before
FLAT = 1e-6  # of the steepest direction's mean squared slope: flatter ones count as this flat


def fit_warped(
    X: Numbers, y: Numbers, plain: Posterior, *, noise: Numbers | None = None, gain: float
) -> Posterior | None:
    """The posterior with a warping of inputs, begun at a plain one; None where it gains less than `gain` nats.

    That counts the prior, by which no warping is likeliest. One that has not gained half of it after a few rounds, on
    some of the observations if there are many, is not gone on with.
    """
    with jax.enable_x64(True):
        problem = problem_of(X, y, type(plain.process.kernel), noise)
        start = starts_of(problem, plain, 0, warp=True)[0]
        data, some = problem.data(), _some(problem)
        few = data if some is None else problem.data(some)
        first = problem.climb(few, begun(start), 1)
        tried = problem.climb(few, first, TRIAL - 1)
        if not height_of(tried) - height_of(first) > gain / 2:
            return None
        if few is not data:
            first, tried = problem.climb(data, begun(start), 1), begun(cube_of(tried))
        end = problem.climb(data, tried, ROUNDS)
        return problem.posterior(cube_of(end)) if height_of(end) - height_of(first) > gain else None


def prepare_warped(count: int, d: int, *, known_noise: bool = False) -> None:
    """Start to make the program of `fit_warped` for so many observations, where it is made for the first time."""
    climb_ahead(count, len(bounds(d, warp=True).low), d, TRIAL, known_noise)


def fit_rotated(
    X: Numbers, y: Numbers, plain: Posterior, *, noise: Numbers | None = None, gain: float
) -> Posterior | None:
    """The posterior whose axes are turned to where outcomes change most and least; None where it gains under `gain`.

    With g the gradient of the posterior mean at an observation, the axes are the eigenvectors of the sum of g g', and
    lengthscales begin at the inverse roots of their eigenvalues; the belief with these axes tells slopes better, so
    that is done again while it gains. Fits are of turned points, by the programs of plain ones.
    """
    if plain.dimension == 1:
        return None
    with jax.enable_x64(True):
        problem = problem_of(X, y, type(plain.process.kernel), noise)
        d, best = problem.dimension, plain
        logs = start_from(plain, d, problem.scale, warp=False)
        begin, some = _in_cube(logs, d), _some(problem)
        height = height_of(alone(problem, problem.data(), begin, 1))
        least = height + gain
        for turn in range(AGAIN):
            axes, steepness = _axes(best)
            new = dataclasses.replace(problem, points=MIDDLE + (problem.points - MIDDLE) @ axes)
            start = _in_cube(np.concatenate([_lengths(steepness, logs[:d]), logs[d:]]), d)
            if turn == 0:
                before = height if some is None else height_of(alone(problem, problem.data(some), begin, 1))
                tried = alone(new, new.data(slice(None) if some is None else some), start, TRIAL)
                if not height_of(tried) - before > gain / 2:
                    return None
                start = cube_of(tried)
            end = alone(new, new.data(), start, ROUNDS)
            if not height_of(end) > least:
                break
            least, best = height_of(end) + BETTER, turned(new.posterior(cube_of(end)), axes, problem.points)
        return None if best is plain else best


def _some(problem: Problem) -> Int[np.ndarray, " s"] | None:
    """Some of many observations; None where there are few."""
    return scouts(problem, 0) if len(problem.outcomes) > SCOUTS else None


def _in_cube(logs: Float[np.ndarray, " t"], d: int) -> Float[np.ndarray, " t"]:
    box = bounds(d)
    return np.clip((logs - box.low) / (box.high - box.low), 0.0, 1.0)


def _axes(posterior: Posterior) -> tuple[Float[np.ndarray, "d d"], Float[np.ndarray, " d"]]:
    """Directions from the flattest to the steepest of the posterior mean at the data, and how steep they are."""
    slopes = np.nan_to_num(np.asarray(_slopes(turnable(posterior)))[np.asarray(posterior.data.live)])
    steepness, axes = np.linalg.eigh(slopes.T @ slopes)
    return axes, steepness


def _lengths(steepness: Float[np.ndarray, " d"], logs: Float[np.ndarray, " d"]) -> Float[np.ndarray, " d"]:
    """Logarithms of lengthscales that go with the inverse of slopes, around the mean of others."""
    lengths = -0.5 * np.log(np.maximum(steepness, max(FLAT * steepness.max(), 1e-300)))
    return lengths + logs.mean() - lengths.mean()


@quickly()
def _slopes(posterior: Posterior) -> Float[Array, "n d"]:
    """Gradients of the posterior mean at the data."""

    def mean(x: Float[Array, " d"]) -> Float[Array, ""]:
        return expected(posterior, x[None], cross_covariance(posterior, x[None]))[0]

    return jax.vmap(jax.grad(mean))(jnp.asarray(posterior.data.X))
