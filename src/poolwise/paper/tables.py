"""Plain CSV: written whole and put in place at once, so that a file is either there or not."""

from __future__ import annotations

import csv
import os
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

Row = dict[str, Any]


def write(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write rows with equal keys; numbers keep all their digits."""
    rows = list(rows)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".part")
    try:
        with os.fdopen(handle, "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(rows[0]) if rows else [], lineterminator="\n")
            writer.writeheader()
            writer.writerows({key: cell(value) for key, value in row.items()} for row in rows)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def read(path: Path) -> list[dict[str, str]]:
    """The rows of a file, or none where there is no file."""
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def cell(value: Any) -> Any:
    """A value as it is written: an array as its numbers with blanks between."""
    if isinstance(value, np.ndarray):
        return " ".join(repr(float(number)) for number in value.ravel())
    return repr(float(value)) if isinstance(value, float | np.floating) else value


def numbers(cell: str, columns: int) -> Float[np.ndarray, "n c"]:
    """A matrix back from its cell."""
    return np.array([float(word) for word in cell.split()]).reshape(-1, columns)
