"""DIRECT, the dividing rectangles of Jones et al. (1993), doi:10.1007/BF00941892, from SciPy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import jax
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import ArrayLike
from scipy.optimize import Bounds, direct

from poolwise import checks
from poolwise.maximizers.climb import UNLIMITED, Budget, Climb, Log, Objective, as_pytree, as_starts, evaluate
from poolwise.precision import double

WORST = 1e100  # what SciPy, which minimises, sees where the objective is not finite
MEMORY = 2**24  # coordinates of all evaluations together: the search ends there
RATE = 1e5  # evaluations in a second, one call from SciPy each: more than any machine makes


@dataclass(frozen=True)
class Direct:
    """Divide the cube where it promises most; the locally biased form divides fewer large rectangles.

    SciPy's stopping by volume and side length is off: in 64 dimensions the first divisions would already end it. The
    starts are evaluated first, and the r best points seen are the result. The seed changes nothing.
    """

    locally_biased: bool = False
    evaluations: int = 2**12

    def __post_init__(self) -> None:
        checks.store_counts(self, "evaluations")

    @double
    def __call__(self, objective: Objective, starts: ArrayLike, budget: Budget = UNLIMITED, *, seed: int = 0) -> Climb:
        """Search; the results are sorted, highest first."""
        goal = as_pytree(objective)
        return self.by(lambda point: float(_value(goal, point[None])[0]), starts, budget)

    def by(
        self, value: Callable[[Float[np.ndarray, " p"]], float], starts: ArrayLike, budget: Budget = UNLIMITED
    ) -> Climb:
        """The same search with any function of one point."""
        first = as_starts(starts)
        r, p = first.shape
        visit = _Visits(value, Log(budget), r, max(r, budget.allowed(self.evaluations)))
        try:
            for start in first:
                visit(start)
            room = self._room(budget, visit.most, p)
            direct(
                visit,
                Bounds(np.zeros(p), np.ones(p)),
                locally_biased=self.locally_biased,
                maxfun=room,
                maxiter=room,
                vol_tol=0,
                len_tol=0,
            )
        except _Stop:
            pass
        return visit.climb()

    def _room(self, budget: Budget, most: int, p: int) -> int:
        """More evaluations and iterations than can be made: SciPy allocates for both before it begins."""
        fastest = RATE * (budget.seconds or np.inf)
        return int(min(most, fastest, MEMORY // p)) + 2 * p + 1


class _Stop(Exception):
    """The budget is spent: the only way out of SciPy's loop."""


@dataclass
class _Visits:
    """The function that SciPy calls, one point at a time; it keeps the best r points and the budget itself."""

    value: Callable[[Float[np.ndarray, " p"]], float]
    log: Log
    r: int
    most: int
    done: int = 0
    kept: list[tuple[float, int, Float[np.ndarray, " p"]]] = field(default_factory=list)

    def __call__(self, point: Float[np.ndarray, " p"]) -> float:
        if self.done >= self.most or (self.done >= self.r and self.log.late()):
            raise _Stop
        value = self.value(point)
        value = value if np.isfinite(value) else -np.inf
        self.done += 1
        if len(self.kept) < self.r or value > self.kept[-1][0]:
            self._keep(value, point)
        return -value if np.isfinite(value) else WORST

    def _keep(self, value: float, point: Float[np.ndarray, " p"]) -> None:
        """Insert a point in order, the earlier of two equal ones first."""
        self.kept = sorted([*self.kept, (value, self.done, point.copy())], key=lambda row: (-row[0], row[1]))[: self.r]
        self.log.note(self.done, self.kept[0][0])

    def climb(self) -> Climb:
        """The result, whose history ends with the last evaluation."""
        self.log.note(self.done, self.kept[0][0])
        return self.log.climb(np.stack([point for _, _, point in self.kept]), [value for value, _, _ in self.kept])


@jax.jit
def _value(objective: Objective, points: Float[Array, "1 p"]) -> Float[Array, " 1"]:
    return evaluate(objective, points)
