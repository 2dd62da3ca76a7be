"""Integration over a box of outcomes, by the sequential change of variables of equation 2 (Genz's transform).

With y = mean + L z, the bounds of z_i depend on z_1 .. z_{i-1} [W17, 2]:

    a'_i = (a_i - mean_i - sum_{j<i} L_ij z_j) / L_ii,        b'_i likewise,
    z_i = Phi^-1(Phi(a'_i) + w_i (Phi(b'_i) - Phi(a'_i))),        w uniform on the unit cube,
    integral = E_w[h(mean + L z) prod_i (Phi(b'_i) - Phi(a'_i))].

It is smooth in mean, covariance and bounds even for h = 1, so a probability has an unbiased pathwise gradient. All of
it is done with logarithms of lower-tail probabilities, which stay finite where the probabilities underflow.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import log_ndtr, ndtri
from jaxtyping import Array, Float

from poolwise.acquisition.tail import log_density
from poolwise.checks import Numbers
from poolwise.errors import InputError
from poolwise.precision import concrete, to_numpy
from poolwise.pytree import pytree

FAR = 1e6  # an infinite or farther bound in units of z; its lower-tail log probability, -5e11, is still a number


@pytree
class Box:
    """The outcomes with lower <= y_i <= upper for each point; numbers for all points, or vectors.

    >>> float(Box(upper=1.0).lower)
    -inf
    """

    lower: Numbers = -math.inf
    upper: Numbers = math.inf

    def __post_init__(self) -> None:
        with jax.enable_x64(True):
            lower, upper = (_bound(name, getattr(self, name)) for name in ("lower", "upper"))
            if lower.ndim and upper.ndim and lower.shape != upper.shape:
                raise InputError(f"upper: has {upper.shape[0]} values where lower has {lower.shape[0]}.")
            if concrete(lower) and concrete(upper) and bool((lower >= upper).any()):
                at = np.argwhere(np.atleast_1d(np.asarray(lower >= upper)))[0, 0]
                raise InputError(
                    f"lower: must be below upper, but is not at index {at}; exchange the two or widen the box."
                )
            object.__setattr__(self, "lower", to_numpy(lower))
            object.__setattr__(self, "upper", to_numpy(upper))

    def bounds(self, q: int) -> tuple[Float[Array, " q"], Float[Array, " q"]]:
        """Lower and upper bounds of q outcomes."""
        both = []
        for name in ("lower", "upper"):
            bound = jnp.asarray(getattr(self, name))
            if bound.ndim and bound.shape[0] != q:
                raise InputError(f"{name}: has {bound.shape[0]} values for a pool of {q}; give one number or {q}.")
            both.append(jnp.broadcast_to(bound, (q,)))
        return both[0], both[1]

    def among(self, q: int, width: int) -> Box:
        """The box of the first q of so many outcomes; the others may be anywhere."""
        if q == width:
            return self
        lower, upper = self.bounds(q)
        free = jnp.full(width - q, jnp.inf)
        return Box(jnp.concatenate([lower, -free]), jnp.concatenate([upper, free]))


def inside(
    box: Box, mean: Float[Array, " q"], factor: Float[Array, "q q"], log_uniforms: Float[Array, "2 q"]
) -> tuple[Float[Array, " q"], Float[Array, ""]]:
    """Base samples z whose outcomes lie in the box, and the logarithm of their weight [W17, 2].

    `log_uniforms` holds log w and log(1 - w).
    """
    lower, upper = box.bounds(mean.shape[0])

    def coordinate(carry: tuple[Array, Array], i: Array) -> tuple[tuple[Array, Array], None]:
        z, weight = carry
        centre = mean[i] + factor[i] @ z  # z_j is still zero for j >= i
        a = _standardised(lower[i], centre, factor[i, i])
        b = _standardised(upper[i], centre, factor[i, i])
        zi, log_width = _between(a, b, log_uniforms[0, i], log_uniforms[1, i])
        return (z.at[i].set(zi), weight + log_width), None

    start = (jnp.zeros_like(mean), jnp.zeros((), dtype=mean.dtype))
    return jax.lax.scan(coordinate, start, jnp.arange(mean.shape[0]))[0]


def _standardised(bound: Array, centre: Array, pivot: Array) -> Array:
    """(c - centre) / pivot, with infinite bounds replaced before dividing so that no gradient is NaN."""
    finite = jnp.isfinite(bound)
    inner = (jnp.where(finite, bound, 0.0) - centre) / pivot
    return jnp.where(finite, jnp.clip(inner, -FAR, FAR), jnp.sign(bound) * FAR)


def _between(a: Array, b: Array, log_w: Array, log_rest: Array) -> tuple[Array, Array]:
    """The w-quantile of a standard normal between a and b, and the log of the probability between them.

    An interval whose larger part is above zero is mirrored, so that its probabilities are small lower tails.
    """
    mirror = a + b > 0
    low, high = jnp.where(mirror, -b, a), jnp.where(mirror, -a, b)
    log_low, log_high = log_ndtr(low), log_ndtr(high)
    log_width = log_high + jnp.log(-jnp.expm1(jnp.minimum(log_low - log_high, -1e-300)))
    share_high, share_low = jnp.where(mirror, log_rest, log_w), jnp.where(mirror, log_w, log_rest)
    z = jnp.clip(log_ndtri(jnp.logaddexp(log_low + share_low, log_high + share_high)), low, high)
    return jnp.where(mirror, -z, z), log_width


@jax.custom_jvp
def log_ndtri(t: Float[Array, "..."]) -> Float[Array, "..."]:
    """The z with log Phi(z) = t, also where exp(t) underflows."""
    upper = -ndtri(-jnp.expm1(jnp.where(t > -0.5, t, -0.5)))
    lower = ndtri(jnp.exp(jnp.clip(t, -700.0, -0.5)))
    far = jnp.minimum(t, -700.0)
    z = -jnp.sqrt(-2 * far - jnp.log(-4 * jnp.pi * far))
    for _ in range(3):  # Newton in log space: the start is good to 1e-3, and the iteration squares that
        z = z - (log_ndtr(z) - far) * jnp.exp(log_ndtr(z) - log_density(z))
    return jnp.where(t > -0.5, upper, jnp.where(t > -700.0, lower, z))


@log_ndtri.defjvp
def _log_ndtri_jvp(primals: Any, tangents: Any) -> Any:
    """dz / dt = Phi(z) / phi(z), from the definition."""
    z = log_ndtri(*primals)
    return z, jnp.exp(log_ndtr(z) - log_density(z)) * tangents[0]


def _bound(name: str, value: Numbers) -> Float[Array, "*q"]:
    try:
        bound = jnp.asarray(value, dtype=jnp.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name}: expected numbers, got {type(value).__name__} ({error}).") from None
    if concrete(bound) and bool(jnp.isnan(bound).any()):
        raise InputError(f"{name}: has a NaN; use -inf or inf where there is no bound.")
    if bound.ndim > 1 or bound.size == 0:
        raise InputError(f"{name}: expected one number or a vector with one for each point, got shape {bound.shape}.")
    return bound
