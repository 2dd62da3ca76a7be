"""Sample paths: whole functions with the belief's mean and covariance, differentiable, repeatable."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.reference import gaussian_process as reference

import poolwise as pw

COUNT, FEATURES = 2000, 4096
POINTS = np.array([[0.05, 0.3], [0.3, 0.8], [0.7, 0.5], [0.95, 0.1]])


def moment_error(variances):
    """Four standard errors of a sample covariance, and four of the random features' kernel."""
    size = np.sqrt(np.outer(variances, variances))
    return 4 * size * np.sqrt(2 / COUNT), 4 * np.sqrt(1 / FEATURES)


every = pytest.mark.parametrize(
    "kernel", [pw.Matern12, pw.Matern32, pw.Matern52, pw.SquaredExponential], ids=lambda k: k.__name__
)


@every
def test_frequencies_are_the_kernels_spectrum(kernel):
    """E cos(w (a - b)) = k(a, b), which tells one Matern from the next: four standard errors of 2^17 frequencies."""
    k = kernel([0.4, 0.8])
    frequencies = np.asarray(pw.sample_paths(pw.GaussianProcess(k), features=2**17).waves.frequencies)
    waves = np.cos(POINTS @ frequencies.T), np.sin(POINTS @ frequencies.T)

    np.testing.assert_allclose(k(POINTS, POINTS), sum(w @ w.T for w in waves) / 2**17, atol=4 * np.sqrt(0.5 / 2**17))


@every
def test_prior_paths_have_the_kernels_covariance(kernel):
    """Frequencies of each kernel's own spectrum; mean and amplitude of the process."""
    process = pw.GaussianProcess(kernel([0.4, 0.8], amplitude=1.5), mean=0.7)
    values = pw.sample_paths(process, COUNT, features=FEATURES, seed=1)(POINTS)
    expected = process(POINTS).covariance
    sampling, features = moment_error(np.diagonal(expected))

    np.testing.assert_allclose(process.mean, values.mean(axis=0), atol=4 * 1.5 / np.sqrt(COUNT))
    assert (np.abs(np.cov(values.T) - expected) < sampling + 1.5**2 * features).all()


def test_posterior_paths_have_the_posteriors_mean_and_covariance(plane):
    """Matheron's update against the exact posterior, within Monte Carlo error."""
    values = pw.sample_paths(plane, COUNT, features=FEATURES, seed=2)(POINTS)
    normal = plane(POINTS)
    variances = np.diagonal(normal.covariance)
    sampling, features = moment_error(variances)

    assert (np.abs(values.mean(axis=0) - normal.mean) < 4 * np.sqrt(variances / COUNT)).all()
    assert (np.abs(np.cov(values.T) - normal.covariance) < sampling + 1.3**2 * features).all()


def test_paths_go_through_noise_free_data():
    """Without noise every path interpolates the observations."""
    X = np.array([[0.1], [0.4], [0.8]])
    posterior = pw.GaussianProcess(pw.Matern52(0.3)).condition(X, [1.0, -0.5, 0.3])
    values = pw.sample_paths(posterior, 5, seed=3)(X)

    np.testing.assert_allclose(np.tile([1.0, -0.5, 0.3], (5, 1)), values, atol=1e-8)


def test_paths_differentiate(plane):
    """The gradient of a path in its input matches central differences."""
    path = pw.sample_paths(plane, 1, seed=4)
    point = np.array([0.3, 0.6])

    def f(x):
        return path(x[None, :])[0, 0]

    with jax.enable_x64(True):
        gradient = jax.grad(f)(jnp.asarray(point))

    np.testing.assert_allclose(reference.slope(f, point), gradient, atol=1e-7)


def test_same_seed_same_paths(plane):
    """Randomness is the seed and nothing else."""
    first, again, other = (pw.sample_paths(plane, 3, seed=seed)(POINTS) for seed in (5, 5, 6))

    np.testing.assert_array_equal(first, again)
    assert np.abs(first - other).min() > 0
