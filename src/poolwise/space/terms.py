"""The parts of a constraint at work: functions from columns of codes to columns of numbers, truths or choices.

A truth is a pair of gaps: how far a point is from making it hold, and from making it fail. One of the two is zero,
unless a number that is not finite makes both infinite. `not` swaps them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from poolwise.space.axes import Codes
from poolwise.space.parameters import Choice, Fixed, Parameter
from poolwise.space.scalars import Scalar

SAME = 1e-12  # relative difference up to which two numbers are equal
GAPS = (1e-12, 1e300)  # the least and the largest that a comparison reports

Columns: TypeAlias = Mapping[str, Codes]  # codes by parameter
Run: TypeAlias = Callable[[Columns], Any]  # numbers; truths, as pairs of gaps; or indices of choices

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "abs": np.abs,
    "exp": np.exp,
    "log": np.log,
    "max": np.maximum,
    "min": np.minimum,
    "sqrt": np.sqrt,
}
OPERATIONS: dict[str, Callable[..., Any]] = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide}
KINDS = {"number": "a number", "truth": "true or false", "value": "a choice"}


@dataclass(frozen=True)
class Term:
    """A part of an expression: what it gives, how, and where it is; for a choice or a literal also its values."""

    kind: str
    run: Run
    at: int
    options: tuple[Scalar, ...] | None = None
    pick: Run | None = None
    name: str | None = None


def literal(value: Scalar, at: int) -> Term:
    """A number, a text or a word."""
    options = (value,)
    if isinstance(value, bool):
        gaps = (np.float64(not value), np.float64(value))
        return Term("truth", lambda columns: gaps, at, options, _first)
    if isinstance(value, float):
        number = np.float64(value)
        return Term("number", lambda columns: number, at, options, _first)
    return Term("value", _first, at, options, _first)


def parameter(name: str, given: Parameter, at: int) -> Term:
    """The values of a parameter; a choice of numbers is a number, a choice of true and false a truth."""
    if not isinstance(given, Choice | Fixed):
        return Term("number", lambda columns: given.numbers(columns[name]), at, name=name)
    options = tuple(given.values) if isinstance(given, Choice) else (given.value,)

    def pick(columns: Columns) -> Any:
        return columns[name].astype(int)

    if all(isinstance(value, bool) for value in options):
        holds = np.array(options, dtype=float)
        return Term(
            "truth", lambda columns: (1.0 - holds[pick(columns)], holds[pick(columns)]), at, options, pick, name
        )
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in options):
        numbers = np.array(options, dtype=float)
        return Term("number", lambda columns: numbers[pick(columns)], at, options, pick, name)
    return Term("value", pick, at, options, pick, name)


def chained(first: Run, rest: Sequence[tuple[Callable[..., Any], Run]]) -> Run:
    """first + second - third ..., from left to right."""

    def run(columns: Columns) -> Any:
        result = first(columns)
        for operation, following in rest:
            result = operation(result, following(columns))
        return result

    return run


def called(function: Callable[..., Any], runs: Sequence[Run]) -> Run:
    """A function of one number, or of several by pairs."""

    def run(columns: Columns) -> Any:
        values = [part(columns) for part in runs]
        result = function(*values[:2])
        for value in values[2:]:
            result = function(result, value)
        return result

    return run


def comparison(sign: str, left: Run, right: Run) -> Run:
    """Two numbers compared; the gap is their difference."""

    def run(columns: Columns) -> Any:
        a, b = left(columns), right(columns)
        same = np.abs(a - b) <= SAME * np.maximum(np.abs(a), np.abs(b))
        holds = {
            "<=": (a < b) | same,
            ">=": (a > b) | same,
            "<": (a < b) & ~same,
            ">": (a > b) & ~same,
            "==": same,
            "!=": ~same,
        }[sign]
        gap = np.where(np.isfinite(a) & np.isfinite(b), np.clip(np.abs(a - b), *GAPS), np.inf)
        return np.where(holds & (gap < np.inf), 0.0, gap), np.where(~holds & (gap < np.inf), 0.0, gap)

    return run


def same_value(table: np.ndarray, left: Run, right: Run) -> Run:
    """Two choices compared, by a table of which of their values are equal."""
    equal = np.where(table, 0.0, 1.0)

    def run(columns: Columns) -> Any:
        gap = equal[left(columns), right(columns)]
        return gap, 1.0 - gap

    return run


def same_truth(left: Run, right: Run) -> Run:
    """Two truths compared."""

    def run(columns: Columns) -> Any:
        (a, not_a), (b, not_b) = left(columns), right(columns)
        return np.minimum(a + b, not_a + not_b), np.minimum(a + not_b, not_a + b)

    return run


def all_of(truths: Sequence[Any]) -> Any:
    """`and`."""
    return sum(gap for gap, _ in truths), _least([other for _, other in truths])


def any_of(truths: Sequence[Any]) -> Any:
    """`or`."""
    return _least([gap for gap, _ in truths]), sum(other for _, other in truths)


def _least(gaps: Sequence[Any]) -> Any:
    result = gaps[0]
    for gap in gaps[1:]:
        result = np.minimum(result, gap)
    return result


def _first(columns: Columns) -> int:
    return 0
