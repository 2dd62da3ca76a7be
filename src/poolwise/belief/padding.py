"""Rows come in few sizes, so that a growing study meets few shapes and compiles few programs.

A padded row is exact, not approximate: its variance is the mean of the live ones, its outcome and its covariance with
every other point are zero, so that factor, evidence and predictions of the live rows do not see it.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from poolwise.precision import AnyArray, concrete

SMALLEST = 64


def bucket(rows: int) -> int:
    """The number of rows that `rows` observations are padded to: 64, 128, 256, 384, 512, 768, 1024, ...

    Past 256 the middle between two powers of two is a bucket as well: there a factorisation costs more than a program.
    """
    size = SMALLEST
    while size < rows:
        size *= 2
    middle = 3 * size // 4
    return middle if size > 256 and rows <= middle else size


def padded(array: Float[Array | np.ndarray, "n ..."], rows: int) -> Float[AnyArray, "p ..."]:
    """The array with rows of zeros appended; known numbers on the host, where a new length compiles nothing."""
    here: Any = np if concrete(array) else jnp
    return here.concatenate([array, here.zeros((rows - array.shape[0], *array.shape[1:]), dtype=array.dtype)])


def masked(covariance: Float[Array, "p p"], live: Bool[AnyArray, " p"]) -> Float[Array, "p p"]:
    """Dead points vary with nothing, and as much as the live ones do: what a factor takes for small stays the same."""
    variances = jnp.where(live, jnp.abs(jnp.diagonal(covariance)), 0.0)
    mean = jax.lax.stop_gradient(jnp.sum(variances) / jnp.maximum(jnp.sum(live), 1))
    alone = jnp.where(mean > 0, mean, 1.0) * jnp.eye(covariance.shape[0], dtype=covariance.dtype)
    return jnp.where(live[:, None] & live[None, :], covariance, alone)
