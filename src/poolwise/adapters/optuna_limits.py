"""Optuna's constraints: each is learned from its values, and pools stay where all are likely to hold."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from poolwise.study.allowed import SAMPLE, Allowed, Level, Tried
from poolwise.study.definition import Definition
from poolwise.study.placing import place
from poolwise.study.success import Success, correlation
from poolwise.study.suggest import folded_seed, suggest
from poolwise.study.trial import Trial

if TYPE_CHECKING:
    from poolwise.belief.gaussian_process import Posterior
    from poolwise.study.model import Model

log = logging.getLogger(__name__)

MOMENT = datetime(2000, 1, 1, tzinfo=UTC)  # when a trial was asked for; nothing depends on it
EVEN, SURE = Level(0.0, 0.0), Level(0.0, 1.0)  # expected to hold; so also one standard deviation lower
FARTHEST = 20.0  # of a constraint, in its unit, after the logarithm


@dataclass(frozen=True, eq=False)
class Margin:
    """How surely one constraint holds: what a model's posterior says of its margin, without a program for each shape.

    The posterior's outcome z is a margin of centre + unit z.
    """

    posterior: Posterior
    centre: float
    unit: float

    def score(self, U: Float[np.ndarray, "p d"], doubt: float) -> Float[np.ndarray, " p"]:
        """The expected margin, less some standard deviations."""
        from poolwise.belief.trend import basis, mean_at

        points: Any = U
        posterior, kernel = self.posterior, self.posterior.process.kernel
        variance, live = float(kernel.amplitude) ** 2, np.asarray(posterior.data.live)
        lengths = np.broadcast_to(np.asarray(kernel.lengthscale, dtype=float), U.shape[1:])
        k = variance * correlation(U, np.asarray(posterior.data.X), lengths) * live[None, :]
        z = mean_at(posterior.process.mean, points) + k @ np.asarray(posterior.weights)
        if doubt:
            left = variance - ((k @ np.asarray(posterior.root).T) ** 2).sum(axis=1)
            if (trend := posterior.doubt) is not None:
                left += (((basis(points) - k @ np.asarray(trend.pull)) @ np.asarray(trend.factor)) ** 2).sum(axis=1)
            z = z - doubt * np.sqrt(np.maximum(left, 0.0))
        return np.asarray(self.centre + self.unit * z)


class Holding(Success):
    """How surely all constraints hold: the least of their margins."""

    margins: Sequence[Margin]

    def __init__(self, margins: Sequence[Margin]) -> None:
        object.__setattr__(self, "margins", margins)

    def score(self, U: Float[np.ndarray, "p d"], doubt: float) -> Float[np.ndarray, " p"]:
        """Zero where one may as well be violated, above where all are expected to hold."""
        return np.min([margin.score(U, doubt) for margin in self.margins], axis=0)


def margin_of(model: Model) -> Margin:
    """The same predictions as the model's, where margins were its values and nothing is warped."""
    scale = model.scale
    return Margin(model.posterior, scale.unit * scale.centre, scale.unit * scale.spread)


def holding_of(
    definition: Definition, params: Sequence[dict[str, Any]], limits: Sequence[Mapping[str, float]]
) -> Holding | None:
    """What is learned from trials' constraints; None while none was violated, or none of those can be modelled."""
    violated = sorted({name for found in limits for name, c in found.items() if c > 0})
    if not violated:
        return None
    try:
        margins = _margins(definition, params, limits, violated)
    except Exception as error:  # whatever the data did to a model, the study goes on
        log.warning("optuna: constraints could not be learned (%s: %s)", type(error).__name__, error)
        return None
    return Holding(margins) if margins else None


def _margins(
    definition: Definition,
    params: Sequence[dict[str, Any]],
    limits: Sequence[Mapping[str, float]],
    names: Sequence[str],
) -> list[Margin]:
    """A margin, -arsinh(c / unit), for each constraint of which enough is known."""
    from poolwise.study.model import learn

    plain = replace(definition, settings=replace(definition.settings, warp=False))  # a margin keeps its zero
    margins = []
    for name in names:
        known = [(row, found[name]) for row, found in zip(params, limits, strict=True) if name in found]
        values = np.array([c for _, c in known], dtype=float)
        unit = float(np.median(np.abs(values[values != 0.0])))
        held = -np.clip(np.arcsinh(values / (unit if np.isfinite(unit) else 1.0)), -FARTHEST, FARTHEST)
        rows = [Trial(0, row, "told", MOMENT, float(m)) for (row, _), m in zip(known, held, strict=True)]
        if (model := learn(plain, rows)) is not None:
            margins.append(margin_of(model))
    return margins


def suggest_within(
    definition: Definition, trials: Sequence[Trial], holding: Holding, q: int, salt: int
) -> list[dict[str, Any]]:
    """What `suggest` gives, where constraints are likely to hold; trials that violate one are among the failed."""
    space, seed = definition.space, folded_seed(definition.seed, len(trials), salt)
    try:
        points = space.sample(SAMPLE, seed=0)
        levels = [level.within(points, holding, 0.0) for level in (EVEN, SURE)]
        tried = Tried(place(space, trials)[1], holding, *levels)
        chosen = np.zeros((0, space.dimension))
        if definition.settings.acquisition != "fill":
            from poolwise.study.model import choose

            chosen = choose(definition, trials, tried, q, seed)
        if len(chosen) < q:
            allowed = Allowed(space, tried.without(chosen), tried.sure)
            chosen = np.concatenate([chosen, allowed.sample(q - len(chosen), seed)])
        if len(chosen) == q:
            return space.decode_many(chosen)
    except Exception as error:  # whatever the data did to the models, the study goes on
        log.warning("optuna: the models of constraints could not be used (%s: %s)", type(error).__name__, error)
    return suggest(definition, trials, q, salt)
