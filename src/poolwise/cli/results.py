"""What a table of results says: which trials have which values, and what is wrong with it, all of it at once."""

from __future__ import annotations

import difflib
import logging
import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from poolwise.cli.command import FileError
from poolwise.cli.terminal import spelled
from poolwise.errors import PoolwiseError
from poolwise.space.parameters import Choice, Fixed, Parameter
from poolwise.space.scalars import key
from poolwise.study.arguments import outcome_of
from poolwise.study.errors import ConflictError
from poolwise.study.frames import parameter_value
from poolwise.study.placing import stored_params
from poolwise.study.rows import plain
from poolwise.study.store import Outcome
from poolwise.study.study import Study
from poolwise.study.tables import Row, Sheet
from poolwise.study.trial import AFTER, BEFORE, Trial

log = logging.getLogger(__name__)

NUMBERS = ("number", "trial")
FAILURE = re.compile(r"(failed|fail|failure|error|crashed|broken|nan|na|n/a|#n/a|[+-]?inf(inity)?)\s*(:\s*(.*))?", re.I)
COMMA = re.compile(r"[+-]?\d+,\d+")
CLOSE = 0.01  # of a range: what a rounding spreadsheet or a balance may change in a parameter
SHOWN = 20  # problems of one table


@dataclass(frozen=True)
class Entry:
    """What one row says: of a trial by its number, or of an experiment of the user's own by its parameters."""

    where: str
    number: int | None
    params: dict[str, Any]
    cells: Mapping[str, str]  # how the parameters are written
    value: float = math.nan
    sem: float | None = None
    reason: str | None = None  # why there is no value

    @property
    def failed(self) -> bool:
        return self.reason is not None

    @property
    def outcome(self) -> Outcome:
        """What became of the experiment."""
        if self.reason is None:
            return outcome_of(self.value, self.sem)
        return Outcome("failed", reason=plain(self.reason) or "no reason given")

    def repeats(self, trial: Trial) -> bool:
        """Whether the trial says so already."""
        if self.failed or trial.state == "failed":
            return self.failed and trial.state == "failed"
        return trial.value == self.value and self.sem in (None, trial.sem)


@dataclass(frozen=True)
class Columns:
    """Where a table has what."""

    number: str | None
    value: str
    sem: str | None
    reason: str | None
    params: Mapping[str, str]  # from parameters to columns
    others: Sequence[str]


@dataclass(frozen=True)
class Plan:
    """What is to be written, after everything was looked at."""

    entries: Sequence[Entry]
    repeated: int  # rows that the study knows already
    empty: int  # rows without a value


def plan_of(study: Study, name: str, sheet: Sheet, *, replace: bool = False) -> Callable[[Sequence[Trial]], Plan]:
    """What a table says, as a plan for the trials that are there; an error lists all that is wrong with it."""
    columns = find_columns(study, name, sheet)
    entries, problems, empty = [], [], 0
    for row in sheet.rows:
        try:
            entry = _entry(study, sheet, columns, row)
        except PoolwiseError as error:
            problems.append(f"line {row.line}: {error}")
            continue
        empty += entry is None
        entries += [] if entry is None else [entry]
    if problems:
        raise FileError(_listed(f"{name}: nothing was written", problems))
    return lambda trials: _compared(study, trials, name, Plan(entries, 0, empty), replace)


def find_columns(study: Study, name: str, sheet: Sheet) -> Columns:
    """The columns of a table by their names, the study's own first; a capital letter more or less does not matter."""
    named = _matched((study.objective, *study.space.names), sheet.columns)
    known = _matched(("value", *NUMBERS, "sem", "reason"), [c for c in sheet.columns if c not in named.values()])
    value = named.get(study.objective) or known.get("value")
    if value is None:
        other = "" if "value" in study.space.names else " (or 'value')"
        raise FileError(
            f"{name}: has no column {study.objective!r}{other}; its columns are {', '.join(sheet.columns)}."
            f"{_misspelt(study.objective, sheet.columns)}"
        )
    params = {p: named[p] for p in study.space.names if p in named}
    number = next((known[word] for word in NUMBERS if word in known), None)
    if number is None and not params:
        raise FileError(f"{name}: has no column 'number', which says the trial of each value.")
    sem, reason = known.get("sem"), known.get("reason")
    used = {value, number, sem, reason, *params.values(), ""}
    others = [c for c in sheet.columns if c not in used and c not in (*BEFORE, *AFTER)]
    return Columns(number, value, sem, reason, params, others)


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
    cell = row.cells.get(columns.value, "")
    number = row.cells.get(columns.number or "", "")
    where = f"line {row.line}"
    if not cell:
        return None
    value, reason = outcome(sheet, cell, row.cells.get(columns.reason or "", ""))
    sem = _sem(sheet, row.cells.get(columns.sem or "", "")) if reason is None else None
    known = study.space.parameters
    cells = {p: cell for p, c in columns.params.items() if (cell := row.cells.get(c, ""))}
    given = {p: parameter_value(known[p], sheet, cell) for p, cell in cells.items()}
    if number:
        return Entry(where, _whole(sheet, number), given, cells, value, sem, reason)
    if not given:
        raise FileError("has a value, but neither the number of a trial nor parameters.")
    kept, outside = stored_params(study.space, given)
    if outside is not None:
        log.warning("%s is outside the space (%s)", where, outside)
    return Entry(where, None, kept, cells, value, sem, reason)


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


def _compared(study: Study, trials: Sequence[Trial], name: str, said: Plan, replace: bool) -> Plan:
    """The entries that are news; contradictions within the table, and with the study, are errors."""
    there = Counter(_identity(t.params, t.value, t.sem, t.state == "failed") for t in trials if t.added)
    added, told = [], dict[int, Entry]()
    problems, conflicts, repeated = [], [], 0
    for entry in said.entries:
        if entry.number is None:
            same = _identity(entry.params, entry.value, entry.sem, entry.failed)
            known = there[same] > 0
            there[same] -= known
            repeated += known
            added += [] if known else [entry]
        elif problem := _problem(study, trials, entry, told.get(entry.number)):
            problems.append(f"{entry.where}: {problem}")
        elif entry.repeats(trial := trials[entry.number]):
            repeated += 1
        elif trial.state == "pending" or trial.lease is not None or replace:
            told[entry.number] = entry
        else:
            conflicts.append(f"{entry.where}: trial {entry.number} has {_now(trial)}, the table {_said(entry)}.")
    if problems:
        raise FileError(_listed(f"{name}: nothing was written", problems))
    if conflicts:
        raise ConflictError(_listed(f"{name}: nothing was written; --replace takes the table's values", conflicts))
    return Plan([*told.values(), *added], repeated, said.empty)


def _problem(study: Study, trials: Sequence[Trial], entry: Entry, before: Entry | None) -> str | None:
    """What is wrong with an entry about a trial; `before` is an earlier one about the same."""
    assert entry.number is not None
    if entry.number >= len(trials):
        return no_trial(entry.number, len(trials))
    if before is not None and _said(before) != _said(entry):
        return f"trial {entry.number} has another value on {before.where}."
    return _differing(study, trials[entry.number], entry)


def no_trial(number: int, count: int) -> str:
    """That there is no trial of that number, and which there are."""
    there = f"it has 0 to {count - 1}" if count else "it has none yet; `poolwise ask` gives the first"
    return f"there is no trial {number} in the study; {there}."


def _identity(params: Mapping[str, Any], value: float | None, sem: float | None, failed: bool) -> Any:
    """What makes two added experiments the same, so that a table may be told twice."""
    keys = tuple((name, key(value)) for name, value in sorted(params.items()))
    return keys, *((None, None) if failed else (value, sem))


def _differing(study: Study, trial: Trial, entry: Entry) -> str | None:
    """How a row's parameters contradict those of its trial, beyond what rounding and the writing of texts explain."""
    for name, value in entry.params.items():
        stored = trial.params.get(name)
        same_text = entry.cells[name].strip() == spelled(stored).strip()
        if not same_text and not _alike(study.space.parameters[name], value, stored):
            return (
                f"{name} is {spelled(value)} here and {spelled(stored)} in trial {trial.number}; check the number. "
                "An experiment of your own has no number: leave its cell empty."
            )
    return None


def _alike(parameter: Parameter, a: Any, b: Any) -> bool:
    if key(a) == key(b):
        return True
    if isinstance(parameter, Choice | Fixed) or not isinstance(a, int | float) or not isinstance(b, int | float):
        return False
    low, high = parameter.low, parameter.high
    if parameter.log:
        return a > 0 and b > 0 and abs(math.log(a / b)) <= CLOSE * math.log(high / low)
    return abs(a - b) <= CLOSE * (high - low)


def _said(entry: Entry) -> str:
    error = "" if entry.sem is None else f" (sem {entry.sem!r})"
    return "a failure" if entry.failed else f"{entry.value!r}{error}"


def _now(trial: Trial) -> str:
    error = "" if trial.sem is None else f" (sem {trial.sem!r})"
    return "failed" if trial.state == "failed" else f"{trial.value!r}{error}"


def _listed(head: str, problems: Sequence[str]) -> str:
    more = [f"... and {len(problems) - SHOWN} more"] if len(problems) > SHOWN else []
    return "\n  ".join([f"{head}:", *problems[:SHOWN], *more])
