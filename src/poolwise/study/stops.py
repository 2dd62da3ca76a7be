"""Why a run ended before its last trial."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from poolwise.errors import PoolwiseError

if TYPE_CHECKING:
    from poolwise.study.study import Study


class RunStopped(PoolwiseError, RuntimeError):
    """A run that makes no sense to go on with; the message says why. What was told is kept, and it can be resumed.

    `study` is the study that was run; one that is in memory can be had nowhere else.
    """

    study: Study | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Without the study, which stays in its process."""
        return type(self), self.args


class RunInterrupted(KeyboardInterrupt):
    """Ctrl-C, after everything that had finished was told; the message says how to go on.

    Like `KeyboardInterrupt` it is no `Exception`, so that a script that catches those still ends.
    """
