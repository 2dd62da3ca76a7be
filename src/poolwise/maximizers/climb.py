"""What every maximizer takes and gives: an objective on the unit cube, starts and a budget in; a climb out."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import ArrayLike

from poolwise import checks
from poolwise.errors import InputError

Objective = Callable[[Float[Array, "r p"]], Float[Array, " r"]]
"""Values of r points at once, each of its own row alone.

An objective that is a pytree (`poolwise.pytree`) hands its arrays to the compiled program as arguments, so that two
objectives of one type and shape share it; a plain function is compiled for itself. A stochastic objective may also have
`redraw(key, samples)`, which returns it with fresh base samples.
"""


@dataclass(frozen=True)
class Budget:
    """How much a climb may cost; with neither limit, the maximizer's own default holds.

    Evaluations count points, and the starts are always evaluated. Seconds include compilation, and are kept within five
    percent plus one compiled chunk.
    """

    evaluations: int | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        if self.evaluations is not None:
            checks.store_counts(self, "evaluations")
        if self.seconds is not None:
            checks.duration("seconds", self.seconds)

    def allowed(self, default: int) -> int:
        """The number of evaluations that may be made: `default` where neither limit is set."""
        if self.evaluations is not None:
            return self.evaluations
        return default if self.seconds is None else 2**62


UNLIMITED = Budget()


@dataclass(frozen=True, eq=False)
class Climb:
    """Where a climb ended; a point whose value is not finite has the value -inf."""

    points: Float[np.ndarray, "r p"]
    values: Float[np.ndarray, " r"]
    evaluations: int
    seconds: float
    history: Float[np.ndarray, "h 2"]  # rows of (evaluations so far, best value so far)

    @property
    def best(self) -> Float[np.ndarray, " p"]:
        """The point of the highest value."""
        return np.asarray(self.points[int(np.argmax(self.values))])


@runtime_checkable
class Maximizer(Protocol):
    """A way to climb a batched objective on the unit cube."""

    def __call__(self, objective: Objective, starts: ArrayLike, budget: Budget = UNLIMITED, *, seed: int = 0) -> Climb:
        """Climb from the starts; the same arguments give the same climb, unless a clock ends it."""
        ...


@dataclass
class Log:
    """The clock and the history of one climb, kept on the host between compiled chunks."""

    budget: Budget
    began: float = field(default_factory=time.perf_counter)
    rows: list[tuple[float, float]] = field(default_factory=list)

    def seconds(self) -> float:
        """How long the climb has run."""
        return time.perf_counter() - self.began

    def late(self) -> bool:
        """Whether the seconds are used up."""
        return self.budget.seconds is not None and self.seconds() >= self.budget.seconds

    def note(self, evaluations: int, best: float) -> None:
        """Add a row; the best value never falls."""
        before = self.rows[-1][1] if self.rows else -np.inf
        self.rows.append((float(evaluations), max(before, best) if np.isfinite(best) else before))

    def share(self, done: int, most: int) -> int:
        """How many units of work to do before the next look at the clock, after `done` so far: a few percent of it."""
        if self.budget.seconds is None:
            return most
        each = self.seconds() / max(done, 1)
        left = self.budget.seconds - self.seconds()
        return int(min(max(min(0.05 * self.budget.seconds, left) / each, 1), most))

    def climb(self, points: Any, values: Any) -> Climb:
        """The result, in NumPy."""
        points, values = np.array(points), np.array(values)
        history = np.array(self.rows, float).reshape(-1, 2)
        evaluations = int(self.rows[-1][0]) if self.rows else 0
        return Climb(points, values, evaluations, self.seconds(), history)


def evaluate(objective: Objective, points: Float[Array, "r p"]) -> Float[Array, " r"]:
    """The objective, checked while it is traced: one value of the points' precision for each."""
    values = jnp.asarray(objective(points))
    if values.shape != points.shape[:1]:
        raise InputError(f"the objective maps {points.shape} to {values.shape}: it must give one value for each row")
    return values.astype(points.dtype)


def value_and_gradient(objective: Objective, points: Float[Array, "r p"]) -> tuple[Array, Float[Array, "r p"]]:
    """Values and gradients of independent rows, by one backward pass."""
    values, pull = jax.vjp(functools.partial(evaluate, objective), points)
    return values, pull(jnp.ones_like(values))[0]


def as_pytree(objective: Objective) -> Objective:
    """The objective as an argument of compiled programs: itself if it is a pytree, a wrapped function if not."""
    if not callable(objective):
        raise InputError(f"objective={objective!r} cannot be called: give a function of an (r, p) array of points")
    leaf = jax.tree_util.treedef_is_leaf(jax.tree.structure(objective))
    return jax.tree_util.Partial(objective) if leaf else objective  # type: ignore[no-untyped-call]


def as_starts(starts: Any) -> Float[np.ndarray, "r p"]:
    """The starts as a new 64-bit matrix, if they are one within the unit cube."""
    try:
        matrix = np.array(starts, float)
    except (TypeError, ValueError):
        raise InputError("starts must be numbers, one row of coordinates for each start") from None
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise InputError(f"starts of shape {matrix.shape}: give a matrix with one row of coordinates for each start")
    if not np.isfinite(matrix).all() or matrix.min() < 0 or matrix.max() > 1:
        raise InputError("starts leave the unit cube: every coordinate must be a number from 0 to 1")
    return matrix
