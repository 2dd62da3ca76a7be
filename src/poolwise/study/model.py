"""The model of a study: the only part of this room that needs JAX, imported when a pool is first chosen by it."""

from __future__ import annotations

import dataclasses
import functools
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from poolwise.acquisition.integrand import SimpleRegret, UpperConfidenceBound
from poolwise.acquisition.noisy import LogNoisyExpectedImprovement
from poolwise.belief.gaussian_process import Posterior, turnable
from poolwise.errors import InputError
from poolwise.learning import fit
from poolwise.pool.balance import balanced_pool, likely_better, much_better
from poolwise.pool.domain import Domain
from poolwise.pool.picks import MOST
from poolwise.pool.proposal import propose
from poolwise.programs import keep_if_possible
from poolwise.straightening import fit_rotated, fit_warped, prepare_warped
from poolwise.study.allowed import Allowed, Level, Tried
from poolwise.study.definition import Definition, Settings
from poolwise.study.placing import place
from poolwise.study.scaling import Scale, scale_of
from poolwise.study.suggest import ready
from poolwise.study.trial import Trial
from poolwise.study.warping import likely_power

log = logging.getLogger(__name__)

WORTHWHILE = 2.0  # nats that a warping of outcomes must gain; so much an axis a rotation, twice that one of inputs
BOLD = 4  # after a failure, one trial of so many may be one that is not sure to succeed


@dataclass(frozen=True, eq=False)
class Model:
    """What told trials say about the whole space: a posterior over the unit cube, and the scale of its outcomes.

    `trials` are those that it has seen, `outcomes` their values in its unit, where larger is better.
    """

    posterior: Posterior
    scale: Scale
    definition: Definition
    trials: list[Trial]
    outcomes: Float[np.ndarray, " n"]

    def predict(
        self, params: dict[str, Any] | Sequence[dict[str, Any]]
    ) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
        """Mean and standard deviation of the objective, without noise, at one experiment or some of them.

        Where outcomes are warped it is the median, and half the width of the interval that the deviation spans.
        """
        return self.at(self.definition.space.encode_many([params] if isinstance(params, dict) else params))

    def at(self, U: Float[np.ndarray, "n d"]) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
        """Mean and standard deviation of the objective, without noise, at points of the cube."""
        normal = self.posterior(U)
        variance = np.maximum(np.diagonal(np.asarray(normal.covariance)), 0.0)
        mean = np.asarray(normal.mean)
        return self.scale.values(mean), self.scale.deviations(mean, np.sqrt(variance))


def learn(definition: Definition, trials: Sequence[Trial]) -> Model | None:
    """The model of the told trials; None while there are too few."""
    if not ready(definition, trials):
        return None
    keep_if_possible()
    told, U = place(definition.space, [trial for trial in trials if trial.state == "told"])
    values = np.array([trial.value for trial in told], dtype=float)
    plain = scale_of(values, maximize=definition.direction == "maximize")
    some = subset(plain.outcomes(values), U, definition.settings.model_trials)
    sems = np.array([np.nan if trial.sem is None else trial.sem for trial in told], dtype=float)
    data = Seen(U[some], values[some], sems[some])
    posterior, scale = _learned(data, plain, definition.settings.warp)
    return Model(posterior, scale, definition, [told[i] for i in some], scale.outcomes(values[some]))


@dataclass(frozen=True, eq=False)
class Seen:
    """Told trials that a model takes: where, what, and with which standard error."""

    points: Float[np.ndarray, "n d"]
    values: Float[np.ndarray, " n"]
    sems: Float[np.ndarray, " n"]


def _learned(seen: Seen, plain: Scale, warped: bool) -> tuple[Posterior, Scale]:
    """The posterior, and the scale of its outcomes: both sides straightened where the evidence says so."""
    noisy = not np.isnan(seen.sems).all()
    if warped:
        prepare_warped(len(seen.values), seen.points.shape[1], known_noise=noisy)
    posterior = _fitted(seen, plain)
    if not warped:
        return posterior, plain
    posterior, scale = _with_warped_outcomes(seen, posterior, plain)
    outcomes, d, noise = scale.outcomes(seen.values), posterior.dimension, posterior.noise if noisy else None
    other = fit_rotated(seen.points, outcomes, posterior, noise=noise, gain=WORTHWHILE * d)
    if other is None:
        other = fit_warped(seen.points, outcomes, posterior, noise=noise, gain=WORTHWHILE * (1 + 2 * d))
    return posterior if other is None else other, scale


def _with_warped_outcomes(seen: Seen, posterior: Posterior, plain: Scale) -> tuple[Posterior, Scale]:
    """The posterior of outcomes on the likeliest scale, or the given one on the plain scale."""
    power = likely_power(plain.outcomes(seen.values))
    if power == 1.0:
        return posterior, plain
    scale = dataclasses.replace(plain, power=power)
    other = _fitted(seen, scale, start=posterior)
    gain = other.log_evidence + float(scale.log_slopes(seen.values).sum()) - posterior.log_evidence
    return (other, scale) if gain > WORTHWHILE else (posterior, plain)


def choose(
    definition: Definition, trials: Sequence[Trial], tried: Tried, q: int, seed: int
) -> Float[np.ndarray, "p d"]:
    """Up to q fresh points whose joint outcome is worth most; pending trials are part of the integral."""
    model = learn(definition, trials)
    assert model is not None
    waiting = place(definition.space, [trial for trial in trials if trial.state == "pending"])[1]

    def found(level: Level | None) -> Float[np.ndarray, "p d"]:
        allowed = Allowed(definition.space, tried, level)
        try:
            pool = _pool(model, q, waiting, allowed, seed)
        except InputError as error:  # fewer than q points are left: all of them
            log.info("study: %s", error)
            return allowed.sample(int(min(allowed.size, MOST)), seed)[:q]
        snapped = definition.space.snap(pool)
        return _different(snapped[allowed.fresh(snapped)])

    if tried.success is None:
        return found(None)
    pool = found(tried.even)
    sure = tried.reaches(pool, tried.sure)
    bold = (len(trials) + q) // BOLD - len(trials) // BOLD
    if (~sure).sum() <= bold:
        return pool
    doubtful = pool[~sure]
    return _different(np.concatenate([pool[sure], doubtful[:bold], found(tried.sure), doubtful[bold:]]))[:q]


def best_mean(definition: Definition, trials: Sequence[Trial], barred: Tried) -> dict[str, Any]:
    """The feasible experiment with the best posterior mean, among told ones and the best that is not barred."""
    model = learn(definition, trials)
    assert model is not None
    space, posterior = definition.space, turnable(model.posterior)
    allowed = Allowed(space, barred, barred.sure)
    found = propose(posterior, SimpleRegret(), 1, domain=allowed, seed=definition.seed, replicate=True).pool
    found, (_, told) = space.snap(found), place(space, model.trials)
    candidates = np.concatenate([found[allowed.feasible(found)], told[space.feasible(told)]])
    means = np.asarray(model.posterior(candidates).mean)
    return space.decode(candidates[int(np.argmax(means))])


def subset(outcomes: Float[np.ndarray, " n"], U: Float[np.ndarray, "n d"], most: int) -> list[int]:
    """Which trials a model of at most `most` takes: a quarter the best, a quarter the latest, a spread of the rest.

    The spread takes, one after the other, the trial farthest from those taken already.
    """
    n = len(outcomes)
    if n <= most:
        return list(range(n))
    best = np.argsort(-outcomes, kind="stable")[: most // 4]
    taken = np.zeros(n, dtype=bool)
    taken[best] = taken[n - most // 4 :] = True
    distance = np.full(n, np.inf)
    for i in np.flatnonzero(taken):
        distance = np.minimum(distance, ((U - U[i]) ** 2).sum(axis=1))
    while taken.sum() < most:
        far = int(np.argmax(np.where(taken, -1.0, distance)))
        taken[far] = True
        distance = np.minimum(distance, ((U - U[far]) ** 2).sum(axis=1))
    return [int(i) for i in np.flatnonzero(taken)]


def _fitted(seen: Seen, scale: Scale, *, start: Posterior | None = None) -> Posterior:
    """The fitted posterior, from that of a like fit if there is one; noise is learned where no error is known."""
    outcomes, variances = scale.outcomes(seen.values), scale.variances(seen.values, seen.sems)
    fitted = functools.partial(fit, seen.points, outcomes, start=start)
    unknown = np.isnan(variances)
    if unknown.all():
        return fitted()
    if unknown.any():
        variances = np.where(unknown, float(np.mean(fitted().noise)), variances)
    return fitted(noise=variances)


def _pool(
    model: Model, q: int, pending: Float[np.ndarray, "w d"], domain: Domain, seed: int
) -> Float[np.ndarray, "q d"]:
    """A pool by the study's acquisition function."""
    settings, posterior = model.definition.settings, turnable(model.posterior)
    if settings.acquisition == "balanced":
        return balanced_pool(posterior, q, pending, domain=domain, seed=seed).pool
    return propose(posterior, _integrand(settings, posterior), q, pending=pending, domain=domain, seed=seed).pool


def _integrand(settings: Settings, posterior: Posterior) -> Any:
    match settings.acquisition:
        case "ei":
            return much_better(posterior)
        case "nei":
            return LogNoisyExpectedImprovement.over(posterior)
        case "pi":
            return likely_better(posterior)
        case "mean":
            return SimpleRegret()
    return UpperConfidenceBound(settings.beta)


def _different(U: Float[np.ndarray, "p d"]) -> Float[np.ndarray, "r d"]:
    """The rows without repeats, in their order."""
    _, first = np.unique(U, axis=0, return_index=True)
    return U[np.sort(first)]
