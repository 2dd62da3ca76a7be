"""Who calls the objective: this thread, other threads, processes of our own, or an executor that was given."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor
from typing import Any, Protocol, TypeAlias, runtime_checkable

from poolwise.study.calling import Report, evaluate
from poolwise.study.interrupt import Inbox, Interrupt
from poolwise.study.stops import RunStopped

Objective: TypeAlias = Callable[..., Any]
Params: TypeAlias = Mapping[str, Any]


@runtime_checkable
class Workers(Protocol):
    """They take calls, each a future that goes to the inbox when it is done."""

    def submit(self, params: Params) -> Future[Any]:
        """Call the objective."""

    def started(self, future: Future[Any]) -> float | None:
        """When the call began, by the monotonic clock; None while it waits."""

    def report(self, future: Future[Any]) -> Report | None:
        """What became of a call that is done; None if it never came to the objective, and may be repeated."""

    def drop(self, future: Future[Any]) -> str:
        """Give up a call, and say what becomes of it."""

    @property
    def stuck(self) -> int:
        """How many calls that were given up still hold a worker."""

    def close(self, *, now: bool) -> None:
        """Let the workers go; with `now`, also those that are busy."""


@runtime_checkable
class Engine(Protocol):
    """What an adapter gives for an executor: it has workers of its own kind for a run."""

    def make_workers(self, f: Objective, inbox: Inbox) -> Workers:
        """Workers that call the objective; an error if they could not."""


def trouble(future: Future[Any]) -> str:
    """Why a call did not come through, in words."""
    error = None if future.cancelled() else future.exception()
    return "the executor cancelled the call" if error is None else f"{type(error).__name__}: {error}"


class Here:
    """Calls the objective in this thread: `submit` returns when it is done."""

    stuck = 0

    def __init__(self, f: Objective, inbox: Inbox, interrupt: Interrupt) -> None:
        self._f, self._inbox, self._interrupt = f, inbox, interrupt

    def submit(self, params: Params) -> Future[Any]:
        future: Future[Any] = Future()
        future.add_done_callback(self._inbox.put)
        try:
            with self._interrupt.raising():
                report = evaluate(self._f, params)
            future.set_result(report)
        except KeyboardInterrupt as error:
            future.set_exception(error)
        return future

    def started(self, future: Future[Any]) -> float | None:
        return None

    def report(self, future: Future[Any]) -> Report | None:
        return future.result()

    def drop(self, future: Future[Any]) -> str:
        raise NotImplementedError("a call in this thread has no timeout")

    def close(self, *, now: bool) -> None:
        pass


class Threads:
    """A thread for each call. One that is given up cannot be ended, but holds nobody back: the next has its own."""

    stuck = 0

    def __init__(self, f: Objective, inbox: Inbox) -> None:
        self._f, self._inbox = f, inbox
        self._began: dict[Future[Any], float] = {}

    def submit(self, params: Params) -> Future[Any]:
        future: Future[Any] = Future()
        future.add_done_callback(self._inbox.put)
        self._began[future] = time.monotonic()
        threading.Thread(target=self._call, args=(future, params), daemon=True, name="poolwise-worker").start()
        return future

    def _call(self, future: Future[Any], params: Params) -> None:
        try:
            future.set_result(evaluate(self._f, params))
        except BaseException as error:
            future.set_exception(error)

    def started(self, future: Future[Any]) -> float | None:
        return self._began.get(future)

    def report(self, future: Future[Any]) -> Report | None:
        self._began.pop(future, None)
        return future.result()

    def drop(self, future: Future[Any]) -> str:
        self._began.pop(future, None)
        return "a thread cannot be ended, so it may still be running"

    def close(self, *, now: bool) -> None:
        pass


class Given:
    """An executor of the caller's: it is neither repaired nor shut down here."""

    def __init__(self, f: Objective, inbox: Inbox, executor: Executor) -> None:
        self._f, self._inbox, self._executor = f, inbox, executor
        self._began: dict[Future[Any], float | None] = {}
        self._dropped: list[Future[Any]] = []

    def submit(self, params: Params) -> Future[Any]:
        try:
            future: Future[Any] = self._executor.submit(evaluate, self._f, params)
        except BrokenExecutor as error:
            raise self._broken(error) from error
        except RuntimeError as error:
            raise RunStopped(f"executor: it takes no more calls ({error}); run again with a new one.") from error
        self._began[future] = None
        future.add_done_callback(self._inbox.put)
        return future

    def started(self, future: Future[Any]) -> float | None:
        if self._began.get(future) is None and future.running():
            self._began[future] = time.monotonic()
        return self._began.get(future)

    def report(self, future: Future[Any]) -> Report | None:
        self._began.pop(future, None)
        try:
            return future.result()
        except BrokenExecutor as error:
            raise self._broken(error) from error
        except Exception:  # cancelled, or lost with its worker: not what the objective did
            return None

    def drop(self, future: Future[Any]) -> str:
        self._began.pop(future, None)
        if future.cancel():
            return "it was cancelled"
        self._dropped.append(future)
        return "it may still be running, as the executor's workers cannot be ended from here"

    @property
    def stuck(self) -> int:
        self._dropped = [future for future in self._dropped if not future.done()]
        return len(self._dropped)

    def close(self, *, now: bool) -> None:
        for future in self._began:
            future.cancel()

    def _broken(self, error: BaseException) -> RunStopped:
        own = " With executor='processes' only the trial that ends its worker is lost."
        return RunStopped(
            f"executor: it is broken ({' '.join(str(error).split())}). Perhaps an objective ended its process, or the "
            "memory is full. The trials that were running stay pending: run again with a new executor, and they come "
            f"first.{own if isinstance(self._executor, ProcessPoolExecutor) else ''}"
        )
