"""A study on a Ray cluster: `study.run(f, trials=64, q=8, executor=RayExecutor(num_gpus=1))`.

Workers import this module, so it needs Ray only inside functions, and nothing of Poolwise that needs JAX.
"""

from __future__ import annotations

import importlib
import logging
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeAlias, no_type_check

from poolwise.errors import InputError, MissingExtra
from poolwise.study.calling import Report, evaluate
from poolwise.study.interrupt import Inbox
from poolwise.study.stops import RunStopped
from poolwise.study.workers import Objective, Params

log = logging.getLogger(__name__)

Number: TypeAlias = Any  # an int or a float; checked here, with a message


@dataclass(frozen=True)
class RayExecutor:
    """The Ray cluster that this process is connected to, and what each call of the objective needs of it.

    `resources` are those that the cluster's nodes were given by name. `retries` is how often a call is tried again
    whose worker died. Call `ray.init()` before the first ask: it forks, and JAX has threads by then.
    """

    num_cpus: Number = 1
    num_gpus: Number = 0
    resources: Mapping[str, Number] | None = None
    retries: int = 0

    def __post_init__(self) -> None:
        needs = {"num_cpus": self.num_cpus, "num_gpus": self.num_gpus, "retries": self.retries}
        for name, value in (needs | dict(self.resources or {})).items():
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
                raise InputError(f"{name}: expected a number, zero or more, got {value!r}.")

    def make_workers(self, f: Objective, inbox: Inbox) -> RayWorkers:
        """The workers of a run."""
        if not _ray().is_initialized():
            raise InputError("executor: this process is connected to no Ray cluster; call ray.init() first.")
        there = _ray().cluster_resources()
        for name, amount in {"CPU": self.num_cpus, "GPU": self.num_gpus, **(self.resources or {})}.items():
            if amount > there.get(name, 0):
                log.warning(
                    "run: a call needs %g %s, of which the Ray cluster has %g", amount, name, there.get(name, 0)
                )
        return RayWorkers(f, inbox, self)


class RayWorkers:
    """Tasks on a Ray cluster, each with a thread here that waits for it. A task that is given up is ended."""

    stuck = 0

    def __init__(self, f: Objective, inbox: Inbox, executor: RayExecutor) -> None:
        self._ray, self._inbox = _ray(), inbox
        self._tasks: dict[Future[Any], Any] = {}
        self._began: dict[Future[Any], float] = {}
        self._call = self._ray.remote(call).options(
            num_cpus=executor.num_cpus,
            num_gpus=executor.num_gpus,
            resources=dict(executor.resources or {}),
            max_retries=executor.retries,
            num_returns="streaming",
        )
        try:
            self._f = self._ray.put(f)  # sent once to each node
        except TypeError as error:
            raise InputError(f"f: cannot be sent to Ray's workers, because it cannot be pickled ({error}).") from None

    def submit(self, params: Params) -> Future[Any]:
        if not self._ray.is_initialized():
            raise RunStopped(
                "executor: this process has lost its Ray cluster; call ray.init() and run again. Trials that were "
                "running stay pending, and come first."
            )
        future: Future[Any] = Future()
        future.add_done_callback(self._inbox.put)
        self._tasks[future] = task = self._call.remote(self._f, params)
        threading.Thread(target=self._follow, args=(task, future), daemon=True, name="poolwise-ray").start()
        return future

    def _follow(self, task: Iterator[Any], future: Future[Any]) -> None:
        try:
            self._ray.get(next(task))
            self._began[future] = time.monotonic()
            self._inbox.wake()
            future.set_result(self._ray.get(next(task)))
        except BaseException as error:
            future.set_exception(error)

    def started(self, future: Future[Any]) -> float | None:
        return self._began.get(future)

    def report(self, future: Future[Any]) -> Report | None:
        self._forget(future)
        exceptions = self._ray.exceptions
        try:
            return future.result()
        except exceptions.TaskCancelledError:  # by somebody else: not what the objective did
            return None
        except exceptions.RayTaskError as error:
            cause = f"{type(error.cause).__name__}: {error.cause}"
            return Report(reason=f"the call did not come to the objective ({cause})")
        except exceptions.RayError as error:
            words = " ".join(str(error).split()) or "no further word"
            return Report(reason=f"the worker was lost during the call ({type(error).__name__}: {words})", lost=True)
        except (Exception, SystemExit) as error:  # Ray ends threads that wait for it with SystemExit
            if not self._ray.is_initialized():  # and the call is gone with it; the next one says so
                return None
            return Report(reason=f"the call was lost ({type(error).__name__}: {error})", lost=True)

    def drop(self, future: Future[Any]) -> str:
        self._ray.cancel(self._forget(future), force=True)
        return "its worker was ended"

    def _forget(self, future: Future[Any]) -> Any:
        self._began.pop(future, None)
        return self._tasks.pop(future)

    def close(self, *, now: bool) -> None:
        for future in list(self._tasks) if self._ray.is_initialized() else []:
            self.drop(future)


@no_type_check  # a checker would wrap it, and Ray must see that it is a generator
def call(f: Objective, params: Params) -> Iterator[Report | None]:
    """What a worker does: say that it begins, then call the objective."""
    yield None
    yield evaluate(f, params)


def _ray() -> Any:
    try:
        return importlib.import_module("ray")
    except ImportError:
        raise MissingExtra("This needs Ray, which is not installed: pip install 'poolwise[ray]'") from None
