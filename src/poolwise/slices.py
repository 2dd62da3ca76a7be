"""A row or column of an array by a number that a program computes, as plain slices.

JAX's own indexing counts negative numbers from the end and looks after those that are out of bounds; each of that is
code to compile, and writing by an index is a loop. Numbers here must be within bounds.
"""

from __future__ import annotations

import jax
from jaxtyping import Array, Int


def slice_of(array: Array, index: int | Int[Array, ""], *, axis: int = 0) -> Array:
    """The row of that number, or the column."""
    return jax.lax.dynamic_index_in_dim(array, index, axis, keepdims=False)


def with_slice(array: Array, new: Array, index: int | Int[Array, ""]) -> Array:
    """The array with another row in that place."""
    return jax.lax.dynamic_update_index_in_dim(array, new, index, 0)
