"""Telling a study what became of its trials: at once, with patience for the store, and with an eye on failures."""

from __future__ import annotations

import logging
from collections import deque

from poolwise.study.callbacks import Callbacks
from poolwise.study.calling import Report
from poolwise.study.errors import ConflictError, StorageError, VersionError
from poolwise.study.interrupt import Interrupt
from poolwise.study.stops import RunStopped
from poolwise.study.study import Study
from poolwise.study.trial import Trial

log = logging.getLogger(__name__)

RECENT = 10  # a run stops when more than half of so many trials fail
WAITS = (1.0, 5.0, 15.0)  # seconds between attempts to store, each of which lasts as long as the study is patient


class Teller:
    """Tells a study the reports of a run, and keeps those that could not be stored."""

    def __init__(self, study: Study, callbacks: Callbacks, interrupt: Interrupt) -> None:
        self._study, self._callbacks, self._interrupt = study, callbacks, interrupt
        self._recent: deque[bool] = deque(maxlen=RECENT)
        self.unstored: list[tuple[Trial, Report]] = []

    def finish(self, trial: Trial, report: Report) -> None:
        """Store a report; an error if most trials have failed of late."""
        stored = self.store(trial, report)
        self._recent.append(stored.state == "failed")
        if sum(self._recent) > RECENT // 2:
            raise RunStopped(
                f"{sum(self._recent)} of the last {len(self._recent)} trials failed, the last one (trial "
                f"{trial.number}) because: {stored.reason}\n"
                "What was told is kept. Correct the objective or the space, then run again."
            )

    def store(self, trial: Trial, report: Report) -> Trial:
        """Store a report, with several attempts if the store cannot be used; after those it is kept in `unstored`."""
        waits = iter(WAITS)
        while True:
            try:
                return self._tell(trial, report)
            except StorageError as error:
                wait = next(waits, None)
                if wait is None or isinstance(error, VersionError) or self._interrupt.noted:
                    self.unstored.append((trial, report))
                    raise
                log.warning("run: %s could not be stored (%s); trying again", _words(trial, report), error)
                self._interrupt.sleep(wait)

    def store_last(self, trial: Trial, report: Report) -> None:
        """Store a report of a run that is ending; no attempt where another has failed."""
        if self.unstored:
            self.unstored.append((trial, report))
        else:
            self.store(trial, report)

    def with_unstored(self, error: BaseException) -> RunStopped:
        """The error that ended a run, with the values that would be lost."""
        values = "; ".join(_words(trial, report) for trial, report in self.unstored)
        message = f"{error} Not stored, and to be told by hand when the store is back: {values}."
        log.error("run: %s", message)
        return RunStopped(message)

    def _tell(self, trial: Trial, report: Report) -> Trial:
        try:
            if report.reason is None:
                stored = self._study.tell(trial, report.value, report.sem)
            else:
                stored = self._study.fail(trial, report.reason)
        except ConflictError as error:
            log.warning("run: somebody else has told trial %d meanwhile, which stands (%s)", trial.number, error)
            stored = self._study.trial(trial.number)
        self._callbacks.on_finish(stored)
        return stored


def _words(trial: Trial, report: Report) -> str:
    return f"trial {trial.number}: {report}"
