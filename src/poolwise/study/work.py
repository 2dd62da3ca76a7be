"""A worker: takes one trial after the other from a study that many workers share, until its budget is reached."""

from __future__ import annotations

import contextlib
import logging
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import FrameType
from typing import Any, TypeVar

from sqlalchemy.engine import URL

from poolwise.space.errors import SpaceExhausted
from poolwise.study.apart import ask_apart
from poolwise.study.asking import Wish
from poolwise.study.callbacks import Callbacks
from poolwise.study.calling import Report
from poolwise.study.choosing import kind_of, make_workers
from poolwise.study.errors import ConflictError, StorageUnavailable
from poolwise.study.interrupt import LONGEST_WAIT, Inbox, Interrupt
from poolwise.study.leases import Board, look, renewing, take, waiting_lease
from poolwise.study.run import _check_call
from poolwise.study.stops import RunInterrupted
from poolwise.study.study import Study
from poolwise.study.telling import WAITS, Teller
from poolwise.study.trial import Trial
from poolwise.study.turn import turn
from poolwise.study.workers import Workers, trouble

log = logging.getLogger(__name__)

T = TypeVar("T")

FIRST_NAP, LONGEST_NAP = 0.05, 2.0  # seconds between looks at a study that has nothing to take
TOGETHER = 0.5  # seconds within which a scheduler that ends a job has signalled all of its processes


@dataclass(frozen=True)
class Shift:
    """How much is worked on, and how. The worker leaves when it has found nothing to do for `idle` seconds."""

    trials: int
    q: int = 1
    lease: float = 60.0
    asynchronous: bool = False
    timeout: float | None = None
    idle: float | None = None

    def pool_size(self, board: Board) -> int:
        """How many trials to ask for now: none as long as there are some to take, or others have to finish first.

        Pools are finished before the next, or, if asynchronous, filled up to q that are running.
        """
        missing = self.trials - board.finished - board.held
        if board.free or missing <= 0 or (board.held and not self.asynchronous):
            return 0
        return min(missing, max(1, self.q - board.held))


@dataclass(frozen=True)
class Means:
    """What a worker works with: the study's whole address, the objective, who calls it, and what ends the calls.

    `watch` has the methods of a callback, and `on_look(study, board)`.
    """

    url: str | URL
    objective: Callable[..., Any]
    executor: Any
    watch: Any = None
    end: Callable[[], None] = lambda: None


def work(study: Study, shift: Shift, means: Means) -> None:
    """Take trials, have them run and tell them, until so many of the study are finished.

    Ctrl-C, SIGTERM and SIGHUP give the trial back and raise `RunInterrupted`.
    """
    _check_call(means.objective, study.space.names)
    kind = kind_of(means.objective, means.executor, alone=False)
    interrupt = Interrupt(Inbox())
    workers = make_workers(kind, means.objective, means.executor, interrupt.inbox, interrupt)
    worker = Worker(study, shift, means, workers, interrupt)
    with interrupt.watching(), _terminating(interrupt), renewing(study, shift.lease, worker.numbers):
        worker.go()


@contextlib.contextmanager
def _terminating(interrupt: Interrupt) -> Iterator[None]:
    """Take SIGTERM and SIGHUP as Ctrl-C: of schedulers, some time before they kill, and of a terminal that closes."""

    def note(number: int, frame: FrameType | None) -> None:
        again, interrupt.noted = interrupt.noted, True
        interrupt.inbox.wake()
        if again:
            raise KeyboardInterrupt

    with answered(note):
        yield


@contextlib.contextmanager
def answered(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Have SIGTERM and SIGHUP handled, where they are not ignored; SIGHUP once, as kernel and shell both send it."""

    def handle(number: int, frame: FrameType | None) -> None:
        if number != signal.SIGTERM:
            signal.signal(number, signal.SIG_IGN)
        handler(number, frame)

    found = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    before = {number: signal.getsignal(number) for number in found}
    mine = threading.current_thread() is threading.main_thread()
    taken = [number for number in found if mine and before[number] not in (signal.SIG_IGN, None)]
    for number in taken:
        signal.signal(number, handle)
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, before[number])


class Worker:
    """One worker, with one trial at a time."""

    def __init__(self, study: Study, shift: Shift, means: Means, workers: Workers, interrupt: Interrupt) -> None:
        self._study, self._shift, self._means, self._workers = study, shift, means, workers
        self._interrupt, self._inbox = interrupt, interrupt.inbox
        self._callbacks = Callbacks(study, means.watch, ())
        self._teller = Teller(study, self._callbacks, interrupt)
        self._mine: int | None = None
        self._exhausted: int | None = None  # the number of pools after which no experiment was left
        self._nap, self._busy_at = FIRST_NAP, time.monotonic()

    def numbers(self) -> list[int]:
        """The trial that this worker has."""
        mine = self._mine
        return [] if mine is None else [mine]

    def go(self) -> None:
        """Work to the end; a trial that is not finished is given back."""
        self._callbacks.on_start(self._shift.trials)
        try:
            while self._step():
                pass
            self._workers.close(now=False)
        except BaseException as error:
            self._leave()
            if self._teller.unstored:
                raise self._teller.with_unstored(error) from error
            raise
        finally:
            self._callbacks.on_end()

    def _step(self) -> bool:
        """Do what there is to do; whether there may be more."""
        if self._interrupt.noted:
            raise RunInterrupted("the worker was stopped; it had no trial.")
        board = self._patiently(lambda: look(self._study))
        self._callbacks._call("on_look", board)
        if board.finished >= self._shift.trials:
            return False
        if self._did_something(board):
            self._nap, self._busy_at = FIRST_NAP, time.monotonic()
            return True
        return not self._is_over(board) and self._wait()

    def _did_something(self, board: Board) -> bool:
        if board.free:
            trial = self._patiently(lambda: take(self._study, self._shift.lease, self._shift.trials))
            if trial is not None:
                self._run(trial)
            return trial is not None
        size = self._shift.pool_size(board)
        return size > 0 and board.pools != self._exhausted and self._ask(board, size)

    def _is_over(self, board: Board) -> bool:
        """Whether nothing can come any more."""
        over = board.pools == self._exhausted and not board.held and not board.free
        if over:
            log.warning("work: ends before %d trials, as no experiment is left in the space", self._shift.trials)
        return over

    def _wait(self) -> bool:
        """Wait for others; whether to stay."""
        if self._shift.idle is not None and time.monotonic() - self._busy_at > self._shift.idle:
            log.warning("work: leaves, as there was nothing to do for %g seconds", self._shift.idle)
            return False
        self._inbox.wait(self._nap * random.uniform(0.5, 1.0))
        self._nap = min(1.5 * self._nap, LONGEST_NAP)
        return True

    def _ask(self, board: Board, size: int) -> bool:
        """Ask for a pool that all can take from, if it is this worker's turn; who has seen as many pools gets the same.

        A model is made in another process; without one nothing heavy is loaded.
        """
        wish = Wish(size, f"poolwise-pool-{board.pools}", waiting_lease(self._study))
        with turn(self._study) as mine:
            if not mine:
                return False
            try:
                self._patiently(lambda: self._ask_for(wish))
            except SpaceExhausted:
                self._exhausted = board.pools
            except ConflictError:  # answered before, with another size
                log.info("work: another worker has asked meanwhile")
        return True

    def _ask_for(self, wish: Wish) -> None:
        if self._study.settings.acquisition == "fill" or not self._study.counts["told"]:
            self._study.ask(wish.q, request_id=wish.request_id, lease=wish.lease)
        else:
            ask_apart(self._means.url, self._study.name, wish, lambda: self._interrupt.noted)

    def _run(self, trial: Trial) -> None:
        """Run a trial that was taken, and tell."""
        self._mine = trial.number
        self._callbacks.on_ask([trial])
        report = self._call(trial)
        try:
            self._teller.finish(trial, report)
        finally:
            self._mine = None

    def _call(self, trial: Trial) -> Report:
        future, timeout = self._workers.submit(trial.params), self._shift.timeout
        while not future.done():
            self._inbox.wait(LONGEST_WAIT if timeout is None else min(LONGEST_WAIT, timeout / 4))
            if future.done():
                break
            if self._interrupt.noted:
                raise self._stopped(trial)
            began = self._workers.started(future)
            if timeout is not None and began is not None and time.monotonic() - began >= timeout:
                return Report(reason=f"timed out after {timeout:g} seconds; {self._workers.drop(future)}")
        report = self._workers.report(future)
        if report is None:
            report = Report(reason=f"the call did not come through ({trouble(future)})")
        if report.reason is not None:
            self._interrupt.sleep(TOGETHER)
            if self._interrupt.noted:  # what ends the worker may have ended the call: it is not the trial's fault
                raise self._stopped(trial)
        return report

    def _stopped(self, trial: Trial) -> RunInterrupted:
        return RunInterrupted(f"the worker was stopped; trial {trial.number} is given back.")

    def _leave(self) -> None:
        """End what is running; `renewing` gives the trial back after that."""
        self._means.end()
        self._workers.close(now=True)

    def _patiently(self, call: Callable[[], T]) -> T:
        """What a call returns, with several attempts if the store is away, each as long as the study is patient."""
        for wait in WAITS:
            try:
                return call()
            except StorageUnavailable as error:
                if self._interrupt.noted:
                    raise
                log.warning("work: %s; trying again", error)
                self._interrupt.sleep(wait)
        return call()
