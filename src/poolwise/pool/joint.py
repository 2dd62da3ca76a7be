"""The acquisition value of whole pools as functions on the unit cube, for any maximizer to climb.

A pool of q points in d dimensions is one point in q d dimensions.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from poolwise.acquisition.expectation import Base, estimate, look_ahead
from poolwise.acquisition.integrand import MaxType, averaged, unit_of
from poolwise.belief.factor import inverse_factor
from poolwise.belief.gaussian_process import Posterior
from poolwise.pool.field import JITTER, Field, hold
from poolwise.pool.prefix import Prefix, above, first_samples, left_rows, redrawn, with_one
from poolwise.pytree import pytree


@pytree
class MaxObjective:
    """Values of r pools at once for a max-type integrand, beside the points of a prefix."""

    field: Field
    integrand: MaxType
    prefix: Prefix
    normals: Float[Array, "m q"]

    def __call__(self, flat: Float[Array, "r p"]) -> Float[Array, " r"]:
        r, q = flat.shape[0], self.normals.shape[1]
        if q == 1:
            return with_one(self.prefix, self.field, self.field.rows(flat), self.integrand, self.normals[:, 0])
        pools = flat.reshape(r, q, -1)
        rows = self.field.rows(pools.reshape(r * q, -1))
        left = left_rows(self.prefix, self.field, rows)
        half = jnp.einsum("rin,rjn->rij", rows.k.reshape(r, q, -1), rows.w.reshape(r, q, -1))
        explained = half + jnp.swapaxes(half, 1, 2) - hold(half)
        scaled = rows.scaled.reshape(r, q, -1)
        s = jnp.sum((scaled[:, :, None, :] - scaled[:, None, :, :]) ** 2, axis=-1)
        prior = self.field.variance * (self.field.kernel.profile(s) + JITTER * np.eye(q)[None])
        sides = left.reshape(r, q, -1)
        factor = small_cholesky(prior - explained - jnp.einsum("ric,rjc->rij", sides, sides))
        mean = rows.mean.reshape(r, q, 1)
        y = _outcomes(jnp.concatenate([sides, factor], axis=2), mean, jnp.hstack([self.prefix.normals, self.normals]))
        best = self.integrand.pooled(self.integrand.score(above(self.prefix, y), mean))
        before = self.prefix.best[None, :]
        return averaged(self.integrand, self.integrand.value(jnp.where(best < before, before, best)))

    @property
    def dimension(self) -> int:
        """How many coordinates a point has."""
        return self.field.data.shape[1]

    @property
    def unit(self) -> float | Float[Array, ""]:
        """What its values count in."""
        return unit_of(self.integrand, jnp.sqrt(self.field.variance))

    def rough(self, divisor: int) -> MaxObjective:
        """The same on the first part of the base samples."""
        m = self.normals.shape[0] // divisor
        return MaxObjective(self.field, self.integrand, first_samples(self.prefix, m), self.normals[:m])

    def redraw(self, key: Array, samples: int) -> MaxObjective:
        """The same with fresh independent base samples."""
        c, q = self.prefix.taken.shape[0], self.normals.shape[1]
        z = jax.random.normal(key, (samples, c + q), self.normals.dtype)
        return MaxObjective(self.field, self.integrand, redrawn(self.prefix, self.integrand, z[:, :c]), z[:, c:])


@jax.custom_jvp
def _outcomes(factors: Float[Array, "r q c"], mean: Float[Array, "r q 1"], z: Float[Array, "m c"]) -> Array:
    """Outcomes of r pools in all samples, r by q by m; z is a constant.

    The mean is one more column of the factor, so that one product gives the outcomes; in the gradient it would fill
    half a tile of the product in vain, and is a sum. A product reads z fastest by columns, its gradient by rows: so it
    is transposed once, ahead of a loop, and the barrier keeps the compiler from undoing that.
    """
    columns = jax.lax.optimization_barrier(jnp.concatenate([z, jnp.ones_like(z[:, :1])], axis=1).T)  # type: ignore[no-untyped-call]
    return jnp.einsum("ric,cm->rim", jnp.concatenate([factors, mean], axis=2), columns)


@_outcomes.defjvp
def _outcomes_jvp(primals: Any, tangents: Any) -> Any:
    factors, mean, _ = tangents
    return _outcomes(*primals), jnp.einsum("ric,mc->rim", factors, primals[2]) + mean


@jax.custom_jvp
def small_cholesky(matrices: Float[Array, "r q q"]) -> Float[Array, "r q q"]:
    """Lower factors of small matrices, NaN where there is none; the derivative by one inverse factor and products."""
    return jnp.linalg.cholesky(matrices, symmetrize_input=False)


@small_cholesky.defjvp
def _small_cholesky_jvp(primals: Any, tangents: Any) -> Any:
    factor = small_cholesky(*primals)
    inverse = jax.vmap(inverse_factor)(factor)
    middle = jnp.einsum("rij,rjk,rlk->ril", inverse, tangents[0], inverse)
    q = factor.shape[-1]
    halved = np.tril(np.ones((q, q))) - 0.5 * np.eye(q)
    return factor, jnp.einsum("rij,rjk->rik", factor, middle * halved[None])


@pytree
class GeneralObjective:
    """Values of r pools at once for any integrand, with pending points ahead of each pool."""

    posterior: Posterior
    integrand: Any
    pending: Float[Array, "w d"]
    base: Base

    def __call__(self, flat: Float[Array, "r p"]) -> Float[Array, " r"]:
        d = self.dimension

        def one(x: Float[Array, " p"]) -> Float[Array, ""]:
            pool = jnp.concatenate([self.pending, x.reshape(-1, d)])
            return estimate(*look_ahead(self.integrand, self.posterior, pool), self.base).value

        return jax.vmap(one)(flat)

    @property
    def dimension(self) -> int:
        """How many coordinates a point has."""
        return self.pending.shape[1]

    @property
    def unit(self) -> float | Float[Array, ""]:
        """What its values count in."""
        return unit_of(self.integrand, jnp.asarray(self.posterior.process.kernel.amplitude))

    def rough(self, divisor: int) -> GeneralObjective:
        """The same on the first part of the base samples."""
        z = self.base.normals[: self.base.normals.shape[0] // divisor]
        return GeneralObjective(self.posterior, self.integrand, self.pending, Base(z))

    def redraw(self, key: Array, samples: int) -> GeneralObjective:
        """The same with fresh independent base samples."""
        z = jax.random.normal(key, (samples, self.base.normals.shape[1]), self.base.normals.dtype)
        return GeneralObjective(self.posterior, self.integrand, self.pending, Base(z))
