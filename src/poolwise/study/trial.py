"""A trial: one experiment, asked for or added. A pool: the trials of one `ask`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from poolwise.errors import MissingExtra

if TYPE_CHECKING:
    import pandas as pd

State = Literal["pending", "told", "failed"]
STATES: tuple[State, ...] = ("pending", "told", "failed")

BEFORE = ("number", "state", "pool")  # the columns of a table of trials, around the parameters and the objective
AFTER = ("sem", "reason", "asked", "finished")


@dataclass(frozen=True)
class Trial:
    """One experiment: its parameters, and what became of it.

    `number` counts from 0 within the study; `state` is "pending", "told" or "failed". `pool` counts the asks, and is
    None for a trial that was added by hand. Times are UTC; order is by number, never by time.
    """

    number: int
    params: dict[str, Any]
    state: State
    asked: datetime = field(repr=False)
    value: float | None = None
    sem: float | None = None
    reason: str | None = None
    pool: int | None = field(default=None, repr=False)
    request_id: str | None = field(default=None, repr=False)
    finished: datetime | None = field(default=None, repr=False)
    lease: datetime | None = field(default=None, repr=False)

    @property
    def added(self) -> bool:
        """Whether the trial was added by hand, not asked for."""
        return self.pool is None


@dataclass(frozen=True)
class Revision:
    """What a trial said before it was replaced."""

    number: int
    state: State
    value: float | None
    sem: float | None
    reason: str | None
    replaced: datetime


class Pool(list[Trial]):
    """The trials of one `ask`, to be run side by side: a list, and the request id that gives the same pool again."""

    def __init__(self, trials: Iterable[Trial], objective: str, request_id: str) -> None:
        list.__init__(self, trials)
        self.objective = objective
        self.request_id = request_id

    def to_frame(self) -> pd.DataFrame:
        """The pool as a pandas table, a row for each trial, with an empty column for the objective."""
        return to_frame(self, self.objective)


def table(trials: Sequence[Trial], objective: str) -> list[dict[str, Any]]:
    """Trials as flat rows: number, state, pool, the parameters, the objective, sem, reason, asked, finished."""
    rows: list[dict[str, Any]] = []
    for trial in trials:
        before = {name: getattr(trial, name) for name in BEFORE}
        after = {name: getattr(trial, name) for name in AFTER}
        rows.append({**before, **trial.params, objective: trial.value, **after})
    return rows


def columns(parameters: Iterable[str], objective: str) -> list[str]:
    """The columns of a table of trials, in order."""
    return [*BEFORE, *parameters, objective, *AFTER]


def to_frame(trials: Sequence[Trial], objective: str, parameters: Iterable[str] = ()) -> pd.DataFrame:
    """Trials as a pandas table; `parameters` names the columns of a table without rows."""
    try:
        import pandas as pd
    except ImportError:
        raise MissingExtra("A table needs pandas, which is not installed: pip install 'poolwise[pandas]'") from None
    rows = table(trials, objective)
    names = list(rows[0]) if rows else columns(parameters, objective)
    data: Mapping[str, list[Any]] = {name: [row[name] for row in rows] for name in names}
    frame = pd.DataFrame(data, columns=names)
    numbers = dict.fromkeys((objective, "sem"), "float64")
    times = dict.fromkeys(("asked", "finished"), "datetime64[us, UTC]")
    return frame.astype(numbers | times)
