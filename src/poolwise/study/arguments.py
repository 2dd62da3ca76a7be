"""What callers give a study, checked at the door without JAX; errors say what to change."""

from __future__ import annotations

import math
import numbers
import uuid
from typing import Any, TypeAlias

from poolwise.errors import InputError
from poolwise.study.store import Outcome
from poolwise.study.trial import Trial

Number: TypeAlias = Any  # whatever float() reads as a number: of Python, NumPy or JAX


def number_of(trial: Any) -> int:
    """The number of a trial, or the number itself."""
    if isinstance(trial, Trial):
        return trial.number
    if isinstance(trial, bool) or not isinstance(trial, numbers.Integral) or not 0 <= int(trial) < 2**62:
        raise InputError(f"trial: expected a trial or its number, got {trial!r}.")
    return int(trial)


def outcome_of(value: Any, sem: Any) -> Outcome:
    """What telling a value means: a value that is not finite is a failure."""
    number = _real("value", value)
    if not math.isfinite(number):
        return Outcome("failed", reason=f"the value is {number}")
    if sem is None:
        return Outcome("told", number)
    error = _real("sem", sem)
    if not 0 <= error < math.inf:
        raise InputError(f"sem: a standard error is zero or more, got {sem!r}; leave it out if it is not known.")
    return Outcome("told", number, error)


def _real(name: str, value: Any) -> float:
    try:
        if isinstance(value, str | bytes | bytearray):
            raise TypeError("text")
        return float(value) + 0.0  # no negative zero, which not every database keeps
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{name}: expected a number, got {value!r}.") from None


def pool_size(q: Any) -> int:
    """A whole number, 1 or more."""
    if isinstance(q, bool) or not isinstance(q, numbers.Integral) or int(q) < 1:
        raise InputError(f"q: expected a whole number, 1 or more, got {q!r}.")
    return int(q)


def seconds(name: str, value: Any) -> float:
    """A span of time."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or value <= 0 or not value < 1e9:
        raise InputError(f"{name}: expected seconds, above zero, got {value!r}.")
    return float(value)


def request_name(request: Any) -> str:
    """The name of a request, a new one where none is given."""
    if request is None:
        return uuid.uuid4().hex
    if not isinstance(request, str) or not 0 < len(request) <= 200 or not request.isprintable():
        raise InputError(f"request_id: expected up to 200 printable characters, got {request!r}.")
    return request
