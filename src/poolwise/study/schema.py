"""The tables. Numbers and JSON only; every row carries a seal, so that a damaged one is never taken for data."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

VERSION = 1
PREFIX = "poolwise_"

metadata = sa.MetaData()

meta = sa.Table(
    f"{PREFIX}meta",
    metadata,
    sa.Column("key", sa.String(64), primary_key=True),
    sa.Column("value", sa.Text, nullable=False),
)

studies = sa.Table(
    f"{PREFIX}studies",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("name", sa.String(128), nullable=False, unique=True),
    sa.Column("definition", sa.Text, nullable=False),
    sa.Column("version", sa.BigInteger, nullable=False),  # grows with every change of a trial
    sa.Column("trials", sa.BigInteger, nullable=False),  # how many there are: the next number
    sa.Column("pools", sa.BigInteger, nullable=False),  # how many were asked for
    sa.Column("created", sa.Double, nullable=False),  # times are seconds since 1970, UTC
    sa.Column("seal", sa.String(32), nullable=False),
)

trials = sa.Table(
    f"{PREFIX}trials",
    metadata,
    sa.Column("study", sa.ForeignKey(studies.c.id), primary_key=True),
    sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("params", sa.Text, nullable=False),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("value", sa.Double),
    sa.Column("sem", sa.Double),
    sa.Column("reason", sa.Text),
    sa.Column("request", sa.String(200)),
    sa.Column("pool", sa.BigInteger),  # none where the trial was added by hand
    sa.Column("asked", sa.Double, nullable=False),
    sa.Column("finished", sa.Double),
    sa.Column("lease", sa.Double),  # when it runs out
    sa.Column("seal", sa.String(32), nullable=False),
    sqlite_with_rowid=False,
)

requests = sa.Table(
    f"{PREFIX}requests",
    metadata,
    sa.Column("study", sa.ForeignKey(studies.c.id), primary_key=True),
    sa.Column("request", sa.String(200), primary_key=True),
    sa.Column("q", sa.BigInteger, nullable=False),
    sa.Column("numbers", sa.Text, nullable=False),
    sa.Column("seal", sa.String(32), nullable=False),
    sqlite_with_rowid=False,
)

revisions = sa.Table(
    f"{PREFIX}revisions",
    metadata,
    sa.Column("study", sa.ForeignKey(studies.c.id), primary_key=True),
    sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("revision", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("value", sa.Double),
    sa.Column("sem", sa.Double),
    sa.Column("reason", sa.Text),
    sa.Column("replaced", sa.Double, nullable=False),
    sa.Column("seal", sa.String(32), nullable=False),
    sqlite_with_rowid=False,
)


def seal(row: Mapping[str, Any]) -> str:
    """A short checksum of a row's content; it is against damage, not against forgery."""
    content = [[key, row[key]] for key in sorted(row) if key != "seal"]
    return hashlib.blake2b(json.dumps(content).encode(), digest_size=12).hexdigest()


def sealed(row: Mapping[str, Any]) -> dict[str, Any]:
    """The row with its seal."""
    return {**row, "seal": seal(row)}
