"""Where new points may lie: in the space, on no point that was tried, and not where trials keep failing."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from poolwise.space.errors import SpaceError
from poolwise.space.space import Space

PRIOR = 0.5  # what stands for success where nothing is known, in trials
CLOSE, CLOSEST = 0.1, 0.5  # how far a failure reaches: a share of the cube's size, and of the model's lengthscale
OVERSAMPLE = 4


@dataclass(frozen=True, eq=False)
class Tried:
    """Points that were tried and how: told points succeeded, failed ones did not; `taken` are all of them."""

    taken: Float[np.ndarray, "n d"]
    told: Float[np.ndarray, "m d"]
    failed: Float[np.ndarray, "f d"]
    reach: Float[np.ndarray, " d"]

    def success(self, U: Float[np.ndarray, "p d"]) -> Float[np.ndarray, " p"]:
        """An estimate of the share of trials that succeed: those near a point, weighted by a Gaussian kernel."""
        good = PRIOR + self._weights(U, self.told)
        return good / (good + self._weights(U, self.failed))

    def _weights(self, U: Float[np.ndarray, "p d"], X: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " p"]:
        A, B = U / self.reach[None, :], X / self.reach[None, :]
        squares = (A**2).sum(axis=1)[:, None] + (B**2).sum(axis=1)[None, :] - 2 * A @ B.T
        return np.exp(-0.5 * np.maximum(squares, 0.0)).sum(axis=1)


def reach_of(dimension: int, lengthscales: Float[np.ndarray, " d"] | None = None) -> Float[np.ndarray, " d"]:
    """How far a failure reaches along each axis: half a lengthscale, at most a tenth of the cube's diagonal."""
    most = np.full(dimension, CLOSE * math.sqrt(dimension))
    return most if lengthscales is None else np.minimum(most, CLOSEST * lengthscales)


@dataclass(frozen=True, eq=False)
class Allowed:
    """The space without what was tried and, unless `risky`, without the neighbourhoods of failures."""

    space: Space
    tried: Tried
    risky: bool = False

    @property
    def size(self) -> float:
        return self.space.size

    @property
    def continuous(self) -> bool:
        return self.space.continuous and (self.risky or len(self.tried.failed) == 0)

    @property
    def moving(self) -> Bool[np.ndarray, " d"]:
        return self.space.moving

    def snap(self, U: Float[np.ndarray, "p d"]) -> Float[np.ndarray, "p d"]:
        return self.space.snap(U)

    def feasible(self, U: Float[np.ndarray, "p d"]) -> Bool[np.ndarray, " p"]:
        """Which points may be asked for."""
        return self.space.feasible(U) & self.fresh(U) & self.safe(U)

    def fresh(self, U: Float[np.ndarray, "p d"]) -> Bool[np.ndarray, " p"]:
        """Which points have not been tried."""
        return ~np.isin(_keys(self.space.snap(U)), _keys(self.tried.taken))

    def safe(self, U: Float[np.ndarray, "p d"]) -> Bool[np.ndarray, " p"]:
        """Which points are likelier to succeed than not."""
        if self.risky or len(self.tried.failed) == 0:
            return np.ones(len(U), dtype=bool)
        return self.tried.success(U) >= 0.5

    def sample(self, n: int, seed: int) -> Float[np.ndarray, "m d"]:
        """Points that fill the space; those that are safe first, and only those if there are enough."""
        more = n if len(self.tried.failed) == 0 else OVERSAMPLE * n
        points = self.space.sample(more, seed, exclude=self.tried.taken)
        return points[self.safe(points)][:n]

    def neighbours(self, u: Float[np.ndarray, " d"], seed: int, count: int) -> Float[np.ndarray, "m d"]:
        try:
            near = self.space.neighbours(u, seed, count)
        except SpaceError:
            return np.zeros((0, len(u)))
        return near[self.fresh(near) & self.safe(near)]


def _keys(U: Float[np.ndarray, "p d"]) -> np.ndarray:
    """Rows as single items: two snapped points are the same experiment exactly when their items are equal."""
    rows = np.ascontiguousarray(U + 0.0)  # no negative zero
    if rows.shape[1] == 0:
        return np.zeros(len(rows))
    return rows.view([("", rows.dtype)] * rows.shape[1]).reshape(len(rows))
