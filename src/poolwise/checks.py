"""Arguments at the door: each check returns 64-bit arrays, or raises an `InputError` that says what to change.

Values under a JAX transformation cannot be looked at; for them only shapes are checked.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from types import UnionType
from typing import Any, TypeAlias, get_args

import numpy as np
from jaxtyping import Float, Num

from poolwise.errors import InputError
from poolwise.precision import AnyArray, concrete, to_double

Numbers: TypeAlias = Any  # whatever NumPy reads as numbers: lists, arrays, JAX arrays and tracers


def array(name: str, value: Any) -> Num[AnyArray, "..."]:
    """A finite array of 64-bit floats."""
    try:
        result = to_double(value)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name}: expected numbers, got {type(value).__name__} ({error}).") from None
    if concrete(result) and not (finite := np.isfinite(np.asarray(result))).all():
        where = tuple(int(i) for i in np.argwhere(~finite)[0])
        spot = f" at index {where if len(where) != 1 else where[0]}" if where else ""
        raise InputError(
            f"{name}: has {int((~finite).sum())} value(s) that are NaN or infinite, the first{spot}; "
            "leave those observations out or correct them."
        )
    return result


def matrix(name: str, value: Any, *, columns: int | None = None) -> Float[AnyArray, "n d"]:
    """Points as rows; with `columns`, in that many dimensions."""
    result = array(name, value)
    if result.ndim != 2:
        raise InputError(
            f"{name}: expected a matrix with one point a row, got shape {result.shape}; "
            f"for one point write {name}[None, :], for points in one dimension {name}[:, None]."
        )
    if 0 in result.shape:
        raise InputError(
            f"{name}: is empty, shape {result.shape}; give at least one point with at least one coordinate."
        )
    if columns is not None and result.shape[1] != columns:
        raise InputError(f"{name}: has {result.shape[1]} columns where {columns} dimensions are known; use {columns}.")
    return result


def vector(name: str, value: Any, *, length: int | None = None) -> Float[AnyArray, " n"]:
    """A vector of numbers; with `length`, of that many."""
    result = array(name, value)
    if result.ndim != 1:
        raise InputError(f"{name}: expected a vector, got shape {result.shape}; flatten it with .ravel().")
    if result.shape[0] == 0:
        raise InputError(f"{name}: is empty; give at least one value.")
    if length is not None and result.shape[0] != length:
        raise InputError(f"{name}: has {result.shape[0]} values where {length} are needed, one for each point.")
    return result


def scalar(name: str, value: Any) -> Float[AnyArray, ""]:
    """One number."""
    result = array(name, value)
    if result.ndim != 0:
        raise InputError(f"{name}: expected one number, got shape {result.shape}.")
    return result


def positive(name: str, value: Num[AnyArray, "..."], *, zero: bool = False) -> Num[AnyArray, "..."]:
    """The value, if no entry is below zero (or equal to it, unless `zero` is allowed)."""
    lowest = float(np.min(np.asarray(value), initial=np.inf)) if concrete(value) else np.inf
    if lowest < 0 or (lowest == 0 and not zero):
        raise InputError(f"{name}: must be {'zero or more' if zero else 'above zero'}, got {lowest:g}.")
    return value


def count(name: str, value: Any, *, least: int = 1) -> int:
    """A whole number, `least` or more."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise InputError(f"{name}: expected a whole number, {least} or more, got {value!r}.")
    return int(value)


def duration(name: str, value: Any) -> float:
    """A number of seconds above zero, which may be infinite."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating) or not value > 0:
        raise InputError(f"{name}: must be a number of seconds above zero, got {value!r}; leave it out for no limit.")
    return float(value)


def store_counts(owner: Any, *names: str) -> None:
    """Store checked whole numbers, one or more, in frozen settings."""
    for name in names:
        object.__setattr__(owner, name, count(name, getattr(owner, name)))


def option(name: str, value: Any, options: Iterable[str]) -> str:
    """One of a few words."""
    known = sorted(options)
    if value not in known:
        close = difflib.get_close_matches(str(value), known, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise InputError(f"{name}: unknown option {value!r}; choose one of {', '.join(map(repr, known))}.{hint}")
    return str(value)


def kind(name: str, value: Any, expected: type | UnionType, hint: str) -> None:
    """A value of the right type, or of one of some types."""
    if not isinstance(value, expected):
        names = " or ".join(each.__name__ for each in get_args(expected) or (expected,))
        raise InputError(f"{name}: expected {names}, got {type(value).__name__}; {hint}")
