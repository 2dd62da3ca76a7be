"""What a study raises; each is a builtin error too."""

from __future__ import annotations

from poolwise.errors import PoolwiseError


class StudyNotFound(PoolwiseError, KeyError):
    """No study of that name in the store; the message lists those that are there."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""  # a KeyError would show the message in quotes


class ConflictError(PoolwiseError, ValueError):
    """What is said now contradicts what is stored; the message shows both."""


class StorageError(PoolwiseError, OSError):
    """The store cannot be used: full, not writable, or damaged. What was acknowledged before is untouched."""


class StorageUnavailable(StorageError):
    """The store was not reachable for as long as the study was told to be patient."""


class VersionError(StorageError):
    """The store was written by a version of Poolwise that this one does not understand."""
