"""A run on the screen: a live line on a terminal, a plain line for each pool elsewhere."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from poolwise.study.callbacks import Callback
from poolwise.study.trial import Trial

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress


class Display(Callback):
    """Pools, finished and failed trials, the best value and the time left, on standard error.

    On a terminal one line is kept up to date. Elsewhere a line is written for each pool; where pools are single trials,
    for as many of them as the first pool had.
    """

    def __init__(self, console: Console | None = None) -> None:
        from rich.console import Console

        self._console = Console(stderr=True) if console is None else console
        self._live: Progress | None = None
        self._began, self._here = time.monotonic(), 0
        self._total = self._finished = self._failed = self._pending = self._pool = 0
        self._size, self._shown = 0, 0
        self._best: float | None = None
        self._waited = False

    def on_start(self, study: Any, trials: int) -> None:
        asked = [trial for trial in study.trials if not trial.added]
        self._total, self._pending = trials, 0
        self._failed = sum(trial.state == "failed" for trial in asked)
        self._finished = self._shown = sum(trial.state != "pending" for trial in asked)
        self._pool = max((trial.pool or 0 for trial in asked), default=0)
        self._began, self._here, self._size = time.monotonic(), 0, 0
        self._best = None if study.best is None else study.best.value
        if self._console.is_terminal:
            self._live = _bar(self._console)
            self._task = self._live.add_task("", total=trials, completed=self._finished, state="choosing a pool")
            self._live.start()
        elif self._finished:
            self._console.print(
                f"{self._finished} of {trials} trials are finished already{self._so_far(study)}", soft_wrap=True
            )

    def on_ask(self, study: Any, pool: list[Trial]) -> None:
        if self._live is None and self._size and self._finished - self._shown >= self._size:
            self._line(study)
        self._pool = max(self._pool, *(trial.pool or 0 for trial in pool))
        self._pending += len(pool)
        self._size = self._size or len(pool)
        self._update(study)

    def on_wait(self, study: Any, held: int) -> None:
        """Said once where there is no live line: nothing may happen until a lease is over."""
        if self._live is None and not self._waited:
            self._console.print(f"waiting for {held} trial(s) that another run has, or had when it was killed")
        self._waited = True

    def on_tell(self, study: Any, trial: Trial) -> None:
        better = max if study.direction == "maximize" else min
        if trial.value is not None:
            self._best = trial.value if self._best is None else better(self._best, trial.value)
        self._finish(study)

    def on_fail(self, study: Any, trial: Trial) -> None:
        self._failed += 1
        reason = (trial.reason or "").splitlines()[0]
        self._console.print(f"trial {trial.number} failed: {reason}", markup=False, highlight=False, soft_wrap=True)
        self._finish(study)

    def on_end(self, study: Any) -> None:
        self._update(study)
        if self._live is not None:
            self._live.stop()
            self._live = None
        elif self._finished > self._shown:
            self._line(study)

    def _finish(self, study: Any) -> None:
        self._finished, self._here, self._pending = self._finished + 1, self._here + 1, self._pending - 1
        self._update(study)

    def _update(self, study: Any) -> None:
        if self._live is not None:
            idle = "" if self._finished >= self._total else ", choosing the next pool"
            busy = f", {self._pending} running" if self._pending else idle
            words = f"pool {self._pool}{self._so_far(study)}{busy}{self._left()}"
            self._live.update(self._task, completed=self._finished, state=words)

    def _line(self, study: Any) -> None:
        self._shown = self._finished
        words = f"pool {self._pool}: {self._finished} of {self._total} trials{self._so_far(study)}{self._left()}"
        self._console.print(words, markup=False, highlight=False, soft_wrap=True)

    def _so_far(self, study: Any) -> str:
        failed = f", {self._failed} failed" if self._failed else ""
        return failed + ("" if self._best is None else f", best {study.objective} {self._best:.6g}")

    def _left(self) -> str:
        """The time left, from the trials of this run."""
        missing = self._total - self._finished
        if missing <= 0 or not self._here:
            return ""
        left = int((time.monotonic() - self._began) / self._here * missing + 0.5)
        hours, minutes, seconds = left // 3600, left // 60 % 60, left % 60
        return f", {hours}:{minutes:02}:{seconds:02} left" if hours else f", {minutes}:{seconds:02} left"


def _bar(console: Console) -> Progress:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn

    text = TextColumn("{task.fields[state]}", markup=False)
    return Progress(SpinnerColumn(), BarColumn(20), MofNCompleteColumn(), text, console=console)
