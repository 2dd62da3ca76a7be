"""What results were made with, kept beside them: settings, seed and versions."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import os
import platform
from pathlib import Path
from typing import Any

from poolwise.errors import InputError
from poolwise.paper import tables
from poolwise.paper.settings import Setup
from poolwise.version import __version__

GROWING = ("tasks", "rounds")  # more of them may be asked for later; the rest must stay
LATER = "resumed with"
EARLIER = {"together": "False"}  # of folders that were made before there was a choice


def provenance(setup: Setup) -> list[dict[str, Any]]:
    """Settings and versions as rows of a table."""
    words = {key: str(value) for key, value in dataclasses.asdict(setup).items()}
    words |= {"poolwise": __version__, "python": platform.python_version(), "machine": platform.machine()}
    words |= {name: importlib.metadata.version(name) for name in ("jax", "jaxlib", "numpy", "scipy", "optax")}
    words |= {"system": platform.system(), "cores": str(os.cpu_count())}
    return [{"name": key, "value": value} for key, value in words.items()]


def check_folder(out: Path, setup: Setup) -> None:
    """Results of other settings are not mixed with these; other versions may go on, and are told beside the first."""
    path, now = out / "settings.csv", provenance(setup)
    before = {row["name"]: row for row in tables.read(path)}
    for name, value in dataclasses.asdict(setup).items():
        kept = before.get(name, {"value": EARLIER.get(name, str(value)) if before else str(value)})["value"]
        if name not in GROWING and kept != str(value):
            raise InputError(
                f"out: {out} holds results with {name}={kept}, not {value}; give another folder with --out."
            )
    tables.write(path, _joined(before, now) if before else now)


def _joined(before: dict[str, dict[str, str]], now: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The settings of the first start, and a column for what later ones had instead."""
    rows = []
    for name, value in ((row["name"], row["value"]) for row in now):
        first = before.get(name, {"value": value})["value"]
        others = [word for word in before.get(name, {}).get(LATER, "").split("; ") if word]
        if name in GROWING:
            first = str(max(int(first), int(value)))
        elif value not in (first, *others):
            others.append(value)
        rows.append({"name": name, "value": first, LATER: "; ".join(others)})
    if any(row[LATER] for row in rows):
        return rows
    return [{"name": row["name"], "value": row["value"]} for row in rows]
