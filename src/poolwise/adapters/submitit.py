"""submitit, and so Slurm: its executors as one of `concurrent.futures`, for `study.run`."""

from __future__ import annotations

import contextlib
import logging
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError, Executor, Future, InvalidStateError
from types import FrameType
from typing import Any

from poolwise.study.calling import Report

log = logging.getLogger(__name__)

PREEMPTED = 600.0  # seconds; Slurm lets a job that it puts back into the queue wait for two minutes, unseen by sacct


class JobFuture(Future[Any]):
    """What becomes of a job. Cancelling it ends the job, also one that runs."""

    def __init__(self, job: Any) -> None:
        Future.__init__(self)
        self.job, self.read = job, False
        self.preempted: float | None = None  # since when, by the monotonic clock

    def cancel(self) -> bool:
        """Whether it was not over yet."""
        if self.done():
            return False
        try:
            self.job.cancel(check=False)
        except Exception as error:
            log.warning("submitit: job %s could not be cancelled (%s); it may run on", self.job.job_id, error)
        if not Future.cancel(self):
            with contextlib.suppress(InvalidStateError):
                self.set_exception(CancelledError())
        return True


class SubmititExecutor(Executor):
    """Submits each call as a job; `executor` is a submitit executor, such as `AutoExecutor` or `LocalExecutor`.

    A job that fails, is killed or times out has its error in the future; `study.run` then submits the trial once more.
    `poll` is how often files and states of jobs are looked at, in seconds. Where jobs have several tasks, the first
    one's result counts.
    """

    def __init__(self, executor: Any, *, poll: float = 1.0) -> None:
        self.executor, self.poll = executor, poll
        self._open: list[JobFuture] = []
        self._lock, self._wake = threading.Lock(), threading.Event()
        self._closed = False
        self._thread: threading.Thread | None = None

    def submit(self, f: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """The call as a job; an error here is one of the scheduler's."""
        if self._closed:
            raise RuntimeError("the executor is shut down")
        future = JobFuture(self.executor.submit(call, f, *args, **kwargs))
        with self._lock:
            self._open.append(future)
            if self._thread is None:
                self._thread = threading.Thread(target=self._watch, daemon=True, name="poolwise-submitit")
                self._thread.start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more calls; those that run are waited for, or cancelled."""
        self._closed = True
        with self._lock:
            left, thread = list(self._open), self._thread
        for future in left if cancel_futures else ():
            future.cancel()
        self._wake.set()
        if wait and thread is not None:
            thread.join()

    def _watch(self) -> None:
        """Look at the jobs until none is left; one that was cancelled is left when it has ended."""
        while True:
            with self._lock:
                ahead = list(self._open)
            over = {future for future in ahead if self._is_over(future)}
            with self._lock:
                self._open = [future for future in self._open if future not in over]
                if not self._open:
                    self._thread = None
                    return
            self._wake.wait(self.poll)
            self._wake.clear()

    def _is_over(self, future: JobFuture) -> bool:
        try:
            if future.read:
                return future.done()
            if future.job.done():
                if future.done():
                    return True
                future.read = True
                threading.Thread(target=_read, args=(future, self._wake), daemon=True, name="poolwise-result").start()
            elif future.done():  # cancelled; a preempted job is never done for submitit, as it may come back
                return future.job.state.upper() == "PREEMPTED"
            else:
                self._look(future, future.job.state.upper())
        except Exception as error:  # a scheduler that does not answer now may do so later
            log.warning("submitit: job %s cannot be looked at (%s); trying again", future.job.job_id, error)
        return False

    def _look(self, future: JobFuture, state: str) -> None:
        """Note that a job has begun, or that it was preempted; give up one that does not come back."""
        if state == "RUNNING" and not future.running():
            future.set_running_or_notify_cancel()
        if state != "PREEMPTED":
            future.preempted = None
        elif future.preempted is None:
            future.preempted = time.monotonic()
        elif time.monotonic() - future.preempted > PREEMPTED and not future.job.done(force_check=True):
            if future.job.state.upper() != "PREEMPTED":
                return
            future.job.cancel(check=False)  # should it come back after all, it would be there twice
            with contextlib.suppress(InvalidStateError):
                future.set_exception(RuntimeError(f"job {future.job.job_id} was preempted and did not come back"))


def _read(future: JobFuture, wake: threading.Event) -> None:
    """The result of a job that is done; submitit waits a while for a file that is not there, as disks may be slow."""
    try:
        result = future.job.task(0).result()
    except BaseException as error:
        with contextlib.suppress(InvalidStateError):
            future.set_exception(error)
    else:
        with contextlib.suppress(InvalidStateError):
            future.set_result(result)
    wake.set()


def call(f: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """What a job does. That its scheduler takes the machine away is no failure of the objective.

    submitit raises that from a signal handler, in the midst of the objective: here it is raised once more, so that the
    job is run again, by Slurm or by the run.
    """
    raised: list[BaseException] = []
    if threading.current_thread() is threading.main_thread():
        for number in signal.valid_signals():
            if callable(handler := signal.getsignal(number)):
                signal.signal(number, _noting(handler, raised))
    result = f(*args, **kwargs)
    if raised and isinstance(result, Report) and result.reason is not None:
        raise raised[0]
    return result


def _noting(handler: Callable[[int, FrameType | None], Any], raised: list[BaseException]) -> Callable[..., Any]:
    """A signal handler that also notes what it raises."""

    def handle(number: int, frame: FrameType | None) -> None:
        try:
            handler(number, frame)
        except BaseException as error:
            raised.append(error)
            raise

    return handle
