"""Leases: kept alive while trials run, and how workers that share a study take trials and give them back."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import sqlalchemy as sa

from poolwise.errors import PoolwiseError
from poolwise.study import statements as sql
from poolwise.study.asking import LAPSED
from poolwise.study.rows import Row, as_trial, checked
from poolwise.study.schema import revisions, sealed, trials
from poolwise.study.study import Study
from poolwise.study.trial import Trial

log = logging.getLogger(__name__)

SHARE = 3  # renewals in the time of one lease
NO_TIME = 1e-3  # seconds
MOST_LAPSES = 3  # a trial that was lost with so many workers may be what ends them


@dataclass(frozen=True)
class Board:
    """What workers see of a study: how far it is, and what there is to take."""

    pools: int  # asked for so far
    finished: int  # told or failed, without those that were added by hand
    held: int  # pending, and somebody's
    free: int  # pending, and nobody's: not taken yet, given back, or the lease has run out


@contextmanager
def renewing(study: Study, lease: float | None, numbers: Callable[[], list[int]]) -> Iterator[None]:
    """Renew the leases of trials, again and again, by a thread of its own: the objective may hold this one.

    Trials that are left at the end are given back: others may take them over at once.
    """
    if lease is None:
        yield
        return
    over = threading.Event()

    def renew() -> None:
        while not over.wait(lease / SHARE):
            _try(numbers(), lambda number: study.renew(number, lease), "renewed")

    thread = threading.Thread(target=renew, daemon=True, name="poolwise-leases")
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        _try(numbers(), lambda number: give_back(study, number), "ended")


def _try(numbers: list[int], change: Callable[[int], object], changed: str) -> None:
    """Change leases as far as the store can be used; what is not changed runs out."""
    for number in numbers:
        try:
            change(number)
        except PoolwiseError as error:
            log.warning("run: the lease of trial %d could not be %s (%s)", number, changed, error)


def waiting_lease(study: Study) -> float | None:
    """The lease with which a pool is asked for that others are to take from: one that is over at once.

    None where the study fails the trials whose lease is over.
    """
    return NO_TIME if study.settings.expired == "ask" else None


def look(study: Study) -> Board:
    """How far a study is, and what there is to take."""
    store, identity = study._store, study._id

    def work(c: sa.Connection) -> Board:
        return _board(c, sql.head(c, identity), _pending(c, identity), store.now(c))

    return store.run.read(work)


def leased(study: Study) -> dict[int, bool]:
    """The pending trials that are on a lease, by number, and whether it lives."""
    store, identity = study._store, study._id

    def work(c: sa.Connection) -> dict[int, bool]:
        now = store.now(c)
        return {row["number"]: row["lease"] > now for row in _pending(c, identity) if row["lease"] is not None}

    return store.run.read(work)


def take(study: Study, lease: float, most: int) -> Trial | None:
    """The first trial that is nobody's, now on a lease; no two callers get the same.

    None where there is none, or where so many as `most` are finished or held. A trial whose lease ran out for the last
    time (the first, if the study's setting is so) is failed instead; its worker may still tell it.
    """
    store, identity = study._store, study._id
    lapses_allowed = MOST_LAPSES if study.settings.expired == "ask" else 1

    def work(c: sa.Connection) -> Trial | None:
        head, now = sql.head(c, identity, lock=True), store.now(c)
        pending = _pending(c, identity)
        board, taken, lost = _board(c, head, pending, now), None, 0
        for row in [row for row in pending if _is_free(row, now)]:
            if board.finished + board.held + lost >= most:
                break
            lapses = _lapses(c, row)
            if lapses >= lapses_allowed:
                reason = LAPSED if lapses_allowed == 1 else f"{LAPSED}, with {lapses} workers; perhaps it ends them"
                sql.put(c, {**row, "state": "failed", "reason": reason, "finished": now})
                lost += 1
                continue
            if lapses:
                sql.keep(c, {**row, "reason": LAPSED}, now)
            taken = sealed({**row, "lease": now + lease})
            sql.put(c, taken)
            break
        if lost:
            sql.touch(c, head)
        return None if taken is None else as_trial(taken)

    return store.run.write(work)


def give_back(study: Study, number: int) -> None:
    """A trial that was taken and not finished is nobody's again, as if it had not been taken."""
    store, identity = study._store, study._id

    def work(c: sa.Connection) -> None:
        sql.head(c, identity, lock=True)
        row = sql.row(c, identity, number)
        if row["state"] == "pending":
            sql.put(c, {**row, "lease": None if waiting_lease(study) is None else row["asked"]})

    store.run.write(work)


def _pending(c: sa.Connection, study: int) -> list[Row]:
    query = sa.select(trials).where(trials.c.study == study, trials.c.state == "pending").order_by(trials.c.number)
    return [checked(row, trials) for row in c.execute(query).mappings()]


def _board(c: sa.Connection, head: Row, pending: list[Row], now: float) -> Board:
    own = (trials.c.study == head["id"]) & trials.c.pool.is_not(None) & (trials.c.state != "pending")
    finished = c.scalar(sa.select(sa.func.count()).select_from(trials).where(own)) or 0
    free = sum(_is_free(row, now) for row in pending)
    return Board(head["pools"], finished, len(pending) - free, free)


def _is_free(row: Row, now: float) -> bool:
    return row["lease"] is None or row["lease"] <= now


def _lapses(c: sa.Connection, row: Row) -> int:
    """How often a lease of a trial that is free has run out, not counting one that was over when it was asked for."""
    if row["lease"] is None or row["lease"] <= row["asked"] + 2 * NO_TIME:
        return 0
    here = (revisions.c.study == row["study"]) & (revisions.c.number == row["number"])
    query = sa.select(sa.func.count()).select_from(revisions).where(here & (revisions.c.state == "pending"))
    return 1 + (c.scalar(query) or 0)
