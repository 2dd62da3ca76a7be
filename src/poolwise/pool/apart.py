"""Pools whose points differ: one that stands on another, or nowhere, gets a place of its own."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from poolwise.pool.domain import APART
from poolwise.pool.effort import Found
from poolwise.pool.starts import spread

log = logging.getLogger(__name__)

ASIDE = 1e-4  # of a lengthscale: about so far a point steps aside, where replicates are worth having,
LEAST = 4 * APART  # but at least so far
PLACES = 4  # near and far, that are tried
GAIN = 1e-3  # by which a place near by must be better, in units of the integrand: so that it is no rounding


class Worth(NamedTuple):
    """What a pool is worth, in units of the integrand, and the lengthscales."""

    of: Callable[[Float[np.ndarray, "q d"]], float]
    lengths: Float[np.ndarray, " d"]


def distinct(found: Found, pending: Float[np.ndarray, "w d"], seed: int, worth: Worth | None = None) -> Found:
    """The pool, with any point that is not finite or stands on another replaced.

    By one that fills the space; or, where it is known what pools are worth and that is more, by one next to it.
    """
    pool = np.array(found.pool)
    for i in range(len(pool)):
        others = np.concatenate([pending, pool[:i]])
        if np.isfinite(pool[i]).all() and _free(pool[i : i + 1], others).all():
            continue
        far = spread(4 * len(pool) + len(pending), pool.shape[1], seed + 1)
        far = far[_free(far, others)]
        pool[i] = far[0] if worth is None else _best(pool, i, far[:PLACES], _near(pool[i], others, worth, seed), worth)
        log.info("propose: point %d stood on another or was not finite; it is at %s now", i, pool[i])
    return Found(pool, found.evaluations)


def _best(
    pool: Float[np.ndarray, "q d"],
    i: int,
    far: Float[np.ndarray, "f d"],
    near: Float[np.ndarray, "n d"],
    worth: Worth,
) -> Float[np.ndarray, " d"]:
    """The place that makes the pool worth most; far from the others unless near is clearly better."""
    values = []
    for k, place in enumerate([*far, *near]):
        changed = pool.copy()
        changed[i] = place
        values.append(worth.of(changed) - (GAIN if k >= len(far) else 0.0))
    return np.concatenate([far, near])[int(np.argmax(np.nan_to_num(values, nan=-np.inf)))]


def _near(
    point: Float[np.ndarray, " d"], others: Float[np.ndarray, "w d"], worth: Worth, seed: int
) -> Float[np.ndarray, "n d"]:
    """Places beside a point, within the cube, that are free."""
    if not np.isfinite(point).all():
        return others[:0]
    rng, d = np.random.default_rng([seed, 8]), len(point)
    length = np.clip(ASIDE * worth.lengths, LEAST, 10 * ASIDE) * rng.uniform(1.0, 2.0 + len(others), (PLACES, d))
    step = length * rng.choice([-1.0, 1.0], (PLACES, d))
    places = point + np.where((point + step < 0) | (point + step > 1), -step, step)
    return places[_free(places, others)]


def _free(points: Float[np.ndarray, "p d"], others: Float[np.ndarray, "w d"]) -> Bool[np.ndarray, " p"]:
    """Which points stand on no other."""
    return ~(np.abs(points[:, None] - others[None]).max(axis=2, initial=0.0) < APART).any(axis=1)
