"""Information about the maximum: against quadrature and the papers' own forms, in the far tail, and its gradient."""

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm, truncnorm
from tests.reference import gaussian_process as reference

import poolwise as pw
from poolwise.acquisition.information import JointEntropySearch, MaxValueEntropy, cut_variance

NOISE = 0.05
MAXIMA = np.array([1.0, 1.4, 2.0])
OPTIMA = np.array([[0.25], [0.7], [1.0]])
POOL = np.array([[0.3], [0.66]])
VALUE, JOINT = MaxValueEntropy(MAXIMA, noise=NOISE), JointEntropySearch(OPTIMA, MAXIMA, noise=NOISE)
BOTH = pytest.mark.parametrize("goal", [VALUE, JOINT], ids=["value", "joint"])


@jax.jit
def value_and_slope(goal, posterior, flat, live):
    """The value of a pool of two, or of one of them, and its gradient: one program for all tests."""
    return jax.value_and_grad(lambda flat: goal.of(posterior, flat.reshape(2, 1), live))(flat)


def value_of(goal, posterior, pool):
    pair, live = np.resize(pool, 2), np.arange(2) < len(pool)
    with jax.enable_x64(True):
        return float(value_and_slope(goal, posterior, jnp.asarray(pair), live)[0])


def belief(posterior, pool):
    return reference.posterior(posterior.process, posterior.X, posterior.y, pool)


def known(posterior, optimum, value, pool):
    """Mean and covariance at a pool after one more outcome is known exactly, by the joint Gaussian."""
    mean, covariance = belief(posterior, np.concatenate([pool, [optimum]]))
    gain = covariance[:-1, -1] / covariance[-1, -1]
    return mean[:-1] + gain * (value - mean[-1]), covariance[:-1, :-1] - np.outer(gain, covariance[-1, :-1])


def cut_entropy(mean, variance, most):
    """The entropy of an observation of an outcome that is known to be at most so high, by quadrature."""
    total = variance + NOISE
    y = mean + np.sqrt(total) * np.linspace(-9, 9, 20001)
    later, spread = mean + variance / total * (y - mean), np.sqrt(variance * NOISE / total)
    log = norm.logpdf(y, mean, np.sqrt(total)) + norm.logcdf((most - later) / spread)
    log = log - norm.logcdf((most - mean) / np.sqrt(variance))
    return -np.trapezoid(np.exp(log) * log, y)


def gaussian_entropy(covariance):
    return 0.5 * np.linalg.slogdet(2 * np.pi * np.e * covariance)[1]


def test_variance_of_a_cut_normal_in_every_tail():
    """V and its slope to twelve and ten digits of 80-digit arithmetic, also where phi and Phi underflow."""
    u = [-1e5, -1e3, -40.0, -10.0, -4.001, -3.999, -1.0, 0.0, 2.0, 9.0]
    with mpmath.workdps(80):
        ratios = [mpmath.npdf(mpmath.mpf(x)) / mpmath.ncdf(mpmath.mpf(x)) for x in u]
        exact = [float(1 - r * (x + r)) for x, r in zip(u, ratios, strict=True)]
        slope = [float(r * ((x + r) ** 2 - 1 + r * (x + r))) for x, r in zip(u, ratios, strict=True)]
    with jax.enable_x64(True):
        values, gradients = jax.jit(jax.vmap(jax.value_and_grad(cut_variance)))(jnp.array(u))

    np.testing.assert_allclose(exact, values, rtol=1e-12)
    np.testing.assert_allclose(slope, gradients, rtol=1e-10)


def test_one_point_without_noise_bounds_the_max_value_entropy(posterior):
    """-1/2 log V(u) lies below Wang and Jegelka's u r / 2 - log Phi(u), by at most the Gaussian's excess entropy."""
    mean, covariance = belief(posterior, POOL[:1])
    u = (MAXIMA - mean[0]) / np.sqrt(covariance[0, 0])
    r = norm.pdf(u) / norm.cdf(u)
    exact = np.mean(u * r / 2 - norm.logcdf(u))
    value = value_of(MaxValueEntropy(MAXIMA, noise=0.0), posterior, POOL[:1])

    assert np.mean(-0.5 * np.log(1 - r * (u + r))) == pytest.approx(value, abs=1e-6)
    assert 0.5 * exact < value < exact


def test_the_form_with_correlations(posterior):
    """Moss and others' own form: 1/2 log det of the correlations and one term for each point."""
    mean, covariance = belief(posterior, POOL)
    variance = np.diagonal(covariance)
    u = (MAXIMA[None, :] - mean[:, None]) / np.sqrt(variance)[:, None]
    r = norm.pdf(u) / norm.cdf(u)
    rho = (variance / (variance + NOISE))[:, None]
    seen = covariance + NOISE * np.eye(2)
    correlation = seen / np.sqrt(np.outer(np.diagonal(seen), np.diagonal(seen)))
    exact = 0.5 * np.linalg.slogdet(correlation)[1] - 0.5 * np.log(1 - rho * r * (u + r)).mean(axis=1).sum()

    assert exact == pytest.approx(value_of(VALUE, posterior, POOL), abs=1e-9)


def test_one_noisy_point_against_quadrature(posterior):
    """A lower bound of the mutual information, and most of it: nine tenths here."""
    mean, covariance = belief(posterior, POOL[:1])
    about_value = [cut_entropy(mean[0], covariance[0, 0], most) for most in MAXIMA]
    about_both = []
    for optimum, most in zip(OPTIMA, MAXIMA, strict=True):
        later = known(posterior, optimum, most, POOL[:1])
        about_both.append(cut_entropy(later[0][0], later[1][0, 0], most))
    before = gaussian_entropy(covariance + NOISE)
    for goal, after in ((VALUE, about_value), (JOINT, about_both)):
        exact, value = before - np.mean(after), value_of(goal, posterior, POOL[:1])

        assert 0.9 * exact < value < exact


def test_two_points_against_nested_quadrature(posterior):
    """Below the mutual information of two observations and a bound on both outcomes, and more than half of it."""
    mean, covariance = belief(posterior, POOL)
    seen = covariance + NOISE * np.eye(2)
    gain = covariance @ np.linalg.inv(seen)
    rest = covariance - gain @ covariance
    steps = np.linspace(-7, 7, 141)
    z = np.stack(np.meshgrid(steps, steps, indexing="ij"), axis=-1).reshape(-1, 2)
    y = mean + z @ np.linalg.cholesky(seen).T
    cell = (steps[1] - steps[0]) ** 2 * np.sqrt(np.linalg.det(seen))
    after = []
    for most in MAXIMA:
        below = multivariate_normal(np.zeros(2), rest).cdf(most - (mean + (y - mean) @ gain.T))
        p = multivariate_normal(mean, seen).pdf(y) * below / multivariate_normal(mean, covariance).cdf([most, most])
        after.append(-np.sum(cell * p * np.log(np.maximum(p, 1e-300))))
    exact, value = gaussian_entropy(seen) - np.mean(after), value_of(VALUE, posterior, POOL)

    assert 0.6 * exact < value < exact


def test_joint_information_of_two_points_by_the_book(posterior):
    """1/2 log det less the mean of log variances after each optimum, with conditioning in plain NumPy."""
    _, covariance = belief(posterior, POOL)
    exact = 0.5 * np.linalg.slogdet(covariance + NOISE * np.eye(2))[1]
    for optimum, most in zip(OPTIMA, MAXIMA, strict=True):
        mean, later = known(posterior, optimum, most, POOL)
        s = np.sqrt(np.diagonal(later))
        exact -= 0.5 * np.log(s**2 * truncnorm(-np.inf, (most - mean) / s).var() + NOISE).sum() / len(MAXIMA)

    assert exact == pytest.approx(value_of(JOINT, posterior, POOL), abs=1e-8)


@BOTH
def test_gradient_matches_central_differences(goal, posterior):
    """In general, at coincident points, on the edges of the box."""
    for X in ([0.3, 0.66], [0.4, 0.4], [0.0, 1.0], [0.5, 0.21]):
        with jax.enable_x64(True):
            gradient = np.asarray(value_and_slope(goal, posterior, jnp.array(X), np.ones(2, bool))[1])
        numeric = reference.slope(lambda x: value_of(goal, posterior, x[:, None]), np.array(X), 1e-5)

        np.testing.assert_allclose(numeric, gradient, atol=2e-6)


@BOTH
def test_finite_where_nothing_is_left_to_learn(goal, posterior):
    """Noise-free, on a draw of the optimum and on top of each other; and with maxima far below what is known."""
    for shift in (0.0, -1e6):
        sure = type(goal)(*([OPTIMA] if goal is JOINT else []), MAXIMA + shift, noise=0.0)
        for X in ([0.25, 0.25], [0.1, 1.0]):
            with jax.enable_x64(True):
                value, gradient = value_and_slope(sure, posterior, jnp.array(X), np.ones(2, bool))

            assert np.isfinite(value)
            assert np.isfinite(np.asarray(gradient)).all()


def test_an_expectation_that_base_samples_do_not_change(posterior):
    """The value is known: no error but rounding. Pending points are points of the pool."""
    value, error = pw.expectation(VALUE, posterior, POOL[1:], pending=POOL[:1], seed=3)

    assert value_of(VALUE, posterior, POOL) == pytest.approx(value, rel=1e-12)
    assert error < 1e-12


def test_mistakes_are_named():
    """Draws that do not go together, a negative variance."""
    with pytest.raises(pw.InputError, match="values: has 2 values where 3"):
        JointEntropySearch(OPTIMA, MAXIMA[:2])
    with pytest.raises(pw.InputError, match="noise: must be zero or more"):
        MaxValueEntropy(MAXIMA, noise=-1.0)
