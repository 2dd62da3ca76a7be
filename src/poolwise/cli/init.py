"""`poolwise init`: a new study file, by a few questions or with an example to edit."""

from __future__ import annotations

import shlex
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from poolwise.cli.command import FileError, guarded, naming
from poolwise.cli.out import check_out
from poolwise.cli.terminal import put_json, say
from poolwise.errors import PoolwiseError

if TYPE_CHECKING:
    from poolwise.cli.template import Answers

FIXED = {"type": "fixed", "value": 0}  # a parameter that has nothing wrong but its name


@click.command(short_help="Write a new study file.")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False), default=Path("study.toml"))
@click.option("--yes", "-y", is_flag=True, help="Ask no questions: write an example.")
@click.option("--force", is_flag=True, help="Write over a file that is there.")
@guarded
def init(*, file: Path, yes: bool, force: bool, json_: bool) -> None:
    """Write a new study file, study.toml by default, with comments.

    On a terminal it asks a few questions; elsewhere, or with --yes, it writes an example to edit.
    """
    from poolwise.cli.study_file import load
    from poolwise.cli.template import Answers, text
    from poolwise.study.tables import write

    if file.suffix.lower() != ".toml":
        raise FileError(f"{file}: end the name in .toml.")
    check_out(file, force=force)
    content = text(questions() if interactive() and not yes else Answers())
    with tempfile.TemporaryDirectory() as folder:  # nothing is written that would be refused
        trial = Path(folder) / "study.toml"
        trial.write_text(content, encoding="utf-8")
        study = load(trial)
    write(file, content)
    if json_:
        put_json({"file": str(file), "name": study.name, "parameters": list(study.space.names)})
        return
    say(f"wrote {file}; edit it, then: poolwise {'run' if study.command else 'ask'}{naming(file)}")


def interactive() -> bool:
    """Whether somebody is there to answer."""
    return sys.stdin.isatty()


def questions() -> Answers:
    """What a person answers; an answer that a study file could not hold is asked for again."""
    from poolwise.cli.template import SPACE, Answers
    from poolwise.study.definition import check_study_name

    name = _valid(lambda: _ask("Name of the study", "study"), check_study_name)
    direction = _ask("Better is", "maximize", click.Choice(["minimize", "maximize"]))
    word = "loss" if direction == "minimize" else "yield"
    objective = _valid(lambda: _ask("Name of what you measure", word), lambda o: _define({"other than it": FIXED}, o))
    q = _ask("How many experiments side by side", 4, click.IntRange(min=1))
    trials = _ask("How many in all", 8 * q, click.IntRange(min=1))
    space: Mapping[str, Any] = _space(objective) or SPACE
    question = "Command that measures, with {name} for values (empty: by hand)"
    line = _valid(lambda: _ask(question, "", str), lambda line: _check_command(line, space, objective))
    return Answers(name, direction, objective, q, trials, shlex.split(line), space)


def _space(objective: str) -> dict[str, dict[str, Any]]:
    """Parameters, one by one."""
    space: dict[str, dict[str, Any]] = {}

    def check(name: str) -> None:
        if name in space:
            raise FileError(f"there is a parameter {name!r} already; give this one another name.")
        if name:
            _define({name: FIXED}, objective)

    say("Parameters, one by one; an empty name ends the list.")
    while name := _valid(lambda: _ask(f"Parameter {len(space) + 1}", "", str).strip(), check):
        space[name] = _valid(_parameter, lambda fields: _define({name: fields}, objective))
    return space


def _parameter() -> dict[str, Any]:
    kind = _ask("  Kind", "float", click.Choice(["float", "int", "choice"]))
    if kind == "choice":
        values = _ask("  Values, with commas between", None, str)
        return {"type": "choice", "values": [value.strip() for value in values.split(",") if value.strip()]}
    fields = {"type": kind, "low": _number("  From", kind), "high": _number("  To", kind)}
    if fields["low"] >= fields["high"]:
        return fields
    if fields["low"] > 0 and click.confirm("  Logarithmic scale", default=False, err=True):
        return fields | {"log": True}
    step = _number("  Step (0: any value)", kind, "0") if kind == "float" else 0
    return fields | ({"step": step} if step else {})


def _number(question: str, kind: str, default: str | None = None) -> Any:
    number = click.FLOAT if kind == "float" else click.INT

    def convert(text: Any) -> Any:
        from poolwise.cli.results import decimal_comma

        if isinstance(text, str) and (problem := decimal_comma(text)):
            raise click.UsageError(problem)
        return number(text)

    return click.prompt(question, default=default, value_proc=convert, err=True)


def _check_command(line: str, space: Mapping[str, Any], objective: str) -> None:
    from poolwise.cli.objective import check_command

    try:
        arguments = shlex.split(line)
    except ValueError as error:
        raise FileError(f"{error}; close what is quoted.") from None
    if arguments:
        built = _define(space, objective).space
        check_command(arguments, built.names, built.axes)


def _define(space: Mapping[str, Any], objective: str) -> Any:
    """A study of these parameters; an error where there can be none."""
    from poolwise.space.space import Space
    from poolwise.study.definition import Definition

    return Definition(Space.from_dict({"parameters": dict(space), "constraints": []}), objective, "maximize")


def _valid(ask: Callable[[], Any], check: Callable[[Any], Any]) -> Any:
    """An answer that passes a check."""
    while True:
        answer = ask()
        try:
            check(answer)
        except PoolwiseError as error:
            say(f"Error: {error}")
        else:
            return answer


def _ask(question: str, default: Any, type_: Any = None) -> Any:
    return click.prompt(question, default=default, type=type_, err=True, show_default=default not in ("", None))
