"""Kernels: their values, their slopes, and both where points coincide."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.reference import gaussian_process as reference

import poolwise as pw

KERNELS = [pw.Matern12, pw.Matern32, pw.Matern52, pw.SquaredExponential]
every = pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.__name__)


@every
@pytest.mark.parametrize("lengthscale", [0.6, [0.3, 0.9]], ids=["one", "each"])
def test_value_equals_the_formula(kernel, lengthscale):
    """One lengthscale or one for each dimension, times amplitude squared."""
    rng = np.random.default_rng(0)
    A, B = rng.random((4, 2)), rng.random((3, 2))
    k = kernel(lengthscale, amplitude=1.7)

    np.testing.assert_allclose(reference.covariance(k, A, B), k(A, B), rtol=1e-13)


@every
def test_symmetric_positive_definite_and_amplitude_squared_on_the_diagonal(kernel):
    """What makes it a covariance."""
    X = np.random.default_rng(1).random((12, 2))
    K = kernel(0.4, amplitude=1.5)(X, X)

    np.testing.assert_allclose(K.T, K, atol=1e-15)
    np.testing.assert_allclose(np.full(12, 2.25), np.diagonal(K), rtol=1e-15)
    assert np.linalg.eigvalsh(K)[0] > 0


@every
def test_slope_is_the_derivative_of_the_profile(kernel):
    """The hand-written dg/ds, and what autodiff makes of the profile, against central differences."""
    s = np.array([0.02, 0.3, 1.7, 9.0])
    with jax.enable_x64(True):
        difference = (kernel.profile(jnp.asarray(s + 1e-6)) - kernel.profile(jnp.asarray(s - 1e-6))) / 2e-6
        slopes = kernel.slope(jnp.asarray(s))
        automatic = jax.vmap(jax.grad(kernel.profile))(jnp.asarray(s))

    np.testing.assert_allclose(difference, slopes, atol=1e-8)
    np.testing.assert_array_equal(slopes, automatic)


@every
def test_gradient_at_distance_zero_is_zero(kernel):
    """By symmetry: central differences across coincident points agree, Matern-1/2 with its kink included."""
    with jax.enable_x64(True):
        k = kernel(0.5)
        at = jnp.array([[0.3, 0.4]])
        gradient = jax.grad(lambda a: k(a, at)[0, 0])(at)

    np.testing.assert_array_equal(np.zeros((1, 2)), gradient)


@every
def test_gradient_in_lengthscale_and_amplitude(kernel):
    """Kernels are differentiable in their parameters."""
    X = np.array([[0.1, 0.2], [0.7, 0.4], [0.1, 0.2]])

    def total(theta):
        return kernel(theta[:2], theta[2])(X, X).sum()

    theta = np.array([0.4, 0.8, 1.3])
    with jax.enable_x64(True):
        gradient = jax.grad(total)(jnp.asarray(theta))

    np.testing.assert_allclose(reference.slope(total, theta), gradient, atol=1e-8)
