"""Integrands on dictated outcomes, and the identities that their expectations obey."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm
from tests.conftest import ORACLES
from tests.reference import gaussian_process as reference

import poolwise as pw
from poolwise.acquisition.base_samples import normals
from poolwise.acquisition.expectation import _at_pool, sampled

BETA = math.sqrt(3)
MEAN, COVARIANCE = np.array([0.5, 0.2, -0.3]), np.array([[1, 0.6, 0.2], [0.6, 1.2, -0.3], [0.2, -0.3, 0.9]])
VECTORS = {vector["name"]: vector for vector in ORACLES["normals"]}
FOUR = [
    pw.ExpectedImprovement(0.4),
    pw.ProbabilityOfImprovement(0.4, temperature=0.1),
    pw.UpperConfidenceBound(BETA),
    pw.SimpleRegret(),
]
every = pytest.mark.parametrize("integrand", FOUR, ids=lambda h: type(h).__name__)


@pytest.fixture(autouse=True)
def wide():
    """These tests call integrands themselves, with 64-bit arrays."""
    with jax.enable_x64(True):
        yield


def worth(integrand, y, mean=None):
    y = jnp.asarray(y, dtype=float)
    return float(integrand(y, jnp.zeros_like(y) if mean is None else jnp.asarray(mean)))


def test_improvement_of_dictated_outcomes():
    """Only what exceeds the threshold counts."""
    assert [0.0, 2.0] == [worth(pw.ExpectedImprovement(1.0), y) for y in ([0.0, 0.5], [-1.0, 3.0])]


def test_probability_of_dictated_outcomes():
    """Hard: equalling the threshold is no improvement (left-continuous). Soft: one half there."""
    hard = pw.ProbabilityOfImprovement(1.0, temperature=None)

    assert [0.0, 0.0, 1.0] == [worth(hard, y) for y in ([0.0, 0.9], [0.0, 1.0], [1.1, 0.0])]
    assert 0.5 == worth(pw.ProbabilityOfImprovement(1.0), [0.0, 1.0])
    assert 1 / (1 + math.exp(-2.0)) == pytest.approx(worth(pw.ProbabilityOfImprovement(1.0, 0.1, 2.0), [1.4]))


def test_bound_of_dictated_outcomes():
    """mean + sqrt(beta pi / 2) |y - mean|, the best of the pool: falling short counts as much as exceeding."""
    bound = pw.UpperConfidenceBound(2.0)

    assert 1 + 3 * math.sqrt(math.pi) == pytest.approx(worth(bound, [1.5, -2.0], [0.0, 1.0]))


def test_the_papers_defaults():
    """beta = sqrt(3), a multiplier of 3^(1/4); temperature 0.01 in units of the spread."""
    assert 3**0.25 == pytest.approx(math.sqrt(pw.UpperConfidenceBound().beta))
    assert (0.01, 1.0) == (pw.ProbabilityOfImprovement(0.0).temperature, pw.ProbabilityOfImprovement(0.0).spread)


def test_simple_regret_and_probability():
    """The best outcome, and one."""
    assert 0.7 == worth(pw.SimpleRegret(), [0.7, -3.0])
    assert 1.0 == worth(pw.Probability(), [0.7, -3.0])


@every
def test_subgradients_at_ties_are_finite(integrand):
    """Equal outcomes, and outcomes at the threshold: the slope is shared, not NaN."""
    for y in ([0.4, 0.4, 0.4], [1.0, 1.0, 0.0], [0.0, 0.0, 0.0]):
        gradient = jax.grad(integrand)(jnp.array(y), jnp.zeros(3))

        assert np.isfinite(gradient).all()
    assert 1.0 == pytest.approx(float(jax.grad(pw.SimpleRegret())(jnp.ones(3), jnp.zeros(3)).sum()))


@every
def test_leading_blocks_agree_sample_by_sample(integrand):
    """The first points of a pool have the same samples alone as together with others [notes 3.3]."""
    z = jnp.asarray(normals(64, 3, base="iid", seed=1))
    y = jnp.asarray(pw.Normal(MEAN, COVARIANCE).outcomes(z))
    for q in (1, 2):
        alone = sampled(integrand, pw.Normal(MEAN[:q], COVARIANCE[:q, :q]), z[:, :q])
        together = jax.vmap(integrand, (0, None))(y[:, :q], jnp.asarray(MEAN[:q]))

        np.testing.assert_allclose(together, alone, atol=1e-14)


@every
def test_more_points_are_worth_more_and_ever_less_more(integrand):
    """On the same samples: monotone in the pool, and a point adds no more to a larger pool (submodular)."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((5, 7))
    mean = jnp.asarray(rng.normal(0, 0.5, 5))
    y = jnp.asarray(pw.Normal(mean, A @ A.T / 5).outcomes(normals(256, 5, base="iid")))

    def value(rows):
        rows = jnp.array(rows)
        return jax.vmap(integrand, (0, None))(y[:, rows], mean[rows]).mean()

    for small, large, new in (([0], [0, 1], 2), ([0, 1], [0, 1, 2, 3], 4), ([3], [3, 0, 4], 1)):
        gain, later = value([*small, new]) - value(small), value([*large, new]) - value(large)

        assert gain >= later >= 0


def test_bound_exceeds_each_points_own():
    """Jensen: q-UCB is at least the largest of its points' bounds, strictly."""
    value = pw.expectation(pw.UpperConfidenceBound(BETA), pw.Normal(MEAN, COVARIANCE), samples=2**14).value

    assert value > np.max(MEAN + BETA**0.5 * np.sqrt(np.diagonal(COVARIANCE))) + 0.1


def test_bound_does_not_see_the_sign_of_correlation():
    """Oracle T4a with its correlation turned: the same UCB (sample by sample, z_1 mirrored), another SR."""
    vector = VECTORS["T4a"]
    mean, covariance, flip = np.array(vector["mean"]), np.array(vector["covariance"]), np.diag([-1.0, 1.0])
    mirrored = flip @ covariance @ flip
    exact = vector["expected"]["ucb"]
    z = jnp.asarray(normals(512, 2, base="iid"))
    bound = pw.UpperConfidenceBound(vector["beta"])
    one, other = (pw.expectation(bound, pw.Normal(mean, c), samples=2**14) for c in (covariance, mirrored))

    assert abs(one.value - other.value) < one.error + other.error
    assert abs(other.value - exact) < 2e-3 * exact
    np.testing.assert_allclose(
        sampled(bound, pw.Normal(mean, covariance), z),
        sampled(bound, pw.Normal(mean, mirrored), z * jnp.array([[-1.0, 1.0]])),
        atol=1e-13,
    )
    regret = pw.expectation(pw.SimpleRegret(), pw.Normal(mean, mirrored), samples=2**14).value
    assert 0.5571 == pytest.approx(regret, abs=1e-3)


def test_bound_reparameterised_in_two_ways():
    """Table 1: y ~ N(mean, beta pi / 2 covariance) in mean + |y - mean|, and mean + sqrt(beta pi / 2) |L z|."""
    z = jnp.asarray(normals(256, 3, base="iid"))
    rescaled = pw.Normal(MEAN, BETA * math.pi / 2 * COVARIANCE).outcomes(z)
    by_covariance = (MEAN + np.abs(rescaled - MEAN)).max(axis=1)

    np.testing.assert_allclose(
        by_covariance, sampled(pw.UpperConfidenceBound(BETA), pw.Normal(MEAN, COVARIANCE), z), atol=1e-12
    )


def test_probability_scales_with_its_units():
    """Outcomes, threshold and spread in other units: the same probability, soft and hard [notes 3.5]."""
    for temperature in (0.01, 0.1, None):
        values = [
            pw.expectation(
                pw.ProbabilityOfImprovement(0.8 * c, temperature, spread=c), pw.Normal(c * MEAN, c * c * COVARIANCE)
            ).value
            for c in (1.0, 1e-3, 250.0)
        ]

        np.testing.assert_allclose([values[0]] * 3, values, rtol=1e-9)


def test_soft_probability_tends_to_the_hard_one_as_temperature_squared():
    """Bias -(pi^2 / 6) tau^2 f'(threshold) at oracle T1, by quadrature [notes 3.5]."""
    soft = pw.ProbabilityOfImprovement(0.5, temperature=0.01)
    density = norm(0.3, 0.7)
    value, _ = quad(lambda y: worth(soft, [y]) * density.pdf(y), -5, 6, points=[0.4, 0.5, 0.6], epsabs=1e-12, limit=200)
    slope = (density.pdf(0.5 + 1e-5) - density.pdf(0.5 - 1e-5)) / 2e-5

    assert VECTORS["T1"]["expected"]["pi_soft_0.01"] == pytest.approx(value, abs=1e-10)
    assert -(math.pi**2) / 6 * 1e-4 * slope == pytest.approx(value - density.sf(0.5), rel=1e-3)


def test_identities_of_appendix_a():
    """Equations 4 to 7: E|y - mean| makes mean + sqrt(beta) sigma, in three forms, by quadrature."""
    mu, sigma = 1.3, 0.7
    exact = mu + BETA**0.5 * sigma
    wide_sigma = math.sqrt(BETA * math.pi / 2) * sigma
    bound = pw.UpperConfidenceBound(BETA)

    def integral(f, low=-np.inf):
        return quad(f, low, np.inf, points=None, epsabs=1e-12)[0]

    assert sigma == pytest.approx(integral(lambda y: math.sqrt(2 * math.pi) * y * norm.pdf(y, 0, sigma), 0.0))
    assert BETA**0.5 * sigma == pytest.approx(integral(lambda z: wide_sigma * abs(z) * norm.pdf(z)))
    assert exact == pytest.approx(integral(lambda y: (mu + abs(y - mu)) * norm.pdf(y, mu, wide_sigma)))
    assert exact == pytest.approx(quad(lambda y: worth(bound, [y], [mu]) * norm.pdf(y, mu, sigma), mu - 8, mu + 8)[0])
    assert exact == pytest.approx(pw.expectation(bound, pw.Normal([mu], [[sigma**2]]), samples=2**14).value, rel=2e-3)


def test_the_papers_last_bound_corrected():
    """int_mu^inf y N(y; mu, 2 pi beta sigma^2) dy is mu/2 + sqrt(beta) sigma, not the printed mu + sqrt(beta) sigma.

    Two corrected forms give the bound: the conditional mean above mu with variance beta pi / 2 sigma^2, and the printed
    one with (y - mu) under the integral [notes 3.1].
    """
    mu, sigma = 1.3, 0.7
    exact = mu + BETA**0.5 * sigma
    printed, narrow = math.sqrt(2 * math.pi * BETA) * sigma, math.sqrt(BETA * math.pi / 2) * sigma

    def above(f, s):
        return quad(lambda y: f(y) * norm.pdf(y, mu, s), mu, np.inf, epsabs=1e-13)[0]

    assert 1.5712518091 == pytest.approx(above(lambda y: y, printed), abs=1e-9)
    assert mu / 2 + BETA**0.5 * sigma == pytest.approx(above(lambda y: y, printed), abs=1e-12)
    assert exact == pytest.approx(2 * above(lambda y: y, narrow), abs=1e-12)
    assert exact == pytest.approx(mu + above(lambda y: y - mu, printed), abs=1e-12)
    assert exact == pytest.approx(
        pw.expectation(pw.UpperConfidenceBound(BETA), pw.Normal([mu], [[sigma**2]])).value, 0.01
    )


def test_infinitesimal_perturbation_analysis_is_automatic_differentiation(posterior, pool, t9):
    """The gradient of Wang et al., 1[improves] d y_best / dX written by hand, equals autodiff on the same samples."""
    z = normals(256, 2, base="iid", seed=3)
    X = jnp.asarray(pool)

    def mean_and_factor(X):
        normal = posterior(X)
        return normal.mean, jnp.linalg.cholesky(normal.covariance)

    (mean, factor), (d_mean, d_factor) = mean_and_factor(X), jax.jacobian(mean_and_factor)(X)
    y = np.asarray(mean) + z @ np.asarray(factor).T
    best, improves = y.argmax(axis=1), y.max(axis=1) > t9["threshold"]
    each = np.asarray(d_mean)[best] + np.einsum("mj,mjkl->mkl", z, np.asarray(d_factor)[best])
    by_hand = (improves[:, None, None] * each).mean(axis=0)
    integrand = pw.ExpectedImprovement(t9["threshold"])
    automatic = jax.grad(lambda X: jnp.mean(sampled(integrand, posterior(X), jnp.asarray(z))))(X)

    np.testing.assert_allclose(by_hand, automatic, atol=1e-12)


def test_an_integrand_of_ones_own(plane):
    """The decorator: value, pool and gradient for an acquisition function that the library does not have."""

    @pw.integrand
    def at_least_two_wins(y, mean):
        return jnp.clip(jnp.sort(y)[-2], 0, None)

    X = np.array([0.3, 0.6, 0.8, 0.1, 0.5, 0.9])

    def f(flat):
        return pw.expectation(at_least_two_wins, plane, flat.reshape(3, 2), samples=64).value

    y = plane(X.reshape(3, 2)).outcomes(normals(64, 3))
    np.testing.assert_allclose(np.clip(np.sort(y)[:, -2], 0, None).mean(), f(X), rtol=1e-12)
    np.testing.assert_allclose(reference.slope(f, X, 1e-6), jax.grad(f)(jnp.asarray(X)), atol=1e-6)


def test_a_plain_function_is_an_integrand(plane):
    """Without the decorator, too; the mean is the pool's own."""
    X = np.array([[0.3, 0.6], [0.8, 0.1]])
    value = pw.expectation(lambda y, mean: jnp.sum(mean), plane, X).value

    np.testing.assert_allclose(plane(X).mean.sum(), value, rtol=1e-12)


THRESHOLD = 0.5


def excess(y):
    """A helper that reads a global, too."""
    return y - THRESHOLD


def own_improvement(kind):
    """The improvement over a number that is read in one of several ways, and how to change it."""
    threshold = np.array([0.5]) if kind == "array" else (0.5,) if kind == "tuple" else 0.5

    def closure(y, mean):
        return jnp.maximum(jnp.max(y) - (threshold if kind == "closure" else threshold[0]), 0.0)

    def inside(y, mean):
        return jnp.maximum(jnp.max(jax.vmap(lambda one: one - THRESHOLD)(y)), 0.0)

    def helped(y, mean):
        return jnp.maximum(jnp.max(excess(y)), 0.0)

    def change(value):
        nonlocal threshold
        global THRESHOLD
        THRESHOLD = value
        if kind == "array":
            threshold[0] = value
        else:
            threshold = (value,) if kind == "tuple" else value

    return {"global inside": inside, "helper": helped}.get(kind, closure), change


@pytest.mark.parametrize("kind", ["closure", "tuple", "array", "global inside", "helper"])
@pytest.mark.parametrize("wrap", [pw.integrand, lambda function: function], ids=["decorated", "plain"])
def test_what_an_own_integrand_reads_may_change(kind, wrap, plane):
    """Its value is that of the number as it is now; the same number again is no new program."""
    function, change = own_improvement(kind)
    own, X, traced = wrap(function), np.array([[0.3, 0.6], [0.8, 0.1]]), []
    for threshold in (0.5, -1.0, 0.5):
        change(threshold)
        exact = pw.expectation(pw.ExpectedImprovement(threshold), plane, X).value
        value = pw.expectation(own, plane, X).value
        traced.append(_at_pool._cache_size())

        np.testing.assert_allclose(exact, value, rtol=1e-12)
    assert traced[1] == traced[2]


def test_a_proposal_sees_what_an_own_integrand_reads(plane):
    """The search and the judge alike."""
    function, change = own_improvement("closure")
    own = pw.integrand(function)
    pw.propose(plane, own, 1)
    change(1.5)
    proposal = pw.propose(plane, own, 1)
    exact = pw.exact.expected_improvement(plane(proposal.pool), 1.5)

    assert abs(proposal.value - exact) < 4 * proposal.error
