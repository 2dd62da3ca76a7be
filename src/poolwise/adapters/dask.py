"""A study on a Dask cluster: `study.run(f, trials=64, q=8, executor=client)`, with a client of `dask.distributed`.

Workers import this module, so it needs Dask only inside functions, and nothing of Poolwise that needs JAX.
"""

from __future__ import annotations

import asyncio
import importlib
import pkgutil
import time
import uuid
from collections.abc import Mapping
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass
from typing import Any

from poolwise.errors import InputError, MissingExtra
from poolwise.study.calling import Report, evaluate
from poolwise.study.interrupt import Inbox
from poolwise.study.stops import RunStopped
from poolwise.study.workers import Objective, Params


@dataclass(frozen=True)
class DaskExecutor:
    """A Dask client, and how calls are sent to its workers. A plain client as `executor=` means the defaults.

    `resources` is what a worker must have free for a call, such as `{"GPU": 1}`. `retries` is how often a call is
    tried again that fails before it comes to the objective. How often one is tried again whose worker died is a
    setting of the scheduler, `distributed.scheduler.allowed-failures`.
    """

    client: Any
    resources: Mapping[str, Any] | None = None
    retries: int = 1

    def __post_init__(self) -> None:
        if not isinstance(self.client, _dask().Client) or self.client.asynchronous:
            raise InputError(
                f"client: expected a dask.distributed.Client that is not asynchronous, got {self.client!r}."
            )

    def make_workers(self, f: Objective, inbox: Inbox) -> DaskWorkers:
        """The workers of a run."""
        found = self.client.run(pkgutil.resolve_name, "poolwise.version:__version__", on_error="return")
        for worker, version in found.items():
            if not isinstance(version, str):
                raise InputError(
                    f"executor: the Dask worker {worker} cannot import Poolwise ({version}); install it there."
                )
        try:
            sent: bytes = _packing().dumps(f)
        except Exception as error:
            raise InputError(f"f: cannot be sent to Dask's workers, because it cannot be pickled ({error}).") from None
        return DaskWorkers(sent, inbox, self)


class DaskWorkers:
    """The workers of a Dask cluster. Each call is a task of its own that is never taken from a cache."""

    def __init__(self, f: bytes, inbox: Inbox, executor: DaskExecutor) -> None:
        self._f, self._inbox, self._executor, self._client = f, inbox, executor, executor.client
        self._run = f"poolwise-{uuid.uuid4().hex}"
        self._tasks: dict[Future[Any], Any] = {}
        self._began: dict[str, float] = {}
        self._dropped: list[Future[Any]] = []
        self._client.subscribe_topic(self._run, self._note)

    def submit(self, params: Params) -> Future[Any]:
        if self._client.status != "running":
            raise RunStopped(
                f"executor: the Dask client has no connection to its scheduler (it is {self._client.status}); connect "
                "a new one and run again. Trials that were running stay pending, and come first."
            )
        key = f"poolwise-{uuid.uuid4().hex}"
        chosen = {"resources": dict(self._executor.resources)} if self._executor.resources else {}
        task = self._client.submit(
            call, self._run, key, self._f, params, key=key, pure=False, retries=self._executor.retries, **chosen
        )
        future: Future[Any] = Future()
        future.add_done_callback(self._inbox.put)
        self._tasks[future] = task
        self._client.loop.add_callback(_relay, task, future)
        return future

    def _note(self, event: tuple[float, str]) -> None:
        """A worker says that it begins with a call."""
        self._began.setdefault(event[1], time.monotonic())
        self._inbox.wake()

    def started(self, future: Future[Any]) -> float | None:
        return self._began.get(self._tasks[future].key)

    def report(self, future: Future[Any]) -> Report | None:
        self._tasks.pop(future)
        try:
            return future.result()
        except (CancelledError, OSError):  # cancelled, or lost on its way: not what the objective did
            return None
        except _dask().KilledWorker as error:
            return Report(
                reason=f"every worker that had the call died, {error.allowed_failures + 1} of them; the last was "
                f"{error.last_worker.address} (KilledWorker; out of memory, perhaps)",
                lost=True,
            )
        except Exception as error:
            return Report(reason=f"the call did not come to the objective ({type(error).__name__}: {error})")

    def drop(self, future: Future[Any]) -> str:
        self._dropped.append(future)
        return "it may still be running, as Dask's workers cannot be ended from here"

    @property
    def stuck(self) -> int:
        return sum(not future.done() for future in self._dropped)

    def close(self, *, now: bool) -> None:
        tasks, self._tasks = list(self._tasks.values()), {}
        if self._client.status == "running":
            self._client.unsubscribe_topic(self._run)
            if tasks:
                self._client.cancel(tasks)


def call(run: str, key: str, f: bytes, params: Params) -> Report:
    """What a worker does: say that it begins, then call the objective.

    The objective is unpacked here and not by Dask, whose workers lose their scheduler over one that they cannot load.
    """
    _dask().get_worker().log_event(run, key)
    return evaluate(_packing().loads(f), params)


async def _relay(task: Any, future: Future[Any]) -> None:
    """Hand on what becomes of a task; runs in the client's own thread."""
    try:
        future.set_result(await task)
    except asyncio.CancelledError:  # the client's thread ends
        future.set_exception(CancelledError("the Dask client was closed"))
        raise
    except BaseException as error:
        future.set_exception(error)


def _packing() -> Any:
    return importlib.import_module("distributed.protocol.pickle")


def _dask() -> Any:
    try:
        return importlib.import_module("distributed")
    except ImportError:
        raise MissingExtra("This needs Dask, which is not installed: pip install 'poolwise[dask]'") from None
