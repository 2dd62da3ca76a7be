"""Optuna's distributions and trials in Poolwise's terms, and pools chosen from them; nothing here keeps state."""

from __future__ import annotations

import functools
import hashlib
import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Bool, Float
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

from poolwise.adapters.optuna_limits import MOMENT, holding_of, suggest_within
from poolwise.space import parameters
from poolwise.space.errors import SpaceError, SpaceExhausted
from poolwise.space.parameters import Choice, Fixed, Int, Parameter
from poolwise.space.space import Space
from poolwise.study.definition import Definition, Settings
from poolwise.study.scaling import scale_of
from poolwise.study.suggest import folded_seed, ready, suggest
from poolwise.study.trial import Trial

log = logging.getLogger(__name__)

SHARES = 4  # with several objectives: how many ways of weighing them one pool follows
MOST_BUSY = 64  # running trials that a choice takes into account, and lost ones; others were left by dead workers
LARGEST = np.finfo(float).max
LEAN = 0.05  # of the sum of all losses in a weighing, beside the largest of them

Point: TypeAlias = list[Any]  # one experiment, as Optuna stores parameters: numbers, and choices by their index


@dataclass(frozen=True, eq=False)
class Frame:
    """A search space as both see it: Optuna's distributions by name, and the space with one parameter for each."""

    distributions: Mapping[str, BaseDistribution]
    space: Space
    mark: str

    def point(self, params: Mapping[str, Any]) -> Point | None:
        """Where a trial's parameters lie; None if one is missing or is no choice of this search space."""
        try:
            return [d.to_internal_repr(params[name]) for name, d in self.distributions.items()]
        except (KeyError, ValueError):
            return None

    @functools.cached_property
    def middle(self) -> dict[str, Any]:
        """The parameters in the middle of their ranges."""
        [middle] = self.space.decode_many(np.full((1, self.space.dimension), 0.5))
        return self.params(list(middle.values()))

    def filled(self, params: Mapping[str, Any]) -> Point | None:
        """Where a trial's parameters lie, those that are missing in the middle of their range; None if all are."""
        return None if self.distributions.keys().isdisjoint(params) else self.point(self.middle | dict(params))

    def params(self, point: Point) -> dict[str, Any]:
        """The parameters of a point, as plain Python values."""
        return {n: d.to_external_repr(x) for (n, d), x in zip(self.distributions.items(), point, strict=True)}

    def named(self, point: Point) -> dict[str, Any]:
        """A point by the names that the space has for its parameters."""
        return dict(zip(self.space.names, point, strict=True))


def frame_of(search_space: Mapping[str, BaseDistribution]) -> Frame | None:
    """The frame of those distributions that vary and that Poolwise has a parameter for; None if there is none."""
    found = {name: parameter_of(search_space[name]) for name in sorted(search_space)}
    kept = {name: parameter for name, parameter in found.items() if parameter is not None}
    if not kept:
        return None
    described = "\n".join(f"{name}: {search_space[name]!r}" for name in kept)
    mark = hashlib.sha256(described.encode()).hexdigest()[:16]
    space = Space({f"x{i}": parameter for i, parameter in enumerate(kept.values())})  # any name is one to Optuna
    return Frame({name: search_space[name] for name in kept}, space, mark)


def parameter_of(distribution: BaseDistribution) -> Parameter | None:
    """The parameter whose values are a distribution's internal ones; None where it is fixed, or too wide or narrow."""
    if distribution.single():
        return None
    try:
        if isinstance(distribution, CategoricalDistribution):
            return Choice(list(range(len(distribution.choices))))
        if isinstance(distribution, IntDistribution) and distribution.step == 1:
            return Int(distribution.low, distribution.high, log=distribution.log)
        if isinstance(distribution, FloatDistribution | IntDistribution):
            return parameters.Float(distribution.low, distribution.high, log=distribution.log, step=distribution.step)
    except SpaceError as error:
        log.info("optuna: %r is sampled independently (%s)", distribution, error)
    return None


def distribution_of(parameter: Parameter) -> BaseDistribution:
    """The distribution of a parameter; a fixed one is a choice of one."""
    if isinstance(parameter, parameters.Float):
        last = parameter.decode(np.array([parameter.axis().count - 1.0]))[0] if parameter.step else parameter.high
        return FloatDistribution(parameter.low, last, log=parameter.log, step=parameter.step)
    if isinstance(parameter, Int):
        return IntDistribution(parameter.low, parameter.high, log=parameter.log)
    return CategoricalDistribution([parameter.value] if isinstance(parameter, Fixed) else parameter.values)


def widened(distribution: BaseDistribution, value: Any) -> BaseDistribution | None:
    """A distribution of the same kind that holds a value; None where there is none."""
    if distribution._contains(distribution.to_internal_repr(value)):
        return distribution
    if not isinstance(distribution, FloatDistribution | IntDistribution) or (distribution.log and value <= 0):
        return None
    wider = type(distribution)(min(value, distribution.low), max(value, distribution.high), log=distribution.log)
    return wider if wider._contains(wider.to_internal_repr(value)) else None  # 3.5 is in no range of whole numbers


@dataclass(frozen=True, eq=False)
class Seen:
    """What is known when a pool is chosen: points with values (larger is better), points to avoid, and running ones.

    `lost` are points of failed trials where those are not avoided: as if they still ran.
    `limits` are the constraints of all that ended, each with its point.
    """

    frame: Frame
    told: list[Point]
    values: Float[np.ndarray, "n m"]
    avoided: list[Point]
    lost: list[Point]
    running: list[Point]
    limits: list[tuple[Point, dict[str, float]]]

    def enough(self, least: int) -> bool:
        """Whether there are so many values, and enough of them for a model."""
        definition = Definition(self.frame.space, "value", "maximize")
        return len(self.told) >= least and ready(definition, self.trials(np.zeros(len(self.told)), []))

    def trials(self, values: Float[np.ndarray, " n"], chosen: Sequence[Point]) -> list[Trial]:
        """All points as trials of a study, with these values and with more that are pending."""
        named = self.frame.named
        told = [Trial(0, named(p), "told", MOMENT, float(v)) for p, v in zip(self.told, values, strict=True)]
        avoided = [Trial(0, named(point), "failed", MOMENT) for point in self.avoided]
        busy = [*self.lost, *self.running, *chosen]
        return told + avoided + [Trial(0, named(point), "pending", MOMENT) for point in busy]


def observe(
    frame: Frame,
    trials: Sequence[tuple[FrozenTrial, Point | None]],
    directions: Sequence[StudyDirection],
    *,
    avoid_failed: bool,
) -> Seen:
    """What trials say, each with the point where it lies in the frame, if it does."""
    told, values, running, limits = [], [], [], []
    avoided: list[Point] = []
    lost: list[Point] = []
    for trial, point in trials:
        outcome = outcome_of(trial)
        if point is None:
            continue
        if trial.state == TrialState.RUNNING:
            running.append(point)
        elif outcome is None:
            (avoided if avoid_failed or trial.state == TrialState.PRUNED else lost).append(point)
        elif any(value > 0 for value in trial.constraints.values()):
            avoided.append(point)
        elif len(outcome) == len(directions):
            told.append(point)
            values.append(outcome)
        if outcome is not None and trial.constraints:
            limits.append((point, trial.constraints))
    signs = np.array([1.0 if direction == StudyDirection.MAXIMIZE else -1.0 for direction in directions])
    better = finite(np.array(values, dtype=float).reshape(len(told), len(signs)) * signs[None, :])
    return Seen(frame, told, better, avoided, lost[-MOST_BUSY:], running[-MOST_BUSY:], limits)


def outcome_of(trial: FrozenTrial) -> list[float] | None:
    """The values of a complete trial; of a pruned one, the last that it reported."""
    if trial.state == TrialState.COMPLETE:
        return trial.values
    last = trial.intermediate_values.get(trial.last_step) if trial.last_step is not None else None
    return [last] if trial.state == TrialState.PRUNED and last is not None and not math.isnan(last) else None


@dataclass(frozen=True)
class Way:
    """How a pool is chosen: its seed and salt, and whether it only fills the space."""

    seed: int
    salt: int
    fill: bool


def choose(seen: Seen, q: int, way: Way) -> list[Point]:
    """The next q points, joint with those that are running; once all of the space was tried, some of it again."""
    settings = Settings(acquisition="fill") if way.fill else Settings()
    definition = Definition(seen.frame.space, "value", "maximize", way.seed, settings)
    limited = [seen.frame.named(point) for point, _ in seen.limits]
    holding = holding_of(definition, limited, [found for _, found in seen.limits])
    chosen: list[Point] = []
    for size, values in _shares(seen, q, way):
        trials = seen.trials(values, chosen)
        try:
            if holding is None:
                rows = suggest(definition, trials, size, way.salt)
            else:
                rows = suggest_within(definition, trials, holding, size, way.salt)
        except SpaceExhausted:
            again = definition.space.sample(size, folded_seed(way.seed, len(trials), way.salt))
            rows = definition.space.decode_many(again)
        chosen += [list(row.values()) for row in rows]
    return chosen


def finite(values: Float[np.ndarray, "n m"]) -> Float[np.ndarray, "n m"]:
    """Values with infinite ones as far beyond the best or worst finite one of their objective as those two are apart.

    Where all finite ones are alike, it is as far as they are from zero.
    """
    replaced = values.copy()
    for column in replaced.T:
        known = column[np.isfinite(column)]
        low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 0.0)
        width = (high - low) or abs(high) or 1.0
        np.nan_to_num(column, copy=False, posinf=min(high + width, LARGEST), neginf=max(low - width, -LARGEST))
    return replaced


def chebyshev(values: Float[np.ndarray, "n m"], weights: Float[np.ndarray, " m"]) -> Float[np.ndarray, " n"]:
    """Several objectives as one: -max_i w_i loss_i - 0.05 sum_i w_i loss_i, each loss in widths of the Pareto front."""
    if len(values) == 0:
        return np.zeros(0)
    z = np.stack([scale_of(column, maximize=True).outcomes(column) for column in values.T], axis=1)
    front = z[pareto(z)]
    best, width = front.max(axis=0), np.ptp(front, axis=0)
    loss = weights[None, :] * (best[None, :] - z) / np.where(width > 0, width, 1.0)[None, :]
    return -loss.max(axis=1) - LEAN * loss.sum(axis=1)


def pareto(values: Float[np.ndarray, "n m"]) -> Bool[np.ndarray, " n"]:
    """Which rows no other row is better than in one objective and at least as good in all."""
    return np.array([not ((values >= v[None, :]).all(1) & (values > v[None, :]).any(1)).any() for v in values])


def _shares(seen: Seen, q: int, way: Way) -> Iterator[tuple[int, Float[np.ndarray, " n"]]]:
    """Parts of a pool, each with the values that it is chosen by: one objective itself, or several in some weighing."""
    objectives = seen.values.shape[1]
    if objectives == 1:
        yield q, seen.values[:, 0]
        return
    rng = np.random.default_rng([way.seed, way.salt])
    for part in np.array_split(np.arange(q), min(q, SHARES)):
        yield len(part), chebyshev(seen.values, rng.dirichlet(np.ones(objectives)))
