"""`poolwise ask`: the next pool, as a table for people, spreadsheets or programs."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from poolwise.cli.command import NothingToDo, guarded, naming, study_option
from poolwise.cli.out import check_out
from poolwise.cli.terminal import as_json, put, put_table, say

if TYPE_CHECKING:
    from poolwise.cli.study_file import StudyFile
    from poolwise.study.study import Study
    from poolwise.study.trial import Pool, Trial

FORMATS = ("table", "csv", "json")
PENDING = "poolwise trials --state pending --format csv"


@click.command()
@click.option("-q", "q", type=click.IntRange(min=1), help="How many experiments [the file's q].")
@click.option("--format", "format_", type=click.Choice(FORMATS), help="What is written [table].")
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="Write .csv or .json to this file.")
@click.option("--force", is_flag=True, help="Write over a file that is there.")
@click.option("--request-id", help="A name for this request: repeating it gives the same pool again.")
@study_option
@guarded
def ask(*, source: Path, q: int | None, request_id: str | None, json_: bool, out: Path | None, **writing: Any) -> None:
    """The next experiments, to be run side by side.

    They are stored as pending before they are shown: all of them, or none. Fill in the column of the objective and
    give the table to `poolwise tell`. `poolwise trials --state pending` shows them again.
    """
    from poolwise.cli.study_file import load

    form = _form(json_, out, writing["format_"])
    file = load(source)
    if out is not None:
        check_out(out, file.files, force=writing["force"])
    with file.open() as study:
        size = _size(file, study, q or file.q, request_id)
        pool = study.ask(size, request_id=request_id)
        columns, rows = sheet_of(study, pool)
    if len(pool) < size:
        say(f"only {len(pool)} experiments are left in the space")
    if out is not None:
        _write(out, _content(form, study, pool), naming(source))
    elif form == "table":
        put_table(columns[:-1], [row[:-1] for row in rows])
        option = naming(source)
        say(f"then: poolwise tell {pool[0].number} VALUE{option}, or fill in `{PENDING}{option}`")
    else:
        put(_content(form, study, pool))


def _content(form: str, study: Study, pool: Pool) -> str:
    """A pool as the content of a file."""
    from poolwise.study.tables import as_csv

    if form == "csv":
        return as_csv(*sheet_of(study, pool))
    rows = [{"number": trial.number, "params": trial.params} for trial in pool]
    about = {"study": study.name, "objective": study.objective, "request_id": pool.request_id}
    return as_json({**about, "trials": rows}) + "\n"


def sheet_of(study: Study, pool: Sequence[Trial]) -> tuple[list[str], list[list[Any]]]:
    """A table to be filled in: numbers, parameters, and an empty column for the objective."""
    names = list(study.space.names)
    return ["number", *names, study.objective], [[t.number, *(t.params[n] for n in names), t.value] for t in pool]


def _form(json_: bool, out: Path | None, format_: str | None) -> str:
    """What is written; refused before anything is asked for."""
    if json_ and format_ not in (None, "json"):
        raise click.UsageError("--json is --format json; leave one of them out.")
    form = "json" if json_ else format_
    if out is None:
        return form or "table"
    suffix = out.suffix.lower().removeprefix(".")
    form = form or (suffix if suffix in ("csv", "json") else None)
    if form not in ("csv", "json"):
        raise click.UsageError(f"--out {out}: end its name in .csv or .json, or give --format.")
    return form


def _size(file: StudyFile, study: Study, q: int, request_id: str | None) -> int:
    """How many experiments the budget allows; a request that was answered before is outside of it."""
    if request_id is not None and (answered := study.answered(request_id)) is not None:
        return min(q, answered)  # the budget may have cut it
    if file.trials is None:
        return q
    left = file.trials - sum(not trial.added for trial in study.trials)
    if left <= 0:
        raise NothingToDo(f"the budget of {file.trials} trials is reached; raise `trials` in {file.path} to go on.")
    if left < q:
        say(f"the budget of {file.trials} trials leaves {left}")
    return min(q, left)


def _write(out: Path, content: str, option: str) -> None:
    from poolwise.study.tables import write

    try:
        write(out, content)
    except OSError:
        say(f"the pool is stored; `{PENDING}{option}` shows it again")
        raise
    say(f"wrote {out}; fill in the last column, then: poolwise tell {shlex.quote(str(out))}{option}")
