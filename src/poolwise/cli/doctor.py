"""`poolwise doctor`: is the installation well, and is the study?"""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from poolwise.cli.command import FAILED, FileError, guarded
from poolwise.cli.terminal import put_json, put_table, say

if TYPE_CHECKING:
    from poolwise.study.doctor import Finding

STUDY_FILES = (".toml", ".json")
DATABASES = (".db", ".sqlite", ".sqlite3")
MAGIC = b"SQLite format 3\0"  # how such a file begins


@click.command(short_help="Is the installation well, and the study?")
@click.argument("what", metavar="[FILE | ADDRESS]", envvar="POOLWISE_STUDY", default="study.toml")
@guarded
def doctor(*, what: str, json_: bool) -> None:
    """Look at the installation, the study file and the store, and say what to do about what is wrong.

    FILE is a study file or an SQLite file, ADDRESS that of a database. Nothing is changed.
    """
    findings = _findings(what)
    if json_:
        put_json([asdict(finding) for finding in findings])
    else:
        put_table(["level", "subject", "finding"], [[f.level, f.subject, f.message] for f in findings])
        for advice in dict.fromkeys(f.advice for f in findings if f.advice):
            say(advice)
    if any(finding.level == "error" for finding in findings):
        raise SystemExit(FAILED)


def _findings(what: str) -> list[Finding]:
    from poolwise.study.doctor import Finding, examine

    first = [_programs()]  # it loads JAX, so that the device is known
    if "://" in what:
        return [*first, *examine(what)]
    from poolwise.study.engine import path_of, url_of

    path = Path(what)
    if path.suffix.lower() not in STUDY_FILES:
        return [*first, *(_no_database(path) or examine(url_of(path.absolute())))]
    from poolwise.cli.objective import check_command, check_program
    from poolwise.cli.study_file import load

    try:
        file = load(path)
        if file.command:
            check_command(file.command, file.space.names, file.space.axes)
            check_program(file.command, file.folder)
    except FileError as error:
        return [*first, Finding("error", "study file", str(error))]
    first.append(Finding("ok", "study file", f"{path}, {len(file.space.names)} parameters"))
    if file.url.get_backend_name() == "sqlite" and not path_of(file.url).exists():
        advice = "`poolwise ask` or `poolwise run` begins it."
        return [*first, Finding("ok", "store", f"{path_of(file.url)} is not there yet", advice)]
    return [*first, *examine(file.url)]


def _no_database(path: Path) -> list[Finding]:
    """That a file is neither a study file nor a database; nothing for what may be a damaged one."""
    from poolwise.study.doctor import Finding

    if path.suffix.lower() in DATABASES or not path.is_file():
        return []
    with path.open("rb") as stream:
        if stream.read(len(MAGIC)) in (MAGIC, b""):
            return []
    return [Finding("error", "file", f"{path} is no study file and no SQLite file", "Name study.toml or study.db.")]


def _programs() -> Finding:
    """Where compiled programs are kept."""
    import jax

    from poolwise.errors import PoolwiseError
    from poolwise.programs import keep_programs
    from poolwise.study.doctor import Finding

    devices = f"JAX on {jax.default_backend()}, {os.cpu_count()} cores"
    try:
        folder = keep_programs() or jax.config.jax_compilation_cache_dir  # type: ignore[attr-defined]
    except (PoolwiseError, OSError) as error:
        return Finding("warning", "programs", f"{devices}; compiled programs are not kept: {error}")
    where = f"compiled programs in {folder}" if folder else "compiled programs are not kept (POOLWISE_PROGRAMS=off)"
    return Finding("ok", "programs", f"{devices}; {where}")
