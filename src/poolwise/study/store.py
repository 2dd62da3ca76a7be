"""The store: a few verbs, each one transaction that may be repeated without harm."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from poolwise.study import rows
from poolwise.study import statements as sql
from poolwise.study.asking import Params, Request, Snapshot
from poolwise.study.engine import parse_url, shown
from poolwise.study.errors import StudyNotFound
from poolwise.study.migration import bring_up, prepare, stored_version
from poolwise.study.rows import Row, as_revision, as_trial, checked, damaged, encoded
from poolwise.study.schema import requests, revisions, sealed, studies, trials
from poolwise.study.transactions import Transactions
from poolwise.study.trial import Revision, State, Trial

NO_REASON = "no reason given"


@dataclass(frozen=True)
class Outcome:
    """What became of a trial."""

    state: State
    value: float | None = None
    sem: float | None = None
    reason: str | None = None

    def repeats(self, row: Row) -> bool:
        """Whether the row says so already."""
        if self.state != row["state"] or self.state == "failed":
            return self.state == row["state"]
        return self.value == row["value"] and self.sem in (None, row["sem"])

    def differs(self, row: Row) -> bool:
        """Whether the row says anything else, be it a reason or a standard error."""
        return self.reason != NO_REASON and any(row[key] != said for key, said in vars(self).items())


@dataclass(frozen=True)
class Said:
    """What became of the trial of that number, or of one that was not asked for; `where` it was said is for errors."""

    number: int | None
    params: Params
    outcome: Outcome
    where: str = ""


class Store:
    """Studies in a database; SQLite and PostgreSQL by the same statements."""

    def __init__(
        self, url: str | sa.URL | None = None, *, patience: float = 60.0, clock: Callable[[], float] | None = None
    ) -> None:
        self.url = parse_url(url)
        self.run = Transactions(self.url, patience)
        self._clock = clock or (time.time if self.run.sqlite else None)
        try:
            prepare(self.run)
        except BaseException:
            self.run.close()
            raise

    def __repr__(self) -> str:
        return f"Store({shown(self.url)!r})"

    def close(self) -> None:
        """Let go of the database's connections."""
        self.run.close()

    def names(self) -> list[str]:
        """The studies that are there."""
        return self.run.read(lambda c: sql.names(c) if stored_version(c) is not None else [])

    def create(self, name: str, definition: str) -> Row:
        """The study of that name; a new one with this definition where there is none."""

        def work(c: sa.Connection) -> Row:
            bring_up(c, self.url)
            if (row := sql.find(c, name)) is not None:
                return row
            fresh = {"id": sql.unused(c), "name": name, "definition": definition, "created": self.now(c)}
            row = sealed({**fresh, "version": 0, "trials": 0, "pools": 0})
            c.execute(studies.insert().values(row))
            return row

        return self._found(name) or self.run.write(work)

    def redefine(self, name: str, definition: str) -> Row:
        """The study of that name, with this definition unless it has trials; for who has it open with another, gone."""

        def work(c: sa.Connection) -> Row:
            bring_up(c, self.url)
            if (found := sql.find(c, name)) is None:
                raise StudyNotFound(f"the study {name!r} is no longer in the store.")
            row = sql.head(c, found["id"], lock=True)
            if row["trials"] or row["definition"] == definition:
                return row
            fresh = sealed({**row, "id": sql.unused(c), "definition": definition})
            c.execute(studies.update().where(studies.c.id == row["id"]).values(fresh))
            return fresh

        return self.run.write(work)

    def load(self, name: str) -> Row:
        """The study of that name."""
        if (row := self._found(name)) is None:
            there = self.names()
            known = f"it has {', '.join(map(repr, there))}" if there else "it has none yet"
            raise StudyNotFound(
                f"no study {name!r} in {shown(self.url)}: {known}. Give space= and minimize= or maximize= to create it."
            )
        return row

    def snapshot(self, study: int) -> Snapshot:
        """All trials at one moment; numbers are consecutive or the store is damaged."""

        def work(c: sa.Connection) -> Snapshot:
            head = sql.head(c, study)
            found = sql.select(c, trials.c.study == study)
            if [t.number for t in found] != list(range(head["trials"])):
                raise damaged(f"study {head['name']!r}", f"should have {head['trials']} trials, but not all are there")
            return Snapshot(head["version"], found, self.now(c))

        return self.run.read(work)

    def trial(self, study: int, number: int) -> Trial:
        """One trial."""
        return self.run.read(lambda c: as_trial(sql.row(c, study, number)))

    def pending(self, study: int) -> list[Trial]:
        """The trials that have been asked for and not told."""
        return self.run.read(lambda c: sql.select(c, (trials.c.study == study) & (trials.c.state == "pending")))

    def best(self, study: int, *, highest: bool) -> Trial | None:
        """The told trial with the best value, the earliest of equals."""
        order = trials.c.value.desc() if highest else trials.c.value.asc()
        told = sa.select(trials).where(trials.c.study == study, trials.c.state == "told")
        found = self.run.read(lambda c: c.execute(told.order_by(order, trials.c.number).limit(1)).mappings().first())
        return None if found is None else as_trial(found)

    def counts(self, study: int) -> dict[str, int]:
        """How many trials are in each state."""
        query = sa.select(trials.c.state, sa.func.count()).where(trials.c.study == study).group_by(trials.c.state)
        return {str(state): int(n) for state, n in self.run.read(lambda c: list(c.execute(query)))}

    def history(self, study: int, number: int) -> list[Revision]:
        """What a trial said before, oldest first."""
        query = sa.select(revisions).where(revisions.c.study == study, revisions.c.number == number)
        found = self.run.read(lambda c: list(c.execute(query.order_by(revisions.c.revision)).mappings()))
        return [as_revision(row) for row in found]

    def answered(self, study: int, request: str, q: int) -> list[Trial] | None:
        """The pool that a request was answered with, or None."""
        return self.run.read(lambda c: sql.answer(c, study, request, q))

    def asked(self, study: int, request: str) -> int | None:
        """The q that a request was answered with, or None."""
        found = self.run.read(lambda c: sql.request(c, study, request))
        return None if found is None else int(found["q"])

    def ask(self, study: int, request: Request) -> list[Trial] | None:
        """Store a pool, whole; None where the data have changed since it was made."""

        def work(c: sa.Connection) -> list[Trial] | None:
            head, wish = sql.head(c, study, lock=True), request.wish
            if (known := sql.answer(c, study, wish.request_id, wish.q)) is not None:
                return known
            if head["version"] != request.seen.version and (request.strict or self._wrong(c, study, request)):
                return None
            now = self.now(c)
            lease = None if wish.lease is None else now + wish.lease
            again = [sql.row(c, study, number) for number in request.again]
            if any(row["state"] != "pending" or row["lease"] is None or row["lease"] > now for row in again):
                return None
            for row in again:
                sql.put(c, {**row, "lease": lease})
            fresh = {"study": study, "request": wish.request_id, "pool": head["pools"], "asked": now, "lease": lease}
            numbers = sql.append(c, head, [{**fresh, "state": "pending", "params": encoded(p)} for p in request.new])
            every = [*request.again, *numbers]
            answer = {"study": study, "request": wish.request_id, "q": wish.q, "numbers": encoded(every)}
            c.execute(requests.insert().values(sealed(answer)))
            sql.touch(c, head, trials=len(numbers), pools=1)
            return [as_trial(sql.row(c, study, number)) for number in every]

        return self.run.write(work)

    def _wrong(self, c: sa.Connection, study: int, request: Request) -> bool:
        """Whether others have one of the points by now, or leave no room within the limit."""
        if request.stands_on(sql.since(c, study, len(request.seen.trials))):
            return True
        return request.wish.limit is not None and not request.fits(sql.select(c, trials.c.study == study))

    def add(self, study: int, request: str, params: Params, outcome: Outcome) -> Trial:
        """Store a trial that was not asked for; once, however often the request is repeated."""
        said = Said(None, params, outcome)
        return self.run.write(lambda c: self._add(c, sql.head(c, study, lock=True), request, said))

    def finish(self, study: int, number: int, outcome: Outcome, *, replace: bool = False) -> Trial:
        """Store what became of a trial; what it said before, if it is replaced, is kept as a revision."""
        said = Said(number, {}, outcome)
        return self.run.write(lambda c: self._finish(c, sql.head(c, study, lock=True), said, replace))

    def tell_all(
        self, study: int, decide: Callable[[list[Trial]], Sequence[Said]], *, replace: bool = False
    ) -> list[Trial]:
        """Store all that is decided on in view of the trials that are there, or nothing."""

        def work(c: sa.Connection) -> list[Trial]:
            head = sql.head(c, study, lock=True)
            return [
                self._add(c, head, uuid.uuid4().hex, said)
                if said.number is None
                else self._finish(c, head, said, replace)
                for said in decide(sql.select(c, trials.c.study == study))
            ]

        return self.run.write(work)

    def _add(self, c: sa.Connection, head: Row, request: str, said: Said) -> Trial:
        study = head["id"]
        if (known := sql.answer(c, study, request, 1)) is not None:
            return known[0]
        now = self.now(c)
        row = {"study": study, "request": request, "params": encoded(said.params), "asked": now, "finished": now}
        [number] = sql.append(c, head, [{**row, **vars(said.outcome)}])
        answer = {"study": study, "request": request, "q": 1, "numbers": encoded([number])}
        c.execute(requests.insert().values(sealed(answer)))
        sql.touch(c, head, trials=1)
        return as_trial(sql.row(c, study, number))

    def _finish(self, c: sa.Connection, head: Row, said: Said, replace: bool) -> Trial:
        assert said.number is not None
        row, outcome = sql.row(c, head["id"], said.number), said.outcome
        lapsed = row["state"] == "failed" and row["lease"] is not None
        if outcome.repeats(row) and not ((lapsed or replace) and outcome.differs(row)):
            return as_trial(row)
        if row["state"] != "pending" and not lapsed and not replace:
            raise sql.contradiction(row, (outcome.state, outcome.value, outcome.sem, outcome.reason), said.where)
        now = self.now(c)
        if row["state"] != "pending":
            sql.keep(c, row, now)
        ended = {**row, **vars(outcome), "finished": now, "lease": None}
        sql.put(c, ended)
        sql.touch(c, head)
        return as_trial(sealed(ended))

    def lapse(self, study: int, reason: str) -> int:
        """Fail the pending trials whose lease has run out; each still takes a late tell, as its lease is kept."""

        def work(c: sa.Connection) -> int:
            head, now = sql.head(c, study, lock=True), self.now(c)
            late = (trials.c.study == study) & (trials.c.state == "pending") & (trials.c.lease <= now)
            found = [checked(row, trials) for row in c.execute(sa.select(trials).where(late)).mappings()]
            for row in found:
                sql.put(c, {**row, "state": "failed", "reason": rows.plain(reason), "finished": now})
            if found:
                sql.touch(c, head)
            return len(found)

        return self.run.write(work)

    def renew(self, study: int, number: int, lease: float) -> Trial:
        """A pending trial's lease, counted from now; other trials are left as they are."""

        def work(c: sa.Connection) -> Trial:
            sql.head(c, study, lock=True)
            row = sql.row(c, study, number)
            if row["state"] == "pending":
                row = sealed({**row, "lease": self.now(c) + lease})
                sql.put(c, row)
            return as_trial(row)

        return self.run.write(work)

    def _found(self, name: str) -> Row | None:
        return self.run.read(lambda c: sql.find(c, name) if stored_version(c) is not None else None)

    def now(self, c: sa.Connection) -> float:
        """The store's clock: this host's for SQLite, the server's for PostgreSQL."""
        if self._clock is not None:
            return float(self._clock())
        seconds = sa.cast(sa.func.extract("epoch", sa.func.clock_timestamp()), sa.Double)
        return float(c.execute(sa.select(seconds)).scalar_one())
