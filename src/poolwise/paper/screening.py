"""Random search over very many pools, as a stream of large matrix products in 32 bit.

The expensive part is K^-1 for every point of every pool; a chunk of pools is one product with the inverse factor. The
outcomes of all samples are then never stored: with pools along the last axis, one fused loop makes them, takes their
maximum and adds up its value. The best pools are scored again in 64 bit by whoever asks.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from poolwise.acquisition.integrand import MaxType
from poolwise.belief.gaussian_process import Posterior
from poolwise.pool.field import Field, field_of

CHUNK = 64  # pools at a time: their outcomes stay in the cache
WIDE = 2**10  # pools of each task at a time on an accelerator
SMALLEST = 1e-6  # squared pivot, relative to the kernel's variance


def best_pools(
    posterior: Posterior,
    integrand: MaxType,
    normals: Float[np.ndarray, "m q"],
    pools: Float[np.ndarray, "r q d"],
    *,
    keep: int,
) -> Float[np.ndarray, "k q d"]:
    """The best few of many pools by their value on the given base samples, computed in 32 bit."""
    with jax.enable_x64(True):
        belief, worth, root = jax.tree.map(_single, (field_of(posterior), integrand, posterior.root))
        order = _order(belief, worth, root, _single(normals), _single(pools), keep, CHUNK)
    return np.asarray(pools)[np.asarray(order)]


def best_pools_of_all(
    posteriors: Any,
    integrands: Any,
    normals: Float[np.ndarray, "t m q"],
    pools: Float[np.ndarray, "t r q d"],
    *,
    keep: int,
) -> Float[np.ndarray, "t k q d"]:
    """The same for many tasks at once: beliefs, integrands, samples and pools have a first axis of tasks."""
    chunk = min(pools.shape[1], CHUNK if jax.default_backend() == "cpu" else WIDE)
    with jax.enable_x64(True), jax.default_matmul_precision("highest"):  # all digits of 32 bit, on a GPU too
        orders = np.asarray(_orders(posteriors, integrands, normals, pools, keep, chunk))
    return np.take_along_axis(pools, orders[:, :, None, None], axis=1)


def _single(array: Any) -> Float[Array, "..."]:
    return jnp.asarray(array, jnp.float32)


@functools.partial(jax.jit, static_argnames=("keep", "chunk"))
def _orders(  # noqa: PLR0913
    posteriors: Any,
    integrands: Any,
    z: Float[Array, "t m q"],
    pools: Float[Array, "t r q d"],
    keep: int,
    chunk: int,
) -> Int[Array, "t k"]:
    def one(
        posterior: Posterior, integrand: MaxType, z: Float[Array, "m q"], pools: Float[Array, "r q d"]
    ) -> Int[Array, " k"]:
        belief, worth, root = jax.tree.map(_single, (field_of(posterior), integrand, posterior.root))
        return _order(belief, worth, root, _single(z), _single(pools), keep, chunk)

    return jax.vmap(one)(posteriors, integrands, z, pools)


@functools.partial(jax.jit, static_argnames=("keep", "chunk"))
def _order(  # noqa: PLR0913
    field: Field,
    integrand: MaxType,
    root: Float[Array, "n n"],
    z: Float[Array, "m q"],
    pools: Float[Array, "r q d"],
    keep: int,
    chunk: int,
) -> Int[Array, " k"]:
    chunks = pools.reshape(-1, chunk, *pools.shape[1:])
    values = jax.lax.map(functools.partial(_values, field, integrand, root, z), chunks).ravel()
    return jax.lax.top_k(jnp.where(jnp.isnan(values), -jnp.inf, values), keep)[1]


def _values(
    field: Field, integrand: MaxType, root: Float[Array, "n n"], z: Float[Array, "m q"], pools: Float[Array, "c q d"]
) -> Float[Array, " c"]:
    """Values of a chunk of pools; `rows[i]` holds the i-th row of every pool's factor, samples down, pools across."""
    mean, covariance = _beliefs(field, root, pools)
    factor = _factor(covariance, SMALLEST * field.variance)
    best = None
    for i, row in enumerate(factor):
        y = mean[i][None, :] + sum(z[:, j, None] * entry[None, :] for j, entry in enumerate(row))
        score = integrand.score(y, mean[i][None, :])
        best = score if best is None else jnp.maximum(best, score)
    return jnp.mean(integrand.value(best), axis=0)  # type: ignore[arg-type]


def _beliefs(
    field: Field, root: Float[Array, "n n"], pools: Float[Array, "c q d"]
) -> tuple[Float[Array, "q c"], Float[Array, "q q c"]]:
    c, q, d = pools.shape
    scaled = field.scaled(pools)
    k = field.covariances(scaled.reshape(c * q, d), field.data) * field.live[None, :]
    white = (k @ root.T).reshape(c, q, -1)
    s = jnp.sum((scaled[:, :, None, :] - scaled[:, None, :, :]) ** 2, axis=-1)
    covariance = field.variance * field.kernel.profile(s) - jnp.einsum("cin,cjn->cij", white, white)
    return (field.before(pools.reshape(c * q, d)) + k @ field.weights).reshape(c, q).T, jnp.moveaxis(covariance, 0, 2)


def _factor(covariance: Float[Array, "q q c"], smallest: Float[Array, ""]) -> list[list[Float[Array, " c"]]]:
    """Rows of the lower Cholesky factor, each entry a vector over pools."""
    rows: list[list[Float[Array, " c"]]] = []
    for i in range(covariance.shape[0]):
        row: list[Float[Array, " c"]] = []
        for j in range(i + 1):
            rest = covariance[i, j] - sum((row[k] * (rows[j] if j < i else row)[k] for k in range(j)), start=0.0)
            row.append(rest / rows[j][j] if j < i else jnp.sqrt(jnp.maximum(rest, smallest)))
        rows.append(row)
    return rows
