"""Where new points may lie: in the space, on no point that was tried, and not where trials keep failing."""

from __future__ import annotations

import dataclasses
import functools
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from poolwise.space.errors import SpaceError
from poolwise.space.space import Space
from poolwise.study.success import Success

ROOM = 0.1  # of the space, that stays open whatever has failed
LESS = 0.2  # how far below the best of the space a point may score, where that is not sure itself
SAMPLE = 256  # points that tell what the best of the space is
OVERSAMPLE = 4


@dataclass(frozen=True)
class Level:
    """How likely a point must be to succeed: its score, less some standard deviations, must be so high."""

    score: float
    doubt: float

    def within(self, points: Float[np.ndarray, "n d"], success: Success, less: float) -> Level:
        """The lower of this level and one that is `less` below what the best tenth of these points score."""
        best = float(np.quantile(success.score(points, self.doubt), 1.0 - ROOM))
        return Level(min(self.score, best - less), self.doubt)


EVEN = Level(0.2, 0.0)  # likelier to succeed than not
SURE = Level(0.8, 0.5)  # all but sure to succeed


@dataclass(frozen=True, eq=False)
class Tried:
    """Points that were tried, and what they say about the success of others; no failure, no `success`."""

    taken: Float[np.ndarray, "n d"]
    success: Success | None = None
    even: Level = EVEN
    sure: Level = SURE

    @functools.cached_property
    def keys(self) -> frozenset[bytes]:
        """All points, each as one item."""
        return frozenset(_keys(self.taken))

    def reaches(self, U: Float[np.ndarray, "p d"], level: Level | None) -> Bool[np.ndarray, " p"]:
        """Which points reach a level of success."""
        if self.success is None or level is None:
            return np.ones(len(U), dtype=bool)
        return self.success.score(U, level.doubt) >= level.score

    def without(self, U: Float[np.ndarray, "p d"]) -> Tried:
        """The same, with more points taken."""
        return dataclasses.replace(self, taken=np.concatenate([self.taken, U]))


def tried_of(space: Space, taken: Float[np.ndarray, "n d"], success: Success | None) -> Tried:
    """Points that were tried, with levels that leave some of the space."""
    if success is None:
        return Tried(taken)
    points = space.sample(SAMPLE, seed=0)
    return Tried(taken, success, EVEN.within(points, success, 0.0), SURE.within(points, success, LESS))


@dataclass(frozen=True, eq=False)
class Allowed:
    """The space without what was tried and without what is below a level of success."""

    space: Space
    tried: Tried
    level: Level | None = None

    @property
    def size(self) -> float:
        return self.space.size

    @property
    def continuous(self) -> bool:
        return self.space.continuous and (self.tried.success is None or self.level is None)

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
        return np.array([key not in self.tried.keys for key in _keys(self.space.snap(U))], dtype=bool)

    def safe(self, U: Float[np.ndarray, "p d"]) -> Bool[np.ndarray, " p"]:
        """Which points are not likely to fail."""
        return self.tried.reaches(U, self.level)

    def sample(self, n: int, seed: int) -> Float[np.ndarray, "m d"]:
        """Points that fill the space, only those that are safe: fewer than n where few of those looked at are."""
        more = n if self.tried.success is None else OVERSAMPLE * n
        points = self.space.sample(more, seed, exclude=self.tried.taken)
        return points[self.safe(points)][:n]

    def neighbours(self, u: Float[np.ndarray, " d"], seed: int, count: int) -> Float[np.ndarray, "m d"]:
        try:
            near = self.space.neighbours(u, seed, count)
        except SpaceError:
            return np.zeros((0, len(u)))
        return near[self.fresh(near) & self.safe(near)]


def _keys(U: Float[np.ndarray, "p d"]) -> list[bytes]:
    """Rows as single items: two snapped points are the same experiment exactly when their items are equal."""
    return [row.tobytes() for row in np.ascontiguousarray(U + 0.0)]  # no negative zero
