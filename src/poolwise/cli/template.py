"""The text of a new study file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

SPACE: Mapping[str, Mapping[str, Any]] = {
    "temperature": {"type": "float", "low": 20, "high": 90},
    "concentration": {"type": "float", "low": 0.001, "high": 1.0, "log": True},
    "cycles": {"type": "int", "low": 1, "high": 8},
    "solvent": {"type": "choice", "values": ["water", "ethanol", "acetone"]},
}


@dataclass(frozen=True)
class Answers:
    """What a new study file is filled with."""

    name: str = "study"
    direction: str = "maximize"
    objective: str = "yield"
    q: int = 4
    trials: int = 32
    command: Sequence[str] = ()
    space: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: dict(SPACE))


def text(answers: Answers) -> str:
    """A study file with comments."""
    command = f"command = {_value(list(answers.command))}"
    if not answers.command:
        arguments = ["{python}", "experiment.py", *(f"--{name}={{{name}}}" for name in answers.space)]
        command = f"# command = {_value(arguments)}"
    head = HEAD.format(
        name=_value(answers.name),
        direction=answers.direction,
        other="minimize" if answers.direction == "maximize" else "maximize",
        objective=_value(answers.objective),
        q=answers.q,
        trials=answers.trials,
        command=command,
    )
    tables = [f"[space.{_key(name)}]\n{_fields(fields)}" for name, fields in answers.space.items()]
    return "\n".join([head, *tables])


HEAD = """\
# A study of Poolwise. Keys of the study itself stand above the first [table].

name = {name}
{direction} = {objective}  # or {other} = "..."; the word is the name of what you measure

q = {q}  # how many experiments run side by side
trials = {trials}  # the budget: how many in all
# seed = 0  # the same study and seed ask for the same experiments

# Where results are kept: a file beside this one, unless you say otherwise. A database's address with its password
# belongs into an environment variable: url_env = "STUDY_URL".
# url = "sqlite:///study.db"

# `poolwise run` runs this, q at a time: a program and its arguments, no shell; {{name}} is a parameter's value. The
# last line it prints is the value, or a JSON object such as {{"value": 0.93, "sem": 0.01}}.
# Leave it out for experiments by hand: `poolwise ask`, `poolwise tell`.
{command}
# timeout = 600  # seconds for one experiment
# asynchronous = true  # ask for a new experiment whenever a worker is free, not pool by pool

# Combinations that may be tried, for instance:
# constraints = ["temperature * cycles <= 400", "solvent != 'acetone' or temperature < 56"]

# One table for each parameter: float (log or step), int (log), choice (ordered), fixed.
"""


def _fields(fields: Mapping[str, Any]) -> str:
    return "".join(f"{key} = {_value(value)}\n" for key, value in fields.items())


def _key(name: str) -> str:
    return name if name.isascii() and name.replace("_", "").replace("-", "").isalnum() else _value(name)


def _value(value: Any) -> str:
    """A TOML value; JSON is written the same way for all that a study file holds."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
