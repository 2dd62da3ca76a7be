"""What a run tells its watchers. Any object with some of these methods will do."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from poolwise.errors import InputError
from poolwise.study.trial import Trial

if TYPE_CHECKING:
    from poolwise.study.study import Study

log = logging.getLogger(__name__)


class Callback:
    """A watcher that does nothing; override what is of interest. An exception in it is logged, and changes nothing."""

    def on_start(self, study: Any, trials: int) -> None:
        """The run begins, and will end when so many trials of the study are finished."""

    def on_ask(self, study: Any, pool: list[Trial]) -> None:
        """A pool was asked for, or left pending by an earlier run, and is going to be run."""

    def on_tell(self, study: Any, trial: Trial) -> None:
        """A value was stored."""

    def on_fail(self, study: Any, trial: Trial) -> None:
        """A failure was stored; `trial.reason` says why."""

    def on_end(self, study: Any) -> None:
        """The run is over, whether or not it came to its end."""


def watchers(given: Any) -> list[Any]:
    """The callbacks that a run is given; a class or a function, which would never be called, is an error."""
    if not isinstance(given, Iterable):
        raise InputError(f"callbacks: expected a list, got {type(given).__name__}; write [...] around it.")
    found = list(given)
    for watcher in found:
        if isinstance(watcher, type) or inspect.isroutine(watcher):
            raise InputError(f"callbacks: {watcher!r} is no object with methods such as on_tell(study, trial).")
    return found


def check_progress(given: Any) -> None:
    """True, false, or a watcher of one's own: a word would be taken for one, and show nothing."""
    own = not isinstance(given, type) and any(hasattr(given, name) for name in vars(Callback) if name.startswith("on_"))
    if given is not None and not isinstance(given, bool) and not own:
        raise InputError(
            f"progress: expected true, false or an object with methods such as on_tell(study, trial), got {given!r}."
        )


class Callbacks:
    """All watchers of a run, none of which can disturb it."""

    def __init__(self, study: Study, progress: Any, others: Iterable[Any]) -> None:
        self._study = study
        if progress is True:
            from poolwise.study.progress import Display

            progress = Display()
        self._all = [watcher for watcher in (progress, *others) if watcher not in (None, False)]

    def on_start(self, trials: int) -> None:
        self._call("on_start", trials)

    def on_ask(self, pool: Iterable[Trial]) -> None:
        self._call("on_ask", list(pool))

    def on_finish(self, trial: Trial) -> None:
        self._call("on_tell" if trial.state == "told" else "on_fail", trial)

    def on_end(self) -> None:
        self._call("on_end")

    def _call(self, name: str, *arguments: Any) -> None:
        for watcher in self._all:
            try:
                if (method := getattr(watcher, name, None)) is not None:
                    method(self._study, *arguments)
            except Exception:
                log.exception("run: %s of %r failed; the run goes on", name, watcher)
