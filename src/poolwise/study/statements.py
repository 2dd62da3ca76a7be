"""The statements that the store's verbs are made of; each belongs to a transaction of its caller."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from poolwise.study.errors import ConflictError, StudyNotFound
from poolwise.study.rows import Row, as_numbers, as_trial, checked
from poolwise.study.schema import requests, revisions, sealed, studies, trials
from poolwise.study.trial import Trial


def find(c: sa.Connection, name: str) -> Row | None:
    """The row of the study of that name."""
    row = c.execute(sa.select(studies).where(studies.c.name == name)).mappings().first()
    return None if row is None else checked(row, studies)


def names(c: sa.Connection) -> list[str]:
    """The names of all studies."""
    return list(c.scalars(sa.select(studies.c.name).order_by(studies.c.id)))


def unused(c: sa.Connection) -> int:
    """A number that no study has, and none had that was replaced."""
    return (c.scalar(sa.select(sa.func.max(studies.c.id))) or 0) + 1


def head(c: sa.Connection, study: int, *, lock: bool = False) -> Row:
    """The study's own row; locked, it keeps other writers of this study out until the transaction ends."""
    query = sa.select(studies).where(studies.c.id == study)
    row = c.execute(query.with_for_update() if lock else query).mappings().first()
    if row is None:
        raise StudyNotFound("the study is no longer in the store; it was removed or defined anew while it was open.")
    return checked(row, studies)


def row(c: sa.Connection, study: int, number: int) -> Row:
    """One trial's row."""
    query = sa.select(trials).where(trials.c.study == study, trials.c.number == number)
    found = c.execute(query).mappings().first()
    if found is None:
        raise ConflictError(f"trial {number}: there is none of that number in this study.")
    return checked(found, trials)


def select(c: sa.Connection, where: Any) -> list[Trial]:
    """The trials that fit a condition, by number."""
    found = c.execute(sa.select(trials).where(where).order_by(trials.c.number)).mappings()
    return [as_trial(row) for row in found]


def request(c: sa.Connection, study: int, name: str) -> Row | None:
    """What a request was answered with, if it was."""
    query = sa.select(requests).where(requests.c.study == study, requests.c.request == name)
    found = c.execute(query).mappings().first()
    return None if found is None else checked(found, requests)


def answer(c: sa.Connection, study: int, name: str, q: int) -> list[Trial] | None:
    """The trials that a request was answered with, if it was."""
    found = request(c, study, name)
    if found is None:
        return None
    if found["q"] != q:
        raise ConflictError(f"request_id {name!r}: was answered with q={found['q']}, and is now asked with q={q}.")
    return [as_trial(row(c, study, number)) for number in as_numbers(found)]


def since(c: sa.Connection, study: int, number: int) -> set[str]:
    """The parameters, as they are stored, of the trials from a number on."""
    return set(c.scalars(sa.select(trials.c.params).where(trials.c.study == study, trials.c.number >= number)))


def append(c: sa.Connection, head: Row, fresh: Sequence[Row]) -> list[int]:
    """Store new trials under the next numbers."""
    numbers = [head["trials"] + i for i in range(len(fresh))]
    empty: Row = {column.name: None for column in trials.c}
    if fresh:
        c.execute(trials.insert(), [sealed({**empty, **r, "number": n}) for n, r in zip(numbers, fresh, strict=True)])
    return numbers


def put(c: sa.Connection, row: Row) -> None:
    """Store a trial that has changed."""
    where = (trials.c.study == row["study"]) & (trials.c.number == row["number"])
    c.execute(trials.update().where(where).values(sealed(row)))


def touch(c: sa.Connection, head: Row, *, trials: int = 0, pools: int = 0) -> None:
    """Count a change of the data, in the head as well."""
    grown = {"version": head["version"] + 1, "trials": head["trials"] + trials, "pools": head["pools"] + pools}
    head.update(sealed({**head, **grown}))
    c.execute(studies.update().where(studies.c.id == head["id"]).values(head))


def keep(c: sa.Connection, row: Row, now: float) -> None:
    """Store what a trial says as a revision, because it is about to say something else."""
    here = (revisions.c.study == row["study"]) & (revisions.c.number == row["number"])
    count = c.scalar(sa.select(sa.func.count()).select_from(revisions).where(here)) or 0
    old = {key: row[key] for key in ("study", "number", "state", "value", "sem", "reason")}
    c.execute(revisions.insert().values(sealed({**old, "revision": count, "replaced": now})))


def contradiction(row: Row, said: tuple[str, float | None, float | None, str | None], where: str) -> ConflictError:
    """The error that a trial says one thing and is told another."""

    def words(state: str, value: float | None, sem: float | None, reason: str | None) -> str:
        error = "" if sem is None else f" (sem {sem!r})"
        return f"value {value!r}{error}" if state == "told" else f"failed ({reason})"

    before = words(row["state"], row["value"], row["sem"], row["reason"])
    now = words(*said)
    return ConflictError(
        f"{where}trial {row['number']}: the store has {before}, and now it is told {now}; "
        "give replace=True if the new one is right (the old one is kept in its history)."
    )
