"""Factors of covariances: the jitter ladder, its derivative, and the inverse factor."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from poolwise.belief.factor import JITTER_LADDER, cholesky, inverse_by, inverse_cholesky, inverse_root


def covariance(n, seed=0):
    A = np.random.default_rng(seed).standard_normal((n, n + 2))
    return A @ A.T / n + 0.1 * np.eye(n)


@pytest.mark.parametrize("n", [1, 2, 5, 64])
def test_a_well_conditioned_covariance_is_factorised_as_it_is(n):
    """The first rung adds nothing."""
    sigma = covariance(n)
    with jax.enable_x64(True):
        factor = cholesky(jnp.asarray(sigma))

    np.testing.assert_allclose(np.linalg.cholesky(sigma), factor, atol=1e-12)


@pytest.mark.parametrize("n", [3, 100, 192])
def test_inverse_factor_by_halves(n):
    """The recursive inverse factor equals LAPACK's, also where halves are uneven."""
    sigma = covariance(n)
    expected = np.linalg.inv(np.linalg.cholesky(sigma))
    with jax.enable_x64(True):
        np.testing.assert_allclose(expected, inverse_root(jnp.asarray(sigma)), atol=1e-9)
        np.testing.assert_allclose(expected, inverse_cholesky(jnp.asarray(sigma)), atol=1e-9)


@pytest.mark.parametrize("n", [1, 64, 65, 200, 256])
def test_inverse_by_halves(n):
    W = np.tril(np.random.default_rng(n).normal(size=(n, n)))

    with jax.enable_x64(True):
        inverse = np.asarray(inverse_by(jnp.asarray(W)))

    np.testing.assert_allclose(W.T @ W, inverse, atol=1e-12 * n)


@pytest.mark.parametrize("q", [1, 2, 3, 8])
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_rank_loss_costs_one_small_rung(q, scale):
    """q coincident outcomes: the factor reproduces the covariance up to the first jitter of the ladder."""
    with jax.enable_x64(True):
        factor = np.asarray(cholesky(jnp.full((q, q), scale)))

    error = np.abs(factor @ factor.T - scale).max()
    assert error <= 1.01 * JITTER_LADDER[1] * scale


def test_zero_covariance_has_a_factor():
    """A pool whose outcomes are all known."""
    with jax.enable_x64(True):
        factor = cholesky(jnp.zeros((3, 3)))

    assert np.isfinite(factor).all()
    assert np.abs(factor).max() < 1e-10


def test_failure_is_a_value():
    """What is no covariance gives NaN and no exception."""
    with jax.enable_x64(True):
        assert np.isnan(cholesky(jnp.array([[1.0, 500.0], [500.0, 1.0]]))).any()


@pytest.mark.parametrize(
    "factorise, exact",
    [(cholesky, np.linalg.cholesky), (inverse_cholesky, lambda c: np.linalg.inv(np.linalg.cholesky(c)))],
    ids=["factor", "inverse"],
)
def test_derivative_matches_central_differences(factorise, exact):
    """The derivative of the factor, and of its inverse, in a symmetric direction."""
    sigma, direction = covariance(4), covariance(4, seed=1) - np.eye(4)
    with jax.enable_x64(True):
        _, tangent = jax.jvp(factorise, (jnp.asarray(sigma),), (jnp.asarray(direction),))
    difference = exact(sigma + 1e-6 * direction) - exact(sigma - 1e-6 * direction)

    np.testing.assert_allclose(difference / 2e-6, tangent, atol=1e-8)


@pytest.mark.parametrize("q", [2, 3, 8])
def test_gradient_is_finite_at_rank_loss(q):
    """Coincident points: forward and reverse derivatives are numbers."""
    with jax.enable_x64(True):
        ones = jnp.ones((q, q))
        reverse = jax.grad(lambda c: jnp.sum(cholesky(c)))(ones)
        _, forward = jax.jvp(cholesky, (ones,), (jnp.eye(q),))

    assert np.isfinite(reverse).all()
    assert np.isfinite(forward).all()


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_pure_rounding_has_a_factor(sign):
    """Coincident noise-free outcomes leave a matrix of rounding errors, maybe negative: the ladder reaches it."""
    with jax.enable_x64(True):
        factor = np.asarray(cholesky(jnp.full((8, 8), sign * 2e-16)))

    assert np.isfinite(factor).all()
    assert np.abs(factor).max() < 1e-6


def test_a_known_outcome_stays_known_beside_others():
    """Jitter is in proportion to its own variance, and the others' digits stay; slopes are finite."""
    sigma = np.diag([0.0, 1.0, 0.25])
    with jax.enable_x64(True):
        factor = np.asarray(cholesky(jnp.asarray(sigma)))
        slope = jax.grad(lambda S: jnp.sum(cholesky(S)))(jnp.asarray(sigma))

    assert factor[0, 0] < 1e-7
    np.testing.assert_allclose([1.0, 0.5], np.diagonal(factor)[1:], rtol=1e-7)
    assert np.isfinite(slope).all()
