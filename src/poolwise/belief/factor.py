"""Factors of covariances: a Cholesky that survives rank loss, and the inverse factor by matrix products.

Large factorisations are recursive, down to blocks of 64: everything above is matrix products, which XLA runs on its own
threads. LAPACK's threads underneath XLA's fight over the same cores (seen: a hundredfold slowdown on a busy machine);
so LAPACK is called for nothing that it would share out to threads.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

# Relative to the mean variance. The first rung changes nothing: a well-conditioned covariance is factorised as it is.
# The second is the square root of rounding: less would make the factor's slope at coincident points pure noise.
# The last two are for matrices that are nothing but rounding, such as outcomes that were observed without noise.
JITTER_LADDER = (0.0, 1e-8, 1e-6, 1e-4, 1e-2, 1.0, 100.0)
SMALLEST_PIVOT = 1e-12  # a squared pivot below this share of the mean variance counts as rank loss
BLOCK = 64
SMALL = 16  # up to this size LAPACK solves on one thread


@jax.custom_jvp
def cholesky(covariance: Float[Array, "q q"]) -> Float[Array, "q q"]:
    """The lower factor of a covariance that may have lost rank, finite in value and gradient.

    Each rung of `JITTER_LADDER`, times the mean absolute variance, is added to the diagonal until every squared pivot
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
    """L^-1 of a covariance, with the same ladder: a thousand right-hand sides then cost one matrix product."""
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
    """L^-1 of a lower factor: by substitution if it is small, else by doubling blocks of the diagonal.

    [A 0; B C]^-1 = [A^-1 0; -C^-1 B A^-1, C^-1]
    """
    q = factor.shape[0]
    if q <= SMALL:
        return _substituted(factor[None])[0]
    size = SMALL << (-(-q // SMALL) - 1).bit_length()
    whole = jnp.eye(size, dtype=factor.dtype).at[:q, :q].set(factor) if size > q else factor
    blocks = _substituted(_diagonal_blocks(whole, SMALL))
    while (half := blocks.shape[1]) < size:
        corners = _diagonal_blocks(whole, 2 * half)[:, half:, :half]
        first, second = blocks[0::2], blocks[1::2]
        top = jnp.concatenate([first, jnp.zeros_like(first)], axis=2)
        blocks = jnp.concatenate([top, jnp.concatenate([-second @ corners @ first, second], axis=2)], axis=1)
    return blocks[0, :q, :q]


def _diagonal_blocks(matrix: Float[Array, "n n"], size: int) -> Float[Array, "b s s"]:
    return jnp.stack([matrix[i : i + size, i : i + size] for i in range(0, matrix.shape[0], size)])


def _substituted(factors: Float[Array, "b s s"]) -> Float[Array, "b s s"]:
    eye = jnp.broadcast_to(jnp.eye(factors.shape[-1], dtype=factors.dtype), factors.shape)
    return jax.lax.linalg.triangular_solve(factors, eye, left_side=True, lower=True)


def inverse_root(covariance: Float[Array, "n n"]) -> Float[Array, "n n"]:
    """W = L^-1 with L L' = covariance, by halves; NaN where there is no factor.

    C = [A B'; B D]:        W = [W_A 0; -W_S B W_A' W_A, W_S],        S = D - (B W_A') (B W_A')'
    """
    n = covariance.shape[0]
    if n <= BLOCK:
        # LAPACK reads columns: the transpose, which is the same, saves a copy of this and of all it is made of.
        return inverse_factor(jnp.linalg.cholesky(covariance.T, symmetrize_input=False))
    half = _half(n)
    first = inverse_root(covariance[:half, :half])
    side = covariance[half:, :half] @ first.T
    second = inverse_root(covariance[half:, half:] - side @ side.T)
    corner = jnp.zeros((half, n - half), dtype=covariance.dtype)
    return jnp.block([[first, corner], [-second @ (side @ first), second]])


def inverse_by(root: Float[Array, "n n"]) -> Float[Array, "n n"]:
    """W'W, the inverse of a covariance whose inverse factor is W: by halves, as the upper corner is zero.

    W = [A 0; B C]:        W'W = [A'A + B'B, B'C; C'B, C'C]
    """
    n = root.shape[0]
    if n <= BLOCK:
        return root.T @ root
    half = _half(n)
    low, last = root[half:, :half], root[half:, half:]
    side = last.T @ low
    return jnp.block([[inverse_by(root[:half, :half]) + low.T @ low, side.T], [side, inverse_by(last)]])


def _half(n: int) -> int:
    """Where to cut a matrix: at the end of a block."""
    return BLOCK * (-(-n // BLOCK) // 2)


def _up_the_ladder(covariance: Float[Array, "q q"], *, inverse: bool) -> Float[Array, "q q"]:
    """The factor, or its inverse, on the first rung that holds."""
    scale = jnp.maximum(jnp.mean(jnp.abs(jnp.diagonal(covariance))), 1e-30)
    eye = jnp.eye(covariance.shape[0], dtype=covariance.dtype)
    ladder = scale * jnp.array(JITTER_LADDER, dtype=covariance.dtype)
    needed = jnp.maximum(0.5 * ladder, SMALLEST_PIVOT * scale)

    def climb(state: tuple[Array, Array]) -> tuple[Array, Array]:
        rung = state[0] + 1
        lifted = covariance + ladder[rung] * eye
        return rung, inverse_root(lifted) if inverse else jnp.linalg.cholesky(lifted, symmetrize_input=False)

    def fails(state: tuple[Array, Array]) -> Array:
        rung, factor = state
        pivots = 1 / jnp.diagonal(factor) if inverse else jnp.diagonal(factor)
        held = jnp.all(pivots * pivots >= needed[rung])  # NaN compares false
        return (rung < len(JITTER_LADDER) - 1) & ~held

    # The first rung is inside the loop too, so that its program is compiled once.
    def going(state: tuple[Array, Array]) -> Array:
        return (state[0] < 0) | fails(state)

    return jax.lax.while_loop(going, climb, (jnp.array(-1), eye))[1]
