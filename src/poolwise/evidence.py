"""The log posterior density of hyperparameters, and its whole gradient.

The mean is a `Trend` whose coefficients are normal: they are integrated out, which adds 1 1' + t B B' to the
covariance, B the rows of `bowls`. With K = amplitude^2 g(s) + 1 1' + t B B' + noise, one Cholesky factor and its
inverse serve the value and the gradient:

    log evidence = -y' a / 2 - log det(K) / 2 - n log(2 pi) / 2,        a = K^-1 y,
    d / dtheta   = sum_ij G_ij dK_ij / dtheta,        G = (a a' - K^-1) / 2,

where dK / dtheta is elementwise in the squared distances and costs matrix products only. The gradient of a warping of
inputs is that of the points, by the chain rule.
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from poolwise.belief.factor import inverse_by, inverse_root
from poolwise.belief.gaussian_process import Data
from poolwise.belief.kernel import Kernel
from poolwise.belief.padding import masked
from poolwise.belief.trend import bowls
from poolwise.belief.warp import warped
from poolwise.precision import AnyArray
from poolwise.pytree import pytree

ALIKE = 0.35  # how far the logarithms of the axes' lengthscales lie from their mean, until data say otherwise;
FREEDOM = 3.0  # degrees of freedom of that, few: data may well say otherwise
COMMON = 1.2  # the width of the prior of their mean's logarithm
BEND, BENDING = 2.0, 0.75  # the largest logarithm of a warping's exponents, and the width of their prior


class Bounds(NamedTuple):
    """Where the logarithms of the hyperparameters may lie, and their normal priors, of lengthscales their `centre`."""

    low: Float[np.ndarray, " t"]
    high: Float[np.ndarray, " t"]
    centre: Float[np.ndarray, " t"]
    width: Float[np.ndarray, " t"]


@pytree
class Logs:
    """Logarithms of hyperparameters of standardised outcomes.

    Lengthscales, amplitude squared, noise variance, variance of the trend's slopes and curves; a warping has two rows,
    one for each end of the axes.
    """

    lengthscale: Float[AnyArray, " d"]
    amplitude: Float[AnyArray, ""]
    noise: Float[AnyArray, ""]
    trend: Float[AnyArray, ""]
    warp: Float[AnyArray, "2 d"] | None = None


def bounds(d: int, *, warp: bool = False) -> Bounds:
    """Log-normal priors: d lengthscales, a warping of d axes if there is one, amplitude^2, noise variance, the trend's.

    The lengthscale's median is half of the cube's diagonal, sqrt(d) / 2: longer ones would have to do what the trend
    does, and make a model of few observations too sure of itself; their prior is that of `log_prior_of_lengths`. The
    trend's variance goes with 1 / d, for as many parabolas add up.
    """
    lengths, bends = math.log(0.5 * math.sqrt(d)), 2 * d if warp else 0
    return Bounds(
        low=np.array([*[math.log(0.025)] * d, *[-BEND] * bends, *np.log([1e-2, 1e-6, 1e-4 / d])]),
        high=np.array([*[lengths + 6.0] * d, *[BEND] * bends, *np.log([1e2, 1.0, 1e2 / d])]),
        centre=np.array([*[lengths] * d, *[0.0] * bends, 0.0, -6.0, math.log(0.1 / d)]),
        width=np.array([*[math.inf] * d, *[BENDING] * bends, 1.0, 2.0, 2.0]),
    )


def logs_of(theta: Float[AnyArray, " t"], d: int) -> Logs:
    """Hyperparameters in d dimensions, by name; those of a warping are there or not."""
    warp = theta[d:-3].reshape(2, d) if has_warp(len(theta), d) else None
    return Logs(theta[:d], theta[..., -3], theta[..., -2], theta[..., -1], warp)


def has_warp(size: int, d: int) -> bool:
    """Whether so many hyperparameters in d dimensions are those of a warping too."""
    return size > d + 3


def log_posterior(
    theta: Float[Array, " t"], data: Data, kernel: type[Kernel], learn_noise: bool
) -> tuple[Float[Array, ""], Float[Array, " t"]]:
    """Log evidence plus log prior, and its gradient, at logarithms of the hyperparameters."""
    logs = logs_of(theta, data.X.shape[1])
    box = bounds(data.X.shape[1], warp=logs.warp is not None)
    value, slope = log_evidence(logs, data, kernel, learn_noise)
    off = (theta - box.centre) / box.width
    prior, pull = log_prior_of_lengths(logs.lengthscale - box.centre[: len(logs.lengthscale)])
    bent = [] if slope.warp is None else [slope.warp.ravel()]
    gradient = jnp.concatenate(
        [slope.lengthscale + pull, *bent, jnp.stack([slope.amplitude, slope.noise, slope.trend])]
    )
    return value + prior - 0.5 * jnp.sum(off * off), gradient - off / box.width


def log_prior_of_lengths(e: Float[Array, " d"]) -> tuple[Float[Array, ""], Float[Array, " d"]]:
    """The log prior of the lengthscales' logarithms, less their centre, and its gradient, but for a constant.

    Axes are alike until the data say otherwise. With m the mean of e, normal, and r = e - m, whose variance is unknown
    (a scaled inverse chi-squared one, integrated out) and the same for all axes, r has a multivariate t distribution:

        -m^2 / (2 COMMON^2) - (FREEDOM + d - 1) / 2 log(1 + r.r / (FREEDOM ALIKE^2)).

    So a few observations do not make axes differ by chance; but where one axis is seen to differ, the others may too.
    """
    d = e.shape[0]
    mean = jnp.mean(e)
    rest = e - mean
    width = FREEDOM * ALIKE**2 + jnp.sum(rest * rest)
    value = -0.5 * (mean / COMMON) ** 2 - 0.5 * (FREEDOM + d - 1) * jnp.log(width / (FREEDOM * ALIKE**2))
    return value, -mean / (COMMON**2 * d) - (FREEDOM + d - 1) * rest / width


def log_evidence(logs: Logs, data: Data, kernel: type[Kernel], learn_noise: bool) -> tuple[Float[Array, ""], Logs]:
    """Log evidence of the live rows, and its gradient; -inf where the covariance has no factor.

    `data.noise` is added to the learned noise variance, or stands alone where noise is known.
    """
    lengths, amplitude, trend = jnp.exp(logs.lengthscale), jnp.exp(logs.amplitude), jnp.exp(logs.trend)
    noise = jnp.exp(logs.noise) if learn_noise else jnp.zeros(())
    points, unbend = (data.X, None) if logs.warp is None else jax.vjp(functools.partial(_bent, data.X), logs.warp)
    scaled = points / lengths[None, :]
    s = product_distance(scaled)
    shape = amplitude * kernel.profile(s)
    B = bowls(points)
    bent = trend * (B @ B.T)
    K = masked(shape + 1.0 + bent + jnp.diag(data.noise + noise), data.live)
    root = inverse_root(K)
    inverse = inverse_by(root)
    live = data.live.astype(K.dtype)
    roots = jnp.where(data.live, jnp.diagonal(root), 1.0)
    y = live * data.y
    a = inverse @ y
    count = jnp.sum(live)
    value = -0.5 * (y @ a) + jnp.sum(jnp.log(roots)) - 0.5 * count * math.log(2 * math.pi)
    G = 0.5 * (a[:, None] * a[None, :] - inverse) * (live[:, None] * live[None, :])
    pull = G * amplitude * kernel.slope(s)
    # sum_ij pull_ij (x_ik - x_jk)^2 = 2 sum_i x_ik toward_ik, and its derivative in x_ik is 4 toward_ik
    toward = scaled * jnp.sum(pull, axis=1)[:, None] - pull @ scaled
    bends = None if unbend is None else unbend(4 * toward / lengths[None, :] + _moving(points, 2 * trend * (G @ B)))[0]
    lengthwise = -4 * jnp.sum(scaled * toward, axis=0)
    gradient = Logs(lengthwise, jnp.sum(G * shape), noise * jnp.sum(jnp.diagonal(G)), jnp.sum(G * bent), bends)
    return jnp.where(jnp.isfinite(value), value, -jnp.inf), gradient


def _moving(points: Float[Array, "n d"], toward: Float[Array, "n k"]) -> Float[Array, "n d"]:
    """The gradient of points by that of their `bowls`: du / dx = 2, du^2 / dx = 4 u."""
    slopes, curves = jnp.split(toward, 2, axis=1)
    return 2 * slopes + 4 * (2 * points - 1) * curves


def _bent(points: Float[AnyArray, "n d"], logs: Float[Array, "2 d"]) -> Float[Array, "n d"]:
    return warped(points, *jnp.exp(logs))


def product_distance(X: Float[Array, "n d"]) -> Float[Array, "n n"]:
    """Squared distances by a matrix product: faster than differences, and good to rounding for distinct points."""
    squares = jnp.sum(X * X, axis=1)
    s = squares[:, None] + squares[None, :] - 2 * X @ X.T
    return jnp.where(jnp.eye(X.shape[0], dtype=bool), 0.0, jnp.maximum(s, 0.0))
