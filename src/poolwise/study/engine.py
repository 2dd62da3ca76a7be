"""Databases: SQLite, as safe as it goes, and PostgreSQL. Passwords stay out of everything that is shown."""

from __future__ import annotations

import importlib.util
import logging
import re
import sqlite3
from functools import partial
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import URL, make_url
from sqlalchemy.pool import StaticPool

from poolwise.errors import InputError, MissingExtra
from poolwise.study.errors import StorageError

log = logging.getLogger(__name__)

BUSY_MS = 5_000  # one wait for another writer; `transactions` repeats it for as long as the study is patient
EXAMPLES = "for instance 'sqlite:///tune.db' or 'postgresql://user@host/database'"
MASK = "***"


def parse_url(url: str | URL | None) -> URL:
    """The address of a database; none is a database in memory."""
    if url is None:
        return make_url("sqlite://")
    try:
        parsed = make_url(url)
    except (sa.exc.ArgumentError, ValueError):
        raise InputError(f"url: not the address of a database; give one such as {EXAMPLES[13:]}.") from None
    kind = parsed.drivername.split("+")[0]
    if kind in ("postgresql", "postgres"):
        if importlib.util.find_spec("psycopg") is None:
            raise MissingExtra("PostgreSQL needs psycopg, which is not installed: pip install 'poolwise[postgres]'")
        return parsed.set(drivername="postgresql+psycopg")
    if kind != "sqlite":
        raise InputError(f"url: unknown kind of database {kind!r}; use sqlite or postgresql, {EXAMPLES}.")
    if parsed.host or parsed.query or (isinstance(url, str) and "?" in url):
        raise InputError("url: an SQLite address is sqlite:///relative.db or sqlite:////absolute/path.db, without '?'.")
    return parsed.set(drivername="sqlite+pysqlite")


def url_of(path: Path) -> URL:
    """The address of an SQLite file; as a text it might be another's, as some letters of a path mean more there."""
    return URL.create("sqlite+pysqlite", database=str(path))


def in_memory(url: URL) -> bool:
    return url.get_backend_name() == "sqlite" and url.database in (None, "", ":memory:")


def is_missing(url: str | URL | None) -> bool:
    """Whether an address is that of an SQLite file that does not exist."""
    parsed = parse_url(url)
    if parsed.get_backend_name() != "sqlite" or in_memory(parsed):
        return False
    return path_of(parsed).parent.is_dir() and not path_of(parsed).exists()


def shown(url: URL) -> str:
    """The address without password and without the values of its query, either of which may be a secret.

    A path of SQLite is shown as it is, with escapes for bytes that are no text.
    """
    if url.get_backend_name() == "sqlite" and not in_memory(url):
        return f"sqlite:///{url.database}".encode(errors="backslashreplace").decode()
    bare = url.set(drivername=url.get_backend_name(), query={})
    text = bare.render_as_string(hide_password=True)
    hidden = "&".join(f"{key}={MASK}" for key in url.query)
    return f"{text}?{hidden}" if hidden else text


def scrubbed(text: str, url: URL) -> str:
    """A text of a driver, in which the address's secrets are masked should they appear."""
    values = [value for entry in url.query.values() for value in ([entry] if isinstance(entry, str) else entry)]
    for secret in filter(None, [url.password, *values]):
        text = text.replace(str(secret), MASK)
    return re.sub(r"(password\s*=\s*)\S+", rf"\1{MASK}", text, flags=re.IGNORECASE)


def make_engine(url: URL, *, writable: bool = True) -> sa.Engine:
    """An engine whose transactions begin as writers, unless a connection is marked as a reader.

    Where it is not writable, an SQLite file is opened such that SQLite itself changes neither it nor its -wal file.
    """
    options: dict[str, Any]
    if url.get_backend_name() != "sqlite":
        options = {"connect_args": {"connect_timeout": 10}} if "connect_timeout" not in url.query else {}
        return sa.create_engine(url, pool_pre_ping=True, hide_parameters=True, **options)
    if in_memory(url):
        engine = sa.create_engine(
            url, poolclass=StaticPool, connect_args={"check_same_thread": False}, hide_parameters=True
        )
    else:
        _check_folder(url)
        options = {"connect_args": {"timeout": BUSY_MS / 1000}} if writable else {"creator": partial(_reading, url)}
        engine = sa.create_engine(url, hide_parameters=True, **options)
    sa.event.listen(engine, "connect", _prepare)
    sa.event.listen(engine, "begin", _begin)
    return engine


def _reading(url: URL) -> sqlite3.Connection:
    return sqlite3.connect(f"{path_of(url).absolute().as_uri()}?mode=ro", timeout=BUSY_MS / 1000, uri=True)


def path_of(url: URL) -> Path:
    """The file of an SQLite address."""
    return Path(url.database or "")


def _check_folder(url: URL) -> None:
    path = path_of(url)
    if not path.parent.is_dir():
        raise StorageError(f"{path}: its folder does not exist; create {path.parent} first.")
    if path.is_dir():
        raise StorageError(f"{path}: is a folder; give the name of a file in it.")


def _prepare(connection: sqlite3.Connection, _record: Any) -> None:
    """Durable commits, and a file that is data only: nothing in it can act."""
    connection.isolation_level = None  # BEGIN is ours, see `_begin`
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    for pragma in (
        f"busy_timeout={BUSY_MS}",
        "trusted_schema=OFF",
        "cell_size_check=ON",
        "synchronous=FULL",
        "foreign_keys=ON",
    ):
        connection.execute(f"PRAGMA {pragma}")


def _log_ahead(connection: sa.Connection) -> None:
    """Readers beside a writer; a writer sees to it, as a reader changes nothing in a file."""
    if "journal" in connection.info:
        return
    mode = connection.exec_driver_sql("PRAGMA journal_mode").scalar()
    if mode not in ("wal", "memory"):
        mode = connection.exec_driver_sql("PRAGMA journal_mode=WAL").scalar()
        if mode not in ("wal", "memory"):
            log.warning("study: no write-ahead log on this file system; readers wait for writers")
    connection.info["journal"] = mode


def _begin(connection: sa.Connection) -> None:
    reader = connection.get_execution_options().get("reader", False)
    if not reader:
        _log_ahead(connection)
    connection.exec_driver_sql("BEGIN" if reader else "BEGIN IMMEDIATE")
