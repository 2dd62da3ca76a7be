"""Opening a store: check its tables, refuse newer ones, carry older ones over after a backup; make them if need be."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import sqlite3
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import URL

from poolwise.study import schema
from poolwise.study.engine import in_memory, path_of, shown
from poolwise.study.errors import StorageError, VersionError
from poolwise.study.rows import damaged
from poolwise.study.schema import PREFIX, VERSION, meta, metadata, sealed
from poolwise.study.transactions import Transactions

log = logging.getLogger(__name__)

ADVISORY = 0x706F6F6C  # one process makes tables or studies, the others wait


def prepare(run: Transactions) -> None:
    """Tables of the current version, none yet, or an error; a damaged file is refused before anything is written."""
    if run.sqlite and not in_memory(run.url):
        run.read(lambda c: check_file(c))
    found = run.read(stored_version)
    if found == VERSION:
        run.read(lambda c: check_tables(c, run.url))
    elif found is not None:
        check_known(found, run.url)
        backup(run, found)
        run.write(lambda c: bring_up(c, run.url))


def stored_version(c: sa.Connection) -> int | None:
    """The schema version that a database says it has; None where it has no tables of ours."""
    if not sa.inspect(c).has_table(meta.name):
        return None
    text = c.scalar(sa.select(meta.c.value).where(meta.c.key == "schema"))
    if not isinstance(text, str) or not text.isdecimal() or len(text) > 9:
        raise damaged(f"table {meta.name}", f"names the schema version {text!r}")
    return int(text)


def check_known(version: int, url: URL) -> None:
    if version > VERSION:
        raise VersionError(
            f"{shown(url)}: has schema version {version}, written by a newer Poolwise; this one knows versions up to "
            f"{VERSION}. Nothing was changed; install a newer one: pip install --upgrade poolwise"
        )


def check_file(c: sa.Connection) -> None:
    """SQLite's own quick check, and no triggers or views, which could act when we write."""
    findings = [str(row[0]) for row in c.exec_driver_sql("PRAGMA quick_check(3)")]
    if findings != ["ok"]:
        raise damaged("the file", f"fails SQLite's check ({'; '.join(findings)[:300]})")
    master = (
        "SELECT name FROM sqlite_master WHERE type IN ('trigger', 'view') AND tbl_name LIKE 'poolwise~_%' ESCAPE '~'"
    )
    if strange := [str(row[0]) for row in c.exec_driver_sql(master)]:
        raise StorageError(f"the file has triggers or views on the study's tables ({strange[0]!r}); it is not used.")


def check_tables(c: sa.Connection, url: URL) -> None:
    """Every table with every column."""
    inspector = sa.inspect(c)
    for table in metadata.sorted_tables:
        there = (
            {column["name"] for column in inspector.get_columns(table.name)} if inspector.has_table(table.name) else {}
        )
        if missing := [column.name for column in table.c if column.name not in there]:
            raise damaged(f"table {table.name} of {shown(url)}", f"lacks {', '.join(missing)}")


def alone(c: sa.Connection) -> None:
    """Wait for others that make tables or studies, and keep them waiting until the transaction ends.

    SQLite has one writer at a time anyway.
    """
    if c.dialect.name == "postgresql":
        c.execute(sa.select(sa.func.pg_advisory_xact_lock(ADVISORY)))


def bring_up(c: sa.Connection, url: URL) -> None:
    """Create or migrate in one transaction; another process may have done it meanwhile."""
    alone(c)
    found = stored_version(c)
    if found is None:
        metadata.create_all(c)
        c.execute(meta.insert().values(key="schema", value=str(VERSION)))
    else:
        check_known(found, url)
        for version in range(found, VERSION):
            STEPS[version](c)
            c.execute(meta.update().where(meta.c.key == "schema").values(value=str(version + 1)))
    check_tables(c, url)


def backup(run: Transactions, version: int) -> None:
    """A copy of what is there: a file beside an SQLite file, tables beside PostgreSQL's tables."""
    if run.sqlite:
        backup_file(path_of(run.url), version)
    else:
        run.write(lambda c: _copy_tables(c, version))


def backup_file(path: Path, version: int) -> Path:
    """`name.backup-vN` beside the file, or with a count after it; whole before it has its name."""
    stem = f"{path.name}.backup-v{version}"
    target = next(p for i in range(10_000) if not (p := path.with_name(stem if i == 0 else f"{stem}.{i}")).exists())
    part = path.with_name(f"{target.name}.part-{os.getpid()}")
    try:
        with contextlib.closing(sqlite3.connect(path)) as source, contextlib.closing(sqlite3.connect(part)) as copy:
            source.backup(copy)
        descriptor = os.open(part, os.O_RDWR)
        os.fsync(descriptor)
        os.close(descriptor)
        os.replace(part, target)
    except (OSError, sqlite3.Error) as error:
        part.unlink(missing_ok=True)
        raise StorageError(f"{path}: no backup could be made, so it was not migrated ({error}).") from None
    log.warning("study: %s has an older schema; a backup is in %s", path.name, target.name)
    return target


def _copy_tables(c: sa.Connection, version: int) -> None:
    alone(c)
    if stored_version(c) != version:
        return
    inspector = sa.inspect(c)
    for name in [name for name in inspector.get_table_names() if name.startswith(PREFIX) and "_backup_v" not in name]:
        if not inspector.has_table(f"{name}_backup_v{version}"):
            c.exec_driver_sql(f'CREATE TABLE "{name}_backup_v{version}" AS TABLE "{name}"')


def _from_0(c: sa.Connection) -> None:
    """Version 0, before the first release: no leases, no revisions, no seals, no count of pools."""
    old_studies = [dict(row) for row in c.execute(sa.text(f"SELECT * FROM {PREFIX}studies ORDER BY id")).mappings()]
    old_trials = [
        dict(row) for row in c.execute(sa.text(f"SELECT * FROM {PREFIX}trials ORDER BY study, number")).mappings()
    ]
    c.exec_driver_sql(f"DROP TABLE {PREFIX}trials")
    c.exec_driver_sql(f"DROP TABLE {PREFIX}studies")
    metadata.create_all(c)
    for study in old_studies:
        mine = [trial for trial in old_trials if trial["study"] == study["id"]]
        counts = {"version": len(mine), "trials": len(mine), "pools": len({t["request"] for t in mine} - {None})}
        c.execute(schema.studies.insert().values(sealed({**study, **counts})))
        pools: dict[str, int] = {}
        for trial in mine:
            pool = None if trial["request"] is None else pools.setdefault(trial["request"], len(pools))
            c.execute(schema.trials.insert().values(sealed({**trial, "pool": pool, "lease": None})))
        for request in pools:
            numbers = [trial["number"] for trial in mine if trial["request"] == request]
            row: dict[str, Any] = {"study": study["id"], "request": request, "q": len(numbers)}
            c.execute(schema.requests.insert().values(sealed({**row, "numbers": json.dumps(numbers)})))


STEPS = {0: _from_0}
