"""Acquisition functions that need no samples: each point's own worth, and the volume of what all of them will show.

    H(X) = sum_i own(x_i) + weight / 2 log det(S_X + noise I)

Information about the maximum (`acquisition/information.py`) and the trade of energy for entropy
(`acquisition/energy.py`) have this form. One more point x adds own(x) + weight / 2 log(s^2(x) + noise), where s^2 is
its variance once the points before it are observed: a greedy step needs one row of a Cholesky factor.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from poolwise import checks
from poolwise.acquisition.integrand import Integrand
from poolwise.belief.factor import cholesky
from poolwise.belief.gaussian_process import Posterior, against, cross_covariance, expected, whitened
from poolwise.belief.kernel import covariances
from poolwise.belief.normal import Normal
from poolwise.belief.padding import masked
from poolwise.checks import Numbers
from poolwise.precision import to_numpy
from poolwise.pytree import pytree

SUREST = 1e-8  # relative to the kernel's variance: no observation counts as surer than this


@pytree
class Constant:
    """What a pool is worth whatever its outcomes."""

    amount: Float[Array, ""]

    def __call__(self, y: Float[Array, " q"], mean: Float[Array, " q"]) -> Float[Array, ""]:
        return self.amount


@dataclass(frozen=True, eq=False)
class VolumeType:
    """A worth of each point, and a weight of the log-volume of the pool's observations.

        H(X) = sum_i own(x_i) + weight / 2 log det(S_X + noise I)

    `noise` is the variance with which the pool will be observed; None takes the belief's own. The value is exact: base
    samples change nothing. Needs the posterior and the pool: `expectation(integrand, posterior, pool)`.
    """

    as_outcomes: ClassVar[bool | None] = False
    noise: Numbers | None = field(default=None, kw_only=True)

    def own(self, posterior: Posterior, points: Float[Array, "p d"]) -> Float[Array, " p"]:
        """What each point is worth by itself, without its volume."""
        raise NotImplementedError

    def weight(self, posterior: Posterior) -> Float[Array, ""]:
        """What the volume counts."""
        return jnp.ones(())

    def of(
        self, posterior: Posterior, pool: Float[Array, "q d"], live: Bool[Array, " q"] | None = None
    ) -> Float[Array, ""]:
        """The value of a pool; with `live`, of those of its points alone."""
        alive = jnp.ones(pool.shape[0], bool) if live is None else live
        seen = jnp.asarray(posterior(pool).covariance) + observation_noise(self, posterior) * jnp.eye(pool.shape[0])
        volume = jnp.sum(jnp.log(jnp.where(alive, jnp.diagonal(cholesky(masked(seen, alive))), 1.0)))
        return jnp.sum(jnp.where(alive, self.own(posterior, pool), 0.0)) + self.weight(posterior) * volume

    def after(self, posterior: Posterior, pool: Float[Array, "q d"]) -> tuple[Normal, Integrand]:
        """The Gaussian of the pool's outcomes, and a worth that does not depend on them."""
        return posterior(pool), Constant(self.of(posterior, pool))


def store_noise(owner: Any) -> None:
    """Store a checked variance, or None, in a frozen integrand."""
    if owner.noise is None:
        return
    with jax.enable_x64(True):
        noise = checks.positive("noise", checks.scalar("noise", owner.noise), zero=True)
        object.__setattr__(owner, "noise", to_numpy(noise))


def observation_noise(owner: Any, posterior: Posterior) -> Float[Array, ""]:
    """The variance with which a pool will be observed, a trace at least; the mean where observations have their own."""
    least = SUREST * jnp.asarray(posterior.process.kernel.amplitude) ** 2
    if owner.noise is not None:
        return jnp.maximum(jnp.asarray(owner.noise), least)
    live = posterior.data.live
    return jnp.maximum(jnp.sum(jnp.where(live, posterior.data.noise, 0.0)) / jnp.maximum(jnp.sum(live), 1), least)


@pytree
class Marginals:
    """Means and variances of points, each by itself, and their whitened covariances with the data."""

    mean: Float[Array, " p"]
    variance: Float[Array, " p"]
    whitened: Float[Array, "p w"]


def marginals(posterior: Posterior, points: Float[Array, "p d"]) -> Marginals:
    """What is believed about each point by itself: no covariance of a thousand candidates with each other."""
    cross = cross_covariance(posterior, points)
    rows = whitened(posterior, points, cross)
    prior = jnp.asarray(posterior.process.kernel.amplitude) ** 2
    variance = jnp.maximum(prior - jnp.sum(rows * against(posterior, rows), axis=1), SUREST * prior)
    return Marginals(expected(posterior, points, cross), variance, rows)


def between(
    posterior: Posterior, A: Float[Array, "p d"], B: Float[Array, "r d"], seen: tuple[Marginals, Marginals]
) -> Float[Array, "p r"]:
    """Posterior covariances of points A with points B, whose marginals are known already."""
    return covariances(posterior.process.kernel, A, B) - seen[0].whitened @ against(posterior, seen[1].whitened).T
