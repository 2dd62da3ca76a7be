"""Compiled programs kept on disk, so that a second process starts in a fraction of the time."""

from __future__ import annotations

import os
from pathlib import Path

import jax

from poolwise.version import __version__


def keep_programs(folder: str | os.PathLike[str] | None = None) -> Path | None:
    """Keep compiled programs in a folder and read them from there; a cache folder of the user's by default.

    It sets JAX's own compilation cache for this process, and does nothing where that has been set up already: then it
    returns None. The folder holds machine code, so it must not be writable by others. POOLWISE_PROGRAMS names another
    folder, or "off".
    """
    named = os.environ.get("POOLWISE_PROGRAMS")
    if jax.config.jax_compilation_cache_dir is not None or named == "off":  # type: ignore[attr-defined]
        return None
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    path = Path(folder or named or base / "poolwise" / f"programs-{__version__}")
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    jax.config.update("jax_compilation_cache_dir", str(path))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)
    return path
