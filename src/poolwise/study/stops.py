"""Why a run ended before its last trial."""

from __future__ import annotations

from poolwise.errors import PoolwiseError


class RunStopped(PoolwiseError, RuntimeError):
    """A run that makes no sense to go on with; the message says why. What was told is kept, and it can be resumed."""


class RunInterrupted(KeyboardInterrupt):
    """Ctrl-C, after everything that had finished was told; the message says how to go on.

    Like `KeyboardInterrupt` it is no `Exception`, so that a script that catches those still ends.
    """
