"""Transactions that are repeated while a database is away, and errors that say what to do."""

from __future__ import annotations

import logging
import os
import random
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.engine import URL

from poolwise.study.engine import in_memory, make_engine, path_of, scrubbed, shown
from poolwise.study.errors import StorageError, StorageUnavailable

log = logging.getLogger(__name__)

T = TypeVar("T")

FIRST_WAIT, LONGEST_WAIT = 0.02, 5.0
BUSY = ("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_PROTOCOL")
AWAY = ("08", "40", "53", "57", "55P03")  # SQLSTATE: connection, serialisation, resources, operator, lock
HOPELESS = ("authentication failed", "no password supplied", "does not exist", "could not translate host name")

ADVICE = {
    "SQLITE_FULL": "the disk is full, or a limit on file sizes is reached; make room and try again",
    "SQLITE_IOERR": "the disk could not be read or written; look for a full disk, a quota or a lost network drive",
    "SQLITE_READONLY": "the file or its folder is read-only; SQLite must be able to write to both",
    "SQLITE_PERM": "the file may not be opened; check its permissions",
    "SQLITE_CANTOPEN": "the file cannot be opened; check that its folder exists and is writable, the file as well",
    "SQLITE_CORRUPT": "the file is damaged; `poolwise doctor` tells how to recover what is readable",
    "SQLITE_NOTADB": "the file is no SQLite database, or its head is damaged; `poolwise doctor` tells what can be done",
}


def _let_go(engine: sa.Engine, process: int) -> None:
    """Close the connections of a study that nobody has any more; not in a forked child, which has its parent's."""
    engine.dispose(close=os.getpid() == process)


class Transactions:
    """Runs functions of a connection, each in one transaction of its own, which must be safe to repeat."""

    def __init__(self, url: URL, patience: float, *, writable: bool = True) -> None:
        self.url, self.patience = url, patience
        self.sqlite = url.get_backend_name() == "sqlite"
        self.engine = make_engine(url, writable=writable)
        self._process = os.getpid()
        weakref.finalize(self, _let_go, self.engine, self._process).atexit = False
        self._lock = threading.RLock() if in_memory(url) else None  # one connection, one thread at a time
        self._path = path_of(url).absolute() if self.sqlite and self._lock is None else None
        self._file: tuple[int, int] | None = None

    def __repr__(self) -> str:
        return f"Transactions({shown(self.url)!r})"

    def read(self, work: Callable[[sa.Connection], T]) -> T:
        """What a function finds in one consistent view of the data."""
        return self._run(work, reader=True)

    def write(self, work: Callable[[sa.Connection], T]) -> T:
        """What a function returns once its changes are durable; all of them, or none and an error."""
        return self._run(work, reader=False)

    def close(self) -> None:
        self.engine.dispose()

    def _run(self, work: Callable[[sa.Connection], T], *, reader: bool) -> T:
        if os.getpid() != self._process:  # a forked child must not use its parent's connections
            if self._lock is not None:
                raise StorageError("A study in memory is in the process that made it, and not in those forked from it.")
            self.engine.dispose(close=False)
            self._process = os.getpid()
        until, wait = time.monotonic() + self.patience, FIRST_WAIT
        while True:
            try:
                return self._once(work, reader)
            except (sa.exc.DBAPIError, sa.exc.TimeoutError) as error:
                if isinstance(error, sa.exc.DBAPIError) and not transient(error):
                    raise self._explained(error) from None
                if time.monotonic() + wait > until:
                    raise self._gave_up(error) from None
                log.warning("study: %s; trying again", self._words(error))
            except UnicodeDecodeError as error:  # SQLite's own message quotes a damaged schema
                words = f"{ADVICE['SQLITE_CORRUPT']} ({error.object!r})"
                raise StorageError(f"{shown(self.url)}: {words}") from None
            except sa.exc.SQLAlchemyError as error:  # tables that are not what they should be
                words = scrubbed(" ".join(str(error).split()), self.url)
                raise StorageError(f"{shown(self.url)}: its tables cannot be used ({words}).") from None
            time.sleep(wait * random.uniform(0.5, 1.0))
            wait = min(2 * wait, LONGEST_WAIT)

    def _once(self, work: Callable[[sa.Connection], T], reader: bool) -> T:
        options: dict[str, Any] = {"reader": reader}
        if reader and not self.sqlite:
            options["isolation_level"] = "REPEATABLE READ"
        if self._lock is None:
            self._check_file(reader)
            with self.engine.connect().execution_options(**options) as connection, connection.begin():
                found = work(connection)
            self._file = self._file or self._identity()  # not earlier: opening may give a file another identity
            self._check_file(reader)
            return found
        with self._lock, self.engine.connect().execution_options(**options) as connection, connection.begin():
            return work(connection)

    def _check_file(self, reader: bool) -> None:
        """An error where a writer's file is no longer there: SQLite itself does not notice."""
        if reader or self._file is None or (found := self._identity()) == self._file:
            return
        what = "was removed" if found is None else "was replaced by another file"
        raise StorageError(
            f"{shown(self.url)}: the file {what} while the study was open, and nothing more is stored. What was told "
            "before can be read as long as this process lives: save study.to_frame()."
        )

    def _identity(self) -> tuple[int, int] | None:
        """What the file stays when others take its name; None where there is none."""
        try:
            status = None if self._path is None else self._path.stat()
        except FileNotFoundError:
            return None
        except OSError:  # it cannot be told; the database itself will say
            return self._file
        return None if status is None else (status.st_dev, status.st_ino)

    def _words(self, error: sa.exc.SQLAlchemyError) -> str:
        return scrubbed(" ".join(str(getattr(error, "orig", error)).split()), self.url)

    def _explained(self, error: sa.exc.DBAPIError) -> StorageError:
        name = _code(error)
        advice = next((text for code, text in ADVICE.items() if name.startswith(code)), "the database refused")
        rest = "" if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")) else " What was stored before is untouched."
        return StorageError(f"{shown(self.url)}: {advice} ({self._words(error)}).{rest}")

    def _gave_up(self, error: sa.exc.SQLAlchemyError) -> StorageUnavailable:
        cause = "another process holds the file" if self.sqlite else "the database does not answer"
        if isinstance(error, sa.exc.TimeoutError):
            cause = "other threads have all connections"
        return StorageUnavailable(
            f"{shown(self.url)}: {cause}, after trying for {self.patience:g} seconds ({self._words(error)}). "
            "Nothing was changed; try again when it is back, or give the study more patience=."
        )


def _code(error: sa.exc.DBAPIError) -> str:
    """SQLite's name of an error; text that is no text has none of its own, and is damage."""
    name = str(getattr(error.orig, "sqlite_errorname", ""))
    return "SQLITE_CORRUPT" if not name and "decode" in str(error.orig) else name


def transient(error: sa.exc.DBAPIError) -> bool:
    """Whether the same transaction may succeed later: another writer, a restart, a lost connection."""
    if isinstance(error.orig, sqlite3.Error):
        return _code(error).startswith(BUSY)
    if any(words in str(error.orig) for words in HOPELESS):
        return False
    state = getattr(error.orig, "sqlstate", None)
    if state is None:
        return error.connection_invalidated or isinstance(error, sa.exc.OperationalError)
    return str(state).startswith(AWAY)
