"""`examine`: what is wrong with a store and what to do about it; it changes nothing."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sqlite3
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import sqlalchemy as sa
from sqlalchemy.engine import URL

from poolwise.errors import PoolwiseError
from poolwise.space.errors import SpaceError
from poolwise.study.definition import Definition
from poolwise.study.engine import in_memory, parse_url, path_of, shown
from poolwise.study.errors import StorageError
from poolwise.study.migration import check_file, check_known, check_tables, stored_version
from poolwise.study.placing import nearest
from poolwise.study.rows import Row, as_numbers, as_revision, as_trial, checked
from poolwise.study.schema import VERSION, requests, revisions, studies, trials
from poolwise.study.transactions import Transactions
from poolwise.version import __version__

NETWORK = ("nfs", "cifs", "smb", "9p", "afs", "lustre", "gpfs", "beegfs", "ceph", "gluster", "fuse.sshfs", "fuse.s3")
MOST = 20  # findings of one kind that are told one by one

Level = Literal["ok", "warning", "error"]


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at: how it is, and what to do if it is not well."""

    level: Level
    subject: str
    message: str
    advice: str = ""

    def __str__(self) -> str:
        return f"{self.level}: {self.subject}: {self.message}" + (f" {self.advice}" if self.advice else "")


def examine(url: str | URL, *, patience: float = 5.0) -> list[Finding]:
    """Look at the installation, the file or server, its tables, and every study in it."""
    findings = [_versions(), _device()]
    try:
        address = parse_url(url)
        if address.get_backend_name() == "sqlite":
            findings += _place(address)
        if any(finding.level == "error" for finding in findings):
            return findings
        run = Transactions(address, patience, writable=not _has_log(address))
        try:
            findings += _content(run)
        finally:
            run.close()
    except PoolwiseError as error:
        findings.append(Finding("error", "store", str(error), _rescue(url)))
    return findings


def _has_log(address: URL) -> bool:
    """Whether a log lies beside an SQLite file, which the last of those who may write would empty and remove."""
    return address.get_backend_name() == "sqlite" and Path(f"{path_of(address)}-wal").exists()


def _versions() -> Finding:
    parts = [f"poolwise {__version__}", f"Python {platform.python_version()}", f"SQLite {sqlite3.sqlite_version}"]
    for package in ("sqlalchemy", "psycopg", "jax", "jaxlib", "numpy"):
        try:
            parts.append(f"{package} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            parts.append(f"{package} not installed")
    return Finding("ok", "versions", ", ".join(parts))


def _device() -> Finding:
    jax = sys.modules.get("jax")
    if jax is None:
        return Finding("ok", "device", "not looked for: JAX is not loaded")
    return Finding("ok", "device", f"{jax.default_backend()}, {len(jax.devices())} of them")


def _place(address: URL) -> Iterator[Finding]:
    """The file, its folder and its file system."""
    if in_memory(address):
        yield Finding("ok", "file", "the study is in memory and ends with its process")
        return
    path = path_of(address).absolute()
    if not path.is_file():
        yield Finding("error", "file", f"there is no {path}", "Check the spelling; `poolwise init` makes a new study.")
        return
    yield Finding("ok", "file", f"{path}, {path.stat().st_size} bytes")
    for place in (path, path.parent):
        if not os.access(place, os.W_OK):
            advice = "SQLite must be able to write to the file and its folder; change their permissions."
            yield Finding("error", "file", f"{place} is not writable", advice)
    kind = file_system(path)
    if kind.startswith(NETWORK):
        advice = "SQLite's locks are not safe there with several machines; use PostgreSQL, or a local disk."
        yield Finding("warning", "file system", f"{kind}, a network file system", advice)
    else:
        yield Finding("ok", "file system", kind)


def file_system(path: Path) -> str:
    """The kind of file system that a path is on, as the kernel calls it."""
    try:
        mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    except OSError:
        return "unknown"
    real = path.resolve()
    found = [(len(m[1]), m[2]) for m in mounts if len(m) > 2 and real.is_relative_to(m[1].replace("\\040", " "))]
    return max(found)[1] if found else "unknown"


def _content(run: Transactions) -> Iterator[Finding]:
    """What is inside, by one look that stops at the first thing that makes the rest unreadable."""
    steps: list[tuple[str, Callable[[sa.Connection], str]]] = []
    if run.sqlite:
        steps.append(("integrity", _integrity))
    steps += [("schema", lambda c: _schema(c, run.url))]
    for subject, step in steps:
        try:
            yield Finding("ok", subject, run.read(step))
        except PoolwiseError as error:
            yield Finding("error", subject, str(error), _rescue(run.url))
            return
    if run.read(stored_version) != VERSION:
        return
    for identity, name in run.read(
        lambda c: [(r.id, r.name) for r in c.execute(sa.select(studies.c.id, studies.c.name))]
    ):
        yield from _study(run, identity, str(name))


def _integrity(c: sa.Connection) -> str:
    check_file(c)
    problems = [str(row[0]) for row in c.exec_driver_sql("PRAGMA integrity_check(5)")]
    if problems != ["ok"]:
        raise StorageError(f"SQLite's check found: {'; '.join(problems)[:500]}")
    return "SQLite's full check passes"


def _schema(c: sa.Connection, url: URL) -> str:
    version = stored_version(c)
    if version is None:
        raise StorageError("there are no tables of Poolwise in this database.")
    check_known(version, url)
    if version < VERSION:
        return f"version {version}; it is brought to version {VERSION}, after a backup, when the study is next opened"
    check_tables(c, url)
    return f"version {version}"


def _study(run: Transactions, identity: int, name: str) -> Iterator[Finding]:
    """One study: its definition, the numbers of its trials, and each row by its checksum and content."""
    subject, advice = f"study {name!r}", _rescue(run.url)
    try:
        head = run.read(
            lambda c: checked(c.execute(sa.select(studies).where(studies.c.id == identity)).mappings().one(), studies)
        )
        space = Definition.from_json(head["definition"], name).space
    except PoolwiseError as error:
        yield Finding("error", subject, str(error), advice)
        return
    rows = _rows(run, trials, identity)
    problems, outside = _unreadable(run, identity), []
    if sorted(str(row["number"]) for row in rows) != sorted(map(str, range(head["trials"]))):
        problems.append(_miscounted(head["trials"], len(rows)))
    for row in rows:
        try:
            trial = as_trial(row)
            space.encode(trial.params)
        except SpaceError as error:
            if nearest(space, trial.params) is None:
                outside.append(f"trial {trial.number} is not modelled ({error})")
        except PoolwiseError as error:
            problems.append(str(error))
    yield from (Finding("error", subject, problem, advice) for problem in problems[:MOST])
    if outside:
        yield Finding("warning", subject, f"outside the space ({len(outside)}): {'; '.join(outside[:3])}")
    if not problems:
        yield Finding("ok", subject, f"{len(rows)} trials, numbers and checksums are whole")


def _miscounted(stored: int, there: int) -> str:
    return f"{stored} trials were stored, and {there} are there{', with other numbers' if stored == there else ''}"


def _rows(run: Transactions, table: sa.Table, study: int) -> list[Row]:
    """What a table has about a study."""
    return run.read(lambda c: [dict(r) for r in c.execute(sa.select(table).where(table.c.study == study)).mappings()])


def _unreadable(run: Transactions, study: int) -> list[str]:
    """What is wrong with the requests and the histories of a study."""
    found = []
    readers: tuple[tuple[sa.Table, Callable[[Row], Any]], ...] = ((requests, as_numbers), (revisions, as_revision))
    for table, read in readers:
        for row in _rows(run, table, study):
            try:
                read(row)
            except PoolwiseError as error:
                found.append(str(error))
    return found


def _rescue(url: str | URL) -> str:
    """What can be done about a damaged store."""
    address = parse_url(url)
    if address.get_backend_name() != "sqlite" or in_memory(address):
        return f"Ask who keeps the server of {shown(address)} about its backups."
    path = path_of(address)
    backups = sorted(path.parent.glob(f"{path.name}.backup*"), key=lambda p: p.stat().st_mtime)
    newest = f"The newest backup is {backups[-1]}. " if backups else "There is no backup beside the file. "
    return (
        f"{newest}Copy the file first, with its -wal file if there is one; then "
        f"`sqlite3 {path.name} .recover | sqlite3 recovered.db` saves what is readable into a new file."
    )
