"""The classical ways to a pool that the paper names, each a strategy: (posterior, q, pending, seed) -> pool.

All but the exact one pick a point after another and pretend to know the outcomes of those before: a lie, the mean, or
samples of them. So one objective serves all: outcomes y_1 .. y_J that the pretended points might have give J posterior
means, one variance, and the score of a point is its average over them.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.stats import norm
from jaxtyping import Array, Float

import poolwise as pw
from poolwise.acquisition.base_samples import normals
from poolwise.belief.trend import mean_at
from poolwise.errors import InputError
from poolwise.pool.field import Field, field_of
from poolwise.pool.starts import near_best, spread
from poolwise.pytree import pytree, static

Strategy = Callable[[pw.Posterior, int, Any, int], Float[np.ndarray, "q d"]]

FANTASIES = 64  # outcomes of the points that are pending, for expected improvement averaged over them
BETA = math.sqrt(3)
CANDIDATES, STARTS, ROUNDS = 1024, 16, 40
OUTSIDE = 100.0  # weight of leaving the relevant region


@pytree
class Scored:
    """The score of single points under J sets of outcomes: an objective for a maximizer.

    `weights` has a column for each set; `level` is the threshold of each set, or a bound that the region is made with.
    """

    field: Field
    weights: Float[Array, "n j"]
    level: Float[Array, " j"]
    before: Field  # the belief without pretended outcomes
    rule: str = static()

    def __call__(self, points: Float[Array, "p d"]) -> Float[Array, " p"]:
        means, deviation = _moments(self.field, self.weights, points)
        if self.rule == "ei":
            u = (means - self.level[None, :]) / deviation[:, None]
            return jnp.mean(deviation[:, None] * (norm.pdf(u) + u * norm.cdf(u)), axis=1)
        if self.rule == "ucb":
            return means[:, 0] + math.sqrt(BETA) * deviation
        mean, wide = _moments(self.before, self.before.weights[:, None], points)
        if self.rule == "lower":
            return mean[:, 0] - math.sqrt(BETA) * wide
        short = self.level[0] - (mean[:, 0] + 2 * math.sqrt(BETA) * wide)
        return deviation - OUTSIDE * jnp.maximum(short, 0.0)


def _moments(
    field: Field, weights: Float[Array, "n j"], points: Float[Array, "p d"]
) -> tuple[Float[Array, "p j"], Float[Array, " p"]]:
    rows = field.rows(points)
    half = jnp.sum(rows.k * rows.w, axis=1)
    variance = field.variance - (2 * half - jax.lax.stop_gradient(half))
    return field.before(points)[:, None] + rows.k @ weights, jnp.sqrt(jnp.maximum(variance, 1e-10 * field.variance))


def constant_liar(lie: str) -> Strategy:
    """Expected improvement, pretending that each pending point gave the "min", "mean" or "max" of what was observed."""

    def strategy(posterior: pw.Posterior, q: int, pending: Any = None, seed: int = 0) -> Float[np.ndarray, "q d"]:
        value = {"min": posterior.y.min(), "mean": posterior.y.mean(), "max": posterior.y.max()}[lie]
        return _one_by_one(posterior, q, pending, seed, "ei", lambda points: np.full((len(points), 1), value))

    return strategy


def kriging_believer(posterior: pw.Posterior, q: int, pending: Any = None, seed: int = 0) -> Float[np.ndarray, "q d"]:
    """Expected improvement, believing that each pending point gives its posterior mean."""
    return _one_by_one(posterior, q, pending, seed, "ei", functools.partial(_means, posterior))


def fantasies(posterior: pw.Posterior, q: int, pending: Any = None, seed: int = 0) -> Float[np.ndarray, "q d"]:
    """Expected improvement averaged over sampled outcomes of the pending points (Snoek et al. 2012)."""

    def sampled(points: Float[np.ndarray, "w d"]) -> Float[np.ndarray, "w j"]:
        normal = posterior(points)
        noisy = pw.Normal(normal.mean, normal.covariance + float(np.mean(posterior.noise)) * np.eye(len(points)))
        return np.asarray(noisy.outcomes(normals(FANTASIES, len(points), seed=seed))).T

    return _one_by_one(posterior, q, pending, seed, "ei", sampled)


def gp_bucb(posterior: pw.Posterior, q: int, pending: Any = None, seed: int = 0) -> Float[np.ndarray, "q d"]:
    """GP-BUCB (Desautels et al. 2014): the mean of the data, the deviation after hallucinated means."""
    return _one_by_one(posterior, q, pending, seed, "ucb", functools.partial(_means, posterior))


def gp_ucb_pe(posterior: pw.Posterior, q: int, pending: Any = None, seed: int = 0) -> Float[np.ndarray, "q d"]:
    """GP-UCB-PE (Contal et al. 2013): one point by its bound, the rest where the deviation is largest.

    They stay in the relevant region, where mean + 2 sqrt(beta) deviation reaches the highest lower bound.
    """
    believed = functools.partial(_means, posterior)
    first = _one_by_one(posterior, 1, pending, seed, "ucb", believed)
    if q == 1:
        return first
    lowest = _best(_scored(posterior, first[:0], np.zeros((0, 1)), "lower"), posterior, seed)[1]
    waiting = np.concatenate([_waiting(posterior, pending), first])
    rest = _one_by_one(posterior, q - 1, waiting, seed, "pe", believed, level=lowest)
    return np.concatenate([first, rest])


def exact_improvement(posterior: pw.Posterior, q: int, pending: Any = None, seed: int = 0) -> Float[np.ndarray, "q d"]:
    """The exact q-EI (Chevalier and Ginsbourger 2013) of the whole pool, climbed from the believer's and two others."""
    waiting = _waiting(posterior, pending)
    if q + len(waiting) > (most := 5):
        raise InputError(f"q: exact expected improvement exists up to {most} points, pending ones included.")
    first = kriging_believer(posterior, q, pending, seed).reshape(1, -1)
    others = spread(2 * q, posterior.dimension, seed).reshape(2, -1)
    with jax.enable_x64(True):
        goal = _Exact(posterior, jnp.asarray(waiting), jnp.asarray(posterior.y.max()))
    climb = pw.Lbfgsb(rounds=30, gtol=1e-4, ftol=1e-6)(goal, np.concatenate([first, others]))
    return climb.best.reshape(q, -1)


@pytree
class _Exact:
    posterior: pw.Posterior
    pending: Float[Array, "w d"]
    threshold: Float[Array, ""]

    def __call__(self, flat: Float[Array, "r p"]) -> Float[Array, " r"]:
        def one(x: Float[Array, " p"]) -> Any:
            pool = jnp.concatenate([self.pending, x.reshape(-1, self.pending.shape[1])])
            return pw.exact.expected_improvement(self.posterior(pool), self.threshold)

        return jax.vmap(one)(flat)


def parallel(integrand: Callable[[pw.Posterior], Any]) -> Strategy:
    """Poolwise's own way with an integrand, as a strategy to compare with."""

    def strategy(posterior: pw.Posterior, q: int, pending: Any = None, seed: int = 0) -> Float[np.ndarray, "q d"]:
        return pw.propose(posterior, integrand(posterior), q, pending=pending, seed=seed).pool

    return strategy


IMPROVEMENT: dict[str, Strategy] = {
    "q-ei": parallel(lambda posterior: pw.ExpectedImprovement(float(posterior.y.max()))),
    "exact": exact_improvement,
    "fantasies": fantasies,
    "believer": kriging_believer,
    "liar-min": constant_liar("min"),
    "liar-mean": constant_liar("mean"),
    "liar-max": constant_liar("max"),
}
BOUND: dict[str, Strategy] = {
    "q-ucb": parallel(lambda posterior: pw.UpperConfidenceBound()),
    "bucb": gp_bucb,
    "ucb-pe": gp_ucb_pe,
}
STRATEGIES = IMPROVEMENT | BOUND


def _means(posterior: pw.Posterior, points: Float[np.ndarray, "w d"]) -> Float[np.ndarray, "w 1"]:
    return np.asarray(posterior(points).mean)[:, None]


def _waiting(posterior: pw.Posterior, pending: Any) -> Float[np.ndarray, "w d"]:
    none = np.zeros((0, posterior.dimension))
    return none if pending is None else np.asarray(pending, float).reshape(-1, posterior.dimension)


def _one_by_one(  # noqa: PLR0913
    posterior: pw.Posterior,
    q: int,
    pending: Any,
    seed: int,
    rule: str,
    pretended: Callable[[Float[np.ndarray, "w d"]], Float[np.ndarray, "w j"]],
    *,
    level: float | None = None,
) -> Float[np.ndarray, "q d"]:
    """q points, each the best under the pretended outcomes of all before it."""
    points = _waiting(posterior, pending)
    w = len(points)
    for pick in range(q):
        outcomes = pretended(points) if len(points) else np.zeros((0, 1))
        scored = _scored(posterior, points, outcomes, rule, level)
        points = np.concatenate([points, _best(scored, posterior, seed + pick)[0][None]])
    return points[w:]


def _scored(
    posterior: pw.Posterior,
    points: Float[np.ndarray, "w d"],
    outcomes: Float[np.ndarray, "w j"],
    rule: str,
    level: float | None = None,
) -> Scored:
    sets = outcomes.shape[1]
    known = np.repeat(posterior.y[:, None], sets, axis=1)
    y = np.concatenate([known, outcomes])
    grown = posterior.process.condition(np.concatenate([posterior.X, points]), y[:, 0])
    with jax.enable_x64(True):
        residual = np.zeros((grown.data.X.shape[0], sets))
        at: Any = grown.X
        residual[: len(y)] = y - np.reshape(mean_at(grown.process.mean, at, grown.process.kernel.warp), (-1, 1))
        weights = jnp.asarray(np.asarray(grown.root).T @ (np.asarray(grown.root) @ residual))
        levels = y.max(axis=0) if level is None else np.full(sets, level)
        return Scored(field_of(grown), weights, jnp.asarray(levels), field_of(posterior), rule)


def _best(scored: Scored, posterior: pw.Posterior, seed: int) -> tuple[Float[np.ndarray, " d"], float]:
    points = np.concatenate(
        [spread(CANDIDATES, posterior.dimension, seed), near_best(posterior, CANDIDATES // 8, seed)]
    )
    with jax.enable_x64(True):
        values = np.nan_to_num(np.asarray(_values(scored, jnp.asarray(points))), nan=-np.inf)
    starts = points[np.argsort(-values, kind="stable")[:STARTS]]
    climb = pw.Lbfgsb(rounds=ROUNDS, gtol=1e-5, ftol=1e-8)(scored, starts)
    return climb.best, float(climb.values.max())


@jax.jit
def _values(scored: Scored, points: Float[Array, "p d"]) -> Float[Array, " p"]:
    return scored(points)
