"""Whose turn it is to choose a pool: one of the processes that share a study, so that the others save the work.

Nothing depends on it but time: who chooses out of turn gets the pool of the one whose turn it was, by its request id.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import sqlalchemy as sa

from poolwise.study.engine import in_memory, path_of
from poolwise.study.study import Study


@contextlib.contextmanager
def turn(study: Study) -> Iterator[bool]:
    """Whether it is this process's turn, until the end of the block or of the process."""
    run = study._store.run
    if not run.sqlite:
        with _advisory(run.engine, f"{study.url} {study.name}") as mine:
            yield mine
    elif in_memory(run.url) or sys.platform == "win32":
        yield True
    else:
        with _file(path_of(run.url)) as mine:
            yield mine


@contextlib.contextmanager
def _advisory(engine: sa.Engine, name: str) -> Iterator[bool]:
    """A lock of PostgreSQL's that ends with its transaction, and so with the connection."""
    key = int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), signed=True)
    with contextlib.ExitStack() as stack:
        try:
            connection = engine.connect()
            stack.callback(_let_go, connection)
            mine = bool(connection.scalar(sa.select(sa.func.pg_try_advisory_xact_lock(key))))
        except sa.exc.DBAPIError:  # a server that is away is waited for by those who ask it
            mine = True
        yield mine


def _let_go(connection: sa.Connection) -> None:
    with contextlib.suppress(sa.exc.DBAPIError):
        connection.close()


@contextlib.contextmanager
def _file(database: Path) -> Iterator[bool]:
    """A locked file beside the database; the database itself has locks of SQLite's own."""
    import fcntl

    path = database.with_name(f"{database.name}-turn")
    with contextlib.ExitStack() as stack:
        try:
            handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
            stack.callback(os.close, handle)
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            stack.callback(path.unlink, missing_ok=True)
            mine = True
        except BlockingIOError:
            mine = False
        except OSError:  # no locks on this file system, or a folder that is somebody else's
            mine = True
        yield mine
