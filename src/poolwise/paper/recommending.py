"""The point that one would recommend: where the posterior mean is highest."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

import poolwise as pw
from poolwise.paper.crowd import Together
from poolwise.pool.field import Field, field_of
from poolwise.pool.starts import spread
from poolwise.pytree import pytree

SPREAD = 2**12
STARTS = 16  # of the evenly spread points, and as many of the observed ones


@pytree
class Mean:
    """The posterior mean as an objective."""

    field: Field

    def __call__(self, points: Float[Array, "p d"]) -> Float[Array, " p"]:
        k = self.field.covariances(self.field.scaled(points), self.field.data) * self.field.live[None, :]
        return self.field.before(points) + k @ self.field.weights


def recommended(posterior: pw.Posterior) -> Float[np.ndarray, " d"]:
    """The maximum of the posterior mean, climbed from the best of many points and of the observed ones."""
    with jax.enable_x64(True):
        mean = Mean(field_of(posterior))
        starts = _starts(mean, jnp.asarray(spread(SPREAD, posterior.dimension, 0)), posterior.data.X)
    return pw.Lbfgsb(rounds=100, gtol=1e-6)(mean, np.asarray(starts)).best


def recommended_to_all(posteriors: Any) -> Float[np.ndarray, "t d"]:
    """The same for many tasks at once, whose posteriors have a first axis of tasks."""
    t, _, d = posteriors.data.X.shape
    with jax.enable_x64(True):
        means, starts = _all_starts(posteriors, spread(SPREAD, d, 0))
    climb = pw.Lbfgsb(rounds=100, gtol=1e-6)(Together(means, t), np.asarray(starts).reshape(-1, d))
    best = climb.values.reshape(t, -1).argmax(axis=1)
    return climb.points.reshape(t, -1, d)[np.arange(t), best]


@jax.jit
def _all_starts(posteriors: Any, even: Float[Array, "c d"]) -> tuple[Any, Float[Array, "t s d"]]:
    def one(posterior: pw.Posterior) -> tuple[Mean, Float[Array, "s d"]]:
        mean = Mean(field_of(posterior))
        return mean, _starts(mean, even, posterior.data.X)

    return jax.vmap(one)(posteriors)


@jax.jit
def _starts(mean: Mean, even: Float[Array, "c d"], data: Float[Array, "n d"]) -> Float[Array, "s d"]:
    seen = jnp.where(mean.field.live > 0, mean(data), -jnp.inf)
    _, first = jax.lax.top_k(mean(even), STARTS)
    _, second = jax.lax.top_k(seen, STARTS)
    return jnp.concatenate([even[first], data[second]])
