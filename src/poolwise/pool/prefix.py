"""Points that are already in the pool, pending or picked: what they tell about one more, sample by sample."""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from poolwise.acquisition.integrand import MaxType, averaged
from poolwise.belief.factor import inverse_factor
from poolwise.belief.normal import outcomes
from poolwise.pool.field import JITTER, Field, Rows, hold
from poolwise.pytree import pytree, static
from poolwise.slices import slice_of, with_slice


@pytree
class Prefix:
    """The first points of a pool, in arrays of fixed capacity; free slots are rows of zeros.

    `root` is the inverse of the Cholesky factor of their posterior covariance (identity for free slots), `normals` the
    base samples of each slot, `best` the best score among them in each sample. Points in the first `baseline` slots
    have no score: outcomes are counted from the best of theirs in the same sample, the `floor`.
    """

    rows: Rows
    root: Float[Array, "c c"]
    taken: Float[Array, " c"]
    normals: Float[Array, "m c"]
    best: Float[Array, " m"]
    floor: Float[Array, " m"] | None = None
    baseline: int = static(default=0)


def nobody(field: Field, normals: Float[Array, "m c"], baseline: int = 0) -> Prefix:
    """A prefix without points, with a slot for each column of base samples, the first of them for a baseline."""
    d, (m, c), dtype = field.data.shape[1], normals.shape, field.data.dtype
    none = jnp.zeros((c, field.inverse.shape[0]), dtype)
    rows = Rows(jnp.zeros((c, d), dtype), jnp.zeros(c, dtype), none, none)
    nothing = jnp.full(m, -jnp.inf, dtype)
    floor = nothing if baseline else None
    return Prefix(rows, jnp.eye(c, dtype=dtype), jnp.zeros(c, dtype), normals, nothing, floor, baseline)


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


def with_one(
    prefix: Prefix, field: Field, rows: Rows, integrand: MaxType, own: Float[Array, " m"]
) -> Float[Array, " p"]:
    """The value of the prefix with each of p points as its next, its own outcome integrated by formula [W18, last].

    Where the integrand has no formula, it is sampled by the base samples `own`.
    """
    left, pivot = factor_rows(prefix, field, rows)
    given, best = rows.mean[:, None] + left @ prefix.normals.T, prefix.best[None, :]
    exact = integrand.integrated(best, above(prefix, given), pivot[:, None], rows.mean[:, None])
    if exact is not None:
        return averaged(integrand, exact)
    y = given + pivot[:, None] * own[None, :]
    score = integrand.score(above(prefix, y), rows.mean[:, None])
    return averaged(integrand, integrand.value(jnp.where(score < best, best, score)))


def above(prefix: Prefix, y: Float[Array, "*r m"]) -> Float[Array, "*r m"]:
    """Outcomes counted from the floor of their sample, where there is one."""
    return y if prefix.floor is None else y - prefix.floor.reshape(*(1,) * (y.ndim - 1), -1)


def extended(prefix: Prefix, field: Field, rows: Rows, integrand: MaxType, slot: int | Int[Array, ""]) -> Prefix:
    """The prefix with one more point in a slot."""
    left, pivot = factor_rows(prefix, field, rows)
    here = jnp.arange(prefix.taken.shape[0]) == slot
    # [L 0; l p]^-1 has the last row [-l L^-1 / p, 1 / p]
    last = jnp.where(here, 1.0, -(left[0] @ prefix.root)) / pivot[0]
    y = rows.mean + prefix.normals @ left[0] + pivot * slice_of(prefix.normals, slot, axis=1)
    best, floor = prefix.best, prefix.floor
    if floor is None:
        best = jnp.maximum(best, integrand.score(y, rows.mean))
    else:
        low = slot < prefix.baseline
        best = jnp.where(low, best, jnp.maximum(best, integrand.score(y - floor, rows.mean)))
        floor = jnp.where(low, jnp.maximum(floor, y), floor)
    held = Rows(*(with_slice(at, new[0], slot) for at, new in zip(_fields(prefix.rows), _fields(rows), strict=True)))
    taken = jnp.where(here, 1.0, prefix.taken)
    return Prefix(held, with_slice(prefix.root, last, slot), taken, prefix.normals, best, floor, prefix.baseline)


def first_samples(prefix: Prefix, count: int) -> Prefix:
    """The same points with the first base samples alone: enough to rank candidates."""
    floor = None if prefix.floor is None else prefix.floor[:count]
    return dataclasses.replace(prefix, normals=prefix.normals[:count], best=prefix.best[:count], floor=floor)


def redrawn(prefix: Prefix, integrand: MaxType, normals: Float[Array, "m c"]) -> Prefix:
    """The same points with other base samples."""
    y = outcomes(prefix.rows.mean, inverse_factor(prefix.root), normals)
    y = jnp.where(prefix.taken[None, :] > 0, y, -jnp.inf)
    floor = None if prefix.floor is None else jnp.max(y[:, : prefix.baseline], axis=1)
    scored, mean = y[:, prefix.baseline :], prefix.rows.mean[None, prefix.baseline :]
    if floor is not None:
        scored = scored - floor[:, None]
    each = jnp.where(prefix.taken[None, prefix.baseline :] > 0, integrand.score(scored, mean), -jnp.inf)
    best = jnp.max(each, axis=1, initial=-jnp.inf)
    return dataclasses.replace(prefix, normals=normals, best=best, floor=floor)


def _fields(rows: Rows) -> tuple[Array, ...]:
    return rows.scaled, rows.mean, rows.k, rows.w
