"""Compiled programs kept on disk, so that a second process starts in a fraction of the time."""

from __future__ import annotations

import os
from pathlib import Path

import jax

from poolwise.errors import InputError
from poolwise.version import __version__


def keep_programs(folder: str | os.PathLike[str] | None = None) -> Path | None:
    """Keep compiled programs in a folder and read them from there; a cache folder of the user's by default.

    It sets JAX's own compilation cache for this process, and does nothing where that has been set up already: then it
    returns None. The folder holds machine code, so one that others may write to is refused. POOLWISE_PROGRAMS names
    another folder, or "off".
    """
    named = os.environ.get("POOLWISE_PROGRAMS")
    if jax.config.jax_compilation_cache_dir is not None or named == "off":  # type: ignore[attr-defined]
        return None
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    path = Path(folder or named or base / "poolwise" / f"programs-{__version__}")
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    if path.stat().st_mode & 0o022:
        raise InputError(f"folder: others may write to {path}, and what is kept there is run; chmod go-w it.")
    jax.config.update("jax_compilation_cache_dir", str(path))  # type: ignore[no-untyped-call]
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)  # type: ignore[no-untyped-call]
    return path
