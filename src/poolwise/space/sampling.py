"""Points of a space: all of them, some that fill it evenly, and those near a given one."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from jaxtyping import Float as Floats

from poolwise.space.axes import Axis, Codes, Corners, Line
from poolwise.space.errors import SpaceError

if TYPE_CHECKING:
    from poolwise.space.space import Space

Points: TypeAlias = Floats[np.ndarray, "_ d"]

ENUMERATED = 2**16  # a finite space of up to so many points is searched to its end
TRIES = 2**17  # of scrambled Sobol' points, and of steps after them
BATCH = 2**12  # steps at a time
WALKERS = 2**13  # points from which steps are taken
CROWD = 2**14  # points among which those far apart are chosen
MOST_SPREAD = 2**9
SCALES = np.array([0.3, 0.1, 0.03, 0.01, 0.003])  # of moves, as shares of a range


class Collected:
    """Different points in the order in which they came, without those that were taken before."""

    def __init__(self, taken: Points, wanted: int) -> None:
        self.taken = {row.tobytes() for row in taken}
        self.rows: list[np.ndarray] = []
        self.wanted = wanted

    @property
    def complete(self) -> bool:
        return len(self.rows) >= self.wanted

    def add(self, points: Points) -> None:
        for row in points:
            if self.complete:
                return
            if (mark := row.tobytes()) not in self.taken:
                self.taken.add(mark)
                self.rows.append(row)

    def points(self, dimension: int) -> Points:
        return np.array(self.rows).reshape(len(self.rows), dimension)


def grid(space: Space) -> Points:
    """All feasible points of a finite space."""
    counts = [int(axis.count) for axis in space.axes.values()]
    total = math.prod(counts)
    indices = np.unravel_index(np.arange(total), counts) if counts else ()
    codes = {name: index.astype(float) for name, index in zip(space.axes, indices, strict=True)}
    points = space.place(codes, total)
    return points[space.feasible(points)]


def sample(space: Space, n: int, seed: int, exclude: Points | None) -> Points:
    """See `Space.sample`."""
    rng = _rng(seed)
    none = np.empty((0, space.dimension))
    taken = none if exclude is None else space.snap(exclude)
    collected = Collected(taken, n)
    finite = space.size <= ENUMERATED
    points = feasible = none
    for batch in _sobol(space.dimension, n, seed):
        points = space.snap(batch)
        kept = points[space.feasible(points)]
        collected.add(kept)
        feasible = np.concatenate([feasible, kept])
        if collected.complete or finite:
            break
    if not collected.complete and finite:
        feasible = rng.permutation(grid(space))
        collected.add(feasible)
    elif not collected.complete:
        feasible = feasible if len(feasible) else _approach(space, points, rng)
        collected = Collected(taken, n)
        collected.add(_spread(_walk(space, feasible, taken, rng), n, rng))
    if n and not len(feasible):
        raise SpaceError(_nothing_feasible(space, finite))
    return collected.points(space.dimension)


def neighbours(space: Space, u: Floats[np.ndarray, " d"], seed: int, count: int) -> Points:
    """See `Space.neighbours`."""
    rng = _rng(seed)
    here = space.snap(u[None, :])
    collected = Collected(here, count)
    if not space.axes:
        return collected.points(space.dimension)
    steps = rng.permutation(_single_steps(space, here))
    steps = steps[space.feasible(steps)]
    collected.add(steps[: max(1, count // 2)] if space.moving.any() else steps)
    for _ in range(8):
        if collected.complete:
            break
        moved = _moved(space, np.repeat(here, max(2 * count, 32), axis=0), rng)
        collected.add(moved[space.feasible(moved)])
    return collected.points(space.dimension)


def _approach(space: Space, points: Points, rng: np.random.Generator) -> Points:
    """Feasible points by steps that bring the best of a crowd nearer to the constraints; none if that fails."""
    gaps = space.gaps(points)
    known = np.where(np.isfinite(gaps) & (gaps > 0), gaps, np.nan)
    scale = np.array([np.median(c[c == c]) if (c == c).any() else 1.0 for c in known.T])
    for _ in range(TRIES // BATCH):
        with np.errstate(over="ignore"):
            total = (gaps / scale[None, :]).sum(axis=1)
        best = np.argsort(total, kind="stable")[: BATCH // 32]
        if total[best[0]] == 0.0:
            return points[total == 0.0]
        points = np.concatenate([points[best], _moved(space, np.repeat(points[best], 31, axis=0), rng)])
        gaps = space.gaps(points)
    return points[(gaps == 0.0).all(axis=1)]


def _walk(space: Space, feasible: Points, taken: Points, rng: np.random.Generator) -> Points:
    """Many feasible points, by random steps from a few of them."""
    if not len(feasible):
        return feasible
    collected = Collected(taken, TRIES)
    collected.add(feasible)
    for _ in range(TRIES // BATCH):
        moved = _moved(space, feasible[rng.integers(len(feasible), size=BATCH)], rng)
        moved = moved[space.feasible(moved)]
        collected.add(moved)
        feasible = np.concatenate([feasible, moved])[-WALKERS:]
    return collected.points(space.dimension)


def _spread(points: Points, n: int, rng: np.random.Generator) -> Points:
    """n of these points, each as far as can be from those before it; for a large n, any."""
    if len(points) <= n:
        return points
    points = rng.permutation(points)[: max(n, CROWD)]
    if n > MOST_SPREAD:
        return points[:n]
    chosen = [0]
    distance = np.full(len(points), np.inf)
    while len(chosen) < n:
        distance = np.minimum(distance, ((points - points[chosen[-1]][None, :]) ** 2).sum(axis=1))
        chosen.append(int(np.argmax(distance)))
    return points[chosen]


def _moved(space: Space, points: Points, rng: np.random.Generator) -> Points:
    """Each point after a random move: one parameter, a few, or all, each by a step at a random scale."""
    n, p = len(points), len(space.axes)
    rate = rng.choice([0.0, min(1.0, 2.0 / p), 1.0], size=(n, 1))
    moves = rng.random((n, p)) < rate
    moves[np.arange(n), rng.integers(p, size=n)] = True
    scale = rng.choice(SCALES, size=n)
    codes = space.read(points)
    for j, (name, axis) in enumerate(space.axes.items()):
        codes[name] = np.where(moves[:, j], _step(axis, codes[name], scale, rng), codes[name])
    return space.place(codes, n)


def _step(axis: Axis, codes: Codes, scale: Floats[np.ndarray, " n"], rng: np.random.Generator) -> Codes:
    """Other codes nearby: a normal move along a range, at least to the next value; any other choice."""
    if isinstance(axis, Corners):
        return (codes + rng.integers(1, axis.count, size=len(codes))) % axis.count
    jump = scale * rng.standard_normal(len(codes))
    moved = axis.read(np.clip(axis.place(codes) + jump[:, None], 0.0, 1.0))
    if isinstance(axis, Line):
        return moved
    up = np.where(jump > 0, codes < axis.count - 1, codes < 1)
    return np.where(moved == codes, codes + np.where(up, 1.0, -1.0), moved)


def _single_steps(space: Space, here: Points) -> Points:
    """Every point that differs in one discrete parameter: by one step, or by another choice."""
    codes = space.read(here)
    rows = []
    for name, axis in space.axes.items():
        if isinstance(axis, Line):
            continue
        code = codes[name][0]
        others = range(axis.count) if isinstance(axis, Corners) else (code - 1, code + 1)
        for other in others:
            if other != code and 0 <= other < axis.count:
                rows.append(space.place({**codes, name: np.array([float(other)])}, 1))
    return np.concatenate([np.empty((0, space.dimension)), *rows])


def _sobol(dimension: int, n: int, seed: int) -> Iterator[Points]:
    """Batches of a scrambled Sobol' sequence that double its length, up to `TRIES` points (or four times n)."""
    from scipy.stats import qmc

    if dimension == 0:
        yield np.empty((1, 0))
        return
    if dimension > qmc.Sobol.MAXDIM:
        draw = np.random.default_rng(seed).random
        batches = ((size, dimension) for size in _doubling(n))
        yield from (draw(shape) for shape in batches)
        return
    sequence = qmc.Sobol(dimension, rng=np.random.default_rng(seed))
    for size in _doubling(n):
        yield np.asarray(sequence.random(size))


def _doubling(n: int) -> Iterator[int]:
    size = 2 ** max(4, math.ceil(math.log2(max(n, 1))))
    yield size
    total = size
    while total < max(TRIES, 4 * n):
        yield total
        total *= 2


def _nothing_feasible(space: Space, finite: bool) -> str:
    listed = "; ".join(space.constraints)
    if finite:
        return f"space: no experiment satisfies all constraints ({listed}); loosen one."
    return (
        f"space: none of {TRIES} points satisfies all constraints ({listed}). Loosen one, narrow the ranges around "
        "what they allow, or write one parameter as a function of the others."
    )


def _rng(seed: int) -> np.random.Generator:
    if seed < 0:
        raise SpaceError(f"seed: expected zero or more, got {seed}.")
    return np.random.default_rng(seed)
