"""What the rows of a table say, against what the study holds: what is news, and what cannot be."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from poolwise.cli.command import FileError
from poolwise.cli.terminal import spelled
from poolwise.space.errors import SpaceError
from poolwise.space.parameters import Choice, Fixed, Parameter
from poolwise.space.scalars import key
from poolwise.study.arguments import outcome_of
from poolwise.study.errors import ConflictError
from poolwise.study.rows import plain
from poolwise.study.store import NO_REASON, Outcome
from poolwise.study.study import Study
from poolwise.study.trial import Trial

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
        return Outcome("failed", reason=plain(self.reason) or NO_REASON)

    def repeats(self, trial: Trial, *, replace: bool) -> bool:
        """Whether the trial says so already; another reason is news where it may take the place of the first."""
        said, row = self.outcome, vars(trial)
        news = self.failed and (replace or trial.lease is not None) and said.differs(row)
        return said.repeats(row) and not news


@dataclass(frozen=True)
class Plan:
    """What is to be written, after everything was looked at."""

    entries: Sequence[Entry]
    repeated: int  # rows that the study knows already
    empty: int  # rows without a value


def compared(study: Study, trials: Sequence[Trial], name: str, said: Plan, *, replace: bool) -> Plan:
    """The entries that are news; contradictions within the table, and with the study, are errors."""
    pending = _pending(trials, said)
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
            if not known and (asked := _asked_for(study, pending, entry)) is not None:
                problems.append(f"{entry.where} is trial {asked}, which is pending: give its number.")
        elif problem := _problem(study, trials, entry, told.get(entry.number)):
            problems.append(f"{entry.where}: {problem}")
        elif entry.repeats(trial := trials[entry.number], replace=replace):
            repeated += 1
        elif trial.state == "pending" or trial.lease is not None or replace:
            told[entry.number] = entry
        else:
            conflicts.append(f"{entry.where}: trial {entry.number} has {_now(trial)}, the table {_said(entry)}.")
    if problems:
        raise FileError(listed(f"{name}: nothing was written", problems))
    if conflicts:
        raise ConflictError(listed(f"{name}: nothing was written; --replace takes the table's values", conflicts))
    return Plan([*told.values(), *added], repeated, said.empty)


def _pending(trials: Sequence[Trial], said: Plan) -> list[Trial]:
    """The pending trials that a table does not name."""
    named = {entry.number for entry in said.entries}
    return [trial for trial in trials if trial.state == "pending" and trial.number not in named]


def _asked_for(study: Study, pending: Sequence[Trial], entry: Entry) -> int | None:
    """The pending trial that a row without a number has the parameters of."""
    return next((trial.number for trial in pending if _differing(study, trial, entry) is None), None)


def corrections(trials: Sequence[Trial], added: Sequence[Entry]) -> list[str]:
    """Rows that have all parameters of an experiment added before, and another value: repeated, or corrected."""
    before = {_identity(trial.params, None, None, True): trial for trial in trials if trial.added}
    return [
        f"{entry.where} has the parameters of trial {trial.number}, which has {_now(trial)}, and was added beside it; "
        f"to correct a value: poolwise tell {trial.number} VALUE --replace"
        for entry in added
        if (trial := before.get(_identity(entry.params, None, None, True))) is not None
    ]


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
        same_text = entry.cells.get(name, "").strip() == spelled(stored).strip()
        parameter = study.space.parameters[name]
        if not same_text and not _alike(parameter, value, stored):
            return _unknown(name, parameter, value) or (
                f"{name} is {spelled(value)} here and {spelled(stored)} in trial {trial.number}; check the number. "
                "An experiment of your own has no number: leave its cell empty."
            )
    return None


def _unknown(name: str, parameter: Parameter, value: Any) -> str | None:
    """Why something is no value of a parameter at all; numbers that a range does not have may be rounded."""
    if isinstance(parameter, Choice | Fixed) or isinstance(value, str):
        try:
            parameter.code(name, value)
        except SpaceError as error:
            return str(error)
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


def listed(head: str, problems: Sequence[str]) -> str:
    """Problems below each other, the first of them where there are many."""
    more = [f"... and {len(problems) - SHOWN} more"] if len(problems) > SHOWN else []
    return "\n  ".join([f"{head}:", *problems[:SHOWN], *more])
