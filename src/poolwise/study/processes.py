"""Worker processes of our own: each alone in its pool, so that one that dies or is ended takes no other with it."""

from __future__ import annotations

import contextlib
import functools
import multiprocessing
import os
import signal
import sys
import time
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor
from multiprocessing.process import BaseProcess
from typing import Any

from poolwise.study.calling import Report, begin_worker, check_home, evaluate_kept, keep
from poolwise.study.interrupt import Inbox
from poolwise.study.stops import RunStopped
from poolwise.study.workers import Objective, Params

GRACE = 5.0  # seconds for a process to end by itself
NAP = 0.005


class Processes:
    """Spawned processes, started as they are needed; one that has died is replaced."""

    stuck = 0

    def __init__(self, f: Objective, inbox: Inbox) -> None:
        self._f, self._inbox = f, inbox
        self._idle: list[Worker] = []
        self._busy: dict[Future[Any], Worker] = {}

    def submit(self, params: Params) -> Future[Any]:
        future, worker = self._call(params)
        self._busy[future] = worker
        future.add_done_callback(self._inbox.put)
        return future

    def _call(self, params: Params) -> tuple[Future[Any], Worker]:
        while self._idle:
            worker = self._idle.pop()
            try:
                return worker.call(params), worker
            except BrokenExecutor:  # it died after its last call
                worker.end()
        try:
            worker = Worker(self._f, self._inbox)
            return worker.call(params), worker
        except (BrokenExecutor, OSError) as error:
            raise _no_start(str(error)) from error

    def started(self, future: Future[Any]) -> float | None:
        return self._busy[future].began

    def report(self, future: Future[Any]) -> Report | None:
        worker = self._busy.pop(future)
        try:
            report: Report = future.result()
        except BrokenExecutor:
            worker.end()
            worker.check_start()
            return Report(reason=f"the worker process {worker.death()} during the call")
        except BaseException:
            worker.end()
            raise
        self._idle.append(worker)
        return report

    def drop(self, future: Future[Any]) -> str:
        self._busy.pop(future).end()
        return "its worker process was ended"

    def close(self, *, now: bool) -> None:
        for worker in self._busy.values():
            worker.end()
        if not now:
            for worker in self._idle:
                worker.leave()
            until = time.monotonic() + GRACE
            for worker in self._idle:
                worker.join(until)
        for worker in self._idle:
            worker.end()
        self._busy, self._idle = {}, []


class Worker:
    """One process, with the objective in it."""

    def __init__(self, f: Objective, inbox: Inbox) -> None:
        context = multiprocessing.get_context("spawn")  # never fork: JAX's threads do not survive it
        self._pool = ProcessPoolExecutor(1, mp_context=context, initializer=begin_worker)
        self._ready_at: float | None = None
        self._called_at = 0.0
        self._home = self._pool.submit(check_home, *home_of(f))
        self._taken = self._pool.submit(keep, f)
        self._taken.add_done_callback(lambda _: self._ready(inbox))
        self._process: BaseProcess = next(iter((self._pool._processes or {}).values()))

    def _ready(self, inbox: Inbox) -> None:
        self._ready_at = time.monotonic()
        inbox.wake()

    @property
    def began(self) -> float | None:
        """When the present call began: not before the process was up."""
        return None if self._ready_at is None else max(self._ready_at, self._called_at)

    def call(self, params: Params) -> Future[Any]:
        self._called_at = time.monotonic()
        return self._pool.submit(evaluate_kept, params)

    def check_start(self) -> None:
        """An error if the process never came so far as to have the objective."""
        trouble = None if self._home.exception() else self._home.result()
        if trouble is None and self._taken.exception() is None:
            return
        reason = f"the objective is not found there ({trouble})" if trouble else "its own message is on standard error"
        raise _no_start(reason)

    def death(self) -> str:
        """How the process ended, in words."""
        self.join(time.monotonic() + GRACE)
        code = self._process.exitcode
        if code is None or code >= 0:
            return "ended" if code is None else f"ended with exit code {code}"
        name = signal.Signals(-code).name if -code in list(signal.Signals) else str(-code)
        return f"was killed by {name}{' (out of memory, perhaps)' if name == 'SIGKILL' else ''}"

    def end(self) -> None:
        """End the process now, and what it has started."""
        if sys.platform != "win32" and self._process.pid is not None:
            with contextlib.suppress(ProcessLookupError):  # it has no group of its own yet, or is gone
                os.killpg(self._process.pid, signal.SIGKILL)
        self._process.kill()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def leave(self) -> None:
        """Let an idle process go."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def join(self, until: float) -> None:
        """Wait for the process to end; polled, because its pool waits for it as well."""
        while self._process.exitcode is None and time.monotonic() < until:
            time.sleep(NAP)


def _no_start(reason: str) -> RunStopped:
    return RunStopped(
        f"A worker process could not start: {reason}. The objective must be importable by name, and a script must "
        'call `run` under `if __name__ == "__main__":`, because workers import it. With executor="threads" or "here" '
        "no process is needed. Trials that were to run stay pending."
    )


def home_of(f: Objective) -> tuple[str, str]:
    """The module and the name by which a worker finds an objective, or the class of it."""
    while isinstance(f, functools.partial):
        f = f.func
    named = f if isinstance(getattr(f, "__qualname__", None), str) else type(f)
    return str(named.__module__), str(named.__qualname__)
