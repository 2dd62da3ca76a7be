"""Noisy improvement: the threshold is unknown too, so it is integrated over the same samples [L19].

With noise the best observation may be a lucky one. What counts is by how much a pool exceeds the best true outcome of
the points that were observed, both drawn together:

    log E[max(0, max(f(pool)) - max(f(baseline)))].

Only observed points that may be the best need be in the baseline. Of a Gaussian process with noise variances N the
outcomes at its data are N(y - N a, N - N K^-1 N), where a = K^-1 (y - mean), so pruning needs no prediction.
"""

from __future__ import annotations

from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from poolwise import checks
from poolwise.acquisition.integrand import Integrand, store_number
from poolwise.acquisition.log_space import PLUS, LogMaxType, log_fat_plus, log_improvement
from poolwise.belief.gaussian_process import Posterior, precision
from poolwise.belief.normal import Normal
from poolwise.belief.padding import masked
from poolwise.checks import Numbers
from poolwise.precision import AnyArray, double
from poolwise.pytree import pytree, static

DRAWS = 2048  # joint samples; an observed point that is the best in none of them is no baseline
FREE = -np.inf  # coordinates of a slot without a point
MOST = 32  # baseline points, those that are the best most often


@pytree
class LogNoisyExpectedImprovement(LogMaxType):
    """The logarithm of expected improvement over the unknown best of a baseline, with a slope everywhere.

    `points` are the baseline, a row each: `LogNoisyExpectedImprovement.over(posterior)` takes the observed points that
    may be the best. `spread` is the spread of the outcomes. Needs the posterior and the pool:
    `expectation(integrand, posterior, pool)`.
    """

    points: Numbers
    spread: Numbers = 1.0

    def __post_init__(self) -> None:
        store_number(self, "spread", positive=True)
        given = self.points
        if isinstance(given, np.ndarray) and given.ndim == 2:
            given = given[~(given == FREE).all(axis=1)]  # of another one, changed by `dataclasses.replace`
        points = np.asarray(_checked(given))
        free = max(4, 1 << (len(points) - 1).bit_length()) - len(points)
        object.__setattr__(self, "points", np.concatenate([points, np.full((free, points.shape[1]), FREE)]))

    @staticmethod
    def over(posterior: Posterior) -> LogNoisyExpectedImprovement:
        """The improvement over the observed points of a posterior; outcomes spread as its prior's do."""
        return LogNoisyExpectedImprovement(baseline(posterior), float(posterior.process.kernel.amplitude))

    @property
    def live(self) -> Bool[AnyArray, " b"]:
        """Which slots hold a baseline point."""
        live: Any = self.points[:, 0] > FREE
        return live

    @property
    def places(self) -> Float[AnyArray, "b d"]:
        """The baseline's points; a free slot is somewhere in the cube."""
        xp: Any = np if isinstance(self.points, np.ndarray) else jnp
        places: Any = xp.where(self.live[:, None], self.points, 0.5)
        return places

    @property
    def slots(self) -> int:
        """Outcomes that are looked at beside the pool's: the baseline's, padded to 4, 8, 16, ..."""
        return int(jnp.shape(self.points)[0])

    def score(self, y: Float[Array, "..."], mean: Float[Array, "..."]) -> Float[Array, "..."]:
        return log_fat_plus(y, PLUS * jnp.asarray(self.spread))

    def integrated(
        self, best: Float[Array, "1 m"], given: Float[Array, "p m"], deviation: Float[Array, "p 1"], mean: Array
    ) -> Float[Array, "p m"]:
        return log_improvement(best, given, deviation, self.least())

    def after(self, posterior: Posterior, pool: Float[Array, "q d"]) -> tuple[Normal, Integrand]:
        """The joint Gaussian of pool and baseline, and the improvement of the one over the other."""
        q = pool.shape[0]
        joint = posterior(jnp.concatenate([pool, jnp.asarray(self.places)]))
        real = jnp.concatenate([jnp.ones(q, dtype=bool), jnp.asarray(self.live)])
        return Normal(joint.mean, masked(jnp.asarray(joint.covariance), real)), Improvement(self, q)


@pytree
class Improvement:
    """The improvement of the first q outcomes over the baseline's, the rest."""

    noisy: LogNoisyExpectedImprovement
    q: int = static()

    logarithmic: ClassVar[bool] = True

    def __call__(self, y: Float[Array, " p"], mean: Float[Array, " p"]) -> Float[Array, ""]:
        floor = jnp.max(jnp.where(jnp.asarray(self.noisy.live), y[self.q :], -jnp.inf))
        above = y[: self.q] - floor
        return self.noisy.pooled(self.noisy.score(above, above)[None, :, None])[0, 0]


def baseline(posterior: Posterior) -> Float[np.ndarray, "b d"]:
    """The observed points that are the best in at least one of many joint samples, the likeliest first."""
    live = np.asarray(posterior.data.live)
    weights = np.asarray(posterior.weights)[live]
    noise = np.broadcast_to(posterior.noise, weights.shape)
    covariance = np.diag(noise) - noise[:, None] * precision(posterior) * noise[None, :]
    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    z = np.random.default_rng(0).standard_normal((DRAWS, len(weights)))
    winners = np.argmax(posterior.y - noise * weights + z @ root.T, axis=1)
    counts = np.bincount(winners, minlength=len(weights))
    order = np.argsort(-counts, kind="stable")[:MOST]
    return posterior.X[order[counts[order] > 0]]


@double
def _checked(points: Numbers) -> Float[AnyArray, "b d"]:
    return checks.matrix("points", points)
