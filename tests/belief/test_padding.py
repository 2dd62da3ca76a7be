"""Padded rows change nothing: evidence, its gradient and the posterior equal those of plain NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import multivariate_normal
from tests.reference import gaussian_process as reference

import poolwise as pw
from poolwise.belief.gaussian_process import padded_data
from poolwise.belief.padding import bucket, padded
from poolwise.evidence import Logs, log_evidence

POOL = np.array([[0.2, 0.9], [0.6, 0.1], [0.5, 0.5]])


def observations(n):
    rng = np.random.default_rng(n)
    X = rng.random((n, 2))
    return X, np.sin(6 * X[:, 0]) + X[:, 1] ** 2 + 0.1 * rng.standard_normal(n)


@pytest.mark.parametrize("n, unit", [*((n, 1.0) for n in range(1, 41)), (20, 1e-8), (20, 1e8), (65, 1e-8), (20, 1e-90)])
def test_posterior_and_evidence_equal_unpadded(n, unit):
    """Every n up to 40, against loops without padding; so in any unit of the outcomes."""
    X, y = observations(n)
    y = unit * y
    process = pw.GaussianProcess(pw.Matern52([0.5, 0.8], amplitude=1.2 * unit), noise=1e-2 * unit**2, mean=0.3 * unit)
    posterior = process.condition(X, y)
    mean, covariance = reference.posterior(process, X, y, POOL)
    normal = posterior(POOL)

    np.testing.assert_allclose(mean, normal.mean, atol=1e-11 * unit)
    np.testing.assert_allclose(covariance, normal.covariance, atol=1e-11 * unit**2)
    np.testing.assert_allclose(reference.log_evidence(process, X, y), posterior.log_evidence, rtol=1e-12, atol=1e-10)
    np.testing.assert_array_equal(X, posterior.X)
    np.testing.assert_array_equal(y, posterior.y)


@jax.jit
def evidence_and_slope(theta, data):
    value, slope = log_evidence(Logs(theta[:2], theta[2], theta[3], theta[4]), data, pw.Matern52, True)
    return value, jnp.concatenate([slope.lengthscale, jnp.stack([slope.amplitude, slope.noise, slope.trend])])


@pytest.mark.parametrize("n", range(1, 41))
def test_learning_sees_no_padding(n):
    """The evidence that `fit` climbs, and its gradient: a bucket of 64 rows equals n rows alone."""
    X, y = observations(n)
    theta = np.log([0.5, 0.8, 1.44, 1e-2, 0.3])
    with jax.enable_x64(True):
        data = padded_data(jnp.asarray(X), jnp.asarray(y), jnp.asarray(0.0))
        value, slope = evidence_and_slope(jnp.asarray(theta), data)

    assert 64 == data.X.shape[0]
    np.testing.assert_allclose(whole(X, y, theta), value, rtol=1e-9)
    difference = reference.slope(lambda t: whole(X, y, t), theta, 1e-4)
    np.testing.assert_allclose(difference, slope, atol=1e-5 * max(1, np.abs(difference).max()))


def whole(X, y, theta):
    """Log evidence of a process whose constant, slopes and curves are unknown, without padding."""
    kernel, u = pw.Matern52(np.exp(theta[:2]), np.exp(theta[2] / 2)), 2 * X - 1
    trend = 1.0 + np.exp(theta[4]) * (u @ u.T + (u**2 - 1 / 3) @ (u**2 - 1 / 3).T)
    K = reference.covariance(kernel, X, X) + trend + np.exp(theta[3]) * np.eye(len(y))

    return multivariate_normal.logpdf(y, cov=K)


def test_few_buckets():
    """A study that grows to 256 rows meets three sizes; no bucket is too small."""
    assert {64, 128, 256} == {bucket(n) for n in range(1, 257)}
    assert [384, 384, 512, 768, 1024] == [bucket(n) for n in (257, 384, 385, 513, 1024)]
    assert all(bucket(n) >= n for n in range(1, 3000))


def test_padding_works_under_a_transformation():
    """Traced outcomes are padded as known ones are."""
    with jax.enable_x64(True):
        total = jax.grad(lambda y: jnp.sum(padded(y, 8) * jnp.arange(8.0)))(jnp.zeros(3))

    np.testing.assert_array_equal([0.0, 1.0, 2.0], total)
