"""Warped inputs: a monotone map of each axis onto itself, and beliefs that measure distances after it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import multivariate_normal
from tests.reference import gaussian_process as reference

import poolwise as pw
from poolwise.belief.gaussian_process import padded_data
from poolwise.belief.warp import EDGE
from poolwise.evidence import bounds, log_posterior, log_prior_of_lengths

rng = np.random.default_rng(0)
WARP = pw.Warp(low=[0.3, 1.4], high=[1.2, 0.6])
BENT = pw.GaussianProcess(pw.Matern52([0.4, 0.7], amplitude=1.3, warp=WARP), noise=1e-2, mean=0.2)
FLAT = pw.GaussianProcess(pw.Matern52([0.4, 0.7], amplitude=1.3), noise=1e-2, mean=0.2)
X, Y = rng.random((12, 2)), rng.standard_normal(12)
POOL = np.array([[0.0, 0.0], [1.0, 0.3], [0.2, 1.0], [0.5, 0.5], [0.5, 0.5]])  # edges, and a point twice
exponents = st.floats(0.1, 8.0)


def by_formula(x, a, b):
    """Kumaraswamy's distribution function between two of its values."""
    first, at, last = (1 - (1 - t**a) ** b for t in (EDGE, EDGE + (1 - 2 * EDGE) * x, 1 - EDGE))
    return (at - first) / (last - first)


@settings(max_examples=60, deadline=None)
@given(low=exponents, high=exponents)
def test_an_axis_is_mapped_onto_itself_in_its_order(low, high):
    x = np.linspace(0, 1, 40)

    moved = np.asarray(pw.Warp([low], [high])(x[:, None]))[:, 0]

    np.testing.assert_allclose(moved, by_formula(x, low, high), atol=1e-9)
    assert moved[[0, -1]] == pytest.approx([0, 1], abs=1e-12)
    assert (np.diff(moved) >= 0).all()
    back = pw.Warp([low], [high]).back(moved[:, None])
    np.testing.assert_allclose(pw.Warp([low], [high])(back)[:, 0], moved, atol=1e-6)


def test_exponents_of_one_change_nothing():
    np.testing.assert_allclose(pw.Warp([1, 1], [1, 1])(X), X, atol=1e-12)


def test_an_axis_goes_on_straight_outside_the_cube():
    np.testing.assert_allclose(WARP([[-0.5, 1.0], [0.0, 1.25]]), [[-0.5, 1.0], [0.0, 1.25]], atol=1e-12)


def test_belief_is_the_plain_one_at_warped_points():
    """Prior and posterior, also on the edge and where points coincide, against loops over warped points."""
    mean, covariance = reference.posterior(FLAT, WARP(X), Y, WARP(POOL))
    posterior = BENT.condition(X, Y)
    normal = posterior(POOL)

    np.testing.assert_allclose(mean, normal.mean, atol=1e-11)
    np.testing.assert_allclose(covariance, normal.covariance, atol=1e-11)
    np.testing.assert_allclose(FLAT(WARP(POOL)).covariance, BENT(POOL).covariance, atol=1e-13)
    assert posterior.log_evidence == pytest.approx(reference.log_evidence(FLAT, WARP(X), Y))
    np.testing.assert_array_equal(X, posterior.X)


def test_gradient_of_an_expectation_on_the_edge_of_the_cube():
    """Slopes are finite there, and those of one-sided differences."""
    posterior = BENT.condition(X, Y)
    goal, step = pw.ExpectedImprovement(0.5), 1e-6

    def value(corner):
        return pw.expectation(goal, posterior, corner[None, :], samples=256, seed=0).value

    with jax.enable_x64(True):
        corner = jnp.array([0.0, 1.0])
        gradient = np.asarray(jax.grad(value)(corner))
        inward = [(value(corner + h) - value(corner)) / step for h in step * np.array([[1.0, 0.0], [0.0, -1.0]])]

    np.testing.assert_allclose(gradient * [1, -1], inward, rtol=1e-3)


def test_paths_are_the_plain_beliefs_at_warped_points():
    bent = pw.sample_paths(BENT.condition(X, Y), 3, seed=1)(POOL)
    flat = pw.sample_paths(FLAT.condition(np.asarray(WARP(X)), Y), 3, seed=1)(WARP(POOL))

    np.testing.assert_allclose(bent, flat, atol=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_a_pool_is_as_good_as_the_one_found_at_straight_points(seed):
    """The search measures distances as the belief does, where it looks and where it climbs."""
    goal = pw.UpperConfidenceBound()
    bent = pw.propose(BENT.condition(X, Y), goal, 3, seed=seed)
    flat = pw.propose(FLAT.condition(np.asarray(WARP(X)), Y), goal, 3, seed=seed)

    assert bent.value > flat.value - 0.02


def test_maxima_of_paths_are_found_where_the_axis_is_drawn_together():
    """A path's maximum in the bent cube is as high as that of the same path in the straight one."""
    bent = pw.path_maxima(BENT.condition(X, Y), 8, seed=2)
    flat = pw.path_maxima(FLAT.condition(np.asarray(WARP(X)), Y), 8, seed=2)

    assert (np.asarray(bent.values) > np.asarray(flat.values) - 0.02).all()


def test_gradient_of_the_evidence():
    """Of lengthscales, warping, amplitude, noise and trend, against central differences of the loops' evidence."""
    theta = np.array([*np.log([0.4, 0.7]), 0.3, -0.4, 0.1, 0.5, *np.log([1.69, 1e-2, 0.3])])
    box = bounds(2, warp=True)

    def by_loops(theta):
        moved = by_formula(X, np.exp(theta[2:4]), np.exp(theta[4:6]))
        kernel = pw.Matern52(np.exp(theta[:2]), np.exp(theta[6] / 2))
        u = 2 * moved - 1
        trend = 1.0 + np.exp(theta[8]) * (u @ u.T + (u**2 - 1 / 3) @ (u**2 - 1 / 3).T)
        K = reference.covariance(kernel, moved, moved) + trend + np.exp(theta[7]) * np.eye(12)
        prior = -0.5 * np.sum(((theta - box.centre) / box.width) ** 2)
        with jax.enable_x64(True):
            alike = float(log_prior_of_lengths(jnp.asarray(theta[:2] - box.centre[:2]))[0])
        return multivariate_normal.logpdf(Y, cov=K) + prior + alike

    with jax.enable_x64(True):
        data = padded_data(X, Y, np.zeros(()))
        value, gradient = jax.jit(lambda theta: log_posterior(theta, data, pw.Matern52, True))(jnp.asarray(theta))

    assert float(value) == pytest.approx(by_loops(theta), rel=1e-9)
    np.testing.assert_allclose(gradient, reference.slope(by_loops, theta, 1e-5), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: pw.Warp([0.0], [1.0]), "low: must be above zero"),
        (lambda: pw.Warp([1.0], [1.0, 2.0]), "high: has 2 values where low has 1"),
        (lambda: pw.Matern52([0.5], warp=WARP), "lengthscale: has 1 values where 2"),
        (lambda: WARP([[0.5]]), "points: has 1 columns where 2"),
        (lambda: BENT.condition([[0.5]], [1.0]), "X: has 1 columns where 2"),
    ],
)
def test_mistakes(make, says):
    with pytest.raises(pw.InputError, match=says):
        make()
