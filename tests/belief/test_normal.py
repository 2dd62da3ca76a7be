"""The map from base samples to outcomes, and conditioning inside a joint Gaussian."""

import jax
import jax.numpy as jnp
import numpy as np

import poolwise as pw
from poolwise.belief.normal import observing

MEAN, COVARIANCE = np.array([0.5, 0.2, -0.3]), np.array([[1, 0.6, 0.2], [0.6, 1.2, -0.3], [0.2, -0.3, 0.9]])


def test_outcomes_are_mean_plus_factor_times_normals():
    """y = mean + L z, in 64 bit although JAX is in its 32-bit default."""
    z = np.random.default_rng(0).standard_normal((5, 3))
    y = pw.Normal(MEAN, COVARIANCE).outcomes(z)

    np.testing.assert_allclose(MEAN + z @ np.linalg.cholesky(COVARIANCE).T, y, atol=1e-14)
    assert np.float64 == y.dtype


def test_appending_a_point_leaves_the_other_samples_alone():
    """Leading outcomes use leading base samples only."""
    z = np.random.default_rng(0).standard_normal((5, 3))
    whole = pw.Normal(MEAN, COVARIANCE).outcomes(z)
    part = pw.Normal(MEAN[:2], COVARIANCE[:2, :2]).outcomes(z[:, :2])

    np.testing.assert_allclose(part, whole[:, :2], atol=1e-15)


def test_derivative_of_the_map_matches_central_differences():
    """jvp of rho(z; mean, covariance) in both arguments, through the Cholesky factor."""
    z = np.random.default_rng(0).standard_normal((4, 3))
    dm, dS = np.array([0.3, -1.0, 0.4]), np.array([[0.2, 0.1, -0.3], [0.1, 0.5, 0.2], [-0.3, 0.2, -0.1]])

    def rho(t):
        return pw.Normal(MEAN + t * dm, COVARIANCE + t * dS).outcomes(z)

    with jax.enable_x64(True):
        _, tangent = jax.jvp(rho, (0.0,), (1.0,))

    np.testing.assert_allclose((rho(1e-6) - rho(-1e-6)) / 2e-6, tangent, atol=1e-8)


def test_observing_is_conditioning_in_a_joint_gaussian():
    """The update equals the textbook conditional of the first outcomes given noisy others."""
    noise, seen = 0.3, np.array([0.7, -0.4])
    K, C = COVARIANCE[1:, 1:] + noise * np.eye(2), COVARIANCE[:1, 1:]
    with jax.enable_x64(True):
        now, update = observing(pw.Normal(MEAN, COVARIANCE), 1, noise)
        after = update.belief(jnp.asarray(seen))

    np.testing.assert_allclose(MEAN[:1], now.mean)
    np.testing.assert_allclose(K, update.seen.covariance, atol=1e-15)
    np.testing.assert_allclose(MEAN[:1] + C @ np.linalg.solve(K, seen - MEAN[1:]), after.mean, atol=1e-14)
    np.testing.assert_allclose(COVARIANCE[:1, :1] - C @ np.linalg.solve(K, C.T), after.covariance, atol=1e-14)


def test_a_normal_is_carried_by_jax():
    """A pytree with two leaves, whose fields cannot be reassigned."""
    normal = pw.Normal(MEAN, COVARIANCE)
    doubled = jax.tree.map(lambda leaf: 2 * leaf, normal)

    assert 2 == len(jax.tree.leaves(normal))
    np.testing.assert_array_equal(2 * MEAN, doubled.mean)
