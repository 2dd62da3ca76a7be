"""What all commands of a study share: where it is, `--json`, `--debug`, and what an error becomes."""

from __future__ import annotations

import contextlib
import functools
import inspect
import logging
import os
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import click

from poolwise.cli.terminal import printable, say
from poolwise.errors import PoolwiseError
from poolwise.study.tables import TableError

Function = Callable[..., Any]

FAILED, MISUSED, NOTHING, INTERRUPTED = 1, 2, 3, 130

EXITS = "Exit codes: 0 done, 1 failed, 2 wrong input, 3 nothing to do, 130 interrupted."

IN_COMMANDS = {  # what the library says to those who write Python, and what it is on the command line
    "give replace=True": "add --replace",
    "Leave it out to go on with the stored one": "Undo that change in the file to go on",
    ", or give the study more patience=": "",
}

DEFAULT, VARIABLE = "study.toml", "POOLWISE_STUDY"


class FileError(PoolwiseError, ValueError):
    """A study file or a table of results that cannot be used as it is written."""


class NothingToDo(PoolwiseError, RuntimeError):
    """The command has nothing to do: the budget is reached, or there is no value yet."""


class Notes(logging.Handler):
    """The library's warnings as lines on standard error, each once in a row."""

    said = ""

    def emit(self, record: logging.LogRecord) -> None:
        line = f"{record.levelname.lower()}: {printable(record.getMessage())}"
        if line != self.said:
            say(line)
        self.said = line


@contextlib.contextmanager
def answering(*, debug: bool = False) -> Iterator[None]:
    """Errors become one message and an exit code, and the library's warnings lines."""
    log, notes = logging.getLogger("poolwise"), Notes(logging.WARNING)
    log.addHandler(notes)
    try:
        yield
    except (KeyboardInterrupt, click.Abort):
        say("interrupted")
        raise SystemExit(INTERRUPTED) from None
    except BrokenPipeError:
        raise  # somebody reads no further, which click answers
    except (PoolwiseError, OSError) as error:
        if debug:
            raise
        give_up(error)
    finally:
        log.removeHandler(notes)


def guarded(command: Function) -> Function:
    """`--json` and `--debug`, errors as one message with an exit code, and the library's warnings."""

    @click.option("--json", "json_", is_flag=True, help="Data as JSON on standard output.")
    @click.option("--debug", is_flag=True, help="Show the traceback of an error.")
    @functools.wraps(command)
    def run(*, debug: bool, **given: Any) -> Any:
        with answering(debug=debug):
            return command(**given)

    run.__doc__ = f"{inspect.cleandoc(command.__doc__ or '')}\n\n\b\n{EXITS}"
    return run


def give_up(error: Exception) -> NoReturn:
    """End with a message and the exit code of an error."""
    from poolwise.space.errors import SpaceExhausted

    nothing = isinstance(error, NothingToDo | SpaceExhausted)
    say(words(error) if nothing else f"error: {words(error)}")
    raise SystemExit(NOTHING if nothing else MISUSED if isinstance(error, FileError | TableError) else FAILED)


def words(error: Exception) -> str:
    """An error as a user of the command line reads it."""
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror[0].lower()}{error.strerror[1:]}."
    text = str(error)
    for python, here in IN_COMMANDS.items():
        text = text.replace(python, here)
    return text


def naming(source: Path) -> str:
    """The option that names a study file to the next command; nothing where it would be found without."""
    found = source == Path(DEFAULT) and VARIABLE not in os.environ
    return "" if found else f" --study {shlex.quote(str(source))}"


def study_option(command: Function) -> Function:
    """`--study FILE`."""
    return click.option(
        "--study",
        "-s",
        "source",
        type=click.Path(path_type=Path),
        envvar=VARIABLE,
        show_envvar=True,
        default=Path(DEFAULT),
        show_default=True,
        help="The study's file.",
    )(command)


def study_argument(command: Function) -> Function:
    """The study's file as an argument, or by `--study`."""

    @click.argument("file", type=click.Path(path_type=Path), required=False)
    @study_option
    @functools.wraps(command)
    def run(*, file: Path | None, source: Path, **given: Any) -> Any:
        return command(source=source if file is None else file, **given)

    return run
