"""The run loop: ask, have the objective called, tell at once, until so many trials of the study are finished."""

from __future__ import annotations

import inspect
import logging
import multiprocessing
import numbers
import time
import uuid
from collections import deque
from collections.abc import Iterable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from poolwise.errors import InputError
from poolwise.space.errors import SpaceExhausted
from poolwise.study.arguments import pool_size, seconds
from poolwise.study.asking import Limit, Wish, ask
from poolwise.study.callbacks import Callbacks, check_progress
from poolwise.study.calling import Report
from poolwise.study.choosing import adapted, kind_of, make_workers
from poolwise.study.interrupt import LONGEST_WAIT, Inbox, Interrupt
from poolwise.study.leases import leased, look, renewing
from poolwise.study.stops import RunInterrupted, RunStopped
from poolwise.study.study import Study
from poolwise.study.telling import Teller
from poolwise.study.trial import Trial
from poolwise.study.workers import Objective, Workers, trouble

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Plan:
    """How much is run, and how."""

    trials: int
    q: int = 1
    asynchronous: bool = False
    timeout: float | None = None
    lease: float | None = None


def run_study(  # noqa: PLR0913
    study: Study,
    f: Objective,
    trials: Any,
    q: Any,
    executor: Any,
    asynchronous: Any,
    timeout: Any,
    lease: Any,
    progress: Any,
    callbacks: Iterable[Any],
) -> None:
    """See `Study.run`."""
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise RunStopped(
            "A worker process came to `run` while it imported your script; "
            'put the call under `if __name__ == "__main__":`.'
        )
    if isinstance(trials, bool) or not isinstance(trials, numbers.Integral) or int(trials) < 0:
        raise InputError(f"trials: expected a whole number, the total of finished trials to reach, got {trials!r}.")
    if not isinstance(asynchronous, bool):
        raise InputError(f"asynchronous: expected True or False, got {asynchronous!r}.")
    check_progress(progress)
    _check_call(f, study.space.names)
    times = [
        None if value is None else seconds(name, value) for name, value in (("timeout", timeout), ("lease", lease))
    ]
    plan = Plan(int(trials), pool_size(q), asynchronous, *times)
    executor = adapted(executor)
    kind = kind_of(f, executor, alone=plan.q == 1 and timeout is None)
    inbox = Inbox()
    interrupt = Interrupt(inbox)
    workers = make_workers(kind, f, executor, inbox, interrupt)
    run = Run(study, plan, workers, interrupt, Callbacks(study, progress, callbacks))
    with interrupt.watching(), renewing(study, plan.lease, run.numbers):
        run.go()


def _check_call(f: Objective, names: Iterable[str]) -> None:
    """A function that does not take the study's parameters would fail every trial; say so before the first."""
    if any(map(inspect.iscoroutinefunction, (f, getattr(f, "__call__", None)))):  # noqa: B004
        raise InputError("f: is `async def`; give a function that runs it, such as lambda **p: asyncio.run(f(**p)).")
    try:
        signature = inspect.signature(f)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(**dict.fromkeys(names))
    except TypeError as error:
        raise InputError(f"f: cannot be called with the parameters {', '.join(names)}: {error}.") from None


class Run:
    """One run of a study: what waits, what is running, and what became of the latest trials."""

    def __init__(self, study: Study, plan: Plan, workers: Workers, interrupt: Interrupt, callbacks: Callbacks) -> None:
        self._study, self._plan, self._workers = study, plan, workers
        self._interrupt, self._inbox, self._callbacks = interrupt, interrupt.inbox, callbacks
        self._waiting: deque[Trial] = deque()
        self._running: dict[Future[Any], Trial] = {}
        self._mine: set[int] = set()
        self._repeated: set[int] = set()
        self._teller = Teller(study, callbacks, interrupt)
        self._exhausted, self._held = False, 0
        self._stirred = time.monotonic()
        self._left = False

    def numbers(self) -> list[int]:
        """The trials of this run that are waiting or running."""
        return sorted(self._mine.copy())  # a copy, because leases are renewed by another thread

    def finished(self) -> int:
        """How many trials of the study are told or failed, without those that were added by hand."""
        return look(self._study).finished

    def go(self) -> None:
        """Run to the end; whatever ends it earlier, what has a value is told first."""
        self._callbacks.on_start(self._plan.trials)
        try:
            self._resume()
            while self._step():
                pass
            self._workers.close(now=False)
        except BaseException as error:
            hard = isinstance(error, KeyboardInterrupt) and not isinstance(error, RunInterrupted)
            self._leave(hard=hard)
            if self._teller.unstored:
                raise self._teller.with_unstored(error) from error
            raise
        finally:
            self._callbacks.on_end()

    def _resume(self) -> None:
        """Trials that an earlier run left come first; those on a lease are handed out by `ask` when it is over."""
        missing = max(self._plan.trials - self.finished(), 0)
        self._waiting.extend([trial for trial in self._study.pending if trial.lease is None][:missing])
        if self._waiting:
            log.info("run: %d pending trial(s) of the study come first", len(self._waiting))
            self._mine.update(trial.number for trial in self._waiting)
            self._callbacks.on_ask(self._waiting)
            for trial in self._waiting if self._plan.lease is not None else ():
                self._study.renew(trial, self._plan.lease)

    def _step(self) -> bool:
        """Tell what is done, start what can be started, wait; whether there is more to do."""
        self._settle(0.0)
        self._expire()
        if self._interrupt.noted:
            raise self._interrupted()
        if not self._fill():
            return False
        if self._held and not self._running:
            self._callbacks._call("on_wait", self._held)
        if self._running or self._held:
            self._settle(self._patience())
        return True

    def _fill(self) -> bool:
        """Give free workers something to do; whether there is or was any."""
        if not self._waiting and (self._plan.asynchronous or not self._running):
            self._ask()
            if not self._waiting and not self._running and not self._held:
                return False
        while self._waiting and len(self._running) < self._plan.q and not self._interrupt.noted:
            future = self._workers.submit(self._waiting[0].params)
            self._running[future] = self._waiting.popleft()
            self._stirred = time.monotonic()
            if future.done():  # by a worker that is this thread: its value is told before the next call
                break
        return True

    def _ask(self) -> None:
        """A pool for the free workers. Trials on the lease of another run count, as long as it lives."""
        others = {number: lives for number, lives in leased(self._study).items() if number not in self._mine}
        self._held = sum(others.values())
        wanted = self._plan.trials - self.finished() - len(self._mine) - self._held
        size = min(wanted, self._plan.q - len(self._running))
        if size <= 0 or (self._exhausted and len(others) == self._held):
            self._held = 0 if wanted + self._held <= 0 else self._held
            return
        limit = Limit(self._plan.trials, frozenset(self._mine))
        try:
            pool = ask(self._study, Wish(size, uuid.uuid4().hex, self._plan.lease, limit))
        except SpaceExhausted as error:
            log.warning("run: ends before %d trials: %s", self._plan.trials, error)
            self._exhausted = True
            return
        if not pool:  # others have asked meanwhile, or leases have run out: what is left is counted again
            return self._ask()
        self._waiting.extend(pool)
        self._mine.update(trial.number for trial in pool)
        self._callbacks.on_ask(pool)

    def _settle(self, patience: float) -> None:
        for future in self._inbox.wait(patience):
            if future in self._running:
                self._take(future)

    def _take(self, future: Future[Any]) -> None:
        """Tell what became of a call that is done."""
        trial = self._running.pop(future)
        self._stirred = time.monotonic()
        if (report := self._read(future, trial)) is not None:
            self._finish(trial, report)

    def _read(self, future: Future[Any], trial: Trial) -> Report | None:
        """The report of a call; None where there is none, and the trial waits or stays pending."""
        try:
            report = self._workers.report(future)
        except KeyboardInterrupt:
            self._interrupt.noted = True
            return None
        if self._interrupt.noted and (report is None or report.lost):
            return None  # on a terminal Ctrl-C goes to an engine's workers as well: it is not the trial's fault
        if report is not None:
            return report
        words = trouble(future)
        if trial.number in self._repeated:
            return Report(reason=f"the call did not come through, twice ({words})")
        log.warning("run: trial %d is run again, because its call did not come through (%s)", trial.number, words)
        self._repeated.add(trial.number)
        self._waiting.appendleft(trial)
        return None

    def _finish(self, trial: Trial, report: Report) -> None:
        self._teller.finish(trial, report)
        self._mine.discard(trial.number)

    def _expire(self) -> None:
        """Fail the trials that ran too long."""
        if (timeout := self._plan.timeout) is None:
            return
        now, began = time.monotonic(), {future: self._workers.started(future) for future in self._running}
        for future, since in began.items():
            if since is not None and now - since >= timeout and not future.done():
                trial = self._running.pop(future)
                reason = f"timed out after {timeout:g} seconds; {self._workers.drop(future)}"
                self._finish(trial, Report(reason=reason))
        if any(since is not None for since in began.values()):
            self._stirred = now
        if self._running and self._workers.stuck and now - self._stirred > timeout:
            raise RunStopped(
                f"executor: its workers are held by {self._workers.stuck} trial(s) that timed out, and nothing else "
                'begins; run again with a new executor, or with executor="processes", whose workers can be ended.'
            )

    def _patience(self) -> float:
        """Until when nothing is to be done unless a future is, in seconds."""
        if (timeout := self._plan.timeout) is None or not self._running:
            return LONGEST_WAIT
        began = [self._workers.started(future) for future in self._running]
        left = [timeout - (time.monotonic() - since) if since is not None else timeout / 2 for since in began]
        return max(min(left), 0.01)

    def _leave(self, *, hard: bool) -> None:
        """Tell what has finished, unless Ctrl-C came twice; end the workers."""
        done = [] if hard or self._left else [future for future in self._running if future.done()]
        self._left = True  # what is done from now on was ended by us
        try:
            for future in done:
                try:
                    if (report := self._read(future, self._running[future])) is not None:
                        self._teller.store_last(self._running.pop(future), report)
                except RunStopped:
                    log.debug("run: trial %d stays pending", self._running[future].number)
                except Exception as error:  # the reason for leaving is the one that counts
                    log.warning("run: while it ended: %s", error)
        finally:
            self._workers.close(now=True)

    def _interrupted(self) -> RunInterrupted:
        self._leave(hard=False)
        pending = self._study.counts["pending"]
        return RunInterrupted(
            f"stopped by Ctrl-C: {self.finished()} of {self._plan.trials} trials are finished, {pending} stay pending "
            f"in study {self._study.name!r} ({self._study.url}). The same run again goes on from there, with "
            "the pending ones first."
        )
