"""`poolwise run`: ask, run the objective q at a time, tell, until the budget is reached."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import os
import shlex
import shutil
import signal
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from poolwise.cli.command import INTERRUPTED, FileError, NothingToDo, guarded, study_argument
from poolwise.cli.show import as_data, put_best
from poolwise.cli.terminal import printing_apart, put_json, say

if TYPE_CHECKING:
    from poolwise.cli.study_file import StudyFile
    from poolwise.study.study import Study

LEASE = 30.0  # seconds after which trials of a run that was killed are run again; renewed while it lives


@click.command(short_help="Run the objective until the budget is reached.")
@click.option("--function", metavar="MODULE:NAME", help="The objective as a Python function of the parameters.")
@click.option("-q", "q", type=click.IntRange(min=1), help="How many side by side [the file's q].")
@click.option("--trials", type=click.IntRange(min=1), help="The budget, as a total [the file's trials].")
@click.option("--timeout", type=click.FloatRange(min=0, min_open=True), help="Seconds for one trial [the file's].")
@click.option("--asynchronous/--synchronous", default=None, help="A new trial whenever a worker is free [the file's].")
@study_argument
@guarded
def run(*, source: Path, function: str | None, json_: bool, **changes: Any) -> None:
    """Run the objective until the budget is reached, q at a time, and show the best.

    The objective is the file's `command`, or a Python function that is named here. A trial that fails, runs too long or
    prints no value costs itself only. Ctrl-C, or a crash, leaves a study that the same command goes on with. Several of
    these commands, on several machines, may run on one study at the same time.
    """
    from poolwise.cli.study_file import load

    file = load(source)
    file = dataclasses.replace(file, **{name: value for name, value in changes.items() if value is not None})
    if file.trials is None:
        raise FileError(f"{file.path}: trials: say how many trials to run, here or by --trials.")
    job = _command(file) if function is None else _function(file, function)
    with file.open() as study:
        before = _finished(study)
        if before < file.trials:
            _go(file, study, job)
        best, after = study.best, _finished(study)
        done = {"finished": after, "budget": file.trials, "best": None if best is None else as_data(best)}
    if json_:
        put_json(done)
    elif best is not None:
        put_best(best, file.objective)
    more = f"{_again(file)} --trials {file.trials + 8 * file.q}"
    if before >= file.trials:
        raise NothingToDo(f"all {file.trials} trials of the budget are done; to go on: {more}")
    if before == after:
        raise NothingToDo("no experiment is left in the space; widen it in a study of another name.")
    say(f"to go on: {more}")
    say(f"pictures: {program()} plot --study {shlex.quote(str(file.path))}")


def program() -> str:
    """How this program is called again: by its name where the name is found, else as it was called now."""
    return sys.argv[0] if Path(sys.argv[0]).stem == "poolwise" and shutil.which("poolwise") is None else "poolwise"


def _again(file: StudyFile) -> str:
    return f"{program()} run {shlex.quote(str(file.path))}"


def _finished(study: Study) -> int:
    """How many trials count against the budget: told or failed, without those that were added."""
    return sum(trial.state != "pending" and not trial.added for trial in study.trials)


@dataclass(frozen=True)
class Job:
    """An objective, who calls it, and how to end what it started."""

    objective: Callable[..., Any]
    executor: Any
    timeout: float | None = None
    end: Callable[[], None] = lambda: None


def _go(file: StudyFile, study: Study, job: Job) -> None:
    from poolwise.study.stops import RunInterrupted
    from poolwise.study.work import answered

    try:
        with answered(_interrupt), printing_apart():
            study.run(
                job.objective,
                trials=file.trials,
                q=file.q,
                executor=job.executor,
                asynchronous=file.asynchronous,
                timeout=job.timeout,
                lease=LEASE,
                progress=True,
            )
    except RunInterrupted:
        say(f"stopped; to go on: {_again(file)}")
        raise SystemExit(INTERRUPTED) from None
    finally:
        job.end()


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Do what Ctrl-C does, also where that is ignored."""
    handler = signal.getsignal(signal.SIGINT)
    (handler if callable(handler) else signal.default_int_handler)(number, frame)


def _command(file: StudyFile) -> Job:
    """The file's command as the objective; threads wait for its processes, which have the timeout themselves."""
    from poolwise.cli.objective import Command, Waiting, check_command, check_program

    if not file.command:
        raise FileError(
            f"{file.path}: command: there is none to run; write one, name a function by --function, "
            "or work by hand with `poolwise ask` and `poolwise tell`."
        )
    check_command(file.command, file.space.names, file.space.axes)
    check_program(file.command, file.folder)
    command = Command(file.command, file.folder, file.objective, file.timeout)
    return Job(command, Waiting(), end=command.processes.end)


def _function(file: StudyFile, name: str) -> Job:
    """A function of a module, in the current folder or an installed one, called in processes of its own."""
    module, colon, attribute = name.partition(":")
    if not colon or not module or not attribute.isidentifier():
        raise click.BadParameter(f"{name!r} is not MODULE:NAME, such as train:evaluate.", param_hint="--function")
    sys.path.insert(0, os.getcwd())
    try:
        with contextlib.redirect_stdout(sys.stderr):
            found = getattr(importlib.import_module(module), attribute)
    except (Exception, SystemExit) as error:
        raise click.BadParameter(f"{_explained(error)}.", param_hint="--function") from None
    return Job(found, "processes", file.timeout)


def _explained(error: BaseException) -> str:
    """An error of a module that was imported, and the line of it that it comes from; below Python's own machinery."""
    words = str(error) if isinstance(error, ImportError | AttributeError) else f"{type(error).__name__}: {error}"
    own = (__file__, importlib.__file__)
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename not in own and f.filename[0] != "<"]
    return f"{words} ({frames[0].filename}, line {frames[0].lineno})" if frames else words
