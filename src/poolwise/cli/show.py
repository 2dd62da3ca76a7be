"""`poolwise status`, `best`, `trials`, `export`: what a study holds. Nothing here loads JAX, but `best --expected`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from poolwise.cli.command import NothingToDo, guarded, study_argument
from poolwise.cli.out import check_out
from poolwise.cli.terminal import as_json, brief, put, put_facts, put_json, put_table, say

if TYPE_CHECKING:
    from poolwise.study.study import Study
    from poolwise.study.trial import Trial

PENDING_SHOWN = 24
FILES = ("csv", "json", "xlsx")


@click.command(short_help="How far the study is.")
@study_argument
@guarded
def status(*, source: Path, json_: bool) -> None:
    """How far the study is: counts, best value, pending trials, what is left of the budget."""
    from poolwise.cli.study_file import load
    from poolwise.study.engine import shown

    file = load(source)
    with file.look() as study:
        found, best = study.trials, study.best
        facts = {
            "study": study.name,
            "store": shown(file.url),
            "direction": study.direction,
            "objective": study.objective,
            **study.counts,
            "added": sum(trial.added for trial in found),
            "budget": file.trials,
            "left": None if file.trials is None else max(0, file.trials - sum(not trial.added for trial in found)),
            "best": None if best is None else as_data(best),
            "pending_numbers": [trial.number for trial in found if trial.state == "pending"],
        }
    if json_:
        put_json(facts)
    else:
        _put_status(facts)


def _put_status(facts: dict[str, Any]) -> None:
    pending, best = facts["pending_numbers"], facts["best"]
    more = f" and {len(pending) - PENDING_SHOWN} more" if len(pending) > PENDING_SHOWN else ""
    numbers = f": {', '.join(map(str, pending[:PENDING_SHOWN]))}{more}" if pending else ""
    added = f" ({facts['added']} added by hand)" if facts["added"] else ""
    put_facts(
        [
            ("study", facts["study"]),
            ("store", facts["store"]),
            (facts["direction"], facts["objective"]),
            ("told", f"{facts['told']}{added}"),
            ("failed", facts["failed"]),
            ("pending", f"{len(pending)}{numbers}"),
            ("budget", "none" if facts["budget"] is None else f"{facts['budget']} trials, {facts['left']} left"),
            ("best", "no value yet" if best is None else f"{brief(best['value'])} (trial {best['number']})"),
        ]
    )


@click.command()
@click.option("--expected", is_flag=True, help="Also the parameters whose expected value is best, by the model.")
@study_argument
@guarded
def best(*, source: Path, expected: bool, json_: bool) -> None:
    """The trial with the best value."""
    from poolwise.cli.study_file import load

    file = load(source)
    with file.look() as study:
        found = study.best
        if found is None:
            raise NothingToDo("no trial has a value yet.")
        params = study.recommend() if expected else None
    if json_:
        put_json(as_data(found) | ({"expected": params} if expected else {}))
        return
    put_best(found, file.objective)
    if params is not None:
        click.echo()
        click.echo("expected best:")
        put_facts(params.items())


def put_best(trial: Trial, objective: str) -> None:
    """A trial as a list, on standard output."""
    error = [] if trial.sem is None else [("sem", trial.sem)]
    put_facts([("trial", trial.number), (objective, trial.value), *error, *trial.params.items()])


@click.command()
@click.option("--state", type=click.Choice(["pending", "told", "failed"]), help="Only trials of this state.")
@click.option("--last", type=click.IntRange(min=1), help="Only the last few.")
@click.option("--format", "format_", type=click.Choice(["table", "csv", "json"]), default="table", show_default=True)
@study_argument
@guarded
def trials(*, source: Path, state: str | None, last: int | None, format_: str, json_: bool) -> None:
    """All trials as a table.

    The pending ones as CSV are a table to be filled in, like that of `poolwise ask`.
    """
    from poolwise.cli.ask import sheet_of
    from poolwise.cli.study_file import load
    from poolwise.study.tables import as_csv

    with load(source).look() as study:
        chosen = [trial for trial in study.trials if state in (None, trial.state)][-(last or 0) :]
        form = "json" if json_ else format_
        if form == "csv" and state == "pending":
            put(as_csv(*sheet_of(study, chosen)))
        elif form != "table":
            put(_content(form, study, chosen))
        else:
            put_table(*_readable(study, chosen))


@click.command(short_help="All trials, as CSV, JSON or an Excel file.")
@click.option("--format", "format_", type=click.Choice(FILES), help="[by the file's name, or csv]")
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="The file [standard output].")
@click.option("--force", is_flag=True, help="Write over a file that is there.")
@study_argument
@guarded
def export(*, source: Path, format_: str | None, out: Path | None, force: bool, json_: bool) -> None:
    """All trials with everything that is stored of them, in full digits, as CSV, JSON or an Excel file.

    Text that a spreadsheet would take for a formula gets an apostrophe in front; `poolwise tell` takes it off again.
    """
    from poolwise.cli.study_file import load
    from poolwise.study.tables import write

    form = "json" if json_ else format_ or ("csv" if out is None else out.suffix.lower().removeprefix("."))
    if form not in FILES:
        raise click.UsageError(f"--out {out}: end its name in .csv, .json or .xlsx, or give --format.")
    if form == "xlsx" and out is None:
        raise click.UsageError("an Excel file is no text; give its name by --out.")
    file = load(source)
    if out is not None:
        check_out(out, file.files, force=force)
    with file.look() as study:
        found = study.trials
        content = _content(form, study, found)
    if out is None:
        put(content)
        return
    write(out, content)
    say(f"wrote {len(found)} trials to {out}")


def as_data(trial: Trial) -> dict[str, Any]:
    """A trial as JSON values."""
    names = ("number", "state", "pool", "params", "value", "sem", "reason", "asked", "finished")
    return {name: getattr(trial, name) for name in names}


def _readable(study: Study, chosen: list[Trial]) -> tuple[list[str], list[list[Any]]]:
    """A table for a screen: no times, the first line of reasons, and no column of those two that is empty."""
    rows = [[*row[:-3], (row[-3] or "").partition("\n")[0] or None] for row in _rows(study, chosen)]
    columns = list(study.columns[:-2])
    kept = [i for i in range(len(columns)) if i < len(columns) - 2 or any(row[i] is not None for row in rows)]
    return [columns[i] for i in kept], [[row[i] for i in kept] for row in rows]


def _rows(study: Study, chosen: list[Trial]) -> list[list[Any]]:
    from poolwise.study.trial import table

    return [list(row.values()) for row in table(chosen, study.objective)]


def _content(form: str, study: Study, chosen: list[Trial]) -> Any:
    from poolwise.study.tables import as_csv, as_workbook

    if form == "json":
        return as_json([as_data(trial) for trial in chosen]) + "\n"
    if form == "xlsx":
        return as_workbook(study.columns, _rows(study, chosen))
    texts = [[cell if not hasattr(cell, "isoformat") else cell.isoformat() for cell in r] for r in _rows(study, chosen)]
    return as_csv(study.columns, texts)
