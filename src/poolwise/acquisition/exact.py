"""Exact values of acquisition functions for small pools: what Monte Carlo estimates are measured against.

Expected improvement, simple regret and the upper confidence bound are all expected maxima of a few Gaussians: of the
outcomes and the threshold, of the outcomes alone, and of mean + gamma and mean - gamma. Outcomes are maximised.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeAlias, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp, ndtr
from jaxtyping import Array, Float

from poolwise import checks
from poolwise.acquisition.orthant import composite_legendre, expected_maximum, normal_cdf, winning_probabilities
from poolwise.acquisition.tail import log_h, log_ndtr
from poolwise.belief.normal import Normal
from poolwise.checks import Numbers
from poolwise.errors import InputError
from poolwise.precision import AnyArray, concrete, double

LARGEST_POOL = 5  # of expected improvement, hard probability of improvement, simple regret, boxes
LARGEST_SOFT_POOL = 4  # one integral more
LARGEST_BOUND_POOL = 3  # the bound is the maximum of twice as many Gaussians

P = ParamSpec("P")
R = TypeVar("R")
Value: TypeAlias = Float[Array, ""] | np.float64
_LOGISTIC_EDGES = np.array([-40.0, -14.0, -6.0, -2.0, 0.0, 2.0, 6.0, 14.0, 40.0])
_NORMAL_EDGES = np.array([-9.0, -3.0, -1.0, 0.0, 1.0, 3.0, 9.0])


@double
def expected_improvement(normal: Normal, threshold: Numbers) -> Value:
    """E max(0, max_i y_i - threshold) [W17, EI].

    One point: sigma h(u), h(u) = phi(u) + u Phi(u), u = (mu - threshold) / sigma. More points: `expected_maximum` of
    the outcomes and the threshold, up to `LARGEST_POOL` of them [CG13].
    """
    mean, covariance = _small(normal, LARGEST_POOL)
    return _expected_improvement(mean - checks.scalar("threshold", threshold), covariance)


@double
def log_expected_improvement(normal: Normal, threshold: Numbers) -> Value:
    """The logarithm of `expected_improvement` [A23].

    One point: log sigma + log h(u), whose value and slope stay right where h(u) underflows. A known outcome below the
    threshold has minus a large number, not minus infinity. More points: the logarithm of the exact value, which lies
    between the largest of the points' own expected improvements and their sum, and is kept there.
    """
    mean, covariance = _small(normal, LARGEST_POOL)
    return _log_expected_improvement(mean - checks.scalar("threshold", threshold), covariance)


@double
def probability_of_improvement(normal: Normal, threshold: Numbers, *, temperature: Numbers | None = None) -> Value:
    """P(max_i y_i > threshold) = 1 - F(threshold), F the distribution of the maximum [W17, PI].

    With a temperature tau the soft form, E sigmoid((max_i y_i - threshold) / tau), which is

        int logistic(l) (1 - F(threshold + tau l)) dl,

    up to `LARGEST_SOFT_POOL` points. A known outcome at the threshold does not improve on it.
    """
    if temperature is None:
        mean, covariance = _small(normal, LARGEST_POOL)
        return _probability_of_improvement(mean - checks.scalar("threshold", threshold), covariance)
    mean, covariance = _small(normal, LARGEST_SOFT_POOL)
    tau = checks.positive("temperature", checks.scalar("temperature", temperature))
    return _soft_probability(mean - checks.scalar("threshold", threshold), covariance, tau)


@double
def log_probability_of_improvement(normal: Normal, threshold: Numbers) -> Value:
    """The logarithm of the hard `probability_of_improvement` [W17, PI], between the points' largest one and their sum.

    One point: log Phi(u), right in value and slope far into the tail.
    """
    mean, covariance = _small(normal, LARGEST_POOL)
    return _log_probability_of_improvement(mean - checks.scalar("threshold", threshold), covariance)


@double
def upper_confidence_bound(normal: Normal, beta: Numbers) -> Value:
    """E max_i (mu_i + |gamma_i|), gamma ~ N(0, beta pi / 2 covariance); at one point mu + sqrt(beta) sigma [W17, UCB].

    Since mu + |gamma| = max(mu + gamma, mu - gamma), it is the `expected_maximum` of twice as many Gaussians. Right to
    1e-9, but for three points with equal means and a condition number above 1e4, where it is right to 1e-5.
    """
    mean, covariance = _small(normal, LARGEST_BOUND_POOL)
    return _upper_confidence_bound(mean, covariance, checks.positive("beta", checks.scalar("beta", beta), zero=True))


@double
def simple_regret(normal: Normal) -> Value:
    """E max_i y_i [W17, SR]: the mean of one point, Clark's formula for two [Clark61], up to `LARGEST_POOL` points."""
    return _expected_maximum(*_small(normal, LARGEST_POOL))


@double
def probability_of_maximum(normal: Normal) -> Float[Array | np.ndarray, " q"]:
    """P(y_i = max_j y_j) of each point; points that coincide share theirs equally."""
    return _winning_probabilities(*_small(normal, LARGEST_POOL))


@double
def box_probability(normal: Normal, lower: Numbers, upper: Numbers) -> Value:
    """P(lower_i <= y_i <= upper_i for all i), bounds may be infinite: the signed sum of the corners' orthants.

    One point: right in either tail. More: what is left below 1e-16 is rounding; `log_probability` is right there.
    """
    mean, covariance = _small(normal, LARGEST_POOL)
    low, high = (_bounds(name, value, mean.shape[0]) for name, value in (("lower", lower), ("upper", upper)))
    if concrete(low) and concrete(high) and bool(jnp.any(low > high)):
        i = int(jnp.argmax(low > high))
        raise InputError(f"lower: {float(low[i]):g} at index {i} is above upper, {float(high[i]):g}; swap the two.")
    return _box_probability(low - mean, high - mean, covariance)


def _compiled(function: Callable[P, R]) -> Callable[P, R]:
    """`jax.jit`, which forgets the signature, with the signature kept."""
    return jax.jit(function)


def _small(normal: Normal, largest: int) -> tuple[Float[Array, " q"], Float[Array, "q q"]]:
    """Mean and covariance of a pool that exact values exist for."""
    checks.kind("normal", normal, Normal, "make one with Normal(mean, covariance), or ask a posterior for it.")
    if (q := normal.mean.shape[0]) > largest:
        raise InputError(
            f"normal: has {q} points where this exact value exists up to {largest}; "
            "use `expectation`, which estimates it for any number."
        )
    return jnp.asarray(normal.mean), jnp.asarray(normal.covariance)


def _bounds(name: str, value: Numbers, length: int) -> Float[AnyArray, " q"]:
    """One bound for each point, or one for all; infinite is a bound, NaN is not. Infinities become large numbers."""
    try:
        bounds = jnp.asarray(value, dtype=jnp.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name}: expected numbers, got {type(value).__name__} ({error}).") from None
    if concrete(bounds) and bool(jnp.any(jnp.isnan(bounds))):
        raise InputError(f"{name}: has NaN; use -inf or inf where there is no bound.")
    bounds = jnp.clip(bounds if bounds.ndim else jnp.full(length, bounds), -1e150, 1e150)
    return checks.vector(name, bounds, length=length)


def _deviations(
    gap: Float[Array, " q"], covariance: Float[Array, "q q"]
) -> tuple[Float[Array, " q"], Float[Array, " q"]]:
    """Each sigma and u = gap / sigma; a known outcome gets a sigma so small that the value is that of the limit."""
    variance = jnp.diagonal(covariance)
    floor = jax.lax.stop_gradient(jnp.maximum(1e-10 * jnp.abs(gap), 1e-150))
    known = variance <= floor**2
    sigma = jnp.where(known, floor, jnp.sqrt(jnp.where(known, 1.0, variance)))
    return sigma, gap / sigma


def _log_each_improvement(gap: Float[Array, " q"], covariance: Float[Array, "q q"]) -> Float[Array, " q"]:
    sigma, u = _deviations(gap, covariance)
    return jnp.log(sigma) + log_h(u)


def _between(value: Float[Array, ""], each: Float[Array, " q"]) -> Float[Array, ""]:
    """A pool's value, which lies between the largest of the points' own and their sum; rounding may have moved it."""
    return jnp.clip(value, jnp.max(each), jnp.sum(each))


def _log_between(value: Float[Array, ""], each: Float[Array, " q"]) -> Float[Array, ""]:
    """The same in logarithms."""
    logarithm = jnp.log(jnp.maximum(value, 1e-300))
    return jnp.clip(logarithm, jnp.max(each), logsumexp(each))


def _pool_improvement(gap: Float[Array, " q"], covariance: Float[Array, "q q"]) -> Float[Array, ""]:
    """E max(0, max_i y_i) for y ~ N(gap, covariance)."""
    return expected_maximum(jnp.pad(gap, (1, 0)), jnp.pad(covariance, (1, 0)))


@_compiled
def _expected_improvement(gap: Float[Array, " q"], covariance: Float[Array, "q q"]) -> Float[Array, ""]:
    each = jnp.exp(_log_each_improvement(gap, covariance))
    return each[0] if gap.shape[0] == 1 else _between(_pool_improvement(gap, covariance), each)


@_compiled
def _log_expected_improvement(gap: Float[Array, " q"], covariance: Float[Array, "q q"]) -> Float[Array, ""]:
    each = _log_each_improvement(gap, covariance)
    return each[0] if gap.shape[0] == 1 else _log_between(_pool_improvement(gap, covariance), each)


@_compiled
def _probability_of_improvement(gap: Float[Array, " q"], covariance: Float[Array, "q q"]) -> Float[Array, ""]:
    known = (gap == 0) & (jnp.diagonal(covariance) == 0)  # at the threshold, for certain
    each = jnp.where(known, 0.0, ndtr(_deviations(gap, covariance)[1]))
    return each[0] if gap.shape[0] == 1 else _between(1 - normal_cdf(-gap, covariance), each)


@_compiled
def _log_probability_of_improvement(gap: Float[Array, " q"], covariance: Float[Array, "q q"]) -> Float[Array, ""]:
    each = log_ndtr(_deviations(gap, covariance)[1])
    return each[0] if gap.shape[0] == 1 else _log_between(1 - normal_cdf(-gap, covariance), each)


@_compiled
def _soft_probability(
    gap: Float[Array, " q"], covariance: Float[Array, "q q"], tau: Float[Array, ""]
) -> Float[Array, ""]:
    """The integral over the logistic variable, with panels that follow it and each outcome.

    One common deviation of tau / 10^6 is added to all outcomes, which changes the value by less than 1e-13: then a
    known outcome has a distribution function with a slope, and the integral a gradient.
    """
    covariance = covariance + (1e-6 * tau) ** 2
    centre, spread = (jax.lax.stop_gradient(a / tau) for a in (gap, jnp.sqrt(jnp.diagonal(covariance))))
    edges = (centre[:, None] + spread[:, None] * _NORMAL_EDGES[None, :]).ravel()
    edges = jnp.sort(jnp.concatenate([jnp.clip(edges, -40.0, 40.0), jnp.asarray(_LOGISTIC_EDGES)]))
    nodes, weights = composite_legendre(edges, 16)
    below = jax.lax.map(lambda node: normal_cdf(tau * node - gap, covariance), nodes, batch_size=64)
    return jnp.sum(weights * jax.nn.sigmoid(nodes) * jax.nn.sigmoid(-nodes) * (1 - below))


@_compiled
def _upper_confidence_bound(
    mean: Float[Array, " q"], covariance: Float[Array, "q q"], beta: Float[Array, ""]
) -> Float[Array, ""]:
    if mean.shape[0] == 1:
        variance = beta * covariance[0, 0]
        return mean[0] + jnp.where(variance > 0, jnp.sqrt(jnp.where(variance > 0, variance, 1.0)), 0.0)
    signs = jnp.array([[1.0, -1.0], [-1.0, 1.0]])
    return expected_maximum(jnp.concatenate([mean, mean]), jnp.kron(signs, 0.5 * np.pi * beta * covariance))


@_compiled
def _box_probability(
    low: Float[Array, " q"], high: Float[Array, " q"], covariance: Float[Array, "q q"]
) -> Float[Array, ""]:
    q = low.shape[0]
    if q == 1:  # an interval above zero is mirrored: the difference of two small tails keeps its digits
        low, high = jnp.where(low > 0, -high, low), jnp.where(low > 0, -low, high)
    corners = (np.arange(2**q)[:, None] >> np.arange(q)[None, :]) & 1  # one bit a point: its upper bound or its lower
    sides = jnp.stack([low - 1e-200, high])  # a known outcome on the lower bound is inside
    upper = jnp.where(corners == 1, sides[1][None, :], sides[0][None, :])
    signs = np.where((q - corners.sum(1)) % 2 == 0, 1.0, -1.0)
    return jnp.sum(signs * jax.lax.map(lambda b: normal_cdf(b, covariance), upper, batch_size=8))


_expected_maximum = _compiled(expected_maximum)
_winning_probabilities = _compiled(winning_probabilities)
