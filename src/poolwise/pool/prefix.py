"""Points that are already in the pool, pending or picked: what they tell about one more, sample by sample."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from poolwise.acquisition.integrand import MaxType
from poolwise.belief.factor import inverse_factor
from poolwise.belief.normal import outcomes
from poolwise.pool.field import JITTER, Field, Rows, hold
from poolwise.pytree import pytree


@pytree
class Prefix:
    """The first points of a pool, in arrays of fixed capacity; free slots are rows of zeros.

    `root` is the inverse of the Cholesky factor of their posterior covariance (identity for free slots), `normals` the
    base samples of each slot, `best` the best score among them in each sample.
    """

    rows: Rows
    root: Float[Array, "c c"]
    taken: Float[Array, " c"]
    normals: Float[Array, "m c"]
    best: Float[Array, " m"]


def nobody(field: Field, normals: Float[Array, "m c"]) -> Prefix:
    """A prefix without points, with a slot for each column of base samples."""
    (n, d), (m, c), dtype = field.data.shape, normals.shape, field.data.dtype
    none = jnp.zeros((c, n), dtype)
    rows = Rows(jnp.zeros((c, d), dtype), jnp.zeros(c, dtype), none, none)
    return Prefix(rows, jnp.eye(c, dtype=dtype), jnp.zeros(c, dtype), normals, jnp.full(m, -jnp.inf, dtype))


def factor_rows(prefix: Prefix, field: Field, rows: Rows) -> tuple[Float[Array, "p c"], Float[Array, " p"]]:
    """For each of p points, its row of the pool's Cholesky factor: the prefix's columns, and its own pivot.

    The incremental form of [W18]: only this row depends on the point, so a candidate costs a row and not a factor.
    """
    half = jnp.sum(rows.k * rows.w, axis=1)
    left = left_rows(prefix, field, rows)
    variance = field.variance * (1 + JITTER) - (2 * half - hold(half)) - jnp.sum(left * left, axis=1)
    return left, jnp.sqrt(jnp.maximum(variance, JITTER * field.variance))


def left_rows(prefix: Prefix, field: Field, rows: Rows) -> Float[Array, "p c"]:
    """The part of each point's row of the Cholesky factor that lies in the prefix's columns."""
    cross = field.covariances(rows.scaled, prefix.rows.scaled) - rows.k @ prefix.rows.w.T
    taken = prefix.taken[None, :]
    return ((cross * taken) @ prefix.root.T) * taken


def scores(prefix: Prefix, field: Field, rows: Rows, integrand: MaxType, slot: Int[Array, ""]) -> Float[Array, "p m"]:
    """Scores of p points, each as the pool's next, in each sample."""
    left, pivot = factor_rows(prefix, field, rows)
    own = jnp.take(prefix.normals, slot, axis=1)
    y = rows.mean[:, None] + left @ prefix.normals.T + pivot[:, None] * own[None, :]
    return integrand.score(y, rows.mean[:, None])


def extended(prefix: Prefix, field: Field, rows: Rows, integrand: MaxType, slot: Int[Array, ""]) -> Prefix:
    """The prefix with one more point in a slot."""
    left, pivot = factor_rows(prefix, field, rows)
    here = jnp.arange(prefix.taken.shape[0]) == slot
    # [L 0; l p]^-1 has the last row [-l L^-1 / p, 1 / p]
    last = jnp.where(here, 1.0, -(left[0] @ prefix.root)) / pivot[0]
    best = jnp.maximum(prefix.best, scores(prefix, field, rows, integrand, slot)[0])
    held = Rows(*(at.at[slot].set(new[0]) for at, new in zip(_fields(prefix.rows), _fields(rows), strict=True)))
    taken = jnp.where(here, 1.0, prefix.taken)
    return Prefix(held, prefix.root.at[slot].set(last), taken, prefix.normals, best)


def first_samples(prefix: Prefix, count: int) -> Prefix:
    """The same points with the first base samples alone: enough to rank candidates."""
    return Prefix(prefix.rows, prefix.root, prefix.taken, prefix.normals[:count], prefix.best[:count])


def redrawn(prefix: Prefix, integrand: MaxType, normals: Float[Array, "m c"]) -> Prefix:
    """The same points with other base samples."""
    y = outcomes(prefix.rows.mean, inverse_factor(prefix.root), normals)
    each = jnp.where(prefix.taken[None, :] > 0, integrand.score(y, prefix.rows.mean[None, :]), -jnp.inf)
    best = jnp.max(each, axis=1, initial=-jnp.inf)
    return Prefix(prefix.rows, prefix.root, prefix.taken, normals, best)


def _fields(rows: Rows) -> tuple[Array, ...]:
    return rows.scaled, rows.mean, rows.k, rows.w
