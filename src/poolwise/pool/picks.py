"""Pools over a domain: each pick is the best of a set of candidates, then each point is reconsidered beside the others.

A small domain is its own set of candidates; of a larger one they are a sample, improved by local search.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from poolwise.belief.gaussian_process import Posterior
from poolwise.errors import InputError
from poolwise.pool.domain import Leaders, Meter, Rules, Walk
from poolwise.pool.effort import Ascent, Found, Limit
from poolwise.pool.seats import Points, look, table

SWEEPS = 2  # times that each point is reconsidered beside the others
PAIRS = 2  # points moved to their next best places, each with the answer of another
SMALL = 4  # a domain of up to this many sets of candidates is taken whole
MOST = 2**16  # points asked of a domain that seems to have too few


def search_domain(  # noqa: PLR0913
    settings: Ascent,
    posterior: Posterior,
    integrand: Any,
    q: int,
    pending: Float[np.ndarray, "w d"],
    *,
    rules: Rules,
    limit: Limit,
) -> Found:
    """Greedy picks among the points of a domain, then each point reconsidered beside the others."""
    seats = table(posterior, integrand, q, pending, samples=settings.samples, seed=rules.seed)
    walk = Walk(rules.domain, seats, settings, Meter(limit), rules.seed, not rules.replicate, pending)
    offered = _offered(walk, posterior, q)
    pool, short = _greedy(walk, offered, q)
    if q > 1 and walk.meter.left():
        pool = _swept(walk, pool, short)
    return Found(pool, walk.meter.spent)


@dataclass(frozen=True, eq=False)
class Offered:
    """The candidates for every seat, and whether they are the whole domain."""

    points: Points
    whole: bool


@dataclass(frozen=True, eq=False)
class Short:
    """Candidates that were good as the first or the last pick, as a seat sees them."""

    points: Points
    seen: list[Any]


def _offered(walk: Walk, posterior: Posterior, q: int) -> Offered:
    """All points of a small domain; of a larger one a sample, and neighbours of the best observations."""
    count = max(walk.settings.candidates * walk.table.breadth, 4 * (q + len(walk.pending)))
    whole = walk.domain.size <= SMALL * count
    points = _unique(walk.domain.sample(int(walk.domain.size) if whole else count, walk.seed))
    if not whole:
        best = walk.domain.snap(posterior.X[np.argsort(-posterior.y, kind="stable")[:8]])
        near = [walk.domain.neighbours(u, walk.seed + i, count // 64) for i, u in enumerate(best)]
        points = _unique(np.concatenate([points, *near]))
        if walk.free(points, points[:0]).sum() < q:
            points = _unique(np.concatenate([points, walk.domain.sample(int(min(walk.domain.size, MOST)), walk.seed)]))
    left = int(walk.free(points, points[:0]).sum())
    if left < (q if walk.apart else 1):
        raise InputError(
            f"q: {q} different points are asked for, but the domain has {left} left beside the pending ones; "
            "ask for fewer, or widen the domain."
        )
    return Offered(points, whole)


def _unique(points: Points) -> Points:
    """The first of points that are equal, in their order."""
    return points[np.sort(np.unique(np.round(points, 9), axis=0, return_index=True)[1])]


def _greedy(walk: Walk, offered: Offered, q: int) -> tuple[Points, Short]:
    """The picks, and a block of candidates that were good as the first or as the last of them."""
    pool, half, short = offered.points[:0], walk.table.block // 2, []
    seen = look(walk.table, offered.points)
    for i in range(q):
        seat = walk.table.seat(pool, i)
        values = walk.worth(seat, offered.points, pool, seen)
        order = np.argsort(-values, kind="stable")
        if i in (0, q - 1):
            short.append(offered.points[order[:half]])
        best = offered.points[order[:1]]
        if values[order[0]] > -np.inf and not offered.whole and (walk.table.even or i == q - 1):
            leaders = Leaders(pool[:0], values[:0]).joined(offered.points, values, walk.settings.starts)
            best = walk.improved(seat, leaders, pool, i).points[:1]
        pool = np.concatenate([pool, best])
    points = _unique(np.concatenate(short))
    return pool, Short(points, look(walk.table, points))


def _swept(walk: Walk, pool: Points, short: Short) -> Points:
    """The pool after each point was reconsidered beside the others, and some in pairs; only gains are kept.

    A pair is a point's next best place, then the nearest other point's best answer to it: two points that share one
    hill may each be where a single one should stand.
    """
    value = _joint(walk, pool)
    alternatives: list[tuple[float, int, Float[np.ndarray, " d"]]] = []
    for sweep in range(SWEEPS):
        before, alternatives = pool, []
        for i in range(len(pool)):
            leaders = _reconsidered(walk, pool, i, short, sweep + 1)
            alternatives += [(v, i, u) for u, v in zip(leaders.points[1:], leaders.values[1:], strict=True)]
            pool, value = _better(walk, (pool, value), _replaced(pool, i, leaders.points[0]))
        if pool is before:
            break
    for turn, (_, i, point) in enumerate(sorted(alternatives, key=lambda one: -one[0])[:PAIRS]):
        if not walk.free(point[None], np.delete(pool, i, axis=0))[0]:
            continue
        changed = _replaced(pool, i, point)
        nearest = np.where(np.arange(len(pool)) == i, np.inf, np.abs(pool - point).sum(axis=1)).argmin()
        for one in (int(nearest), i):
            leaders = _reconsidered(walk, changed, one, short, SWEEPS + 1 + turn)
            changed = _replaced(changed, one, leaders.points[0])
        pool, value = _better(walk, (pool, value), changed)
    return pool


def _reconsidered(walk: Walk, pool: Points, i: int, short: Short, tag: int) -> Leaders:
    """The best places for one point beside the others, its own among them; itself alone where nothing may be spent."""
    own, others = pool[i : i + 1], np.delete(pool, i, axis=0)
    if walk.meter.left() <= len(short.points):
        return Leaders(own, np.zeros(1))
    seat = walk.table.seat(pool, i)
    leaders = Leaders(own, walk.worth(seat, own, others))
    leaders = leaders.joined(short.points, walk.worth(seat, short.points, others, short.seen), walk.settings.starts)
    return walk.improved(seat, leaders, others, tag * len(pool) + i)


def _better(walk: Walk, now: tuple[Points, float], changed: Points) -> tuple[Points, float]:
    """Of two pools the one that is worth more as a whole."""
    if np.array_equal(now[0], changed) or not walk.meter.allows(1):
        return now
    value = _joint(walk, changed)
    return (changed, value) if value > now[1] else now


def _replaced(pool: Points, i: int, point: Float[np.ndarray, " d"]) -> Points:
    return np.concatenate([pool[:i], point[None], pool[i + 1 :]])


def _joint(walk: Walk, pool: Points) -> float:
    """The value of a whole pool, its points in their order."""
    return float(walk.worth(walk.table.seat(pool, len(pool) - 1), pool[-1:], pool[:0])[0])
