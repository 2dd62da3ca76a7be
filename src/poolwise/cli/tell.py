"""`poolwise tell`: values of trials, one by one or by a table."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from poolwise.cli.command import FileError, NothingToDo, guarded, study_option
from poolwise.cli.terminal import put_json, say

if TYPE_CHECKING:
    from poolwise.study.store import Said
    from poolwise.study.study import Study
    from poolwise.study.trial import Trial

LONGEST = 18  # digits of a trial's number
NEGATIVE = re.compile(r"-[\d.]\S*|-inf(inity)?", re.IGNORECASE)


class NegativeNumbers(click.Command):
    """A command to which -0.5 is a number, not options."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return click.Command.parse_args(self, ctx, [f" {a}" if NEGATIVE.fullmatch(a) else a for a in args])


@dataclass(frozen=True)
class Options:
    """How values are told."""

    sem: str | None
    reason: str
    replace: bool


@dataclass(frozen=True)
class Told:
    """What a `tell` did."""

    told: list[int]
    failed: list[int]
    added: list[int]
    repeated: int = 0
    empty: int = 0

    def __str__(self) -> str:
        parts = [
            f"{len(self.told)} told",
            f"{len(self.failed)} failed" if self.failed else "",
            f"{len(self.added)} added ({_ranges(self.added)})" if self.added else "",
            f"{self.repeated} known already" if self.repeated else "",
            f"{self.empty} without a value yet" if self.empty else "",
        ]
        return ", ".join(filter(None, parts))


def _ranges(numbers: Sequence[int]) -> str:
    """Consecutive numbers, in words."""
    return str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]} to {numbers[-1]}"


@click.command(cls=NegativeNumbers, short_help="Tell values, of one trial or of a table.")
@click.argument("what", metavar="TABLE | NUMBER")
@click.argument("value", required=False)
@click.option("--sem", help="Standard error of the value, where it is known.")
@click.option("--reason", default="", help="Why a trial failed.")
@click.option("--replace", is_flag=True, help="Take the new value where another is stored; the old one is kept.")
@study_option
@guarded
def tell(*, what: str, value: str | None, source: Path, json_: bool, **said: Any) -> None:
    """Tell values: of one trial (`tell 12 0.93`, `tell 12 failed`), or of all in a table (`tell results.csv`).

    A table has a column `number` and one named like the objective (or `value`), and may have `sem` and `reason`. Rows
    without a value are skipped; a value may be `failed` or `failed: why`. A row with parameters and no number is an
    experiment of your own, and is added. Everything is checked before anything is written, and telling the same again
    changes nothing. CSV with commas, semicolons or tabs, or the first sheet of an Excel file; - reads standard input.
    """
    from poolwise.cli.study_file import load

    file = load(source)
    with file.open() as study:
        options = Options(**said)
        done = _table(study, what, options) if value is None else _one(study, what.strip(), value, options)
        counts, best = study.counts, study.best
    if json_:
        put_json({**vars(done), "counts": counts})
        return
    say(f"{study.name} ({source}): {done}; {counts['pending']} pending")
    if best is not None:
        say(f"best so far: {file.objective} = {best.value!r}, trial {best.number}")


def _one(study: Study, number: str, value: str, options: Options) -> Told:
    """The value of one trial, from the command line."""
    from poolwise.cli.comparing import no_trial
    from poolwise.cli.results import decimal_comma, outcome
    from poolwise.study.errors import ConflictError
    from poolwise.study.tables import Sheet

    sheet = Sheet([], [])
    if not number.isascii() or not number.isdigit() or len(number) > LONGEST:
        raise FileError(
            f"{number[:LONGEST]!r} is no number of a trial; `poolwise tell table.csv` takes no second argument."
        )
    if int(number) >= (count := sum(study.counts.values())):
        raise ConflictError(no_trial(int(number), count))
    result, why = outcome(sheet, value, options.reason)
    if why is None and options.reason:
        raise FileError("--reason: belongs to a failure; leave it out, or tell 'failed' instead of a value.")
    if why is not None and options.sem is not None:
        raise FileError("--sem: belongs to a value, and a failure has none; leave it out.")
    if why is not None:
        study.fail(int(number), why, replace=options.replace)
        return Told([], [int(number)], [])
    error = None if options.sem is None else sheet.number(options.sem)
    if options.sem is not None and (error is None or error < 0):
        problem = f"{options.sem.strip()!r} is no standard error, which is a number, zero or more."
        raise FileError(f"--sem: {decimal_comma(options.sem) or problem}")
    study.tell(int(number), result, error, replace=options.replace)
    return Told([int(number)], [], [])


def _table(study: Study, name: str, options: Options) -> Told:
    """The values of a table."""
    from poolwise.cli.comparing import Plan, corrections, listed
    from poolwise.cli.results import NUMBERS, find_columns, plan_of
    from poolwise.study.store import Said
    from poolwise.study.tables import read

    if options.sem is not None or options.reason:
        raise FileError("--sem, --reason: belong to the value of one trial; a table has columns for them.")
    expected = [*NUMBERS, study.objective, "value", "sem", *study.space.names]
    sheet = read(name, _bytes(name), expected)
    if not sheet.rows:
        raise NothingToDo(f"{name}: has no rows below its column names.")
    plan = plan_of(study, name, sheet, replace=options.replace)
    columns = find_columns(study, name, sheet)
    if columns.others:
        say(f"note: columns that are not used: {', '.join(columns.others)}{columns.hint}")
    planned, notes = Plan([], 0, 0), list[str]()

    def decide(there: Sequence[Trial]) -> list[Said]:
        nonlocal planned, notes
        planned = plan(there)
        notes = corrections(there, [entry for entry in planned.entries if entry.number is None])
        return [Said(entry.number, entry.params, entry.outcome) for entry in planned.entries]

    stored = study.tell_all(decide, replace=options.replace)
    if notes:
        say(listed("note", notes))
    done = Told([], [], [], planned.repeated, planned.empty)
    for entry, trial in zip(planned.entries, stored, strict=True):
        (done.added if entry.number is None else done.failed if entry.failed else done.told).append(trial.number)
    return done


def _bytes(name: str) -> bytes:
    if name == "-":
        return sys.stdin.buffer.read()
    path = Path(name)
    if path.is_dir():
        raise FileError(f"{name}: is a folder; name a table in it.")
    try:
        return path.read_bytes()
    except FileNotFoundError:
        hint = f" To tell trial {name} a value: `poolwise tell {name} VALUE`." if name.isdigit() else ""
        raise FileError(f"{name}: there is no such file.{hint}") from None
