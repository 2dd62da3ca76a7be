"""The expectation against exact values: every oracle, larger pools, gradients in every argument, pending points."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.conftest import ORACLES
from tests.reference import gaussian_process as reference
from tests.reference import one_factor

import poolwise as pw
from poolwise.acquisition.base_samples import normals
from poolwise.acquisition.expectation import Base, estimate

MANY = 2**14
BASES = ["iid", "antithetic", "sobol"]
VECTORS = {vector["name"]: vector for vector in ORACLES["normals"]}
ENTRIES = [(name, key) for name, vector in VECTORS.items() for key in vector["expected"] if key != "p_max"]


def integrand_of(key, threshold, beta):
    return {
        "ei": lambda: pw.ExpectedImprovement(threshold),
        "pi": lambda: pw.ProbabilityOfImprovement(threshold, temperature=None),
        "pi_soft_0.01": lambda: pw.ProbabilityOfImprovement(threshold),
        "pi_soft_0.1": lambda: pw.ProbabilityOfImprovement(threshold, temperature=0.1),
        "ucb": lambda: pw.UpperConfidenceBound(beta),
        "sr": lambda: pw.SimpleRegret(),
    }[key]()


def check_value(exact, integrand, belief, pool=None):
    """Within four standard errors for each base, and within 2e-3 relative with 2^14 Sobol' points.

    Near-steps are hard for Sobol' points: at q = 8 the relative error of soft PI at temperature 0.01 has a standard
    deviation of 2e-3 over seeds, and only the default seed is tested; hard PI goes through the box, to 1e-5.
    """
    for base in BASES:
        value, error = pw.expectation(integrand, belief, pool, samples=MANY, base=base)
        assert abs(value - exact) < 4 * error, base
    assert abs(value - exact) < 2e-3 * abs(exact)


@pytest.mark.parametrize("name, key", ENTRIES, ids=lambda part: part)
def test_every_oracle_value(name, key):
    """EI, hard and soft PI, UCB and SR of oracles T1 to T7."""
    vector = VECTORS[name]
    integrand = integrand_of(key, vector["threshold"], vector["beta"])

    check_value(vector["expected"][key], integrand, pw.Normal(vector["mean"], vector["covariance"]))


@pytest.mark.parametrize("key", ["ei", "pi", "ucb", "sr"])
def test_oracle_value_at_a_pool(key, posterior, pool, t9):
    """Oracle T9, from data and pool to value."""
    check_value(t9["expected"][key], integrand_of(key, t9["threshold"], t9["beta"]), posterior, pool)


def test_expected_maximum_of_independent_normals(oracles):
    """Oracle EMAX through simple regret."""
    for q, exact in zip(oracles["iid_max"]["q"], oracles["iid_max"]["expected"], strict=True):
        check_value(exact, pw.SimpleRegret(), pw.Normal(np.zeros(q), np.eye(q)))


@pytest.mark.parametrize("q", [4, 8, 16])
def test_other_vectors_up_to_sixteen_points(q):
    """One-factor covariances diag(d) + lam lam', exact for any q: not in the oracle file, and harder."""
    rng = np.random.default_rng(q)
    mean, d, lam = rng.normal(0, 0.5, q), rng.uniform(0.2, 1.0, q), rng.normal(0, 0.8, q)
    normal = pw.Normal(mean, np.diag(d) + np.outer(lam, lam))

    check_value(one_factor.ei(mean, d, lam, 1.0), pw.ExpectedImprovement(1.0), normal)
    check_value(one_factor.pi(mean, d, lam, 1.0), pw.ProbabilityOfImprovement(1.0, temperature=None), normal)
    check_value(one_factor.pi(mean, d, lam, 1.0, 0.1), pw.ProbabilityOfImprovement(1.0, temperature=0.1), normal)
    check_value(one_factor.ucb(mean, d, lam, 2.0), pw.UpperConfidenceBound(2.0), normal)
    check_value(one_factor.sr(mean, d, lam), pw.SimpleRegret(), normal)


def test_hard_probability_through_the_box(oracles):
    """Eight points, oracle T7: one minus the probability of the complement is fifty times closer than the step."""
    vector = VECTORS["T7"]
    normal, region = pw.Normal(vector["mean"], vector["covariance"]), pw.Box(upper=vector["threshold"])
    for seed in range(4):
        complement = pw.expectation(pw.Probability(), normal, region=region, samples=MANY, seed=seed).value

        np.testing.assert_allclose(vector["expected"]["pi"], 1 - complement, atol=2e-5)


def test_standard_error_is_the_spread_over_seeds():
    """What `error` says is how far estimates of different seeds lie apart, for independent and for paired samples."""
    normal = pw.Normal([0.2, -0.1], [[1.0, 0.3], [0.3, 0.5]])
    for base in ("iid", "antithetic"):
        values = [pw.expectation(pw.SimpleRegret(), normal, samples=256, base=base, seed=s) for s in range(200)]
        spread = np.std([v.value for v in values], ddof=1)

        assert abs(spread / np.mean([v.error for v in values]) - 1) < 4 / np.sqrt(2 * 200), base


def value_of(integrand, posterior, X, **options):
    if integrand == "hard PI":
        region = pw.Box(upper=0.86463879921)
        return 1 - pw.expectation(pw.Probability(), posterior, X, region=region, **options).value
    return pw.expectation(integrand, posterior, X, **options).value


T9_KEYS = ["ei", "sr", "ucb", "pi"]


def t9_integrand(key, t9):
    return "hard PI" if key == "pi" else integrand_of(key, t9["threshold"], t9["beta"])


@pytest.mark.parametrize("key", T9_KEYS)
def test_gradient_of_the_notes(key, posterior, pool, t9):
    """Oracle T9 to three digits: plain Sobol' reaches 2e-3 with 2^14 points, PI through the box 1e-5."""
    with jax.enable_x64(True):
        f = functools.partial(value_of, t9_integrand(key, t9), posterior, samples=MANY)
        gradient = jax.grad(f)(jnp.asarray(pool))[:, 0]

    np.testing.assert_allclose(t9["gradient_wrt_pool"][key], gradient, atol=1e-5 if key == "pi" else 2e-3)


@pytest.mark.parametrize("key", T9_KEYS)
def test_gradient_is_unbiased(key, posterior, pool, t9):
    """Minibatches of 64 samples, 1000 seeds: the mean gradient is the exact one, hard PI's through the box included."""
    hard = key == "pi"
    integrand = pw.Probability() if hard else t9_integrand(key, t9)
    region = pw.Box(upper=t9["threshold"]) if hard else None

    @jax.jit
    @functools.partial(jax.vmap, in_axes=(None, 0))
    @jax.grad
    def gradients(X, z):
        value = estimate(integrand, posterior(X), Base(z), region).value
        return 1 - value if hard else value

    with jax.enable_x64(True):
        z = jnp.asarray(np.stack([normals(64, 2, base="iid", seed=s) for s in range(1000)]))
        sample = np.asarray(gradients(jnp.asarray(pool), z))[..., 0]
    z_scores = (sample.mean(axis=0) - t9["gradient_wrt_pool"][key]) / (sample.std(axis=0, ddof=1) / np.sqrt(1000))

    assert (np.abs(z_scores) < 4).all()


def step(threshold):
    """The hard probability of improvement as Table 1 writes it, sample by sample."""
    return pw.integrand(lambda y, mean: jnp.where(jnp.max(y) > threshold, 1.0, 0.0))


def test_a_step_has_no_gradient_of_its_own(posterior, pool, t9):
    """Samples of a step have slope zero, not the exact one; the hard integrand goes through the box, and has it."""
    hard = pw.ProbabilityOfImprovement(t9["threshold"], temperature=None)
    with jax.enable_x64(True):
        flat = jax.grad(lambda X: pw.expectation(step(t9["threshold"]), posterior, X).value)(jnp.asarray(pool))
        gradient = jax.grad(lambda X: pw.expectation(hard, posterior, X, samples=MANY).value)(jnp.asarray(pool))

    np.testing.assert_array_equal(np.zeros((2, 1)), flat)
    np.testing.assert_allclose(t9["gradient_wrt_pool"]["pi"], gradient[:, 0], atol=1e-5)


def test_hard_probability_agrees_with_its_samples():
    """One minus the probability of the box below is the mean of the steps, within their standard error."""
    vector = VECTORS["T5"]
    normal, threshold = pw.Normal(vector["mean"], vector["covariance"]), vector["threshold"]
    steps = pw.expectation(step(threshold), normal, samples=MANY, base="iid")
    box = pw.expectation(pw.ProbabilityOfImprovement(threshold, temperature=None), normal, samples=MANY)

    assert abs(steps.value - box.value) < 4 * steps.error
    np.testing.assert_allclose(vector["expected"]["pi"], box.value, atol=2e-5)


def integrands(threshold):
    return {
        "EI": pw.ExpectedImprovement(threshold),
        "PI": pw.ProbabilityOfImprovement(threshold, temperature=0.1),
        "UCB": pw.UpperConfidenceBound(),
        "SR": pw.SimpleRegret(),
        "hard PI": "hard PI",
    }


every = pytest.mark.parametrize("name", ["EI", "PI", "UCB", "SR", "hard PI"])


@every
def test_gradient_matches_central_differences(name, plane):
    """On fixed samples, with one point inside the box and others on its edge."""
    X = np.array([[0.3, 0.6], [0.0, 1.0], [1.0, 0.4]])
    integrand = integrands(1.2)[name]

    def f(flat):
        return value_of(integrand, plane, flat.reshape(3, 2), samples=64)

    with jax.enable_x64(True):
        gradient = jax.grad(f)(jnp.asarray(X.ravel()))

    np.testing.assert_allclose(reference.slope(f, X.ravel(), 1e-6), gradient, atol=1e-6)


@every
def test_gradient_at_coincident_points(name, plane):
    """Two equal points: the jittered factor is smooth there, and its derivative is the true one.

    The step keeps to the ladder's rung; rounding of the covariance, 1e-16, over pivot 1e-4 and step 1e-7 leaves 1e-4.
    """
    integrand = integrands(1.2)[name]

    def f(flat):
        return value_of(integrand, plane, flat.reshape(2, 2), samples=64)

    X = np.array([0.3, 0.6, 0.3, 0.6])
    with jax.enable_x64(True):
        gradient = jax.grad(f)(jnp.asarray(X))

    np.testing.assert_allclose(reference.slope(f, X, 1e-7), gradient, atol=1e-3)


@jax.jit
def values_and_gradients(posterior, X):
    return {
        name: jax.value_and_grad(lambda X, h=h: value_of(h, posterior, X, samples=32))(X)
        for name, h in integrands(0.5).items()
    }


@pytest.mark.parametrize("q", [2, 3, 8])
def test_coincident_points_are_finite(q, plane):
    """q equal points, free or on an observed point without noise: values and gradients are numbers."""
    exact = pw.GaussianProcess(pw.Matern52([0.3, 0.3])).condition([[0.2, 0.2], [0.6, 0.5]], [1.0, 0.0])
    for belief, at in ((plane, [0.3, 0.6]), (exact, [0.6, 0.5])):
        with jax.enable_x64(True):
            found = values_and_gradients(belief, jnp.asarray(np.tile(at, (q, 1))))

        for name, (value, gradient) in found.items():
            assert np.isfinite(value), name
            assert np.isfinite(gradient).all(), name


def test_coincident_points_are_worth_one_point(plane):
    """Eight equal points promise what one does, up to the jitter's 1e-4 standard deviations."""
    one, eight = (pw.expectation(pw.SimpleRegret(), plane, np.tile([0.3, 0.6], (q, 1))).value for q in (1, 8))

    np.testing.assert_allclose(one, eight, atol=1e-3)


def test_gradient_in_mean_and_covariance():
    """Oracle T2: d SR / d mean and d covariance by Clark's formulas [notes 5b]."""
    with jax.enable_x64(True):
        m, c = jnp.asarray([0.2, -0.1]), jnp.asarray([[1.0, 0.3], [0.3, 0.5]])
        by_mean, by_covariance = jax.grad(
            lambda m, c: pw.expectation(pw.SimpleRegret(), pw.Normal(m, c), samples=MANY).value, argnums=(0, 1)
        )(m, c)

    np.testing.assert_allclose([0.624085182977, 0.375914817023], by_mean, atol=2e-3)
    np.testing.assert_allclose([0.200006491405] * 2, np.diagonal(by_covariance), atol=2e-3)
    np.testing.assert_allclose(-0.400012982810, by_covariance[0, 1] + by_covariance[1, 0], atol=2e-3)


def test_derivative_in_the_threshold_is_minus_the_probability():
    """d EI / d threshold = -PI, sample by sample; so its expectation is oracle T2's -0.57995."""
    vector = VECTORS["T2"]
    normal = pw.Normal(vector["mean"], vector["covariance"])
    with jax.enable_x64(True):
        slope = jax.grad(lambda a: pw.expectation(pw.ExpectedImprovement(a), normal, samples=MANY).value)(0.25)
    steps = pw.expectation(step(0.25), normal, samples=MANY)

    np.testing.assert_allclose(-steps.value, slope, atol=1e-12)
    np.testing.assert_allclose(-vector["expected"]["pi"], slope, rtol=2e-3)


def test_gradient_in_the_integrands_parameters():
    """Threshold, temperature, spread and beta are traced numbers, too."""
    normal = pw.Normal([0.2, -0.1], [[1.0, 0.3], [0.3, 0.5]])

    def f(theta):
        soft = pw.ProbabilityOfImprovement(theta[0], temperature=theta[1], spread=theta[2])
        bound = pw.UpperConfidenceBound(theta[3])
        return sum(pw.expectation(h, normal, samples=64).value for h in (soft, bound))

    theta = np.array([0.25, 0.3, 1.2, 1.7])
    with jax.enable_x64(True):
        gradient = jax.grad(f)(jnp.asarray(theta))

    np.testing.assert_allclose(reference.slope(f, theta, 1e-6), gradient, atol=1e-8)


def test_gradient_in_jaxs_32_bit_default(plane):
    """Plain `jax.grad` without x64: the same digits as far as 32 bits hold them, and no warning."""
    X = np.array([[0.3, 0.6], [0.8, 0.1]])

    def f(X):
        return pw.expectation(pw.ExpectedImprovement(1.2), plane, X).value

    narrow = jax.grad(f)(jnp.asarray(X))
    with jax.enable_x64(True):
        wide = jax.grad(f)(jnp.asarray(X))

    assert jnp.float32 == narrow.dtype
    np.testing.assert_allclose(wide, narrow, rtol=1e-5, atol=1e-6)


def test_value_under_32_bit_jit_and_vmap(plane):
    """An estimate inside the user's own compiled function."""
    pools = np.random.default_rng(0).random((3, 2, 2)).astype(np.float32)

    def f(X):
        return pw.expectation(pw.ExpectedImprovement(1.2), plane, X).value

    expected = [f(X) for X in pools]
    np.testing.assert_allclose(expected, jax.jit(jax.vmap(f))(jnp.asarray(pools)), rtol=1e-5)


def test_pending_points_are_rows_of_the_pool_without_gradient(plane):
    """The value is that of the concatenated pool; only new points move it [W17, q includes pending]."""
    new, busy = np.array([[0.3, 0.6], [0.8, 0.1]]), np.array([[0.5, 0.5]])
    integrand = pw.ExpectedImprovement(1.2)

    def f(new, busy):
        return pw.expectation(integrand, plane, new, pending=busy).value

    def whole(X):
        return pw.expectation(integrand, plane, X).value

    with jax.enable_x64(True):
        both = jnp.asarray(np.concatenate([busy, new]))
        by_new, by_busy = jax.grad(f, argnums=(0, 1))(jnp.asarray(new), jnp.asarray(busy))
        by_whole = jax.grad(whole)(both)

    assert whole(np.concatenate([busy, new])) == f(new, busy)
    np.testing.assert_array_equal(np.zeros((1, 2)), by_busy)
    np.testing.assert_allclose(by_whole[1:], by_new, atol=1e-15)
    assert f(new, np.zeros((0, 2))) == whole(new)


def test_two_ways_to_name_a_belief(plane):
    """A Normal, and a posterior with its pool beside it: one value."""
    X = np.array([[0.3, 0.6], [0.8, 0.1]])
    first, second = pw.expectation(pw.SimpleRegret(), plane(X)), pw.expectation(pw.SimpleRegret(), plane, X)

    np.testing.assert_allclose(first, second, rtol=1e-13)


def test_a_pools_order_does_not_matter(plane):
    """Permuting the pool stays within the standard error."""
    X = np.random.default_rng(2).random((4, 2))
    for integrand in (h for name, h in integrands(1.2).items() if name != "hard PI"):
        one, other = (pw.expectation(integrand, plane, pool, samples=MANY) for pool in (X, X[[2, 0, 3, 1]]))

        assert abs(one.value - other.value) < one.error + other.error


def test_same_seed_same_estimate(plane):
    """The seed is all that is random."""
    X = np.array([[0.3, 0.6]])
    for base in BASES:
        first, again, other = (
            pw.expectation(pw.UpperConfidenceBound(), plane, X, samples=32, base=base, seed=seed) for seed in (7, 7, 8)
        )

        assert first == again
        assert first.value != other.value


def test_hyperparameters_are_not_moved_by_an_expectation(plane):
    """The gradient in the pool treats the model as known [W17, footnote]; the posterior is a constant."""
    before = jax.tree.map(np.array, plane)
    with jax.enable_x64(True):
        jax.grad(lambda X: pw.expectation(pw.SimpleRegret(), plane, X).value)(jnp.array([[0.1, 0.2]]))

    jax.tree.map(np.testing.assert_array_equal, before, plane)


@pytest.mark.parametrize(("base", "samples"), [("iid", 1), ("sobol", 1), ("antithetic", 2)])
def test_one_draw_says_nothing_of_its_error(base, samples, plane):
    """The error is infinite, of logarithms too."""
    for goal in (pw.SimpleRegret(), pw.LogExpectedImprovement(0.1)):
        estimate = pw.expectation(goal, plane, [[0.3, 0.6]], samples=samples, base=base)

        assert np.isfinite(estimate.value)
        assert np.inf == estimate.error


def test_a_known_outcome_in_a_pool_does_not_improve():
    """Observed without noise, and as high as the threshold: what is left is the other point's own improvement."""
    posterior = pw.GaussianProcess(pw.Matern52(0.25)).condition([[0.1], [0.5], [0.85]], [0.86, 0.39, 0.78])
    pool = [[0.1], [0.52]]
    exact = pw.exact.expected_improvement(posterior(pool), 0.86)

    assert abs(pw.expectation(pw.ExpectedImprovement(0.86), posterior, pool, samples=2**12).value - exact) < 1e-8
