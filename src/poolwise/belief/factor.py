"""Factors of covariances: a Cholesky that survives rank loss, and the inverse factor by matrix products.

Large factorisations are recursive, down to blocks of 64: everything above is matrix products, which XLA runs on its own
threads. LAPACK's threads underneath XLA's fight over the same cores (seen: a hundredfold slowdown on a busy machine);
so LAPACK is called for nothing that it would share out to threads.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

# Relative to the variance. The first rung changes nothing: a well-conditioned covariance is factorised as it is.
# The second is the square root of rounding: less would make the factor's slope at coincident points pure noise.
# The last two are for matrices that are nothing but rounding, such as outcomes that were observed without noise.
JITTER_LADDER = (0.0, 1e-8, 1e-6, 1e-4, 1e-2, 1.0, 100.0)
SMALLEST_PIVOT = 1e-12  # a squared pivot below this share of the variance counts as rank loss
SMALLEST_SHARE = 1e-8  # of the mean variance: no point's own counts as less, for that of a known outcome is rounding
BLOCK = 64
SMALL = 32  # factors up to this size are solved by LAPACK,
ROWS = 16  # with so many right-hand sides at a time: then it does that on one thread


@jax.custom_jvp
def cholesky(covariance: Float[Array, "q q"]) -> Float[Array, "q q"]:
    """The lower factor of a covariance that may have lost rank, finite in value and gradient.

    Each rung of `JITTER_LADDER`, times each point's own variance, is added to the diagonal until every squared pivot
    is at least half of what was added (on the first rung: `SMALLEST_PIVOT`). Coincident points lose rank exactly; there
    the factor's derivative would be infinite, and the jitter bounds it. The choice of the rung is not differentiated.
    Where even the last rung fails the factor is NaN: failure is a value.
    """
    return _up_the_ladder(covariance, inverse=False)


@cholesky.defjvp
def _cholesky_jvp(
    primals: tuple[Float[Array, "q q"]], tangents: tuple[Float[Array, "q q"]]
) -> tuple[Float[Array, "q q"], Float[Array, "q q"]]:
    """dL = L phi(L^-1 dC L^-T), where phi keeps the lower triangle and halves the diagonal (Murray 2016)."""
    factor = cholesky(*primals)
    return factor, factor @ _phi(inverse_factor(factor), tangents[0])


@jax.custom_jvp
def inverse_cholesky(covariance: Float[Array, "n n"]) -> Float[Array, "n n"]:
    """L^-1 of a covariance, with the ladder times the mean variance: many right-hand sides then cost one product."""
    return _up_the_ladder(covariance, inverse=True)


@inverse_cholesky.defjvp
def _inverse_cholesky_jvp(
    primals: tuple[Float[Array, "n n"]], tangents: tuple[Float[Array, "n n"]]
) -> tuple[Float[Array, "n n"], Float[Array, "n n"]]:
    """dW = -W dL W = -phi(W dC W') W, with W = L^-1."""
    root = inverse_cholesky(*primals)
    return root, -_phi(root, tangents[0]) @ root


def _phi(inverse: Float[Array, "n n"], tangent: Float[Array, "n n"]) -> Float[Array, "n n"]:
    """The lower triangle of L^-1 dC L^-T, its diagonal halved."""
    middle = inverse @ tangent @ inverse.T
    return jnp.tril(middle) - 0.5 * jnp.diag(jnp.diagonal(middle))


def inverse_factor(factor: Float[Array, "q q"]) -> Float[Array, "q q"]:
    """L^-1 of a lower factor: by substitution if it is small, else by halves.

    [A 0; B C]^-1 = [A^-1 0; -C^-1 B A^-1, C^-1]
    """
    q = factor.shape[0]
    if q <= SMALL:
        return _substituted(factor)
    half = _half(q, SMALL)
    first, second = inverse_factor(factor[:half, :half]), inverse_factor(factor[half:, half:])
    return _lower(first, -(second @ (factor[half:, :half] @ first)), second)


def _substituted(factor: Float[Array, "s s"]) -> Float[Array, "s s"]:
    """X with X L = I, some rows at a time."""
    s = factor.shape[0]
    parts, width = -(-s // ROWS), min(s, ROWS)
    rows = np.eye(parts * width, s, dtype=factor.dtype).reshape(parts, width, s)
    each = jnp.broadcast_to(factor[None], (parts, s, s))
    return jax.lax.linalg.triangular_solve(each, rows, left_side=False, lower=True).reshape(parts * width, s)[:s]


def _lower(first: Float[Array, "k k"], side: Float[Array, "l k"], last: Float[Array, "l l"]) -> Float[Array, "n n"]:
    """[A 0; B C]"""
    top = jnp.pad(first, ((0, 0), (0, last.shape[0])))
    return jnp.concatenate([top, jnp.concatenate([side, last], axis=1)])


def inverse_root(covariance: Float[Array, "n n"]) -> Float[Array, "n n"]:
    """W = L^-1 with L L' = covariance, by halves; NaN where there is no factor.

    C = [A B'; B D]:        W = [W_A 0; -W_S B W_A' W_A, W_S],        S = D - (B W_A') (B W_A')'
    """
    n = covariance.shape[0]
    if n <= BLOCK:
        # LAPACK reads columns: the transpose, which is the same, saves a copy of this and of all it is made of.
        return inverse_factor(jax.lax.linalg.cholesky(covariance.T, symmetrize_input=False))
    half = _half(n, BLOCK)
    first = inverse_root(covariance[:half, :half])
    side = covariance[half:, :half] @ first.T
    second = inverse_root(covariance[half:, half:] - side @ side.T)
    return _lower(first, -(second @ (side @ first)), second)


def inverse_by(root: Float[Array, "n n"]) -> Float[Array, "n n"]:
    """W'W, the inverse of a covariance whose inverse factor is W: by halves, as the upper corner is zero.

    W = [A 0; B C]:        W'W = [A'A + B'B, B'C; C'B, C'C]
    """
    n = root.shape[0]
    if n <= BLOCK:
        return root.T @ root
    half = _half(n, BLOCK)
    low, last = root[half:, :half], root[half:, half:]
    side = last.T @ low
    top = jnp.concatenate([inverse_by(root[:half, :half]) + low.T @ low, side.T], axis=1)
    return jnp.concatenate([top, jnp.concatenate([side, inverse_by(last)], axis=1)])


def _half(n: int, block: int) -> int:
    """Where to cut a matrix: at the end of a block."""
    return block * (-(-n // block) // 2)


def _up_the_ladder(covariance: Float[Array, "q q"], *, inverse: bool) -> Float[Array, "q q"]:
    """The factor, or its inverse, on the first rung that holds; a factor's rungs are each point's own."""
    own = jnp.abs(jnp.diagonal(covariance))
    scale = jnp.maximum(jnp.mean(own), 1e20 * np.finfo(covariance.dtype).tiny)
    scales = jnp.full_like(own, scale) if inverse else jnp.maximum(own, SMALLEST_SHARE * scale)
    eye = jnp.eye(covariance.shape[0], dtype=covariance.dtype)
    ladder = jnp.array(JITTER_LADDER, dtype=covariance.dtype)
    needed = jnp.maximum(0.5 * ladder, SMALLEST_PIVOT)

    def climb(state: tuple[Array, Array]) -> tuple[Array, Array]:
        rung = state[0] + 1
        lifted = covariance + ladder[rung] * jnp.diag(scales)
        return rung, inverse_root(lifted) if inverse else jax.lax.linalg.cholesky(lifted, symmetrize_input=False)

    def fails(state: tuple[Array, Array]) -> Array:
        rung, factor = state
        pivots = 1 / jnp.diagonal(factor) if inverse else jnp.diagonal(factor)
        held = jnp.all(pivots * pivots >= needed[rung] * scales)  # NaN compares false
        return (rung < len(JITTER_LADDER) - 1) & ~held

    # The first rung is inside the loop too, so that its program is compiled once.
    def going(state: tuple[Array, Array]) -> Array:
        return (state[0] < 0) | fails(state)

    return jax.lax.while_loop(going, climb, (jnp.array(-1), eye))[1]
