"""Searches that look at one point after another, side by side: their evaluations meet in one call for all.

Each search has a thread. A thread that brings a point waits until every other search that still goes on has brought
one, too; whoever comes last evaluates them all. A search that ends, well or badly, is waited for no longer.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from jaxtyping import Float

R = TypeVar("R")
Value = Callable[[Float[np.ndarray, " p"]], float]
Evaluate = Callable[[Float[np.ndarray, "t p"]], Float[np.ndarray, " t"]]


def side_by_side(evaluate: Evaluate, searches: Sequence[Callable[[Value], R]], dimension: int) -> list[R]:
    """The results of searches, each given a function of one point; `evaluate` takes a row from each of them."""
    meeting = _Meeting(evaluate, np.full((len(searches), dimension), 0.5), set(range(len(searches))))
    with ThreadPoolExecutor(len(searches)) as threads:
        futures = [threads.submit(meeting.attend, i, search) for i, search in enumerate(searches)]
        return [future.result() for future in futures]


@dataclass
class _Meeting:
    evaluate: Evaluate
    points: Float[np.ndarray, "t p"]  # of a search that has ended, its last
    present: set[int]
    waiting: set[int] = field(default_factory=set)
    values: Any = ()
    error: BaseException | None = None
    turn: int = 0
    change: threading.Condition = field(default_factory=threading.Condition)

    def attend(self, index: int, search: Callable[[Value], R]) -> R:
        """Run a search; when it ends the others are told."""
        try:
            return search(lambda point: self._bring(index, point))
        finally:
            with self.change:
                self.present.discard(index)
                self._meet()

    def _bring(self, index: int, point: Float[np.ndarray, " p"]) -> float:
        with self.change:
            self.points[index], turn = point, self.turn
            self.waiting.add(index)
            self._meet()
            while self.turn == turn:
                self.change.wait()
            if self.error is not None:
                raise RuntimeError("the evaluation of the points of all searches failed") from self.error
            return float(self.values[index])

    def _meet(self) -> None:
        """Evaluate, if nobody is missing; an error there ends every search."""
        if not self.waiting or self.waiting < self.present:
            return
        try:
            self.values = self.evaluate(self.points)
        except BaseException as error:
            self.error = error
        self.waiting, self.turn = set(), self.turn + 1
        self.change.notify_all()
