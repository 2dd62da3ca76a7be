"""What a table of results says: which trials have which values, and what is wrong with it, all of it at once."""

from __future__ import annotations

import difflib
import logging
import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from poolwise.cli.command import FileError
from poolwise.cli.comparing import Entry, Plan, compared, listed
from poolwise.errors import PoolwiseError
from poolwise.space.parameters import Choice, Parameter
from poolwise.study.frames import parameter_value
from poolwise.study.placing import stored_params
from poolwise.study.study import Study
from poolwise.study.tables import Row, Sheet
from poolwise.study.trial import AFTER, BEFORE, Trial

log = logging.getLogger(__name__)

NUMBERS = ("number", "trial")
LIKE_NUMBER = ("nr", "no", "num", "id", "#")
FAILURE = re.compile(
    r"(failed|fail|failure|error|crashed|broken|nan|na|n/a|#n/a|[+-]?inf(inity)?)\s*([:,;-]\s*(.*))?", re.I
)
COMMA = re.compile(r"[+-]?\d+,\d+")


@dataclass(frozen=True)
class Columns:
    """Where a table has what."""

    number: str | None
    value: str
    state: str | None
    sem: str | None
    reason: str | None
    params: Mapping[str, str]  # from parameters to columns
    others: Sequence[str]

    @property
    def hint(self) -> str:
        """What to rename, where a column that is not used looks like that of the numbers."""
        alike = [column for column in self.others if column.casefold().rstrip(".:") in LIKE_NUMBER]
        return f"; rename {alike[0]!r} to 'number' if it says the trials" if alike and self.number is None else ""


def plan_of(study: Study, name: str, sheet: Sheet, *, replace: bool = False) -> Callable[[Sequence[Trial]], Plan]:
    """What a table says, as a plan for the trials that are there; an error lists all that is wrong with it."""
    columns = find_columns(study, name, sheet)
    entries, problems, empty = [], [], 0
    unclear = sheet.unclear(cell for row in sheet.rows for cell in _numbers(columns, row))
    for row in sheet.rows:
        try:
            _check_marks(sheet, columns, row, unclear)
            entry = _entry(study, sheet, columns, row)
        except PoolwiseError as error:
            problems.append(f"line {row.line}: {error}")
            continue
        empty += entry is None
        entries += [] if entry is None else [entry]
    if problems:
        raise FileError(listed(f"{name}: nothing was written", problems))
    return lambda trials: compared(study, trials, name, Plan(entries, 0, empty), replace=replace)


def find_columns(study: Study, name: str, sheet: Sheet) -> Columns:
    """The columns of a table by their names, the study's own first; a capital letter more or less does not matter."""
    named = _matched((study.objective, *study.space.names), sheet.columns)
    free = [column for column in sheet.columns if column not in named.values()]
    known = _matched(("value", *NUMBERS, "state", "sem", "reason"), free)
    value = named.get(study.objective) or known.get("value")
    if value is None:
        other = "" if "value" in study.space.names else " (or 'value')"
        raise FileError(
            f"{name}: has no column {study.objective!r}{other}; its columns are {', '.join(sheet.columns)}, as its "
            f"first line says."
            f"{_misspelt(study.objective, sheet.columns)}"
        )
    params = {p: named[p] for p in study.space.names if p in named}
    number = next((known[word] for word in NUMBERS if word in known), None)
    if number is None and not params:
        raise FileError(f"{name}: has no column 'number', which says the trial of each value.")
    sem, reason = known.get("sem"), known.get("reason")
    used = {value, number, known.get("state"), sem, reason, *params.values(), ""}
    others = [c for c in sheet.columns if c not in used and c not in (*BEFORE, *AFTER)]
    return Columns(number, value, known.get("state"), sem, reason, params, others)


def _matched(words: Collection[str], columns: Sequence[str]) -> dict[str, str]:
    """The column of each word, of the same name or else of one that differs in capital letters; none is used twice."""
    found = {word: word for word in words if word in columns}
    free = {column.casefold(): column for column in columns if column not in found}
    for word in words:
        if word not in found and word.casefold() in free:
            found[word] = free.pop(word.casefold())
    return found


def _misspelt(wanted: str, columns: Sequence[str]) -> str:
    close = difflib.get_close_matches(wanted, columns, n=1)
    return f" Rename {close[0]!r} to {wanted!r}." if close else ""


def _entry(study: Study, sheet: Sheet, columns: Columns, row: Row) -> Entry | None:
    """What a row says; None if it has no value yet."""
    cell, number, state, sem, why = (
        row.cells.get(column or "", "")
        for column in (columns.value, columns.number, columns.state, columns.sem, columns.reason)
    )
    where = f"line {row.line}"
    if not cell and (why or state.casefold() == "failed"):
        cell = "failed"
    if not cell and not sem:
        return None
    value, reason = outcome(sheet, cell, why) if cell else (math.nan, "")
    if sem and reason is not None:
        raise FileError("has a standard error, but no value.")
    known = study.space.parameters
    cells = {p: cell for p, c in columns.params.items() if (cell := row.cells.get(c, ""))}
    given = {p: _parameter(known[p], sheet, cell) for p, cell in cells.items()}
    if number:
        return Entry(where, _whole(sheet, number), given, cells, value, _sem(sheet, sem), reason)
    if not given:
        raise FileError("has a value, but neither the number of a trial nor parameters.")
    kept, outside = stored_params(study.space, given)
    if outside is not None:
        log.warning("%s is outside the space (%s)", where, outside)
    return Entry(where, None, kept, cells, value, _sem(sheet, sem), reason)


def _parameter(parameter: Parameter, sheet: Sheet, cell: str) -> Any:
    """The value of a parameter that a cell spells; 1 and 0 are truth values where there are only these."""
    if cell in ("0", "1") and isinstance(parameter, Choice) and all(isinstance(v, bool) for v in parameter.values):
        return cell == "1"
    return parameter_value(parameter, sheet, cell)


def _check_marks(sheet: Sheet, columns: Columns, row: Row, unclear: Collection[str]) -> None:
    """Refuse a number that may be a thousand times as large."""
    for cell in _numbers(columns, row):
        if cell in unclear:
            whole = re.sub("[.,]", "", cell)
            raise FileError(
                f"{cell!r} may be {whole}, as other numbers of the table have another mark; "
                f"write {whole}, or {cell}0 if it is not."
            )


def _numbers(columns: Columns, row: Row) -> list[str]:
    """The cells of a row whose numbers nothing else confirms: not the parameters of a trial with a number."""
    own = () if row.cells.get(columns.number or "") else columns.params.values()
    return [row.cells.get(column or "", "") for column in (columns.value, columns.sem, *own)]


def outcome(sheet: Sheet, cell: str, reason: str = "") -> tuple[float, str | None]:
    """The value in a cell, or why there is none."""
    number = sheet.number(cell)
    if number is not None and math.isfinite(number):
        return number, None
    match = FAILURE.fullmatch(cell.strip())
    if match is None and number is None:
        raise FileError(decimal_comma(cell) or f"{cell!r} is no number; write 'failed', or 'failed: why', if so.")
    why = match[4] if match is not None else None
    return math.nan, why or reason or f"told as {cell.strip()!r}"


def decimal_comma(cell: str) -> str:
    """What to write instead of a number with a comma; nothing for other texts."""
    text = cell.strip()
    return f"{text!r} is no number; write {text.replace(',', '.')}." if COMMA.fullmatch(text) else ""


def _whole(sheet: Sheet, cell: str) -> int:
    number = sheet.number(cell)
    if number is None or not number.is_integer() or not 0 <= number < 2**53:
        raise FileError(f"{cell!r} is no number of a trial.")
    return int(number)


def _sem(sheet: Sheet, cell: str) -> float | None:
    if not cell:
        return None
    number = sheet.number(cell)
    if number is None or not 0 <= number < math.inf:
        raise FileError(f"sem: {cell!r} is no standard error, which is a number, zero or more.")
    return number
