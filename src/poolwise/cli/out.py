"""Files that a command writes: nothing that is there without --force, and never a study's own."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from poolwise.cli.command import FileError


def check_out(out: Path, own: Iterable[Path] = (), *, force: bool) -> None:
    """Refuse a file that is not to be written; `own` are those of the study."""
    if any(_same(out, path) for path in own):
        raise FileError(f"{out}: belongs to the study itself; choose another name.")
    if out.exists() and not out.is_file():
        raise FileError(f"{out}: is no file that could be replaced; choose another name.")
    if out.exists() and not force:
        raise FileError(f"{out}: is there already, perhaps with values in it; choose another name, or add --force.")
    if not out.absolute().parent.is_dir():
        raise FileError(f"{out}: its folder does not exist; create it first.")


def _same(a: Path, b: Path) -> bool:
    return a.resolve() == b.resolve() or (a.exists() and b.exists() and a.samefile(b))
