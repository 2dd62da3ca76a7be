"""Compiled programs: kept on disk, so that a second process starts in a fraction of the time, and quickly made."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

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


# Less optimisation of elementwise code, by XLA's older code generator: half the compilation.
QUICK = {"xla_cpu_use_fusion_emitters": False, "xla_backend_optimization_level": 1}


def quickly(*static_argnames: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """`jax.jit` for programs whose time goes into matrix products: compiled in half the time, and as fast.

    Inside another program the function is a part of that one.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.cache
        def compiled() -> Any:
            return jax.jit(function, static_argnames=static_argnames, compiler_options=_quick_options())

        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            traced = any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves((args, kwargs)))
            return (function if traced else compiled())(*args, **kwargs)

        run._cache_size = lambda: compiled()._cache_size()  # type: ignore[attr-defined]
        return run

    return decorate


@functools.cache
def _quick_options() -> dict[str, Any] | None:
    """The options, or None where this compiler does not know them: they are XLA's own and may go."""
    if jax.default_backend() != "cpu":
        return None
    try:
        jax.jit(lambda: 0.0, compiler_options=QUICK)()
    except jax.errors.JaxRuntimeError:
        return None
    return QUICK
