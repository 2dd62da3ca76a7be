"""Which workers a run has, from what its caller says and from what the objective allows."""

from __future__ import annotations

import ast
import importlib
import logging
import sys
from concurrent.futures import Executor, ProcessPoolExecutor
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

from poolwise.errors import InputError
from poolwise.study.interrupt import Inbox, Interrupt
from poolwise.study.processes import Processes, home_of
from poolwise.study.workers import Engine, Given, Here, Objective, Threads, Workers

log = logging.getLogger(__name__)

WORDS = ("here", "processes", "threads")
ADAPTED = {  # by name: no host is imported
    ("distributed.client", "Client"): ("poolwise.adapters.dask", "DaskExecutor"),
    ("submitit.core.core", "Executor"): ("poolwise.adapters.submitit", "SubmititExecutor"),
}


def adapted(executor: Any) -> Any:
    """An executor as it is given, or what the adapter for it makes of it."""
    for kind in type(executor).__mro__:
        if (home := ADAPTED.get((kind.__module__, kind.__qualname__))) is not None:
            return getattr(importlib.import_module(home[0]), home[1])(executor)
    return executor


def kind_of(f: Any, executor: Any, *, alone: bool) -> str:
    """One of the words, or "given"; `alone` is one trial at a time and without a timeout.

    By default that is "here", and otherwise processes; threads where the objective cannot be sent to processes.
    """
    if not callable(f):
        raise InputError(f"f: expected a function of the parameters, got {type(f).__name__}.")
    if executor is None:
        if alone:
            return "here"
        if (reason := cannot_be_sent(f)) is None:
            return "processes"
        log.warning("run: threads are used instead of processes, because %s", reason)
        return "threads"
    if isinstance(executor, str):
        if executor not in WORDS:
            raise InputError(f"executor: unknown word {executor!r}; use one of {', '.join(map(repr, WORDS))}.")
        if executor == "here" and not alone:
            raise InputError(
                'executor: "here" runs one trial at a time, without a timeout; use "threads" or leave q=1.'
            )
    elif not isinstance(executor, Engine) and not callable(getattr(executor, "submit", None)):
        raise InputError(f"executor: expected one of concurrent.futures, got {type(executor).__name__}.")
    if executor == "processes" or isinstance(executor, ProcessPoolExecutor):
        own = executor == "processes"
        if (reason := cannot_be_sent(f) if own else cannot_be_pickled(f)) is not None:
            raise InputError(f'f: cannot be sent to processes, because {reason}; use executor="threads".')
    return executor if isinstance(executor, str) else "given"


def make_workers(kind: str, f: Objective, executor: Any, inbox: Inbox, interrupt: Interrupt) -> Workers:
    """The workers of that kind."""
    if kind == "here":
        return Here(f, inbox, interrupt)
    if kind == "threads":
        return Threads(f, inbox)
    if kind == "processes":
        return Processes(f, inbox)
    if isinstance(executor, Engine):
        return executor.make_workers(f, inbox)
    given: Executor = executor
    return Given(f, inbox, given)


def cannot_be_sent(f: Objective) -> str | None:
    """Why a spawned process could not call the objective; None if it could."""
    if (reason := cannot_be_pickled(f)) is not None:
        return reason
    path = _script()
    if path is None:
        return "it is defined in an interactive session" if home_of(f)[0] == "__main__" else None
    return None if _guarded(path) else f'{path.name} has no `if __name__ == "__main__":`, and processes would run it'


def cannot_be_pickled(f: Objective) -> str | None:
    """Why no other process can be told of the objective; None if one can."""
    try:
        ForkingPickler.dumps(f)
    except Exception as error:
        return f"it cannot be pickled ({error})"
    return None


def _script() -> Path | None:
    """The script that spawned processes import before anything else, if there is one."""
    main = sys.modules["__main__"]
    spec, path = getattr(main, "__spec__", None), getattr(main, "__file__", None)
    if path is None or (spec is not None and f".{spec.name}".endswith(".__main__")):
        return None
    return Path(path)


def _guarded(script: Path) -> bool:
    """Whether a script tells being run from being imported; one that cannot be read is taken to."""
    try:
        tree = ast.parse(script.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return True
    tests = [node.test for node in ast.walk(tree) if isinstance(node, ast.If)]
    return any(isinstance(part, ast.Name) and part.id == "__name__" for test in tests for part in ast.walk(test))
