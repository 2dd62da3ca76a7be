"""What a worker does: call the objective and read what it returns. Plain Python only, so that workers start light."""

from __future__ import annotations

import importlib
import math
import multiprocessing
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

FRAMES = 3  # of a traceback, the innermost

_kept: list[Callable[..., Any]] = []  # the objective of this worker process, sent once


class Report(NamedTuple):
    """What became of a call: a value, perhaps with its standard error, or the reason why there is none.

    `lost` says that the worker was lost, of which the objective need not be the cause.
    """

    value: float | None = None
    sem: float | None = None
    reason: str | None = None
    lost: bool = False

    def __str__(self) -> str:
        error = "" if self.sem is None else f" (sem {self.sem!r})"
        return f"{self.value!r}{error}" if self.reason is None else f"failed, {self.reason.splitlines()[0]}"


def evaluate(f: Callable[..., Any], params: Mapping[str, Any]) -> Report:
    """Call the objective; whatever it does, short of ending the process or Ctrl-C, is reported.

    Panics of other languages and a task's end are no `Exception`; left alone they would come back with each run.
    """
    try:
        return read(f(**params))
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return Report(reason=explained(error))


def read(returned: Any) -> Report:
    """A number, (number, sem), or a mapping with "value" and perhaps "sem"; anything else is a failure."""
    value, sem = returned, None
    if isinstance(returned, Mapping):
        if "value" not in returned:
            return Report(reason=f'the objective returned a mapping without "value": {_brief(returned)}')
        value, sem = returned["value"], returned.get("sem")
    elif isinstance(returned, tuple):
        if len(returned) != 2:
            return Report(reason=f"the objective returned a tuple that is not (value, sem): {_brief(returned)}")
        value, sem = returned
    number, error = _number(value), None if sem is None else _number(sem)
    if number is None:
        return Report(reason=f"the objective returned no number but {_brief(value)}")
    if not math.isfinite(number):
        return Report(reason=f"the objective returned {number}")
    if sem is not None and (error is None or not 0 <= error < math.inf):
        return Report(reason=f"the objective returned {number!r} with a standard error that is none: {_brief(sem)}")
    return Report(number, error)


def explained(error: BaseException) -> str:
    """An exception in words: its type and message, then where it was raised."""
    head = "".join(traceback.format_exception_only(error)).strip()
    frames = traceback.extract_tb(error.__traceback__)[1:]  # the first is `evaluate`
    return "\n".join([head, *"".join(traceback.format_list(frames[-FRAMES:])).splitlines()])


def _number(value: Any) -> float | None:
    if isinstance(value, str | bytes | bytearray):
        return None
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return None


def _brief(value: Any) -> str:
    text = repr(value)
    return f"{text if len(text) <= 100 else text[:100] + '...'} ({type(value).__name__})"


def begin_worker() -> None:
    """Out of Ctrl-C's way, which the parent answers; and gone, with what the objective started, when the parent is."""
    if sys.platform == "win32":
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    else:
        os.setsid()
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is None:
        return
    parent.join()
    if sys.platform != "win32":
        os.killpg(os.getpgrp(), signal.SIGKILL)
    os._exit(1)


def check_home(module: str, name: str) -> str | None:
    """Why an objective of that name cannot be found in this process; None if it can."""
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def keep(f: Callable[..., Any]) -> None:
    """Take the objective, for all calls to come."""
    _kept[:] = [f]


def evaluate_kept(params: Mapping[str, Any]) -> Report:
    """Call the objective that was taken before."""
    return evaluate(_kept[0], params)
