"""Traced programs on disk: what JAX would trace and lower anew in every process, for half the time to a first pool.

A file is a line of JSON, the structure and shapes of what the program returns, and the program in StableHLO. Its name
is a hash of all that the program depends on: this library's sources, JAX's version, and the structure and shapes of the
arguments. A structure is told by the names of our own classes; one with any other is not kept.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import importlib
import json
import logging
import os
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import export

log = logging.getLogger(__name__)

OURS = __name__.split(".")[0] + "."
ROOMS = (".", "acquisition", "belief", "maximizers", "pool")  # whose code programs are made of


class NotKept(Exception):
    """A program whose arguments or results hold something that a file cannot name."""


class Traced(NamedTuple):
    """A program of flat arrays, and the structure of what it returns, with shapes for arrays."""

    call: Callable[..., Any]
    outputs: Any


class Kept:
    """The program of one function for arguments of one structure and shape, by way of its file.

    Each step is made once, by the thread that asks first; others wait for it.
    """

    def __init__(self, function: Callable[..., Any], arguments: Any, static: dict[str, Any], options: Any) -> None:
        self._function, self._arguments, self._static, self._options = function, arguments, static, options
        self._lock = threading.RLock()
        self._traced: Traced | None = None
        self._compiled: Any = None
        self._structure: Any = None
        self._failed = self._begun = False

    def __call__(self, arrays: list[Any]) -> Any:
        """What the function returns."""
        return jax.tree.unflatten(self._structure, self._compiled(*arrays))

    def made(self, folder: Path) -> bool:
        """Make the program, if it is not there; whether there is one: what is wrong with a file costs time alone."""
        if not self._over():
            with self._lock, jax.enable_x64(True):
                self._make(folder)
        return not self._failed

    def ahead(self, folder: Path) -> None:
        """Make the program in a thread, once."""
        if not (self._begun or self._over()):
            self._begun = True
            with contextlib.suppress(RuntimeError):  # the interpreter is about to end
                _crew().submit(self.made, folder)

    def outputs(self, folder: Path) -> Any:
        """Shapes of what the function returns; None if the program is there already, or is not to be had."""
        if self._over():
            return None
        with self._lock, jax.enable_x64(True):
            traced = self._trace(folder, again=False)
        return None if traced is None else traced.outputs

    def _over(self) -> bool:
        return self._compiled is not None or self._failed

    def _make(self, folder: Path) -> None:
        for again in (False, True):
            if self._compiled is None and (traced := self._trace(folder, again)) is not None:
                with contextlib.suppress(Exception):  # a file that holds no program: it is written again
                    program = jax.jit(traced.call, compiler_options=self._options)
                    self._compiled = program.lower(*jax.tree.leaves(self._arguments)).compile()
                    self._structure = jax.tree.structure(traced.outputs)
        self._failed = self._compiled is None

    def _trace(self, folder: Path, again: bool) -> Traced | None:
        if self._traced is None or again:
            try:
                path = file_of(self._function, self._arguments, self._static, folder)
                if again or not path.exists():
                    write(path, self._function, self._arguments, self._static)
                self._traced = read(path, self._arguments)
            except Exception as error:
                log.info("programs: %s is not kept (%s)", self._function.__name__, error)
                self._traced = None
        return self._traced


@functools.cache
def _crew() -> ThreadPoolExecutor:
    """Threads that make programs ahead, in the order in which they were asked for; a core is left to who waits."""
    return ThreadPoolExecutor(max(1, (os.cpu_count() or 1) - 1))


def file_of(function: Callable[..., Any], arguments: Any, static: dict[str, Any], folder: Path) -> Path:
    """The file of a function's program for arguments of such shapes."""
    said = [describe(arguments), {name: fixed(value) for name, value in sorted(static.items())}]
    words = json.dumps([function.__module__, function.__qualname__, said, _sources(), jax.__version__])
    return folder / f"{function.__name__}-{hashlib.sha256(words.encode()).hexdigest()}-traced"


def write(path: Path, function: Callable[..., Any], arguments: Any, static: dict[str, Any]) -> None:
    """Trace a function of `arguments`, shapes of (args, kwargs), and write its program."""
    leaves, structure = jax.tree.flatten(arguments)
    outputs: list[Any] = []

    def flat(*arrays: Any) -> list[Any]:
        args, kwargs = jax.tree.unflatten(structure, arrays)
        result = function(*args, **kwargs, **static)
        outputs.append(describe(result))
        return jax.tree.leaves(result)

    exported = export.export(jax.jit(flat))(*leaves)
    head = json.dumps({"outputs": outputs[0], "kept": exported.module_kept_var_idx}).encode()
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
        try:
            file.write(head + b"\n" + exported.mlir_module_serialized)
            file.close()
            os.replace(file.name, path)
        except BaseException:
            os.unlink(file.name)
            raise


def read(path: Path, arguments: Any) -> Traced:
    """The program of a file, for arguments of the shapes that it was traced for."""
    head, module = path.read_bytes().split(b"\n", 1)
    words = json.loads(head)
    outputs = build(words["outputs"])
    zeros = [(shape.shape, shape.dtype) for shape in jax.tree.leaves(outputs)]
    # The frame of a program with the same arguments and results; only what is between them is another.
    frame = export.export(jax.jit(lambda *_: [jax.lax.full(shape, 0, dtype) for shape, dtype in zeros]))
    program = frame(*jax.tree.leaves(arguments))
    program = dataclasses.replace(program, mlir_module_serialized=module, module_kept_var_idx=tuple(words["kept"]))
    return Traced(program.call, outputs)


@functools.cache
def _sources() -> str:
    """A hash of the code that programs are made of."""
    root = Path(__file__).parent
    files = sorted(path for room in ROOMS for path in (root / room).glob("*.py"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()


def describe(value: Any) -> Any:
    """A structure of arrays in JSON: our classes by name, arrays by shape and type."""
    if value is None:
        return None
    if type(value) in (tuple, list):
        return {type(value).__name__: [describe(each) for each in value]}
    if type(value) is dict:
        return {"dict": {name: describe(each) for name, each in value.items()}}
    if hasattr(value, "dtype"):
        return {"shape": list(value.shape), "dtype": str(value.dtype)}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return {"class": _name(type(value)), "fields": [describe(each) for each in value]}
    if dataclasses.is_dataclass(value):
        fields = {f.name: (f.metadata.get("static"), getattr(value, f.name)) for f in dataclasses.fields(value)}
        said = {name: fixed(each) if static else describe(each) for name, (static, each) in fields.items()}
        return {"class": _name(type(value)), "fields": said}
    raise NotKept(repr(type(value)))


def fixed(value: Any) -> Any:
    """A part of the program in JSON: a number, a word or one of our classes."""
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, type):
        return {"type": _name(value)}
    raise NotKept(repr(type(value)))


def build(words: Any) -> Any:
    """The structure that was described, with shapes in place of arrays."""
    if words is None:
        return None
    if "shape" in words:
        return jax.ShapeDtypeStruct(tuple(words["shape"]), np.dtype(words["dtype"]))  # type: ignore[no-untyped-call]
    if "class" not in words:
        ((kind, parts),) = words.items()
        if kind == "dict":
            return {name: build(part) for name, part in parts.items()}
        return {"tuple": tuple, "list": list}[kind](build(part) for part in parts)
    cls, said = _class(words["class"]), words["fields"]
    if isinstance(said, list):
        return cls(*(build(part) for part in said))
    value = object.__new__(cls)
    for field in dataclasses.fields(cls):
        part = said[field.name]
        made = (
            (_class(part["type"]) if isinstance(part, dict) else part) if field.metadata.get("static") else build(part)
        )
        object.__setattr__(value, field.name, made)
    return value


def _name(cls: type) -> str:
    if not cls.__module__.startswith(OURS) or _class(f"{cls.__module__}:{cls.__qualname__}") is not cls:
        raise NotKept(repr(cls))
    return f"{cls.__module__}:{cls.__qualname__}"


def _class(name: str) -> Any:
    module, _, cls = name.partition(":")
    if not module.startswith(OURS):
        raise NotKept(name)
    found = getattr(importlib.import_module(module), cls, None)
    if not isinstance(found, type):
        raise NotKept(name)
    return found
