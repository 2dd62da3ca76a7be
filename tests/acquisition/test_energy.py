"""Energy and entropy: log-determinants written out, units, and the gradient."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.reference import gaussian_process as reference

import poolwise as pw
from poolwise.acquisition.energy import EnergyEntropy

POOL = np.array([[0.3, 0.2], [0.35, 0.2], [0.9, 1.0]])


def log_determinants(posterior, pool, noise):
    """Of the belief at the pool before and after it is observed, the pool added to the data in plain NumPy."""
    kernel, X = posterior.process.kernel, np.concatenate([posterior.X, pool])
    _, before = reference.posterior(posterior.process, posterior.X, posterior.y, pool)
    K = reference.covariance(kernel, X, X)
    each = np.concatenate([np.broadcast_to(posterior.noise, len(posterior.y)), np.full(len(pool), noise)])
    k = reference.covariance(kernel, pool, X)
    after = reference.covariance(kernel, pool, pool) - k @ np.linalg.solve(K + np.diag(each), k.T)
    return np.linalg.slogdet(before)[1], np.linalg.slogdet(after)[1]


@jax.jit
def value_and_slope(goal, posterior, flat):
    return jax.value_and_grad(lambda flat: goal.of(posterior, flat.reshape(3, 2)))(flat)


def value_of(goal, posterior, pool):
    with jax.enable_x64(True):
        return float(value_and_slope(goal, posterior, jnp.asarray(np.ravel(pool)))[0])


def test_sum_of_means_and_difference_of_log_determinants(plane):
    """The paper's definition, with the kernel's amplitude as the unit of the temperature."""
    mean, _ = reference.posterior(plane.process, plane.X, plane.y, POOL)
    before, after = log_determinants(plane, POOL, 1e-2)
    energy = mean.sum() + 0.5 * 1.3 * (before - after) / 2

    assert energy == pytest.approx(value_of(EnergyEntropy(0.5), plane, POOL), rel=1e-7)
    assert energy == pytest.approx(
        pw.expectation(EnergyEntropy(0.5), plane, POOL[1:], pending=POOL[:1]).value, rel=1e-7
    )


def test_noise_of_the_pool_may_differ_from_that_of_the_data(plane):
    """Louder observations tell less."""
    mean, _ = reference.posterior(plane.process, plane.X, plane.y, POOL)
    before, after = log_determinants(plane, POOL, 0.3)

    assert mean.sum() + 2.0 * (before - after) / 2 == pytest.approx(
        value_of(EnergyEntropy(1.0, spread=2.0, noise=0.3), plane, POOL), rel=1e-7
    )


def test_units_of_outcomes_do_not_matter(plane):
    """A hundredfold in outcomes is a hundredfold in value."""
    values = []
    for c in (1.0, 100.0):
        posterior = pw.GaussianProcess(pw.Matern52([0.4, 0.7], amplitude=c), noise=1e-3 * c**2).condition(
            plane.X, c * plane.y
        )
        values.append(value_of(EnergyEntropy(), posterior, POOL) / c)

    assert values[0] == pytest.approx(values[1], rel=1e-9)


def test_gradient_matches_central_differences(plane):
    """In general, at coincident points and in a corner of the box."""
    for X in ([0.3, 0.2, 0.6, 0.7, 0.1, 0.9], [0.4] * 6, [0.0, 1.0, 1.0, 1.0, 0.5, 0.0]):
        with jax.enable_x64(True):
            gradient = np.asarray(value_and_slope(EnergyEntropy(), plane, jnp.array(X))[1])
        numeric = reference.slope(lambda x: value_of(EnergyEntropy(), plane, x), np.array(X), 1e-5)

        np.testing.assert_allclose(numeric, gradient, rtol=1e-5, atol=1e-5)


def test_a_noiseless_belief_has_a_finite_value():
    """Observations without noise would tell infinitely much: a trace of noise is counted."""
    posterior = pw.GaussianProcess(pw.Matern52([0.3, 0.3])).condition([[0.25, 0.1], [0.75, 0.2]], [1.0, 0.0])

    assert np.isfinite(value_of(EnergyEntropy(), posterior, [[0.5, 0.5], [0.5, 0.5], [0.25, 0.1]]))


def test_hot_pools_spread_and_cold_pools_gather(plane):
    """The temperature moves the balance: cold points lie where the mean is high, hot ones far apart."""
    pools = np.random.default_rng(0).random((40, 3, 2))
    beliefs = [plane(pool) for pool in pools]
    means = [belief.mean.sum() for belief in beliefs]
    volumes = [np.linalg.slogdet(belief.covariance + 1e-2 * np.eye(3))[1] for belief in beliefs]
    for temperature, order in ((1e-3, means), (1e3, volumes)):
        values = [value_of(EnergyEntropy(temperature), plane, pool) for pool in pools]

        assert np.argmax(order) == np.argmax(values)


def test_mistakes_are_named():
    """A temperature below zero would seek what is known and bad."""
    with pytest.raises(pw.InputError, match="temperature: must be above zero"):
        EnergyEntropy(-1.0)
