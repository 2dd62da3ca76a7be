"""The knowledge gradient: closed form of a finite set, nested quadrature on a fine grid, and its gradient."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm
from tests.reference import gaussian_process as reference

import poolwise as pw
from poolwise.acquisition.knowledge import KnowledgeGradient

GRID = np.linspace(0, 1, 101)[:, None]
NOISE = 0.05
GOAL = KnowledgeGradient(GRID, noise=NOISE)


def lines(posterior, pool, candidates=GRID):
    """Means of candidates, and their slopes in the standardised observations of the pool."""
    mean, covariance = reference.posterior(
        posterior.process, posterior.X, posterior.y, np.concatenate([candidates, pool])
    )
    c = len(candidates)
    L = np.linalg.cholesky(covariance[c:, c:] + NOISE * np.eye(len(pool)))
    return mean[:c], np.linalg.solve(L, covariance[c:, :c]).T


def frazier(a, b):
    """E max_i (a_i + b_i Z) - max_i a_i exactly: the upper envelope of lines, one breakpoint after the other."""
    order = np.lexsort((a, b))
    a, b = a[order], b[order]
    keep, breaks = [0], [-np.inf]
    for i in range(1, len(a)):
        if b[i] - b[keep[-1]] < 1e-12:
            keep.pop(), breaks.pop()
        while keep:
            c = (a[keep[-1]] - a[i]) / (b[i] - b[keep[-1]])
            if c > breaks[-1]:
                break
            keep.pop(), breaks.pop()
        breaks.append(c if keep else -np.inf)
        keep.append(i)
    z, steps = np.array(breaks[1:]), np.diff(b[keep])
    return float(np.sum(steps * (norm.pdf(z) - np.abs(z) * norm.cdf(-np.abs(z)))))


@pytest.mark.parametrize("x", [0.3, 0.66, 1.0])
def test_one_point_against_the_closed_form(x, posterior):
    """Frazier's formula for a finite set, within four standard errors and half a percent."""
    exact = frazier(*(part.ravel() for part in lines(posterior, np.array([[x]]))))
    value, error = pw.expectation(GOAL, posterior, [[x]], samples=2**12)

    assert abs(value - exact) < 4 * error
    assert exact == pytest.approx(value, rel=5e-3)


def test_the_closed_form_agrees_with_quadrature(posterior):
    """The reference itself: two hundred thousand cells of the normal."""
    a, b = lines(posterior, np.array([[0.3]]))
    z = norm.ppf((np.arange(200000) + 0.5) / 200000)
    best = np.max([intercept + slope * z for intercept, slope in zip(a, b[:, 0], strict=True)], axis=0)

    assert frazier(a, b[:, 0]) == pytest.approx(best.mean() - a.max(), rel=1e-4)


def test_two_points_against_nested_quadrature(posterior):
    """Gauss-Hermite over both observations, the maximum over a fine grid inside."""
    pool = np.array([[0.3], [0.7]])
    a, b = lines(posterior, pool)
    nodes, weights = np.polynomial.hermite_e.hermegauss(90)
    z = np.stack(np.meshgrid(nodes, nodes, indexing="ij"), axis=-1).reshape(-1, 2)
    w = np.outer(weights, weights).ravel() / weights.sum() ** 2
    exact = w @ np.max(a[:, None] + b @ z.T, axis=0) - a.max()
    value, error = pw.expectation(GOAL, posterior, pool, samples=2**12)

    assert abs(value - exact) < 4 * error
    assert exact == pytest.approx(value, rel=5e-3)


def test_without_candidates_the_observed_points_and_the_pool(posterior):
    """The default set by the closed form: the pool's own points count after the observation, not before."""
    pool = np.array([[0.3]])
    a, b = lines(posterior, pool, np.concatenate([posterior.X, pool]))
    exact = frazier(a, b[:, 0]) + a.max() - a[:3].max()
    value, error = pw.expectation(KnowledgeGradient(noise=NOISE), posterior, pool, samples=2**12)

    assert abs(value - exact) < 4 * error
    assert exact == pytest.approx(value, rel=5e-3)


def test_knowledge_is_never_worth_less_than_nothing(posterior):
    """Much noise teaches nothing; an observation more teaches more."""
    loud = pw.expectation(KnowledgeGradient(GRID, noise=1e8), posterior, [[0.3]], samples=2**12).value
    one, two = (pw.expectation(GOAL, posterior, pool, samples=2**12).value for pool in ([[0.3]], [[0.3], [0.7]]))

    assert 0.0 == pytest.approx(loud, abs=1e-3)
    assert 0.01 < one < two


@jax.jit
def value_and_slope(posterior, flat):
    def f(flat):
        return pw.expectation(GOAL, posterior, flat.reshape(2, 1), pending=[[0.5]], samples=16).value

    return jax.value_and_grad(f)(flat)


def test_gradient_matches_central_differences(posterior):
    """On fixed samples: in general, at coincident points, on the edges, beside a pending point."""
    with jax.enable_x64(True):
        for X in ([0.3, 0.66], [0.42, 0.42], [0.0, 1.0]):
            gradient = value_and_slope(posterior, jnp.array(X))[1]
            numeric = reference.slope(lambda x: float(value_and_slope(posterior, jnp.asarray(x))[0]), np.array(X), 1e-6)

            np.testing.assert_allclose(numeric, gradient, atol=1e-5)


def test_mistakes_are_named():
    """Candidates in a wrong shape."""
    with pytest.raises(pw.InputError, match="candidates: expected a matrix"):
        KnowledgeGradient([0.1, 0.2])
