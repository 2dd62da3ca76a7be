"""Integration over a box of outcomes: equation 2 of the paper, against oracles, quadrature and the far tail."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.special import log_ndtr
from scipy.stats import multivariate_normal, norm
from tests.reference import gaussian_process as reference

import poolwise as pw
from poolwise.acquisition.base_samples import normals
from poolwise.acquisition.expectation import sampled
from poolwise.acquisition.region import inside, log_ndtri
from poolwise.belief.factor import cholesky

MEAN, COVARIANCE = np.array([0.5, 0.2, -0.3]), np.array([[1, 0.6, 0.2], [0.6, 1.2, -0.3], [0.2, -0.3, 0.9]])
NORMAL = pw.Normal(MEAN, COVARIANCE)


@pytest.fixture(scope="module")
def box(oracles):
    return pw.Box(oracles["box"]["lower"], oracles["box"]["upper"])


def quadrature(lower, upper):
    """The density of NORMAL over a box, by Gauss-Legendre with 40 points a side."""
    x, w = np.polynomial.legendre.leggauss(40)
    sides = [(a + (b - a) * (x + 1) / 2, w * (b - a) / 2) for a, b in zip(lower, upper, strict=True)]
    points = np.stack(np.meshgrid(*(s[0] for s in sides), indexing="ij"), axis=-1)
    weights = functools.reduce(np.multiply.outer, (s[1] for s in sides))
    return float((weights * multivariate_normal(MEAN, COVARIANCE).pdf(points)).sum())


def test_probability_of_the_box(box, oracles):
    """The oracle to 1e-6 with 2^14 points, and quadrature to 1e-7."""
    value = pw.expectation(pw.Probability(), NORMAL, region=box, samples=2**14).value

    assert oracles["box"]["probability"] == pytest.approx(value, abs=1e-6)
    assert quadrature(box.lower, box.upper) == pytest.approx(value, abs=1e-7)


def test_expected_maximum_inside_the_box(box, oracles):
    """To 1e-6 of 0.19193445 (the oracle file rounds it). The maximum has kinks: 2^14 points give 3e-6, 2^18 3e-7."""
    value = pw.expectation(pw.SimpleRegret(), NORMAL, region=box, samples=2**18).value

    assert oracles["box"]["expected_max_inside"] == pytest.approx(value, abs=1e-6)
    assert 0.19193445 == pytest.approx(value, abs=1e-6)


def test_samples_lie_in_the_box_and_weigh_its_probability(box):
    """Every base sample is moved inside; all coordinates take part."""
    with jax.enable_x64(True):
        z = jnp.asarray(normals(512, 3))
        factor = cholesky(jnp.asarray(COVARIANCE))
        logs = jnp.stack([log_ndtr(z), log_ndtr(-z)], axis=1)
        moved, log_weight = jax.vmap(functools.partial(inside, box, jnp.asarray(MEAN), factor))(logs)
    y = MEAN + np.asarray(moved) @ np.asarray(factor).T

    assert (y >= box.lower - 1e-12).all()
    assert (y <= box.upper + 1e-12).all()
    assert 0.2972723 == pytest.approx(np.exp(log_weight).mean(), abs=1e-5)


def test_without_bounds_a_region_changes_nothing():
    """Infinite bounds leave every sample where it was, with weight one."""
    with jax.enable_x64(True):
        z = jnp.asarray(normals(256, 3, base="iid"))
        free, boxed = (sampled(pw.UpperConfidenceBound(), NORMAL, z, region) for region in (None, pw.Box()))

    np.testing.assert_allclose(free, boxed, rtol=1e-9)


def test_complements_add_up():
    """P(y <= a) + P(y > a) = 1 in one dimension; one-sided boxes are the normal distribution."""
    one = pw.Normal([0.3], [[0.49]])
    below, above = (pw.expectation(pw.Probability(), one, region=r).value for r in (pw.Box(upper=0.5), pw.Box(0.5)))

    assert norm.cdf(0.5, 0.3, 0.7) == pytest.approx(below, abs=1e-14)
    assert 1.0 == pytest.approx(below + above, abs=1e-14)


def test_gradient_in_bounds_mean_and_covariance():
    """On fixed samples, against central differences; infinite bounds are in no derivative's way."""
    covariance = jnp.array([[1.0, 0.3], [0.3, 0.5]])

    def f(t):
        region = pw.Box(jnp.array([-jnp.inf, t[0]]), jnp.array([t[1], jnp.inf]))
        return pw.expectation(pw.SimpleRegret(), pw.Normal(t[2:4], covariance * t[4]), region=region, samples=32).value

    t = np.array([-0.5, 0.8, 0.2, -0.1, 1.3])
    with jax.enable_x64(True):
        gradient = jax.grad(f)(jnp.asarray(t))
        difference = reference.slope(lambda t: f(jnp.asarray(t)), t, 1e-6)

    np.testing.assert_allclose(difference, gradient, atol=1e-7)


@pytest.mark.parametrize("bound", [3.0, 20.0, 50.0, 300.0])
def test_logarithm_of_a_probability_that_underflows(bound):
    """The far tail of one outcome, and of two independent ones, in value and slope."""
    one, two = pw.Normal([0.0], [[1.0]]), pw.Normal([0.0, 0.0], np.diag([1.0, 4.0]))

    assert norm.logsf(bound) == pytest.approx(pw.log_probability(pw.Box(lower=bound), one), rel=1e-9)
    assert norm.logsf(bound) + norm.logsf(bound / 2) == pytest.approx(
        pw.log_probability(pw.Box(lower=bound), two), rel=1e-9
    )
    with jax.enable_x64(True):
        slope = jax.grad(lambda b: pw.log_probability(pw.Box(lower=b), one))(bound)
    assert -np.exp(norm.logpdf(bound) - norm.logsf(bound)) == pytest.approx(float(slope), rel=1e-6)


def test_a_box_out_of_reach_is_worth_nothing():
    """A probability that underflows is zero, with a finite gradient."""
    with jax.enable_x64(True):
        value, slope = jax.value_and_grad(
            lambda m: pw.expectation(pw.SimpleRegret(), pw.Normal(m, jnp.eye(2)), region=pw.Box(lower=100.0)).value
        )(jnp.zeros(2))

    assert 0.0 == float(value)
    assert np.isfinite(slope).all()


def test_inverse_of_the_log_probability():
    """log Phi(log_ndtri(t)) = t from the upper tail to where exp(t) underflows, and its derivative."""
    with jax.enable_x64(True):
        z = jnp.array([-300.0, -60.0, -37.6, -37.4, -10.0, -1.0, -0.28, 0.0, 2.0, 6.0])
        back = log_ndtri(log_ndtr(z))
        slope = jax.vmap(jax.grad(log_ndtri))(log_ndtr(z))
        expected = jnp.exp(log_ndtr(z) + 0.5 * z * z + 0.5 * jnp.log(2 * jnp.pi))

    np.testing.assert_allclose(z, back, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(expected, slope, rtol=1e-6)


@pytest.mark.parametrize("lower", [0.0, [0.0, 0.0]], ids=["for all", "for each"])
def test_a_box_is_of_the_pools_outcomes_alone(lower):
    """Not of the baseline's, which noisy improvement looks at too: as drawn outcomes say."""
    X, y = np.array([[0.1], [0.5], [0.85]]), [0.86, 0.39, 0.78]
    posterior = pw.GaussianProcess(pw.Matern52(0.25), noise=1e-2).condition(X, y)
    goal, pool = pw.LogNoisyExpectedImprovement.over(posterior), np.array([[0.3], [0.7]])
    joint = posterior(np.concatenate([pool, X]))
    drawn = np.random.default_rng(0).multivariate_normal(joint.mean, joint.covariance, size=2**18)
    gains = np.maximum(drawn[:, :2].max(axis=1) - drawn[:, 2:].max(axis=1), 0) * (drawn[:, :2] >= 0).all(axis=1)
    value, error = pw.expectation(goal, posterior, pool, region=pw.Box(lower=lower), samples=2**13)

    assert (
        abs(value - np.log(gains.mean())) < 0.02 + 4 * error
    )  # the smooth maximum of logarithms adds up to 0.01 log 2
