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


def provenance(setup: Setup) -> list[dict[str, Any]]:
    """Settings and versions as rows of a table."""
    words = {key: str(value) for key, value in dataclasses.asdict(setup).items()}
    words |= {"poolwise": __version__, "python": platform.python_version(), "machine": platform.machine()}
    words |= {name: importlib.metadata.version(name) for name in ("jax", "jaxlib", "numpy", "scipy", "optax")}
    words |= {"system": platform.system(), "cores": str(os.cpu_count())}
    return [{"name": key, "value": value} for key, value in words.items()]


def check_folder(out: Path, setup: Setup) -> None:
    """Results of other settings are not mixed with these."""
    before = {row["name"]: row["value"] for row in tables.read(out / "settings.csv")}
    now = {row["name"]: row["value"] for row in provenance(setup)}
    for key in dataclasses.asdict(setup):
        if key not in GROWING and before.get(key, now[key]) != now[key]:
            raise InputError(
                f"out: {out} holds results with {key}={before[key]}, not {now[key]}; give another folder with --out."
            )
    tables.write(out / "settings.csv", provenance(setup))
