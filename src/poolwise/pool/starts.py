"""Where a search begins: candidate points and whole pools, drawn on the host from a seed."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from poolwise.acquisition.integrand import baseline_slots
from poolwise.belief.gaussian_process import Posterior
from poolwise.belief.warp import Moved, straightened
from poolwise.sobol import MOST_DIMENSIONS, sobol

NEARBY = 0.05  # standard deviation, in edges of the cube, of points near the best observations,
FEW = 2  # along all axes, or about so many


def spread(count: int, d: int, seed: int) -> Float[np.ndarray, "c d"]:
    """Points that fill the cube evenly: a scrambled Sobol' sequence."""
    rng = np.random.default_rng(seed)
    return rng.random((count, d)) if d > MOST_DIMENSIONS else sobol(count, d, rng)


class Room(NamedTuple):
    """Points that are there already in buckets of slots, and base samples for those slots and the pool's."""

    points: Float[np.ndarray, "w d"]
    taken: Float[np.ndarray, " w"]
    normals: Float[np.ndarray, "m c"]


def with_room(pending: Float[np.ndarray, "w d"], normals: Float[np.ndarray, "m c"], integrand: Any = None) -> Room:
    """Pad pending points to 0, 8, 16, 32, ... slots, so that workers who come and go do not cost compilations.

    Free slots get base samples of zero: those of the pending points and of the pool stay as they were. A baseline of
    the integrand, padded already, comes ahead of them; it has the last columns of base samples.
    """
    w, d = pending.shape
    slots = 0 if w == 0 else max(8, 1 << (w - 1).bit_length())
    free = np.zeros((normals.shape[0], slots - w))
    points = np.concatenate([pending, np.full((slots - w, d), 0.5)])
    taken = (np.arange(slots) < w).astype(float)
    if not (b := baseline_slots(integrand)):
        return Room(points, taken, np.concatenate([normals[:, :w], free, normals[:, w:]], axis=1))
    low, high = normals[:, -b:], normals[:, w:-b]
    return Room(
        np.concatenate([integrand.places, points]),
        np.concatenate([integrand.live.astype(float), taken]),
        np.concatenate([low, normals[:, :w], free, high], axis=1),
    )


def near_best(posterior: Posterior, count: int, seed: int) -> Float[np.ndarray, "c d"]:
    """Points around the best few observations, as the belief measures distances."""
    return around_best(posterior.X, posterior.y, count, seed, posterior.process.kernel.warp)


def evenly(posterior: Posterior, points: Float[np.ndarray, "... d"]) -> Float[np.ndarray, "... d"]:
    """Evenly spread points, moved to where they are evenly spread as the belief measures distances."""
    warp = posterior.process.kernel.warp
    return points if warp is None else warp.evenly(points)


def around_best(
    X: Float[np.ndarray, "n d"], y: Float[np.ndarray, " n"], count: int, seed: int, warp: Moved | None = None
) -> Float[np.ndarray, "c d"]:
    """Points that differ from those of the best few outcomes along all axes, or along a few, in turns.

    Where axes are badly scaled, a move along all of them at once goes too far along one.
    """
    best: Any = X[np.argsort(-y, kind="stable")[: max(1, min(8, len(y) // 4))]]
    rng, d, turns = np.random.default_rng([seed, 1]), X.shape[1], np.arange(count)
    top: Any = np.asarray(straightened(best, warp))[turns % len(best)]
    moves, whole = NEARBY * rng.standard_normal((count, d)), (turns // len(best)) % 2 == 0
    few = rng.random((count, d)) < (FEW - 1) / d
    few[turns, rng.integers(d, size=count)] = True
    if warp is None or warp.keeps_cube:  # out of the cube and clipped, a move along one axis would lead nowhere
        inward = np.where((top + moves < 0) | (top + moves > 1), -moves, moves)
        moves = np.where(whole[:, None], moves, inward)
    near = top + np.where(whole[:, None] | few, moves, 0.0)
    return np.clip(near if warp is None else warp.back(near), 0.0, 1.0)


def marginal_pools(
    points: Float[np.ndarray, "c d"], values: Float[np.ndarray, " c"], q: int, count: int, seed: int
) -> Float[np.ndarray, "r q d"]:
    """Pools "sampled from the acquisition function": points in proportion to their own value, without replacement.

    Weights are the values of single points above the lowest; a pool holds no point twice.
    """
    rng = np.random.default_rng([seed, 2])
    finite = np.where(np.isfinite(values), values, -np.inf)
    lowest = finite[np.isfinite(finite)].min() if np.isfinite(finite).any() else 0.0
    weights = np.where(np.isfinite(finite), finite - lowest, 0.0)
    weights = weights + max(weights.max() * 1e-9, 1e-300)
    # The q largest of log(weight) + Gumbel noise are a sample without replacement.
    keys = np.log(weights)[None, :] + rng.gumbel(size=(count, len(points)))
    return points[np.argsort(-keys, axis=1, kind="stable")[:, :q]]


def candidate_sets(sets: int, count: int, d: int, seed: int) -> Float[np.ndarray, "s c d"]:
    """Sets of evenly spread candidates that differ from each other: one Sobol' sequence, dealt out in runs.

    The sequence is always the same; the seed moves it around the torus, which costs microseconds.
    """
    shift = np.random.default_rng([seed, 6]).random(d)
    return ((_sequence(sets * count, d) + shift) % 1.0).reshape(sets, count, d)


@functools.lru_cache(maxsize=8)
def _sequence(count: int, d: int) -> Float[np.ndarray, "c d"]:
    return spread(count, d, seed=0)
