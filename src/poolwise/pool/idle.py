"""Points of a pool that add nothing to its improvement: which they are, and something better for them to do.

Where outcomes above the threshold are rare, a few points hold all of a pool's value, and the others could be anywhere.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from poolwise.acquisition.integrand import ExpectedImprovement, ProbabilityOfImprovement
from poolwise.belief.gaussian_process import Posterior
from poolwise.pool.effort import Found
from poolwise.pool.judge import Judged

IMPROVEMENTS = (ExpectedImprovement, ProbabilityOfImprovement)  # they are zero where no sample exceeds the threshold
IDLE = 1e-3  # of a pool's value: a point that adds less to those before it adds nothing
SURE = 0.99  # a probability of improvement that needs no more


def idle_points(integrand: Any, judged: Judged) -> Bool[np.ndarray, "*t q"]:
    """Which points add nothing to an improvement beside those before them; also of many pools at once.

    Where a probability p is high less is left to add, so nothing is a share of p (1 - p). Where it is all but one the
    pool is as good as can be, and nobody is idle, unless the first point alone makes it so: then the others could be
    anywhere.
    """
    gains, value = np.asarray(judged.gains), np.asarray(judged.estimate.value)[..., None]
    if not isinstance(integrand, IMPROVEMENTS):
        return np.zeros(gains.shape, bool)
    if isinstance(integrand, ProbabilityOfImprovement):
        left = np.where(value < SURE, 1.0 - value, alone(judged)[..., None] >= SURE)
        return (gains <= IDLE * value * left) & (left > 0)
    return np.asarray(gains <= IDLE * value)


def alone(judged: Judged) -> Float[np.ndarray, "*t"]:
    """What the first point of a pool is worth by itself, with pending ones."""
    return np.asarray(np.asarray(judged.estimate.value) - np.asarray(judged.gains)[..., 1:].sum(axis=-1))


def reseated(  # noqa: PLR0913
    found: Found,
    idle: Bool[np.ndarray, " q"],
    pending: Float[np.ndarray, "w d"],
    picks: Callable[..., Found],
    posterior: Posterior,
    *,
    whole: bool,
) -> Found:
    """The pool with its idle points where `picks`, with the others pending, find something for them.

    On the whole cube there is room for as many as the pool has, of which the first are chosen, and where nobody else is
    pending it is the best observation, which adds nothing: so one program does for any number of idle points.
    """
    kept, count = found.pool[~idle], int(idle.sum())
    others = np.concatenate([pending, kept])
    if whole and not len(others):
        others = incumbent(posterior.X, posterior.y)
    other = picks(len(idle), others, picks=count) if whole else picks(count, others)
    return Found(np.concatenate([kept, other.pool[:count]]), found.evaluations + other.evaluations)


def incumbent(X: Float[np.ndarray, "n d"], y: Float[np.ndarray, " n"]) -> Float[np.ndarray, "1 d"]:
    """The best observation's place."""
    return np.asarray(X[[int(np.argmax(y))]])
