"""Two-step expected improvement: an expectation inside an expectation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm
from tests.reference import gaussian_process as reference

import poolwise as pw

CANDIDATES = np.linspace(0, 1, 41)[:, None]
NOISE = 1e-3


def improvement(mean, variance, threshold):
    """Closed form of one point's expected improvement."""
    sigma = np.sqrt(np.maximum(variance, 1e-300))
    u = (mean - threshold) / sigma
    return sigma * (norm.pdf(u) + u * norm.cdf(u))


def two_steps(process, data, x, threshold):
    """Both steps by Gauss-Hermite over the first outcome and closed form for the second, in plain NumPy."""
    X, y = data
    nodes, weights = np.polynomial.hermite_e.hermegauss(128)
    mean, covariance = reference.posterior(process, X, y, np.concatenate([CANDIDATES, [[x]]]))
    K, cross = covariance[-1, -1] + NOISE, covariance[:-1, -1]
    variance = np.diagonal(covariance)[:-1] - cross**2 / K
    seen = mean[-1] + np.sqrt(K) * nodes
    best = np.maximum(seen, threshold)
    means = mean[:-1, None] + np.outer(cross / K, seen - mean[-1])
    later = improvement(means, variance[:, None], best[None, :]).max(axis=0)
    return float(weights @ (best - threshold + later) / weights.sum())


@pytest.mark.parametrize("x", [1.0, 0.2, 0.65])
def test_value_equals_nested_quadrature(x, posterior, t9):
    """Within four standard errors of the outer estimate, and within 1 % with 2^11 Sobol' points."""
    integrand = pw.TwoStepExpectedImprovement(t9["threshold"], CANDIDATES, noise=NOISE)
    value, error = pw.expectation(integrand, posterior, [[x]], samples=2**11)
    exact = two_steps(posterior.process, (posterior.X, posterior.y), x, t9["threshold"])

    assert abs(value - exact) < 4 * error
    assert exact == pytest.approx(value, rel=1e-2)


@pytest.mark.parametrize(("x", "exact", "within"), [(0.5, 0.143546, 6e-6), (0.1, 0.18039, 1e-4)])
def test_the_second_step_is_exact(x, exact, within):
    """Values by many samples and the closed form of the inner expectation, on the page of this integrand."""
    posterior = pw.GaussianProcess(pw.Matern52(0.25), noise=1e-2).condition([[0.1], [0.5], [0.85]], [0.86, 0.39, 0.78])
    goal = pw.TwoStepExpectedImprovement(0.86, candidates=np.linspace(0, 1, 21)[:, None], noise=1e-2)
    value, error = pw.expectation(goal, posterior, [[x]], samples=2**14)

    assert abs(value - exact) < 4 * within + 0.1 * error


def test_quadrature_agrees_with_the_notes(posterior, t9):
    """Notes 5b, with their grid of 201 and 32 nodes: 0.2655 at x = 1 and 0.2928 at x = 0.2, to their accuracy."""
    values = [two_steps(posterior.process, (posterior.X, posterior.y), x, t9["threshold"]) for x in (1.0, 0.2)]

    np.testing.assert_allclose([0.265474, 0.292791], values, rtol=2e-2)


def test_two_steps_look_elsewhere_than_one(posterior, t9):
    """Never below one step; one step goes to x = 1, two steps to the gap between the data."""
    grid = np.linspace(0, 1, 21)
    integrand = pw.TwoStepExpectedImprovement(t9["threshold"], CANDIDATES, noise=NOISE)
    one = [pw.exact.expected_improvement(posterior([[x]]), t9["threshold"]) for x in grid]
    two = [pw.expectation(integrand, posterior, [[x]]) for x in grid]

    assert all(b.value > a for a, b in zip(one, two, strict=True))
    assert 1.0 == grid[int(np.argmax(one))]
    assert 0.1 < grid[int(np.argmax([b.value for b in two]))] < 0.4


def test_at_least_one_step_sample_by_sample(posterior, t9):
    """The promise of the second step is not negative, whatever the first shows."""
    options = {"samples": 64, "base": "iid"}
    two = pw.TwoStepExpectedImprovement(t9["threshold"], CANDIDATES)
    one = pw.ExpectedImprovement(t9["threshold"])
    for pool in ([[0.2]], [[0.9], [0.3]]):
        values = [pw.expectation(h, posterior, pool, **options).value for h in (one, two)]

        assert values[1] > values[0]


def test_gradient_matches_central_differences(posterior, t9):
    """Through both expectations, on fixed samples, for a pool of two."""
    integrand = pw.TwoStepExpectedImprovement(t9["threshold"], CANDIDATES, noise=NOISE)

    def f(flat):
        return pw.expectation(integrand, posterior, flat.reshape(2, 1), samples=16).value

    X = np.array([0.22, 0.66])
    with jax.enable_x64(True):
        gradient = jax.grad(f)(jnp.asarray(X))

    np.testing.assert_allclose(reference.slope(f, X, 1e-6), gradient, atol=1e-6)


def test_a_candidate_that_is_observed_promises_nothing_and_breaks_nothing():
    """Noise-free data on the grid of candidates, and a pool on one of them: finite value and gradient."""
    posterior = pw.GaussianProcess(pw.Matern52(0.3)).condition([[0.25], [0.75]], [1.0, 0.0])
    integrand = pw.TwoStepExpectedImprovement(1.0, CANDIDATES)
    with jax.enable_x64(True):
        value, gradient = jax.value_and_grad(lambda X: pw.expectation(integrand, posterior, X, samples=16).value)(
            jnp.array([[0.25]])
        )

    assert np.isfinite(value)
    assert np.isfinite(gradient).all()
