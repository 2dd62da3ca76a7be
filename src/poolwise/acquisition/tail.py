"""The upper tail of a normal outcome: what it is expected to add to a floor, and logarithms that do not underflow.

E max(0, y - floor) = sigma h(u),        h(u) = phi(u) + u Phi(u),        u = (mean - floor) / sigma.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtr
from jaxtyping import Array, Bool, Float

# Phi(-x) = exp(-x^2 / 2) P(x) / Q(x) for x >= 0, to 1e-15 [H68, 5666]: one exponential, a fourth of erfc's time
P = np.array([0.0352624965998911, 0.700383064443688, 6.37396220353165, 33.912866078383])
P = np.append(P, [112.079291497871, 221.213596169931, 220.206867912376])
Q = np.array([0.0883883476483184, 1.75566716318264, 16.064177579207, 86.7807322029461])
Q = np.append(Q, [296.564248779674, 637.333633378831, 793.826512519948, 440.413735824752])


@jax.custom_jvp
def upside(
    mean: Float[Array, "..."], deviation: Float[Array, "..."], floor: Float[Array, "..."]
) -> Float[Array, "..."]:
    """E max(0, y - floor) of a normal y."""
    u = (mean - floor) / deviation
    density, above = density_and_share(u)
    return deviation * (density + u * above)


@upside.defjvp
def _upside_jvp(primals: Any, tangents: Any) -> Any:
    """Slopes Phi(u) in the mean, phi(u) in the deviation, -Phi(u) in the floor."""
    mean, deviation, floor = primals
    u = (mean - floor) / deviation
    density, above = density_and_share(u)
    return deviation * (density + u * above), above * (tangents[0] - tangents[2]) + density * tangents[1]


def density_and_share(u: Float[Array, "..."]) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
    """phi(u) and Phi(u); the latter is right to 1e-15, and in the tail relatively to 1e-8 from -7 on."""
    x = jnp.abs(u)
    bell = jnp.exp(-0.5 * x * x)
    below = bell * jnp.polyval(jnp.asarray(P), x) / jnp.polyval(jnp.asarray(Q), x)
    return bell / np.sqrt(2 * np.pi), jnp.where(u > 0, 1 - below, below)


@jax.custom_jvp
def quick_log_h(u: Float[Array, "..."]) -> Float[Array, "..."]:
    """`log_h` to a millionth, in a fraction of its time: for searches, which evaluate it for every sample."""
    return _quick_h(u)[0]


@quick_log_h.defjvp
def _quick_log_h_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    value, slope = _quick_h(*primals)
    return value, slope * tangents[0]


def _quick_h(u: Float[Array, "..."]) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
    """log h and its slope Phi / h; ten steps of the tail's continued fraction, which are one kernel."""
    far, near, tail = _sides(u)
    x = -tail
    ratio = 1 / x
    for k in range(10, 1, -1):
        ratio = 1 / (x + k * ratio)
    density, share = density_and_share(near)
    body = density + near * share
    value = jnp.where(far, log_density(tail) + jnp.log(ratio / (x + ratio)), jnp.log(body))
    return value, jnp.where(far, 1 / ratio, share / body)


def _tail_ratios(x: Float[Array, "..."]) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
    """Phi(-x) / phi(x) and h(-x) / Phi(-x) for x >= 4, by the continued fraction r_k = 1 / (x + (k + 1) r_{k+1}).

    The repeated integrals I_k of the normal tail obey I_{k-2} = x I_{k-1} + k I_k, and r_k = I_k / I_{k-1}, so nothing
    is subtracted; thirty steps are enough from x = 4 on.
    """
    ratio = jax.lax.fori_loop(0, 29, lambda k, ratio: 1 / (x + (30 - k) * ratio), 1 / x)
    return 1 / (x + ratio), ratio


@jax.custom_jvp
def log_ndtr(u: Float[Array, "..."]) -> Float[Array, "..."]:
    """log Phi(u)."""
    far, near, tail = _sides(u)
    return jnp.where(far, jnp.log(_tail_ratios(-tail)[0]) + log_density(tail), jnp.log(ndtr(near)))


@log_ndtr.defjvp
def _log_ndtr_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    """The slope is phi / Phi."""
    far, near, tail = _sides(primals[0])
    body = jnp.exp(log_density(near)) / ndtr(near)
    return log_ndtr(*primals), jnp.where(far, 1 / _tail_ratios(-tail)[0], body) * tangents[0]


@jax.custom_jvp
def log_h(u: Float[Array, "..."]) -> Float[Array, "..."]:
    """log(phi(u) + u Phi(u)) [A23], with h(-x) = phi(x) r_0 r_1 in the tail."""
    far, near, tail = _sides(u)
    first, second = _tail_ratios(-tail)
    body = jnp.log(jnp.exp(log_density(near)) + near * ndtr(near))
    return jnp.where(far, jnp.log(first) + jnp.log(second) + log_density(tail), body)


@log_h.defjvp
def _log_h_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    """The slope is Phi / h."""
    far, near, tail = _sides(primals[0])
    body = ndtr(near) / (jnp.exp(log_density(near)) + near * ndtr(near))
    return log_h(*primals), jnp.where(far, 1 / _tail_ratios(-tail)[1], body) * tangents[0]


def _sides(u: Float[Array, "..."]) -> tuple[Bool[Array, "..."], Float[Array, "..."], Float[Array, "..."]]:
    """Whether u is in the tail, and u for each branch, with a harmless value where the other one is taken."""
    far = u < -4
    return far, jnp.where(far, 0.0, u), jnp.where(far, u, -4.0)


def log_density(u: Float[Array, "..."]) -> Float[Array, "..."]:
    return -0.5 * u * u - 0.5 * np.log(2 * np.pi)
