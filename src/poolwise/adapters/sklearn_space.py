"""Scikit-learn's ways to write a space, as a space of ours; it needs neither scikit-learn nor SciPy."""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from poolwise.errors import InputError
from poolwise.space.parameters import Choice, Float, Int
from poolwise.space.space import Space

PRIORS = {"uniform": False, "log-uniform": True}  # of ranges written as (low, high, prior)
DISTRIBUTIONS = ("uniform", "loguniform", "reciprocal", "randint")

Candidate = dict[str, Any]


@dataclass(frozen=True)
class SearchSpace:
    """A space, and the lists of which it knows the places only: they may hold anything."""

    space: Space
    lists: Mapping[str, Sequence[Any]]

    @staticmethod
    def of(given: Any) -> SearchSpace:
        """The space that a user of scikit-learn describes."""
        if isinstance(given, Space):
            return SearchSpace(given, {})
        parameters, lists = {}, {}
        for name, value in given.items():
            values = _values(name, value)
            if values is None:
                parameters[name] = _parameter(name, value)
            else:
                lists[name] = values
                parameters[name] = Choice(range(len(values)), ordered=_graded(values))
        return SearchSpace(Space(parameters), lists)

    def candidate(self, params: Mapping[str, Any]) -> Candidate:
        """What the estimator is given for an experiment of the study."""
        return {name: self.lists[name][value] if name in self.lists else value for name, value in params.items()}


def _values(name: str, value: Any) -> Sequence[Any] | None:
    """The values of a list; None for what is no list."""
    if isinstance(value, tuple) and (len(value) != 3 or value[2] not in PRIORS):
        if len(value) == 2 and _numbers(value):
            raise InputError(
                f"search_spaces: {name}: {value!r} may be a range or a choice; write Float{value!r} or Int{value!r} "
                f"for a range, {list(value)!r} for a choice."
            )
        value = list(value)
    if hasattr(value, "tolist") and getattr(value, "ndim", 0) == 1:  # of NumPy or pandas
        value = value.tolist()
    if not isinstance(value, list | range | np.ndarray):
        return None
    values = list(value)
    if not values:
        raise InputError(f"search_spaces: {name}: the list is empty; give at least one value.")
    return values


def _numbers(values: Sequence[Any]) -> bool:
    return all(isinstance(value, numbers.Real) and not isinstance(value, bool) for value in values)


def _graded(values: Sequence[Any]) -> bool:
    """Whether neighbours in a list are alike: numbers that only rise, or only fall."""
    if not _numbers(values):
        return False
    steps = np.diff(np.asarray(values, dtype=float))
    return bool((steps > 0).all() or (steps < 0).all())


def _parameter(name: str, value: Any) -> Any:
    """A parameter of ours for a range or a distribution; what is neither is left to the space."""
    if isinstance(value, tuple):
        low, high, prior = value
        kind = Int if isinstance(low, numbers.Integral) and isinstance(high, numbers.Integral) else Float
        return kind(low, high, log=PRIORS[prior])
    if not hasattr(value, "rvs"):
        return value
    known = getattr(getattr(value, "dist", None), "name", type(value).__name__)
    if known in DISTRIBUTIONS:
        low, high = (float(end) for end in value.support())
        if known == "randint":
            return Int(low, high)
        log = known != "uniform"
        if not log or math.isclose(value.median(), math.sqrt(low * high)):
            return Float(low, high, log=log)
    raise InputError(
        f"search_spaces: {name}: the distribution {known!r} is no even range; of SciPy's there are uniform, loguniform "
        "(with loc=0) and randint. Write Float(low, high), with log=True for a logarithmic scale."
    )
