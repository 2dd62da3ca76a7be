"""Rows of a pandas table as trials of a study: every row is stored, or none."""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np

from poolwise.errors import InputError, PoolwiseError
from poolwise.space.errors import did_you_mean
from poolwise.space.parameters import Choice, Fixed, Int, Parameter
from poolwise.space.scalars import key
from poolwise.study.arguments import outcome_of
from poolwise.study.definition import Definition
from poolwise.study.errors import ConflictError
from poolwise.study.placing import stored_params
from poolwise.study.rows import plain
from poolwise.study.store import NO_REASON, Outcome, Said
from poolwise.study.tables import Sheet, spelled
from poolwise.study.trial import STATES, Trial

if TYPE_CHECKING:
    from poolwise.study.study import Study

log = logging.getLogger(__name__)

SHOWN = 20  # problems of one table
TEXTS = Sheet([], [])  # which reads numbers in text


@dataclass(frozen=True)
class Entry:
    """What one row says; a number is that of a trial of the study only if the parameters are that trial's."""

    row: str
    number: int | None
    params: dict[str, Any]
    outcome: Outcome

    def identity(self) -> Any:
        """What makes two rows the same, so that a table may be given twice."""
        return _identity(self.params, self.outcome.value, self.outcome.sem)

    def is_of(self, there: Sequence[Trial]) -> bool:
        """Whether the row is a trial's own."""
        n = self.number
        return n is not None and n < len(there) and _identity(there[n].params) == _identity(self.params)


def record(study: Study, frame: Any) -> list[Trial]:
    """Store what a table says, in one transaction; the trials of its rows, those that were there already too."""
    entries = read_rows(study.definition, frame)
    try:
        return study.tell_all(lambda there: _said(there, entries))
    except ConflictError as error:
        raise ConflictError(
            f"{str(error).partition(';')[0]}; nothing was stored. Tell it by tell(..., replace=True), or leave out the "
            "column 'number' if it is another experiment."
        ) from None


def _said(there: Sequence[Trial], entries: Sequence[Entry]) -> list[Said]:
    """Rows with the number of the trial they are; those of finished trials that no other row is, each once."""
    own = [entry.number if entry.is_of(there) else None for entry in entries]
    taken = set(own)
    known: dict[Any, list[int]] = {}
    for trial in there:
        if trial.state != "pending" and trial.number not in taken:
            known.setdefault(_identity(trial.params, trial.value, trial.sem), []).append(trial.number)
    said = []
    for number, entry in zip(own, entries, strict=True):
        same = known.get(entry.identity(), []) if number is None else []
        said.append(Said(same.pop(0) if same else number, entry.params, entry.outcome, f"row {entry.row}: "))
    return said


def _identity(params: Mapping[str, Any], value: float | None = None, sem: float | None = None) -> Any:
    return tuple((name, key(params[name])) for name in sorted(params)), value, sem


def read_rows(definition: Definition, frame: Any) -> list[Entry]:
    """The rows of a table, but pending ones without a value; an error lists what is wrong, by row and column."""
    columns = _columns(definition, frame)
    entries, problems = [], []
    for label, cells in _cells(frame, columns):
        try:
            entry = _entry(definition, label, cells)
        except PoolwiseError as error:
            problems.append(f"row {label}, column {error}")
            continue
        entries += [] if entry is None else [entry]
    if problems:
        more = [f"... and {len(problems) - SHOWN} more"] if len(problems) > SHOWN else []
        raise InputError("\n  ".join(["frame: nothing was stored:", *problems[:SHOWN], *more]))
    return entries


def _columns(definition: Definition, frame: Any) -> dict[str, Any]:
    """Where the table has what the study needs."""
    names = list(getattr(frame, "columns", []))
    if not names:
        raise InputError(f"frame: expected a pandas table with columns, got {type(frame).__name__}.")
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise InputError(f"frame: has two columns named {twice[0]!r}; rename or remove one.")
    other = [] if "value" in definition.space.names else ["value"]
    objective = next((name for name in (definition.objective, *other) if name in names), None)
    if objective is None:
        hint = did_you_mean(definition.objective, [name for name in names if isinstance(name, str)])
        also = " (or 'value')" if other else ""
        raise InputError(f"frame: has no column {definition.objective!r}{also}.{hint}")
    for name, parameter in definition.space.parameters.items():
        if name not in names and not isinstance(parameter, Fixed):
            hint = did_you_mean(name, [other for other in names if isinstance(other, str)])
            raise InputError(f"frame: has no column {name!r}, which is a parameter of the study.{hint}")
    found = {name: name for name in (*definition.space.names, "number", "state", "sem", "reason") if name in names}
    return {**found, definition.objective: objective}


def _cells(frame: Any, columns: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each row's label, and its cells as plain Python values; what pandas takes for missing is None."""
    missing = {name: frame[column].isna().tolist() for name, column in columns.items()}
    values = {name: frame[column].tolist() for name, column in columns.items()}
    for i, label in enumerate(frame.index.tolist()):
        yield repr(label), {name: None if missing[name][i] else _plain(values[name][i]) for name in columns}


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        return float(value)
    return value.item() if isinstance(value, np.generic) else value


def _entry(definition: Definition, label: str, cells: Mapping[str, Any]) -> Entry | None:
    """What a row says; None if its trial is pending. Errors begin with the column."""
    value, state, reason = cells[definition.objective], cells.get("state"), cells.get("reason")
    if state not in (None, *STATES):
        raise InputError(f"state: {state!r} is none of {', '.join(map(repr, STATES))}.")
    number = None if cells.get("number") is None else _whole(cells["number"])
    if value is None and state == "pending" and reason is None:
        return None
    if value is None and state != "failed" and reason is None:
        raise InputError(
            f"{definition.objective}: has no value; leave the row out, or write 'failed' into the column 'state'."
        )
    if value is not None and state == "failed":
        raise InputError(
            f"{definition.objective}: has a value, {value!r}, and the state 'failed'; leave one of them out."
        )
    if value is None:
        outcome = Outcome("failed", reason=plain(reason or "") or NO_REASON)
    else:
        outcome = outcome_of(_number_in(definition.objective, value), _sem(cells.get("sem")))
    given = {name: _param(p, name, cells[name]) for name, p in definition.space.parameters.items() if name in cells}
    params, outside = stored_params(definition.space, given)
    if outside is not None:
        log.warning("row %s is outside the space (%s)", label, outside)
    return Entry(label, number, params, outcome)


def _number_in(name: str, value: Any) -> Any:
    found = TEXTS.number(value) if isinstance(value, str) else value
    if found is None or isinstance(found, bool) or not isinstance(found, int | float):
        raise InputError(f"{name}: {value!r} is no number.")
    return found


def _whole(value: Any) -> int:
    number = _number_in("number", value)
    if not math.isfinite(number) or number != int(number) or number < 0:
        raise InputError(f"number: {value!r} is no number of a trial.")
    return int(number)


def _sem(value: Any) -> float | None:
    number = None if value is None else _number_in("sem", value)
    if number is not None and not 0 <= number < math.inf:
        raise InputError(f"sem: {value!r} is no standard error, which is zero or more.")
    return number


def _param(parameter: Parameter, name: str, value: Any) -> Any:
    """A parameter's value of a cell: as it is where it fits, otherwise by how it is spelled."""
    options = _options(parameter)
    if value is None:
        if None not in options:
            raise InputError(f"{name}: has no value.")
        return None
    if not isinstance(value, bool | int | float | str):
        raise InputError(f"{name}: expected text, a number or a truth value, got {type(value).__name__}.")
    if any(key(value) == key(option) for option in options):
        return value
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return parameter_value(parameter, TEXTS, spelled(value)) if options or isinstance(value, str) else value


def _options(parameter: Parameter) -> Sequence[Any]:
    return (
        parameter.values if isinstance(parameter, Choice) else [parameter.value] if isinstance(parameter, Fixed) else []
    )


def parameter_value(parameter: Parameter, sheet: Sheet, cell: str) -> Any:
    """The value of a parameter that a cell spells; where it spells none, the text, which the space then refuses."""
    number = sheet.number(cell)
    if values := _options(parameter):
        alike: list[Callable[[Any], bool]] = [
            lambda value: spelled(value) == cell,
            lambda value: spelled(value).casefold() == cell.casefold(),
            lambda value: number is not None and key(value) == ("number", number),
        ]
        for same in alike:
            if found := [value for value in values if same(value)]:
                return found[0]
        return cell
    if number is None:
        return cell
    return int(number) if isinstance(parameter, Int) and number.is_integer() else number
