"""Who sits where: what an Optuna study's storage says of the points that were chosen for its trials, and of pools."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import optuna
from optuna.trial import FrozenTrial, TrialState

from poolwise.adapters.optuna_space import Frame, Point

POOL, PARAMS = "poolwise:pool", "poolwise:params"  # system attributes: a pool with its chooser, the point of a trial
LONGEST = 2045  # characters of one attribute, which some databases limit
CROWD = 4  # times q: how large a pool gets when so many trials wait for their parameters at the same time


def point_of(trial: FrozenTrial, frame: Frame) -> Point | None:
    """Where a trial lies: by its parameters, and those it lacks by what was chosen for it.

    A trial that ended without some of them, and for which nothing was chosen, is in the middle of their range.
    """
    if frame.distributions.keys() <= trial.params.keys():
        return frame.point(trial.params)
    chosen = read(trial, PARAMS)
    if chosen is not None and chosen["space"] == frame.mark:
        return frame.point(frame.params(chosen["point"]) | trial.params)
    return frame.filled(trial.params) if trial.state.is_finished() else None


def first_waiting(trials: Sequence[FrozenTrial], number: int) -> int:
    """The number after the last earlier trial that has its parameters; those between wait for theirs, as this one."""
    earlier = [t for t in trials if t.number < number]
    placed = [t.number for t in earlier if t.state.is_finished() or t.params or f"{PARAMS}:0" in t.system_attrs]
    return max(placed, default=-1) + 1


def handed(trials: Sequence[FrozenTrial], number: int, q: int, frame: Frame, ended: int) -> Point | None:
    """The point that a pool has for a trial of that number, if nothing was told since; pools that fill stay good."""
    for trial in trials:
        pool = read(trial, POOL) if abs(trial.number - number) < CROWD * q else None
        if pool is None or pool["space"] != frame.mark or pool["known"] not in (None, ended):
            continue
        place = number - pool["first"]
        if 0 <= place < len(pool["members"]):
            found: Point = pool["members"][place]
            return found
    return None


def is_taken(point: Point, trials: Sequence[FrozenTrial], number: int, frame: Frame) -> bool:
    """Whether another trial is at a point; the first parameter tells most of them apart, which saves reading them."""
    name, value = next(iter(frame.params(point).items()))
    alike = [t for t in trials if t.state == TrialState.RUNNING or t.params.get(name, value) == value]
    return point in [point_of(other, frame) for other in alike if other.number != number]


def seats(trials: Sequence[FrozenTrial], number: int, q: int, running: int) -> int:
    """How many trials the next pool is for: as many as ran side by side of late, less those that are running."""
    recent = [t for t in trials if number - 2 * q < t.number <= number]
    spans = [(t.datetime_start, t.datetime_complete or datetime.max) for t in recent if t.datetime_start is not None]
    most = max((sum(start <= at < end for start, end in spans) for at, _ in spans), default=1)
    return max(1, min(q, most) - running)


def write(study: optuna.Study, trial: FrozenTrial, key: str, content: Mapping[str, Any]) -> None:
    text = json.dumps(content)
    parts = [text[i : i + LONGEST] for i in range(0, len(text), LONGEST)]
    for i, part in reversed(list(enumerate(parts))):  # the first part last: who finds it finds them all
        study._storage.set_trial_system_attr(trial._trial_id, f"{key}:{i}", part)


def read(trial: FrozenTrial, key: str) -> Any:
    parts: list[str] = []
    while (part := trial.system_attrs.get(f"{key}:{len(parts)}")) is not None:
        parts.append(part)
    try:
        return _parsed("".join(parts)) if parts else None
    except ValueError:  # another one is being written
        return None


@functools.lru_cache(maxsize=256)
def _parsed(text: str) -> Any:
    """What an attribute says; every trial of a round reads the same few pools."""
    return json.loads(text)
