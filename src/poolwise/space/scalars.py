"""Plain values: what a parameter may be, when two are the same, and how they are written."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from poolwise.space.errors import SpaceError

Scalar: TypeAlias = bool | int | float | str | None
Key: TypeAlias = tuple[str, Scalar]
Number: TypeAlias = Any  # an int or a float; checked here, with a message

LARGEST = 1e200  # size of a number; its inverse is the smallest


def key(value: Scalar) -> Key:
    """What makes two scalars the same value: 1 and 1.0 are, True and 1 are not."""
    if isinstance(value, bool) or value is None:
        return "word", value
    return ("text", value) if isinstance(value, str) else ("number", float(value))


def scalar(name: str, value: Any) -> Scalar:
    """A plain Python value: text, a finite number, true or false, or None."""
    plain = value.item() if isinstance(value, np.generic) else value
    if plain is not None and not isinstance(plain, bool | int | float | str):
        raise SpaceError(f"{name}: expected text, a number, a truth value or None, got {type(value).__name__}.")
    if isinstance(plain, float) and not math.isfinite(plain):
        raise SpaceError(f"{name}: {plain!r} is not a finite number.")
    if isinstance(plain, int) and abs(plain) > 2**53:
        raise SpaceError(f"{name}: {plain} is too large to be kept exactly; give it as text.")
    return plain


def listed(values: Sequence[Scalar]) -> str:
    """Values for a message, the first few of many."""
    shown = ", ".join(repr(value) for value in values[:12])
    return shown if len(values) <= 12 else f"{shown}, ... ({len(values)} values)"


def number_of(name: str, value: Any) -> float:
    """A finite number."""
    plain = value.item() if isinstance(value, np.generic) else value
    if isinstance(plain, bool) or not isinstance(plain, int | float):
        raise SpaceError(f"{name}: expected a number, got {value!r}.")
    if not abs(plain) <= LARGEST:
        raise SpaceError(f"{name}: expected a finite number of at most {LARGEST:g} in size, got {value!r}.")
    return float(plain)


def whole_of(name: str, value: Any) -> int:
    """A whole number, also one written as 3.0."""
    number = number_of(name, value)
    if not number.is_integer():
        raise SpaceError(f"{name}: expected a whole number, got {value!r}; use Float for a range of real numbers.")
    return int(value)


def check_flag(name: str, value: Any) -> None:
    """Refuse what is neither True nor False."""
    if not isinstance(value, bool):
        raise SpaceError(f"{name}: expected True or False, got {value!r}.")


def short(number: Number) -> str:
    """A number as its user would write it: 1 for 1.0."""
    return str(int(number)) if float(number).is_integer() and abs(number) < 1e15 else repr(number)
