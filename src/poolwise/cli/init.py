"""`poolwise init`: a new study file, by a few questions or with an example to edit."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from poolwise.cli.command import FileError, guarded
from poolwise.cli.terminal import put_json, say

if TYPE_CHECKING:
    from poolwise.cli.template import Answers


@click.command(short_help="Write a new study file.")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False), default=Path("study.toml"))
@click.option("--yes", "-y", is_flag=True, help="Ask no questions: write an example.")
@click.option("--force", is_flag=True, help="Write over a file that is there.")
@guarded
def init(*, file: Path, yes: bool, force: bool, json_: bool) -> None:
    """Write a new study file, study.toml by default, with comments.

    On a terminal it asks a few questions; elsewhere, or with --yes, it writes an example to edit.
    """
    from poolwise.cli.sheet import write
    from poolwise.cli.study_file import load
    from poolwise.cli.template import Answers, text

    if file.suffix.lower() != ".toml":
        raise FileError(f"{file}: end the name in .toml.")
    if file.exists() and not force:
        raise FileError(f"{file}: is there already; choose another name, or add --force to write over it.")
    if not file.absolute().parent.is_dir():
        raise FileError(f"{file}: its folder does not exist; create it first.")
    write(file, text(Answers() if yes or not sys.stdin.isatty() else questions()))
    study = load(file)
    if json_:
        put_json({"file": str(file), "name": study.name, "parameters": list(study.space.names)})
        return
    option = "" if file == Path("study.toml") else f" --study {shlex.quote(str(file))}"
    say(f"wrote {file}; edit it, then: poolwise ask{option}")


def questions() -> Answers:
    """What a person answers."""
    from poolwise.cli.template import Answers

    name = _ask("Name of the study", "study")
    direction = _ask("Better is", "maximize", click.Choice(["minimize", "maximize"]))
    objective = _ask("Name of what you measure", "loss" if direction == "minimize" else "yield")
    q = _ask("How many experiments side by side", 4, click.IntRange(min=1))
    trials = _ask("How many in all", 8 * q, click.IntRange(min=1))
    space: dict[str, dict[str, Any]] = {}
    say("Parameters, one by one; an empty name ends the list.")
    while parameter := _ask(f"Parameter {len(space) + 1}", "", str):
        space[parameter] = _parameter()
    line = _ask("Command that measures, with {name} for values (empty: by hand)", "", str)
    answers = Answers(name, direction, objective, q, trials, shlex.split(line))
    return Answers(**(vars(answers) | {"space": space})) if space else answers


def _parameter() -> dict[str, Any]:
    kind = _ask("  Kind", "float", click.Choice(["float", "int", "choice"]))
    if kind == "choice":
        values = _ask("  Values, with commas between", None, str)
        return {"type": "choice", "values": [value.strip() for value in values.split(",") if value.strip()]}
    number = click.FLOAT if kind == "float" else click.INT
    fields = {"type": kind, "low": _ask("  From", None, number), "high": _ask("  To", None, number)}
    log = fields["low"] > 0 and click.confirm("  Logarithmic scale", default=False, err=True)
    return fields | ({"log": True} if log else {})


def _ask(question: str, default: Any, type_: Any = None) -> Any:
    return click.prompt(question, default=default, type=type_, err=True, show_default=default not in ("", None))
