"""The objective as a command: an argument list with `{name}` placeholders, run without a shell, its value printed last.

Each call is a process in a group of its own, so that a timeout or an interrupt ends it with all its children.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from poolwise.cli.command import FileError
from poolwise.cli.terminal import printable, spelled
from poolwise.errors import PoolwiseError
from poolwise.space.errors import did_you_mean
from poolwise.study.calling import Report, read

PLACEHOLDER = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
PYTHON = "python"  # {python} is the Python that runs Poolwise, unless a parameter has that name
TAIL = 65_536  # bytes of output that are looked at
QUOTED = 1_000  # characters of it that a reason quotes
GRACE = 3.0  # seconds between asking a process to end and ending it


class CannotStart(PoolwiseError, OSError):
    """A command that cannot be started, which says nothing about an experiment; the run ends."""


class CommandFailed(PoolwiseError, RuntimeError):
    """A command that gave no value; the message says why, and quotes the end of its output."""


def check_command(arguments: Sequence[str], names: Sequence[str], varying: Iterable[str]) -> None:
    """Refuse an unknown placeholder, a lone brace, and a parameter that varies but is passed on nowhere."""
    if not arguments or not arguments[0].strip():
        raise FileError('command: is empty; write the program and its arguments, ["python", "train.py", "--lr={lr}"].')
    used, known = set(), [*names, PYTHON]
    for argument in arguments:
        if "\0" in argument:
            raise FileError("command: an argument has a zero byte in it.")
        for match in PLACEHOLDER.finditer(argument):
            if match[0] in ("{", "}"):
                raise FileError(
                    f"command: {argument!r} has a lone {match[0]}; write {{{{ and }}}} for braces themselves."
                )
            if match[1] is not None and match[1] not in known:
                hint = did_you_mean(match[1], known) or f" The space has {', '.join(names)}."
                raise FileError(f"command: {argument!r} names {match[0]}, which is no parameter.{hint}")
            used.add(match[1])
    if unused := [name for name in varying if name not in used]:
        raise FileError(f"command: does not use {', '.join(unused)}; add {{{unused[0]}}} to one of its arguments.")


def check_program(arguments: Sequence[str], folder: Path) -> None:
    """Refuse a program that is not there, or may not be run; one that is a placeholder is not looked for."""
    program = arguments[0]
    if PLACEHOLDER.search(program):
        return
    here = folder / program
    path = os.path.dirname(program) != ""
    if shutil.which(str(here) if path else program) is not None:
        return
    if here.is_file():
        way = f"['{{python}}', '{program}', ...] if it is for Python, or {'' if path else f'./{program} and '}chmod +x"
        raise FileError(f"command: {program!r} is a file, but no program that can be started; use {way}.")
    where = f"in {folder}" if path else "on the PATH"
    hint = " {python} is the Python that runs Poolwise." if program.startswith("python") else ""
    raise FileError(f"command: there is no program {program!r} {where}; check its spelling.{hint}")


def filled(arguments: Sequence[str], params: Mapping[str, Any]) -> list[str]:
    """The arguments with values in place; each stays one argument, whatever a value holds."""

    def value(match: re.Match[str]) -> str:
        return match[0][0] if match[1] is None else spelled(known[match[1]])

    known = {PYTHON: sys.executable, **params}
    return [PLACEHOLDER.sub(value, argument) for argument in arguments]


def read_value(output: str, objective: str) -> tuple[float, float | None]:
    """The value on the last line of an output, and its standard error where a JSON object there has one."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    if not lines:
        raise CommandFailed("the command printed nothing; its last line should be the value.")
    last = lines[-1]
    try:
        content = json.loads(last) if last.startswith("{") else float(last)
    except (ValueError, RecursionError):
        raise CommandFailed(f"the last line of the output is no value: {_quoted(last)}") from None
    if not isinstance(content, dict):
        return float(content), None
    key = objective if objective in content else "value"
    if key not in content:
        raise CommandFailed(f"the JSON on the last line has neither {objective!r} nor 'value': {_quoted(last)}")
    sem = content.get("sem")
    return _number(key, content[key]), None if sem is None else _number("sem", sem)


def _number(key: str, value: Any) -> float:
    if value is None and key != "sem":
        return math.nan
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise CommandFailed(f"the JSON on the last line has {_quoted(repr(value))} as {key!r}, which is no number.")
    try:
        return float(value)
    except OverflowError:
        return math.inf


@dataclass
class Processes:
    """The processes that are running now, so that all of them can be ended at once."""

    ended: bool = False
    _running: set[subprocess.Popen[bytes]] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def start(self, arguments: Sequence[str], folder: Path, output: IO[bytes], errors: IO[bytes]) -> Any:
        """A new process in a group of its own."""
        with self._lock:
            if self.ended:
                raise CommandFailed("the run was interrupted before the command began.")
            process = subprocess.Popen(
                arguments,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                start_new_session=True,
            )
            self._running.add(process)
            return process

    def forget(self, process: Any) -> None:
        """A process that has ended."""
        with self._lock:
            self._running.discard(process)

    def end(self) -> None:
        """End all of them, and start no more."""
        with self._lock:
            self.ended = True
            running = list(self._running)
        end(*running)


def end(*processes: subprocess.Popen[bytes]) -> None:
    """End processes and their children: asked first, then forced."""
    for process in processes:
        _signal(process, "SIGTERM")
    until = time.monotonic() + GRACE
    for process in processes:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(max(0.0, until - time.monotonic()))
        _signal(process, "SIGKILL")


def _signal(process: subprocess.Popen[bytes], name: str) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if os.name == "posix":
            os.killpg(process.pid, getattr(signal, name))
        else:
            process.kill()


@dataclass(frozen=True)
class Started:
    """A process, and what it writes."""

    process: subprocess.Popen[bytes]
    output: IO[bytes]
    errors: IO[bytes]


@dataclass(frozen=True)
class Command:
    """The objective: fills the arguments, runs them in the study's folder, and returns the value it printed."""

    arguments: tuple[str, ...]
    folder: Path
    objective: str
    timeout: float | None = None
    processes: Processes = field(default_factory=Processes)

    def __call__(self, **params: Any) -> tuple[float, float | None]:
        """The value and its standard error."""
        return self.value(self.start(params))

    def start(self, params: Mapping[str, Any]) -> Started:
        """The process for some parameters."""
        arguments = filled(self.arguments, params)
        with contextlib.ExitStack() as files:
            output, errors = (files.enter_context(tempfile.TemporaryFile()) for _ in range(2))
            try:
                process = self.processes.start(arguments, self.folder, output, errors)
            except OSError as error:
                raise CannotStart(f"the command {arguments[0]!r} cannot be started: {error}") from None
            except ValueError as error:  # a value that no argument can hold
                raise CommandFailed(f"the command {arguments[0]!r} does not take these values: {error}") from None
            files.pop_all()
            return Started(process, output, errors)

    def value(self, call: Started) -> tuple[float, float | None]:
        """Wait for the value of a process, and its standard error."""
        with call.output as output, call.errors as errors:
            code = self._wait(call.process)
            if code != 0:
                how = f"exit code {code}" if code > 0 else f"ended by signal {-code}"
                raise CommandFailed(f"{how}: {_last_first(_tail(errors) or _tail(output))}")
            return read_value(_tail(output), self.objective)

    def report(self, call: Started) -> Report:
        """What became of a process, with a reason that is no traceback of ours."""
        try:
            return read(self.value(call))
        except (CommandFailed, TimeoutError) as error:
            return Report(reason=str(error))

    def _wait(self, process: subprocess.Popen[bytes]) -> int:
        try:
            return int(process.wait(self.timeout))
        except subprocess.TimeoutExpired:
            end(process)
            process.wait()
            raise TimeoutError(f"no value within {self.timeout:g} seconds; the command was ended") from None
        finally:
            self.processes.forget(process)


class Waiting(Executor):
    """Starts commands at once, and waits for each in a thread; what `Command.report` says is the result."""

    def submit(self, call: Any, /, command: Any, params: Any) -> Future[Any]:  # type: ignore[override]
        future: Future[Any] = Future()
        future.set_running_or_notify_cancel()
        try:
            started = command.start(params)
        except CommandFailed as error:
            future.set_result(Report(reason=str(error)))
            return future
        threading.Thread(
            target=self._wait, args=(future, command, started), daemon=True, name="poolwise-command"
        ).start()
        return future

    def _wait(self, future: Future[Any], command: Command, started: Started) -> None:
        try:
            future.set_result(command.report(started))
        except BaseException as error:
            future.set_exception(error)


def _last_first(text: str) -> str:
    """The last line of an output, which often says it all, and the output below."""
    lines = _quoted(text).splitlines()
    if not lines:
        return "no output"
    return lines[-1].strip() if len(lines) == 1 else "\n".join([lines[-1].strip(), *lines])


def _tail(stream: IO[bytes]) -> str:
    """The end of what was written to a file."""
    size = stream.seek(0, os.SEEK_END)
    stream.seek(max(0, size - TAIL))
    return stream.read().decode("utf-8", errors="replace").strip()


def _quoted(text: str) -> str:
    """The end of a text, short enough for a message."""
    lines = printable_lines(text)
    return lines if len(lines) <= QUOTED else f"...{lines[-QUOTED:]}"


def printable_lines(text: str) -> str:
    """Text without control characters other than line ends."""
    return "\n".join(printable(line) for line in text.splitlines())
