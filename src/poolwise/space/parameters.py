"""What can be varied: `Float`, `Int`, `Choice`, and `Fixed` for what is not."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, TypeAlias

import numpy as np

from poolwise.space.axes import Axis, Cells, Codes, Corners, Line, LogCells, decimal
from poolwise.space.errors import SpaceError, did_you_mean
from poolwise.space.scalars import (
    LARGEST,
    Key,
    Number,
    Scalar,
    check_flag,
    key,
    listed,
    number_of,
    short,
    whole_of,
)
from poolwise.space.scalars import scalar as scalar

LARGEST_INT = 2**40
MOST_STEPS = 10**9
NARROWEST_LOG = 1.001


@dataclass(frozen=True)
class Float:
    """A real number from low to high, both included; `log` for a logarithmic scale, `step` for low, low + step, ...

    Where the range is no multiple of the step, the last value is the largest one below high. Suggested values have 12
    decimal digits of the range (11 on a logarithmic scale).
    """

    low: Number
    high: Number
    log: bool = field(default=False, kw_only=True)
    step: Number = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            object.__setattr__(self, name, number_of(f"Float: {name}", getattr(self, name)))
        check_flag("Float: log", self.log)
        _check_float_range(self.low, self.high)
        if self.log:
            _check_log(self.low, self.high)
        if self.step is not None:
            object.__setattr__(self, "step", number_of("Float: step", self.step))
            self._check_step()

    def _check_step(self) -> None:
        if self.log:
            raise SpaceError("Float: log and step do not go together; leave one of them out.")
        if self.step <= 0:
            raise SpaceError(f"Float: step must be above zero, got {self.step:g}.")
        if self.step > self.high - self.low:
            raise SpaceError(
                f"Float: a step of {self.step:g} leaves one value between {self.low:g} and {self.high:g}; "
                "use a smaller step, or give the value itself to fix it."
            )
        if (self.high - self.low) / self.step > MOST_STEPS:
            raise SpaceError(f"Float: a step of {self.step:g} makes more than {MOST_STEPS:.0e} values; leave it out.")
        if self.step < 4 * np.spacing(max(abs(self.low), abs(self.high))):
            raise SpaceError(f"Float: a step of {self.step:g} is lost beside {self.low:g}; use a larger one.")

    @functools.cached_property
    def _places(self) -> int | None:
        return _places(self.low, self.step, max(abs(self.low), abs(self.high)))

    @functools.cached_property
    def _count(self) -> int:
        return math.floor((self.high - self.low) / self.step * (1 + 1e-12) + 1e-9) + 1

    def axis(self) -> Axis:
        return Line(self.low, self.high, self.log) if self.step is None else Cells(self._count)

    def numbers(self, codes: Codes) -> np.ndarray:
        """The values of codes."""
        if self.step is None:
            return codes
        x = self.low + codes * self.step
        if self._places is not None:  # 0.1 + 2 * 0.1 is 0.3, as the user wrote it
            x = decimal(x, np.full(len(x), self._places))
        return np.clip(x, self.low, self.high)

    def decode(self, codes: Codes) -> list[float]:
        return self.numbers(codes).tolist()

    def encode(self, values: np.ndarray) -> Codes | None:
        """The codes of many numbers at once; None if one of them is no value of this parameter."""
        if self.step is not None or not np.all((values >= self.low) & (values <= self.high)):
            return None
        return values

    def code(self, name: str, value: Any) -> float:
        """The code of a value, or an error that names the parameter."""
        number = number_of(name, value)
        _check_in_range(name, number, self.low, self.high)
        if self.step is None:
            return number
        code = float(np.clip(np.rint((number - self.low) / self.step), 0, self._count - 1))
        [nearest] = self.decode(np.array([code]))
        if abs(nearest - number) > 1e-9 * self.step:
            raise SpaceError(f"{name}: {number!r} is between steps of {self.step:g}; the nearest value is {nearest!r}.")
        return code

    def __repr__(self) -> str:
        options = ", log=True" if self.log else ""
        options += "" if self.step is None else f", step={short(self.step)}"
        return f"Float({short(self.low)}, {short(self.high)}{options})"


@dataclass(frozen=True)
class Int:
    """A whole number from low to high, both included; `log` for a logarithmic scale. With low = high it is fixed."""

    low: Number
    high: Number
    log: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            object.__setattr__(self, name, whole_of(f"Int: {name}", getattr(self, name)))
        check_flag("Int: log", self.log)
        if self.low > self.high:
            raise SpaceError(f"Int: low is {self.low}, above high, {self.high}; swap them.")
        if max(abs(self.low), abs(self.high)) > LARGEST_INT:
            raise SpaceError(f"Int: bounds are at most 2**40 = {LARGEST_INT} in size; use Float or another unit.")
        if self.log and self.low < 1:
            raise SpaceError(f"Int: a logarithmic scale starts at 1 or above, got low={self.low}; leave log out.")

    def axis(self) -> Axis | None:
        if self.low == self.high:
            return None
        return LogCells(self.low, self.high) if self.log else Cells(self.high - self.low + 1)

    def numbers(self, codes: Codes) -> np.ndarray:
        """The values of codes."""
        return codes + self.low

    def decode(self, codes: Codes) -> list[int]:
        return self.numbers(codes).astype(int).tolist()

    def encode(self, values: np.ndarray) -> Codes | None:
        """The codes of many numbers at once; None if one of them is no value of this parameter."""
        if not np.all((values >= self.low) & (values <= self.high) & (values == np.rint(values))):
            return None
        return values - self.low

    def code(self, name: str, value: Any) -> float:
        """The code of a value, or an error that names the parameter."""
        number = number_of(name, value)
        if not number.is_integer():
            raise SpaceError(f"{name}: expected a whole number, got {value!r}.")
        _check_in_range(name, number, self.low, self.high)
        return number - self.low

    def __repr__(self) -> str:
        return f"Int({self.low}, {self.high}{', log=True' if self.log else ''})"


@dataclass(frozen=True)
class Choice:
    """One of a few values: text, numbers, true or false, None. `ordered` if neighbours in the list are alike.

    1 and 1.0 are the same choice; True and 1, or "1" and 1, are different ones. One value alone is fixed.
    """

    values: Any
    ordered: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        if isinstance(self.values, str) or not isinstance(self.values, Sequence | np.ndarray):
            raise SpaceError(f"Choice: expected a list of values, got {self.values!r}; write Choice([...]).")
        values = tuple(scalar("Choice", value) for value in self.values)
        if not values:
            raise SpaceError("Choice: the list of values is empty; give at least one.")
        check_flag("Choice: ordered", self.ordered)
        object.__setattr__(self, "values", values)
        for i, value in enumerate(values):
            if self._codes[key(value)] != i:
                raise SpaceError(f"Choice: {value!r} is there twice; name each value once.")

    @functools.cached_property
    def _codes(self) -> dict[Key, float]:
        return {key(value): float(i) for i, value in enumerate(self.values)}

    def axis(self) -> Axis | None:
        if len(self.values) == 1:
            return None
        return Cells(len(self.values)) if self.ordered else Corners(len(self.values))

    def decode(self, codes: Codes) -> list[Scalar]:
        return [self.values[code] for code in codes.astype(int).tolist()]

    def code(self, name: str, value: Any) -> float:
        """The code of a value, or an error that names the parameter."""
        found = self._codes.get(key(scalar(name, value)))
        if found is None:
            hint = did_you_mean(str(value), [v for v in self.values if isinstance(v, str)])
            raise SpaceError(f"{name}: {value!r} is none of {listed(self.values)}.{hint}")
        return found

    def __repr__(self) -> str:
        return f"Choice({list(self.values)!r}{', ordered=True' if self.ordered else ''})"


@dataclass(frozen=True)
class Fixed:
    """A value that every experiment has; a plain value in a space means the same."""

    value: Any

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", scalar("Fixed", self.value))

    def axis(self) -> None:
        return None

    def decode(self, codes: Codes) -> list[Scalar]:
        return [self.value] * len(codes)

    def code(self, name: str, value: Any) -> float:
        """Zero, or an error that names the parameter."""
        if key(scalar(name, value)) != key(self.value):
            raise SpaceError(f"{name}: is fixed at {self.value!r}, got {value!r}; leave it out.")
        return 0.0

    def __repr__(self) -> str:
        return f"Fixed({self.value!r})"


Parameter: TypeAlias = Float | Int | Choice | Fixed


def _check_float_range(low: float, high: float) -> None:
    if low >= high:
        change = "give the value itself to fix it" if low == high else "swap them"
        raise SpaceError(f"Float: low, {low:g}, must be below high, {high:g}; {change}.")
    if high - low < 1 / LARGEST:
        raise SpaceError(f"Float: the range from {low:g} to {high:g} is too narrow; use another unit.")


def _check_log(low: float, high: float) -> None:
    if low < 1 / LARGEST:
        raise SpaceError(f"Float: a logarithmic scale needs low above zero, got {low:g}; raise low or leave log out.")
    if high / low < NARROWEST_LOG:
        raise SpaceError(f"Float: from {low!r} to {high!r} a logarithmic scale is a linear one; leave log out.")


def _check_in_range(name: str, number: float, low: Number, high: Number) -> None:
    if not low <= number <= high:
        raise SpaceError(f"{name}: {short(number)} is outside its range, {short(low)} to {short(high)}.")


def _places(low: float, step: float, largest: float) -> int | None:
    """Decimal places that hold low and step as they are written; None where that is beyond a float's digits."""
    exponents = [Decimal(repr(number)).as_tuple().exponent for number in (low, step)]
    places = max(-int(exponent) for exponent in exponents)
    return places if abs(places) <= 15 and largest * 10.0**places < 2.0**52 else None
