"""The points that can be run, where they are not the whole cube, and a walk among them.

Every point that is scored is a point of the domain, so nothing is lost by rounding afterwards. A local search takes
turns between moves to neighbours, which change whole numbers and choices, and gradient ascent of the coordinates that
can move.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float

from poolwise import checks
from poolwise.errors import InputError
from poolwise.pool.effort import Ascent, Limit
from poolwise.pool.seats import Points, Table, climb, look, worth

APART = 1e-6  # points closer than this, in every coordinate, are the same point
CLOSE = 0.01  # leaders of a local search are at least this far apart, in some coordinate
EXPANDED = 2  # leaders whose neighbours are tried in a round
LOCAL = 4  # rounds of local search of a pick
STEPS = (1e-4, 0.3)  # lengths of random moves of continuous coordinates, evenly on a log scale
ENOUGH = 1e-3  # a round that gains less than this share of the value is the last


@runtime_checkable
class Domain(Protocol):
    """The points of the unit cube that can be run."""

    @property
    def size(self) -> float:
        """How many points there are at most; infinite with a continuous coordinate."""

    @property
    def continuous(self) -> bool:
        """Whether every point of the cube can be run."""

    @property
    def moving(self) -> Bool[np.ndarray, " d"]:
        """The coordinates that are continuous."""

    def snap(self, U: Points, /) -> Points:
        """The nearest points that are on the grid; coordinates that are continuous stay."""

    def feasible(self, U: Points, /) -> Bool[np.ndarray, " p"]:
        """Which of some snapped points can be run."""

    def sample(self, n: int, seed: int, /) -> Points:
        """At most n different points that can be run; all of them, if there are no more than n."""

    def neighbours(self, u: Float[np.ndarray, " d"], seed: int, count: int, /) -> Points:
        """At most `count` points near u that can be run."""


def ground_of(domain: Domain | None, dimension: int, maximizer: Any) -> Domain | None:
    """The domain, checked, if it is not the whole cube."""
    if domain is None:
        return None
    checks.kind("domain", domain, Domain, "give a Space, or see poolwise.pool.domain.Domain for what one needs.")
    if len(domain.moving) != dimension:
        raise InputError(
            f"domain: has {len(domain.moving)} coordinates where the posterior has {dimension}; "
            "condition it on points of this domain."
        )
    if domain.continuous:
        return None
    if not isinstance(maximizer, Ascent):
        raise InputError(f"maximizer: {maximizer!r} knows only the whole cube; over this domain use Ascent().")
    return domain


@dataclass(frozen=True)
class Rules:
    """Which points may be chosen, and by which seed."""

    domain: Domain
    seed: int
    replicate: bool = False


@dataclass
class Meter:
    """What a search has spent, and what it may spend yet; one evaluation is kept back for the last verdict."""

    limit: Limit
    spent: int = 0

    def left(self) -> int:
        """Evaluations that a search may still make."""
        return 0 if self.limit.late() or not self.allows(2) else self._most() - self.spent - 1

    def allows(self, count: int) -> bool:
        """Whether there are so many evaluations left, whatever the clock says."""
        return self.spent + count <= self._most()

    def _most(self) -> int:
        return 2**62 if self.limit.evaluations is None else self.limit.evaluations


@dataclass(frozen=True, eq=False)
class Leaders:
    """The best points of a local search, best first, and what they are worth."""

    points: Points
    values: Float[np.ndarray, " p"]

    def joined(self, points: Points, values: Float[np.ndarray, " p"], most: int) -> Leaders:
        """With other points; of points close to each other only the best stays."""
        points, values = np.concatenate([self.points, points]), np.concatenate([self.values, values])
        chosen: list[int] = []
        for i in np.argsort(-values, kind="stable"):
            if len(chosen) == most or not values[i] > -np.inf:
                break
            if not chosen or np.abs(points[chosen] - points[i]).max(axis=1).min() >= CLOSE:
                chosen.append(int(i))
        return Leaders(points[chosen], values[chosen])


@dataclass(frozen=True, eq=False)
class Walk:
    """A search for the point of one seat after another: where, among whom, and at what cost."""

    domain: Domain
    table: Table
    settings: Ascent
    meter: Meter
    seed: int
    apart: bool
    pending: Float[np.ndarray, "w d"]
    moving: Float[np.ndarray, " d"] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "moving", np.asarray(self.domain.moving, float))

    def worth(self, seat: Any, points: Points, others: Points, seen: Any = None) -> Float[np.ndarray, " p"]:
        """What points are worth in a seat; minus infinity for one that is taken."""
        seen = look(self.table, points) if seen is None else seen
        self.meter.spent += len(points)
        return np.where(self.free(points, others), worth(seat, seen, len(points)), -np.inf)

    def free(self, points: Points, others: Points) -> Bool[np.ndarray, " p"]:
        """Which points differ from the pending ones and from others."""
        barred = np.concatenate([self.pending, others])
        if not self.apart or not len(barred):
            return np.ones(len(points), bool)
        return ~(np.abs(points[:, None] - barred[None]).max(axis=2) < APART).any(axis=1)

    def improved(self, seat: Any, leaders: Leaders, others: Points, tag: int) -> Leaders:
        """Leaders after rounds of ascent and of moves to neighbours, until a round gains nothing."""
        most = self.settings.starts
        for turn in range(LOCAL):
            if not self.meter.left():
                break
            before = leaders.values[0]
            rounds = min(self.settings.rounds, self.meter.left() // most)
            if self.moving.any() and rounds:
                ends, cost = climb(seat, leaders.points, self.moving, room=most, rounds=rounds)
                self.meter.spent += cost
                ends = self.settled(leaders.points, ends)[: self.meter.left()]
                leaders = leaders.joined(ends, self.worth(seat, ends, others), most)
            moves = self.moves(leaders.points[:EXPANDED], tag * LOCAL + turn)[: self.meter.left()]
            leaders = leaders.joined(moves, self.worth(seat, moves, others), most)
            if not leaders.values[0] > before + ENOUGH * abs(before):
                break
        return leaders

    def settled(self, starts: Points, ends: Points) -> Points:
        """The ends of a climb; from one that cannot be run, back toward its start as far as needed."""
        low, high = np.zeros(len(starts)), np.ones(len(starts))
        share = high
        for _ in range(20):
            points = self.domain.snap(starts + share[:, None] * (ends - starts))
            good = self.domain.feasible(points)
            low, high = np.where(good, share, low), np.where(good, high, share)
            if (low >= high).all():
                break
            share = (low + high) / 2
        return self._possible(starts + low[:, None] * (ends - starts))

    def moves(self, points: Points, tag: int) -> Points:
        """Neighbours of points, and moves of their continuous coordinates by lengths of every scale; one block."""
        count = self.table.block // EXPANDED // (2 if self.moving.any() else 1)
        rng = np.random.default_rng([self.seed, 7, tag])
        near = [self.domain.neighbours(u, int(rng.integers(2**31)), count) for u in points]
        if self.moving.any():
            low, high = np.log(STEPS)
            length = np.exp(rng.uniform(low, high, (len(points), count, 1)))
            step = length * rng.standard_normal((len(points), count, points.shape[1])) * self.moving
            near.append(self._possible((points[:, None] + step).reshape(-1, points.shape[1])))
        return np.concatenate(near)

    def _possible(self, points: Points) -> Points:
        points = self.domain.snap(np.clip(points, 0.0, 1.0))
        return points[self.domain.feasible(points)]


def random_pools(domain: Domain, q: int, seed: int) -> Float[np.ndarray, "256 p"]:
    """Pools of points of a domain, drawn at random."""
    points = domain.sample(4 * max(q, 256), seed)
    return points[np.random.default_rng([seed, 5]).integers(len(points), size=(256, q))].reshape(256, -1)
