"""Leases that are kept alive while trials run."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from poolwise.errors import PoolwiseError
from poolwise.study.study import Study

log = logging.getLogger(__name__)

SHARE = 3  # renewals in the time of one lease
NO_TIME = 1e-3  # seconds


@contextmanager
def renewing(study: Study, lease: float | None, numbers: Callable[[], list[int]]) -> Iterator[None]:
    """Renew the leases of trials, again and again, by a thread of its own: the objective may hold this one.

    Trials that are left at the end may be taken over by others at once.
    """
    if lease is None:
        yield
        return
    over = threading.Event()

    def renew() -> None:
        while not over.wait(lease / SHARE):
            _renew(study, numbers(), lease)

    thread = threading.Thread(target=renew, daemon=True, name="poolwise-leases")
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        _renew(study, numbers(), NO_TIME)


def _renew(study: Study, numbers: list[int], lease: float) -> None:
    for number in numbers:
        try:
            study.renew(number, lease)
        except PoolwiseError as error:
            log.warning("run: the lease of trial %d could not be renewed (%s)", number, error)
