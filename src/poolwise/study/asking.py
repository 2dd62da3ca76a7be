"""Asking: a pool is chosen outside of any transaction, and stored only where the data still allow it."""

from __future__ import annotations

import logging
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from poolwise.space.errors import SpaceExhausted
from poolwise.study.rows import encoded
from poolwise.study.trial import Pool, Trial

if TYPE_CHECKING:
    from poolwise.study.study import Study

log = logging.getLogger(__name__)

Params = dict[str, Any]

RETRIES = 2  # how often a pool is chosen anew because the data changed; after that only what would be wrong is a reason
LAPSED = "the lease ran out before the trial was told"


@dataclass(frozen=True)
class Limit:
    """How many trials of a study may be finished or somebody's; the asker's own are so with and without a lease."""

    trials: int
    mine: frozenset[int]


@dataclass(frozen=True)
class Wish:
    """A pool that is to be asked for."""

    q: int
    request_id: str
    lease: float | None
    limit: Limit | None = None


@dataclass(frozen=True)
class Snapshot:
    """All trials of a study at one version of its data, and the time by the store's clock."""

    version: int
    trials: list[Trial]
    now: float

    def expired(self) -> list[Trial]:
        """Pending trials whose lease has run out, oldest first."""
        return [t for t in self.trials if t.state == "pending" and t.lease and t.lease.timestamp() <= self.now]

    def room(self, limit: Limit) -> int:
        """How many trials may be handed out: the limit less those that are finished or somebody's."""
        free = [t for t in self.trials if t.state == "pending" and (not t.lease or t.lease.timestamp() <= self.now)]
        taken = sum(not t.added for t in self.trials) - sum(t.number not in limit.mine for t in free)
        return limit.trials - taken


@dataclass(frozen=True)
class Request:
    """A wish, ready to be stored: trials handed out again, and new ones."""

    wish: Wish
    again: Sequence[int]
    new: Sequence[Params]
    seen: Snapshot
    strict: bool  # whether any change since `seen` makes it stale, or only what would be wrong

    def stands_on(self, others: set[str]) -> bool:
        """Whether a new point equals one of others."""
        return any(encoded(params) in others for params in self.new)

    def fits(self, trials: list[Trial]) -> bool:
        """Whether the limit has room beside the trials that there are now; who had one on a lease still has it."""
        limit, there = self.wish.limit, Snapshot(self.seen.version, trials, self.seen.now)
        return limit is None or len(self.again) + len(self.new) <= there.room(limit)


def ask(study: Study, wish: Wish) -> Pool:
    """The pool of a wish; smaller where the space or the limit leaves no more, and empty where the limit is reached."""
    store, identity, attempt = study._store, study._id, 0
    while True:
        seen = _seen(study)
        q = wish.q if wish.limit is None else min(wish.q, seen.room(wish.limit))
        if q <= 0:
            return Pool([], study.objective, wish.request_id)
        mine = frozenset[int]() if wish.limit is None else wish.limit.mine
        again = [trial.number for trial in seen.expired() if trial.number not in mine][:q]
        salt = random.getrandbits(32) if attempt >= RETRIES else 0
        new = _new(study, seen, q - len(again), salt, needed=not again)
        pool = store.ask(identity, Request(wish, again, new, seen, attempt < RETRIES))
        if pool is not None:
            return Pool(pool, study.objective, wish.request_id)
        attempt += 1
        log.info("study %s: the data changed while a pool was chosen; choosing again", study.name)


def _seen(study: Study) -> Snapshot:
    """All trials; where those whose lease has run out are failed, none is left that is to be."""
    seen = study._store.snapshot(study._id)
    while study.settings.expired == "fail" and seen.expired():
        study._store.lapse(study._id, LAPSED)
        seen = study._store.snapshot(study._id)
    return seen


def _new(study: Study, seen: Snapshot, q: int, salt: int, *, needed: bool) -> list[Params]:
    if q == 0:
        return []
    from poolwise.study.suggest import suggest

    try:
        return suggest(study.definition, seen.trials, q, salt)
    except SpaceExhausted:
        if needed:
            raise
        return []
