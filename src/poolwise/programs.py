"""Compiled programs: kept on disk, so that a second process starts in a fraction of the time, and quickly made."""

from __future__ import annotations

import collections
import functools
import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

from poolwise.errors import InputError
from poolwise.kept import Kept
from poolwise.version import __version__

log = logging.getLogger(__name__)

# A compiled program holds some 160 memory maps, of which Linux allows a process 65,530; a process that has no more left
# crashes. So the programs that were used least recently are let go: from disk they are back in a tenth of a second.
MOST = 200
MOST_SHAPES = 16  # of one function, where programs are not kept on disk: beyond that it begins anew

_folder: Path | None = None  # where `keep_programs` keeps them
_programs: collections.OrderedDict[tuple[Program, Any], Kept] = collections.OrderedDict()  # the latest used comes last
_turn = threading.Lock()


def keep_programs(folder: str | os.PathLike[str] | None = None) -> Path | None:
    """Keep compiled programs in a folder and read them from there; a cache folder of the user's by default.

    It sets JAX's own compilation cache for this process, and does nothing where that has been set up already: then it
    returns None. The folder holds machine code, so one that others own or may write to is refused. POOLWISE_PROGRAMS
    names another folder, or "off".
    """
    global _folder
    named = os.environ.get("POOLWISE_PROGRAMS")
    if jax.config.jax_compilation_cache_dir is not None or named == "off":  # type: ignore[attr-defined]
        return None
    path = Path(folder or named or _cache() / "poolwise" / f"programs-{__version__}")
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    found = path.stat()
    if found.st_mode & 0o022:
        raise InputError(f"folder: others may write to {path}, and what is kept there is run; chmod go-w it.")
    if hasattr(os, "getuid") and found.st_uid != os.getuid():
        raise InputError(f"folder: {path} is somebody else's, and what is kept there is run; name one of your own.")
    jax.config.update("jax_compilation_cache_dir", str(path))  # type: ignore[no-untyped-call]
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)  # type: ignore[no-untyped-call]
    _folder = path
    return path


@functools.cache
def keep_if_possible() -> None:
    """Keep compiled programs, or say why not: no folder is a reason to wait longer, not to stop."""
    try:
        keep_programs()
    except (OSError, InputError) as error:
        log.warning("compiled programs are not kept on disk (%s)", error)


def _cache() -> Path:
    """The user's cache folder."""
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except RuntimeError:
        raise FileNotFoundError("There is no home folder; POOLWISE_PROGRAMS may name one for programs.") from None


# What makes compilation short: less optimisation by LLVM, in two pieces, and elementwise code by XLA's older generator.
# Programs are as fast, as long as no large loop writes over what it reads: the older generator does not vectorise it.
# And what makes a round of a loop short: a sum is one step instead of a tree of steps, a maximum is no call of the
# library for matrix products, vectors are as wide as the machine's.
QUICK = {
    "xla_backend_optimization_level": 1,
    "xla_cpu_parallel_codegen_split_count": 2,
    "xla_cpu_use_fusion_emitters": False,
    "xla_disable_hlo_passes": "tree_reduction_rewriter",
    "xla_cpu_experimental_ynn_fusion_type": "LIBRARY_FUSION_TYPE_INDIVIDUAL_DOT",
    "xla_cpu_prefer_vector_width": 512,
}


def quickly(*static_argnames: str) -> Callable[[Callable[..., Any]], Program]:
    """`jax.jit` for our larger programs: compiled in half of the time.

    Inside another program the function is a part of that one.
    """
    return lambda function: Program(function, static_argnames)


class Program:
    """A function that is compiled for each structure and shape of its arguments.

    Where programs are kept on disk, so is what JAX traces, and programs can be made ahead in threads, side by side;
    static arguments are then given by name.
    """

    def __init__(self, function: Callable[..., Any], static: tuple[str, ...]) -> None:
        functools.update_wrapper(self, function)
        self._function, self._static = function, static

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        leaves, structure = jax.tree.flatten((args, self._moving(kwargs)))
        if any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
            return self._function(*args, **kwargs)
        if (folder := _keeping()) is not None:
            arrays = _arrays(leaves)
            program = self._program(arrays, structure, kwargs)
            if program.made(folder):
                return program(arrays)
        if self._cache_size() > MOST_SHAPES:
            self._jitted.clear_cache()
        return self._jitted(*args, **kwargs)

    def ahead(self, *args: Any, **kwargs: Any) -> None:
        """Start to make the program for such arguments, or shapes of them, in a thread, while others are made."""
        if (folder := _keeping()) is not None:
            self._program_for(args, kwargs).ahead(folder)

    def outputs(self, *args: Any, **kwargs: Any) -> Any:
        """Shapes of what the program will return; None if it is there already, or where programs are not kept."""
        folder = _keeping()
        return None if folder is None else self._program_for(args, kwargs).outputs(folder)

    def _moving(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in kwargs.items() if name not in self._static}

    def _program_for(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Kept:
        leaves, structure = jax.tree.flatten((args, self._moving(kwargs)))
        return self._program(_arrays(leaves), structure, kwargs)

    def _program(self, arrays: list[Any], structure: Any, kwargs: dict[str, Any]) -> Kept:
        static = {name: kwargs[name] for name in self._static if name in kwargs}
        key = self, (structure, *((array.shape, array.dtype) for array in arrays), *static.values())
        with _turn:
            if (kept := _programs.get(key)) is None:
                shapes = [jax.ShapeDtypeStruct(array.shape, array.dtype) for array in arrays]  # type: ignore[no-untyped-call]
                arguments = jax.tree.unflatten(structure, shapes)
                kept = _programs[key] = Kept(self._function, arguments, static, self._options)
            _programs.move_to_end(key)
            while len(_programs) > MOST:
                _programs.popitem(last=False)
        return kept

    @functools.cached_property
    def _jitted(self) -> Any:
        return jax.jit(self._function, static_argnames=self._static, compiler_options=self._options)

    @property
    def _options(self) -> dict[str, Any] | None:
        return _known_options() or None

    def _cache_size(self) -> int:
        """How many programs JAX has compiled for it, as `jax.jit` tells; those that are kept on disk do not count."""
        return int(self._jitted._cache_size())


def _arrays(leaves: list[Any]) -> list[Any]:
    return [leaf if hasattr(leaf, "dtype") else np.asarray(leaf) for leaf in leaves]


def _keeping() -> Path | None:
    """The folder of programs, where they are made in the way that a file's name tells: in 64 bit, on a CPU."""
    config: Any = jax.config
    if _folder is None or not config.jax_enable_x64 or config.jax_disable_jit or config.jax_default_matmul_precision:
        return None
    return _folder if _on_cpu() else None


@functools.cache
def _on_cpu() -> bool:
    return bool(jax.default_backend() == "cpu")


@functools.cache
def _known_options() -> dict[str, Any]:
    """Those of `QUICK` that this compiler knows: they are XLA's own and may go."""
    if not _on_cpu():
        return {}
    return QUICK if _knows(QUICK) else {name: value for name, value in QUICK.items() if _knows({name: value})}


def _knows(options: dict[str, Any]) -> bool:
    try:
        jax.jit(lambda: 0.0, compiler_options=options)()
    except jax.errors.JaxRuntimeError:
        return False
    return True
