"""How much a pool tells about the maximum: about its value, or about its value and place together.

Both are mutual informations, bounded from below [M21] [H22]. Before anything is known of the maximum, the pool's
observations have the entropy of a Gaussian. Given the maximum f*, no outcome exceeds it: the outcome of point i is a
Gaussian cut off at f*, whose variance is s_i^2 V(u_i), u_i = (f* - m_i) / s_i; and no distribution of that variance has
more entropy than a Gaussian. So, with the constants of both entropies gone,

    I(X) >= 1/2 log det(S_X + noise I) - mean over f* of sum_i 1/2 log(s_i^2 V(u_i) + noise),

    V(u) = 1 - r (u + r),        r = phi(u) / Phi(u).

Max-value entropy takes m and s of the belief as it is, joint entropy those after f(x*) = f* is known as well. Draw the
maxima from sample paths: `path_maxima(posterior, 16)`.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtr
from jaxtyping import Array, Float

from poolwise import checks
from poolwise.acquisition.volume import (
    SUREST,
    VolumeType,
    between,
    marginals,
    observation_noise,
    store_noise,
)
from poolwise.belief.gaussian_process import Posterior
from poolwise.checks import Numbers
from poolwise.precision import to_numpy
from poolwise.pytree import pytree

TAIL = -4.0  # below, V is a continued fraction: 1 - r (u + r) would be a difference of nearly equal numbers
STEPS = 30  # of the fraction; enough from 4 on


@pytree
class MaxValueEntropy(VolumeType):
    """Information, in nats, that a pool's observations give about the maximum's value: GIBBON [M21].

        1/2 log det(S_X + noise I) - mean over f* of sum_i 1/2 log(s_i^2 V(u_i) + noise),        u_i = (f* - m_i) / s_i

    `maxima` are draws of the maximum's value f*, such as `path_maxima(posterior, 16).values`. With C the correlations
    of the observations it is 1/2 log det C - 1/2 mean sum_i log(1 - rho_i^2 r (u_i + r)), rho_i^2 = s_i^2 / (s_i^2 +
    noise): points repel each other by their correlation, and close ones so much that the bound may fall below zero.
    """

    maxima: Numbers

    def __post_init__(self) -> None:
        store_noise(self)
        with jax.enable_x64(True):
            object.__setattr__(self, "maxima", to_numpy(checks.vector("maxima", self.maxima)))

    def own(self, posterior: Posterior, points: Float[Array, "p d"]) -> Float[Array, " p"]:
        seen = marginals(posterior, points)
        gap = jnp.asarray(self.maxima)[None, :] - seen.mean[:, None]
        return -_mean_entropy(gap, seen.variance[:, None], observation_noise(self, posterior))


@pytree
class JointEntropySearch(VolumeType):
    """Information, in nats, that a pool's observations give about the maximum's place and value together [H22].

        1/2 log det(S_X + noise I) - mean over (x*, f*) of sum_i 1/2 log(s_i*^2 V(u_i*) + noise)

    with m_i*, s_i* the belief at point i once f(x*) = f* is known, u_i* = (f* - m_i*) / s_i*. `points` are draws of x*,
    a row each, and `values` those of f*: `JointEntropySearch(*path_maxima(posterior, 16))` has each pair of one path.
    """

    points: Numbers
    values: Numbers

    def __post_init__(self) -> None:
        store_noise(self)
        with jax.enable_x64(True):
            points = checks.matrix("points", self.points)
            values = checks.vector("values", self.values, length=points.shape[0])
            object.__setattr__(self, "points", to_numpy(points))
            object.__setattr__(self, "values", to_numpy(values))

    def own(self, posterior: Posterior, points: Float[Array, "p d"]) -> Float[Array, " p"]:
        optima = jnp.asarray(checks.matrix("points", self.points, columns=posterior.dimension))
        seen, there = marginals(posterior, points), marginals(posterior, optima)
        cross = between(posterior, points, optima, (seen, there))
        gain = cross / there.variance[None, :]
        values = jnp.asarray(self.values)
        mean = seen.mean[:, None] + gain * (values - there.mean)[None, :]
        least = SUREST * jnp.asarray(posterior.process.kernel.amplitude) ** 2
        variance = jnp.maximum(seen.variance[:, None] - gain * cross, least)
        return -_mean_entropy(values[None, :] - mean, variance, observation_noise(self, posterior))


def _mean_entropy(
    gap: Float[Array, "p m"], variance: Float[Array, "p #m"], noise: Float[Array, ""]
) -> Float[Array, " p"]:
    """The mean over maxima of 1/2 log(s^2 V(gap / s) + noise)."""
    cut = cut_variance(gap / jnp.sqrt(variance))
    return jnp.mean(jnp.log(variance * cut + noise), axis=1) / 2


@jax.custom_jvp
def cut_variance(u: Float[Array, "..."]) -> Float[Array, "..."]:
    """V(u) = 1 - r (u + r), r = phi(u) / Phi(u): the variance of a standard normal that is known to lie below u.

    In the tail, x = -u, repeated integrals of the normal tail have ratios r_k = 1 / (x + (k + 1) r_{k+1}) and

        r = x + r_1,        u + r = r_1,        V = r_1^2 r_2 (x + 4 r_2 - 3 r_3):        nothing cancels.
    """
    far, near, x = _sides(u)
    r = _ratio(near)
    first, second, third = _fractions(x)
    return jnp.where(far, first**2 * second * (x + 4 * second - 3 * third), 1 - r * (near + r))


@cut_variance.defjvp
def _cut_variance_jvp(primals: Any, tangents: Any) -> Any:
    """dV / du = r ((u + r)^2 - V); in the tail r r_1^2 r_2 (6 r_3 - 4 r_2)."""
    far, near, x = _sides(primals[0])
    r = _ratio(near)
    first, second, third = _fractions(x)
    body = r * ((near + r) ** 2 - 1 + r * (near + r))
    tail = (x + first) * first**2 * second * (6 * third - 4 * second)
    return cut_variance(*primals), jnp.where(far, tail, body) * tangents[0]


def _sides(u: Float[Array, "..."]) -> tuple[Any, Float[Array, "..."], Float[Array, "..."]]:
    """Whether u is in the tail, u where it is not and -u where it is, with a harmless value in the other's place."""
    far = u < TAIL
    return far, jnp.where(far, 0.0, u), jnp.where(far, -u, -TAIL)


def _ratio(u: Float[Array, "..."]) -> Float[Array, "..."]:
    """phi(u) / Phi(u), above the tail."""
    return jnp.exp(-0.5 * u * u - 0.5 * np.log(2 * np.pi)) / ndtr(u)


def _fractions(x: Float[Array, "..."]) -> tuple[Float[Array, "..."], Float[Array, "..."], Float[Array, "..."]]:
    """r_1, r_2 and r_3 of the continued fraction, for x >= 4."""
    third = jax.lax.fori_loop(0, STEPS, lambda k, ratio: 1 / (x + (STEPS + 3 - k) * ratio), 1 / x)
    second = 1 / (x + 3 * third)
    return 1 / (x + 2 * second), second, third
