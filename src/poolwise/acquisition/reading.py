"""What a user's function reads beside its arguments, so that its compiled program is made anew when that changes.

JAX knows a function by its identity alone, and traces the numbers that it finds around it into the program.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Iterator
from types import CodeType, FunctionType
from typing import Any

import jax
import numpy as np

MOST = 2**16  # numbers of an array that are looked at
PLAIN = frozenset([bool, int, float, complex, str, bytes])


def read_by(function: Callable[..., Any]) -> tuple[Hashable, ...]:
    """Numbers, words and arrays that a function finds in its closure or among globals, also by its helpers."""
    return tuple(_found(getattr(function, "__func__", function), set()))


def _found(function: Any, seen: set[int]) -> Iterator[Hashable]:
    if type(function) is not FunctionType or id(function) in seen:
        return
    seen.add(id(function))
    known = function.__globals__
    for name in _names(function.__code__):
        if name in known:
            yield from _frozen(known[name], function, seen)
    for cell in function.__closure__ or ():
        try:
            yield from _frozen(cell.cell_contents, function, seen)
        except ValueError:  # it is not filled yet
            yield None


@functools.lru_cache(maxsize=256)
def _names(code: CodeType) -> tuple[str, ...]:
    """Names of globals and attributes, of functions inside too."""
    inside = [_names(constant) for constant in code.co_consts if isinstance(constant, CodeType)]
    return tuple(dict.fromkeys(sum(inside, code.co_names)))


def _frozen(value: Any, reader: FunctionType, seen: set[int]) -> Iterator[Hashable]:
    """What tells a value from others: numbers, words and arrays, tuples of them, and what a helper reads."""
    kind = type(value)
    if kind in PLAIN:
        yield kind, value
    elif kind is FunctionType:
        yield value
        if value.__module__ == reader.__module__:
            yield from _found(value, seen)
    elif kind is tuple:
        for each in value:
            yield from _frozen(each, reader, seen)
        yield len(value)
    elif _is_small_array(value):
        yield value.dtype, value.shape, np.asarray(value).tobytes()


def _is_small_array(value: Any) -> bool:
    if not isinstance(value, np.ndarray | np.generic | jax.Array) or isinstance(value, jax.core.Tracer):
        return False
    return value.dtype.kind in "biufc" and value.size <= MOST
