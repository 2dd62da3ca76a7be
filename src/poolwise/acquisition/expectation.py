"""The expectation of an integrand under a belief, over a region: every acquisition function is this [W17, 1]."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import log_ndtr
from jaxtyping import Array, Float

from poolwise import checks
from poolwise.acquisition.base_samples import normals
from poolwise.acquisition.integrand import (
    Custom,
    Integrand,
    Probability,
    ProbabilityOfImprovement,
    averaged,
    baseline_slots,
)
from poolwise.acquisition.region import Box, inside
from poolwise.belief.factor import cholesky
from poolwise.belief.gaussian_process import Posterior
from poolwise.belief.normal import Normal, outcomes
from poolwise.checks import Numbers
from poolwise.errors import InputError
from poolwise.precision import AnyArray, double
from poolwise.pytree import pytree, static


class Estimate(NamedTuple):
    """A Monte Carlo value and its standard error.

    With Sobol' base samples the error is what as many independent samples would have, an upper bound in practice; of a
    single sample, or a single pair, it is infinite.
    """

    value: Any
    error: Any


@pytree
class Base:
    """Base samples and whether neighbouring rows are antithetic pairs."""

    normals: Float[Array, "m q"]
    paired: bool = static(default=False)


@double
def expectation(  # noqa: PLR0913
    integrand: Any,
    belief: Normal | Posterior,
    pool: Numbers | None = None,
    *,
    pending: Numbers | None = None,
    region: Box | None = None,
    samples: int = 512,
    base: str = "sobol",
    seed: int = 0,
) -> Estimate:
    """Estimate H(X) = integral over the region of h(y) p(y | X) dy, by base samples mapped to outcomes [W17, 1].

    `belief` is the outcomes' `Normal`, such as `posterior(pool)`; or a `Posterior`, with the pool beside it. `pending`
    are points that are being evaluated already: rows of the pool, ahead of the others, that take no gradient. `region`
    restricts the integral to a `Box` of outcomes. Base samples are "sobol", "iid" or "antithetic"; the same seed gives
    the same estimate. JAX can differentiate the value in mean, covariance, inputs and the integrand's parameters: the
    mean over samples of the chain of derivatives, an unbiased gradient [W17, 3].

    >>> from poolwise.acquisition.integrand import ExpectedImprovement
    >>> estimate = expectation(ExpectedImprovement(threshold=0.5), Normal([0.3], [[0.49]]), samples=2**14)
    >>> print(f"{estimate.value:.4f}")
    0.1906
    """
    check_integrand(integrand)
    if region is not None:
        checks.kind("region", region, Box, "for instance Box(lower=0.0, upper=1.0).")
    if isinstance(belief, Posterior):
        if pool is None:
            raise InputError("pool: a Posterior needs the pool beside it: expectation(integrand, posterior, pool).")
        X = with_pending(belief, pool, pending)
        width = X.shape[0] + baseline_slots(integrand)
        z = Base(jnp.asarray(normals(samples, width, base=base, seed=seed)), base == "antithetic")
        if region is not None:
            region = region.among(X.shape[0], width)
        return _at_pool(as_pytree(integrand), belief, X, z, region)
    checks.kind("belief", belief, Normal, "give posterior(pool), Normal(mean, covariance), or a Posterior and a pool.")
    if pool is not None or pending is not None:
        raise InputError("pool: a Normal already is the belief at a pool; to name points give the Posterior itself.")
    if hasattr(integrand, "after"):
        raise InputError(
            f"belief: {type(integrand).__name__} looks at what is learned from the pool, so it needs the posterior and "
            "the pool: expectation(integrand, posterior, pool)."
        )
    z = Base(jnp.asarray(normals(samples, belief.mean.shape[0], base=base, seed=seed)), base == "antithetic")
    return _under(as_pytree(integrand), belief, z, region)


def check_integrand(integrand: Any) -> None:
    """An instance that can be called with outcomes and means, or that looks ahead."""
    if isinstance(integrand, type):
        raise InputError(f"integrand: give an instance, such as {integrand.__name__}(...), not the class itself.")
    if not callable(integrand) and not hasattr(integrand, "after"):
        raise InputError(
            "integrand: expected one such as ExpectedImprovement(threshold=0.0) or a function of (y, mean), "
            f"got {type(integrand).__name__}."
        )


def with_pending(posterior: Posterior, pool: Numbers, pending: Numbers | None) -> Float[AnyArray, "q d"]:
    """[pending ; pool], where pending points take no gradient."""
    X = checks.matrix("pool", pool, columns=posterior.dimension)
    if pending is None or jnp.size(jnp.asarray(pending)) == 0:
        return X
    return jnp.concatenate([jax.lax.stop_gradient(checks.matrix("pending", pending, columns=posterior.dimension)), X])


def as_pytree(integrand: Any) -> Any:
    """A plain function becomes a pytree without leaves, so that it can be an argument of a compiled program."""
    leaves = jax.tree.leaves(integrand)
    plain = len(leaves) == 1 and leaves[0] is integrand
    return Custom(integrand) if plain else integrand


@jax.jit
def _at_pool(integrand: Any, posterior: Posterior, pool: Float[Array, "q d"], base: Base, region: Any) -> Estimate:
    return estimate(*look_ahead(integrand, posterior, pool), base, region)


@jax.jit
def _under(integrand: Any, normal: Normal, base: Base, region: Any) -> Estimate:
    return estimate(integrand, normal, base, region)


def look_ahead(integrand: Any, posterior: Posterior, pool: Float[Array, "q d"]) -> tuple[Integrand, Normal]:
    """The integrand at a pool and the Gaussian to integrate it under; only a lookahead depends on the pool."""
    if hasattr(integrand, "after"):
        normal, worth = integrand.after(posterior, pool)
        return worth, normal
    return integrand, posterior(pool)


def estimate(integrand: Integrand, normal: Normal, base: Base, region: Box | None = None) -> Estimate:
    """The mean over base samples, written once; pure, for use inside compiled programs and other integrands."""
    missed = integrand.missed() if region is None and isinstance(integrand, ProbabilityOfImprovement) else None
    if missed is not None:
        below = estimate(Probability(), normal, base, missed)
        return Estimate(1 - below.value, below.error)
    values = sampled(integrand, normal, base.normals, region)
    return summary(integrand, values, paired=base.paired)


def summary(integrand: Any, values: Float[Array, "m ..."], *, paired: bool = False) -> Estimate:
    """The mean over samples and its standard error; the log of a mean has its relative error."""
    if getattr(integrand, "logarithmic", False):
        value = averaged(integrand, values)
        weights = summary(None, jnp.exp(values - jax.lax.stop_gradient(value)), paired=paired)
        return Estimate(value, weights.error)
    if paired:
        values = values.reshape(-1, 2, *values.shape[1:]).mean(axis=1)
    n, value = values.shape[0], values.mean(axis=0)
    if n == 1:  # one draw says nothing about its spread
        return Estimate(value, jnp.full_like(value, jnp.inf))
    spread = jnp.sqrt(jnp.sum((values - values.mean(axis=0, keepdims=True)) ** 2, axis=0) / (n - 1))
    rounding = 4 * np.finfo(np.float64).eps * jnp.abs(value)  # no estimate is surer than its last digits
    return Estimate(value, jax.lax.stop_gradient(jnp.maximum(spread / jnp.sqrt(n), rounding)))


def sampled(
    integrand: Integrand, normal: Normal, z: Float[Array, "m q"], region: Box | None = None
) -> Float[Array, "m ..."]:
    """The integrand at each base sample; inside a region, times the sample's weight [W17, 2]."""
    mean, factor = jnp.asarray(normal.mean), cholesky(jnp.asarray(normal.covariance))
    value = functools.partial(_value, integrand, mean)
    if region is None:
        return jax.vmap(value)(outcomes(mean, factor, z))
    logs = jnp.stack([log_ndtr(z), log_ndtr(-z)], axis=1)
    z, log_weight = jax.vmap(functools.partial(inside, region, mean, factor))(logs)
    values = jax.vmap(value)(outcomes(mean, factor, z))
    if getattr(integrand, "logarithmic", False):
        return values + log_weight
    return values * jnp.exp(log_weight).reshape(-1, *(1,) * (values.ndim - 1))


def _value(integrand: Integrand, mean: Float[Array, " q"], y: Float[Array, " q"]) -> Float[Array, "..."]:
    return jnp.asarray(integrand(y, mean), dtype=y.dtype)


@double
def log_probability(region: Box, normal: Normal, *, samples: int = 512, seed: int = 0) -> Any:
    """The logarithm of the probability that a pool's outcomes lie in a box, also where the probability underflows.

    >>> print(f"{log_probability(Box(lower=50.0), Normal([0.0], [[1.0]])):.4f}")
    -1254.8314
    """
    checks.kind("region", region, Box, "for instance Box(lower=0.0, upper=1.0).")
    checks.kind("normal", normal, Normal, "for instance posterior(pool).")
    return _log_probability(region, normal, jnp.asarray(normals(samples, normal.mean.shape[0], seed=seed)))


@jax.jit
def _log_probability(region: Box, normal: Normal, z: Float[Array, "m q"]) -> Float[Array, ""]:
    mean, factor = jnp.asarray(normal.mean), cholesky(jnp.asarray(normal.covariance))
    logs = jnp.stack([log_ndtr(z), log_ndtr(-z)], axis=1)
    _, log_weight = jax.vmap(functools.partial(inside, region, mean, factor))(logs)
    return jax.scipy.special.logsumexp(log_weight) - jnp.log(z.shape[0])
