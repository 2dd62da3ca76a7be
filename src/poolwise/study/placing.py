"""Trials as points of the unit cube, also those that the space itself would not have suggested."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float as Floats

from poolwise.space.errors import SpaceError
from poolwise.space.parameters import Choice, Fixed, Float, Int, Parameter, scalar
from poolwise.space.space import Space
from poolwise.study.trial import Trial

OUTSIDE = 0.01  # of a range: a value that lies farther outside it than this is not modelled


def place(space: Space, trials: Sequence[Trial]) -> tuple[list[Trial], Floats[np.ndarray, "n d"]]:
    """The trials that the cube can hold, and where: between steps, or just outside a range, at the nearest value."""
    with contextlib.suppress(SpaceError):
        return list(trials), space.encode_many([trial.params for trial in trials])
    held, points = [], []
    for trial in trials:
        try:
            points.append(space.encode(trial.params))
        except SpaceError:
            near = nearest(space, trial.params)
            if near is None:
                continue
            points.append(space.encode(near))
        held.append(trial)
    return held, np.array(points).reshape(len(held), space.dimension)


def nearest(space: Space, params: Mapping[str, Any]) -> dict[str, Any] | None:
    """The nearest parameters of the space; None where one is far outside its range or is no choice."""
    if params.keys() != space.parameters.keys():
        return None
    near: dict[str, Any] = {}
    for name, parameter in space.parameters.items():
        value = _nearest(parameter, params[name])
        if value is None and params[name] is not None:
            return None
        near[name] = value
    try:
        space.encode(near)
    except SpaceError:
        return None
    return near


def _nearest(parameter: Parameter, value: Any) -> Any:
    if isinstance(parameter, Choice | Fixed):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    low, high = float(parameter.low), float(parameter.high)
    if parameter.log:
        slack = OUTSIDE * math.log(high / low) if high > low else 0.0
        inside = value > 0 and math.log(low) - slack <= math.log(value) <= math.log(high) + slack
    else:
        slack = OUTSIDE * (high - low)
        inside = low - slack <= value <= high + slack
    if not inside:
        return None
    clipped = min(max(value, low), high)
    if isinstance(parameter, Int):
        return round(clipped)
    if parameter.step is None:
        return float(clipped)
    steps = min(round((clipped - low) / parameter.step), math.floor((high - low) / parameter.step + 1e-9))
    return parameter.decode(np.array([float(steps)]))[0]


def stored_params(space: Space, params: Mapping[str, Any]) -> tuple[dict[str, Any], str | None]:
    """Parameters of an added trial as they are stored, and why they lie outside the space, if they do.

    Numbers outside a range, between steps or against a constraint are kept as they are; a missing or unknown name, a
    word where a number belongs and an unknown choice are errors.
    """
    try:
        return space.validate(params), None
    except SpaceError as error:
        problem = str(error)
    full = {name: p.value for name, p in space.parameters.items() if isinstance(p, Fixed)} | dict(params)
    if full.keys() != space.parameters.keys():
        raise SpaceError(problem)
    kept: dict[str, Any] = {}
    for name, parameter in space.parameters.items():
        kept[name] = scalar(name, full[name])
        if isinstance(parameter, Float | Int):
            if isinstance(kept[name], bool) or not isinstance(kept[name], int | float):
                raise SpaceError(problem)
            kept[name] = float(kept[name]) if isinstance(parameter, Float) else kept[name]
        else:
            parameter.code(name, kept[name])
    return kept, problem
