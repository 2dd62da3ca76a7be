"""Improvement in log space: check values, agreement with the plain forms, and slopes where those have none."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.conftest import ORACLES

import poolwise as pw
from poolwise.acquisition.log_space import fat_max, log_fat_plus
from poolwise.acquisition.noisy import baseline

VECTORS = {vector["name"]: vector for vector in ORACLES["normals"]}
MEAN, COVARIANCE = np.array([0.5, 0.2, -0.3]), np.array([[1, 0.6, 0.2], [0.6, 1.2, -0.3], [0.2, -0.3, 0.9]])


@pytest.fixture(autouse=True)
def wide():
    with jax.enable_x64(True):
        yield


def plus(x, scale):
    return float(jnp.exp(log_fat_plus(jnp.asarray(float(x)), jnp.asarray(scale))))


def posterior(noise=1e-4, d=2, n=12):
    rng = np.random.default_rng(3)
    X = rng.random((n, d))
    return pw.GaussianProcess(pw.Matern52(0.4), noise=noise).condition(X, np.sin(6 * X).sum(axis=1))


@pytest.mark.parametrize(
    ("x", "scale", "value"),
    [(-1, 1e-6, 1.0e-19), (0, 1e-6, 7.931471805599452e-07), (0.3, 1e-6, 0.3), (-1, 0.01, 9.9990001e-08)],
)
def test_fat_plus_has_its_check_values(x, scale, value):
    assert plus(x, scale) == pytest.approx(value, rel=1e-8)


def test_fat_max_has_its_check_value_and_leaves_nobody_without_slope():
    x = jnp.array([0.0, -1.0, -3.0])

    slopes = jax.grad(lambda x: fat_max(x[None, :, None])[0, 0])(x)

    assert float(fat_max(x[None, :, None])[0, 0]) == pytest.approx(2.180907765e-06, rel=1e-6)
    assert (np.asarray(slopes) > 0).all()
    assert np.argsort(-np.asarray(slopes)).tolist() == [0, 1, 2]


@pytest.mark.parametrize("name", ["T2", "T3"])
def test_its_exponential_is_expected_improvement(name):
    """Where the maximum is not nearly tied, to a few parts in a hundred thousand, on the same samples."""
    vector = VECTORS[name]
    normal = pw.Normal(vector["mean"], vector["covariance"])
    threshold = float(vector["threshold"])

    plain = pw.expectation(pw.ExpectedImprovement(threshold), normal, samples=2**12).value
    logarithm = pw.expectation(pw.LogExpectedImprovement(threshold), normal, samples=2**12)

    assert np.exp(logarithm.value) == pytest.approx(plain, rel=1e-3)
    assert 0 < logarithm.error < 0.1


def test_log_probability_of_improvement_is_the_logarithm_of_the_soft_one():
    normal = pw.Normal(MEAN, COVARIANCE)

    plain = pw.expectation(pw.ProbabilityOfImprovement(0.4), normal).value
    logarithm = pw.expectation(pw.LogProbabilityOfImprovement(0.4), normal).value

    assert logarithm == pytest.approx(np.log(plain), abs=1e-12)


@pytest.mark.parametrize("kind", [pw.LogExpectedImprovement, pw.LogProbabilityOfImprovement])
@pytest.mark.parametrize("sigmas", [0.0, 4.0, 10.0, 40.0])
def test_slopes_live_at_forty_standard_deviations(kind, sigmas):
    """Plain improvement is zero there on every sample; here each mean pulls upward, as central differences say."""
    mean = MEAN - sigmas

    def value(mean):
        return pw.expectation(kind(1.5), pw.Normal(mean, COVARIANCE), samples=256).value

    slopes = np.asarray(jax.grad(value)(jnp.asarray(mean)))
    differences = [(value(mean + h) - value(mean - h)) / 2e-6 for h in 1e-6 * np.eye(3)]

    assert (slopes > 0).all()
    assert slopes == pytest.approx(np.array(differences), rel=2e-3, abs=1e-6)


def test_the_error_of_a_logarithm_is_relative():
    """About as large as independent estimates scatter."""
    normal = pw.Normal(MEAN, COVARIANCE)
    estimates = [
        pw.expectation(pw.LogExpectedImprovement(1.0), normal, samples=256, base="iid", seed=seed) for seed in range(60)
    ]

    scatter = np.std([estimate.value for estimate in estimates])

    assert np.mean([estimate.error for estimate in estimates]) == pytest.approx(scatter, rel=0.3)


def test_over_a_region_log_weights_are_added():
    normal, box = pw.Normal(MEAN, COVARIANCE), pw.Box(lower=-1.0, upper=2.0)

    plain = pw.expectation(pw.ExpectedImprovement(0.4), normal, region=box, samples=2**12).value
    logarithm = pw.expectation(pw.LogExpectedImprovement(0.4), normal, region=box, samples=2**12).value

    assert np.exp(logarithm) == pytest.approx(plain, rel=5e-3)


def test_proposals_of_both_forms_are_worth_the_same():
    belief = posterior()
    threshold = float(belief.y.max())
    plain, log = pw.ExpectedImprovement(threshold), pw.LogExpectedImprovement(threshold)

    a, b = pw.propose(belief, plain, q=3), pw.propose(belief, log, q=3)

    assert np.exp(b.value) == pytest.approx(a.value, rel=0.02)
    assert b.contributions == pytest.approx(a.contributions, abs=0.02)
    assert b.value == pytest.approx(pw.expectation(log, belief, b.pool, samples=2**12).value, abs=0.05)


@pytest.mark.parametrize("threshold", [5.0, 40.0])
def test_out_of_reach_the_pool_still_climbs(caplog, threshold):
    """Every plain sample is zero; the log form needs no other threshold, and does not climb its samples' fat tails."""
    belief, rng = posterior(), np.random.default_rng(0)

    proposal = pw.propose(belief, pw.LogExpectedImprovement(threshold), q=2)

    def exact(pool):
        return float(pw.exact.log_expected_improvement(belief(pool), threshold))

    assert not caplog.records
    assert exact(proposal.pool) > max(exact(pool) for pool in rng.random((200, 2, 2)))


def test_noisy_improvement_is_the_gain_over_the_baseline_in_the_same_samples():
    """E[max of both] - E[max of the baseline], by another route."""
    belief = posterior(noise=0.09)
    noisy = pw.LogNoisyExpectedImprovement.over(belief)
    pool = np.array([[0.1, 0.9], [0.3, 0.2]])
    base = baseline(belief)
    many = {"samples": 2**15}

    both = pw.expectation(pw.SimpleRegret(), belief, np.concatenate([base, pool]), **many)
    alone = pw.expectation(pw.SimpleRegret(), belief, base, **many)
    value = pw.expectation(noisy, belief, pool, **many).value

    assert np.exp(value) == pytest.approx(both.value - alone.value, abs=4 * (both.error + alone.error))


def test_the_baseline_is_the_points_that_may_be_the_best():
    """Without doubt there is one; with much noise, those whose samples win, in the order of their chances."""
    sure, unsure = posterior(noise=1e-8), posterior(noise=0.5)

    normal = unsure(unsure.X)
    draws = np.random.default_rng(0).multivariate_normal(normal.mean, normal.covariance, 20000, method="eigh")
    chances = np.bincount(draws.argmax(axis=1), minlength=len(unsure.y)) / 20000

    assert baseline(sure).tolist() == [sure.X[sure.y.argmax()].tolist()]
    assert len(baseline(unsure)) >= (chances > 0.01).sum()
    assert chances[(unsure.X == baseline(unsure)[0]).all(axis=1).argmax()] > 0.9 * chances.max()


def test_noisy_improvement_is_climbed_beside_pending_points_and_padded_ones_do_not_count():
    belief = posterior(noise=0.05)
    noisy = pw.LogNoisyExpectedImprovement.over(belief)
    pending = [[0.15, 0.9]]

    proposal = pw.propose(belief, noisy, q=2, pending=pending)
    value = pw.expectation(noisy, belief, proposal.pool, pending=pending, samples=2**13)

    assert proposal.value == pytest.approx(value.value, abs=0.1)
    assert proposal.value > proposal.random_value
    assert proposal.pool.tolist() == pw.propose(belief, noisy, q=2, pending=pending).pool.tolist()


def test_noisy_improvement_over_a_domain_scores_what_is_run():
    belief = posterior(noise=0.05)
    space = pw.Space({"a": pw.Int(0, 20), "b": pw.Float(0, 1)})

    proposal = pw.propose(belief, pw.LogNoisyExpectedImprovement.over(belief), q=2, domain=space)

    assert np.array_equal(proposal.pool, space.snap(proposal.pool))
    assert proposal.value > proposal.random_value


@pytest.mark.parametrize("arguments", [{"threshold": np.nan}, {"threshold": 0.0, "spread": 0.0}])
def test_bad_numbers_are_refused(arguments):
    with pytest.raises(pw.InputError):
        pw.LogExpectedImprovement(**arguments)


def test_a_baseline_that_is_replaced_has_no_other_points():
    """Slots that fill it up stay free, and what was given is all there is."""
    X = [[0.1], [0.9], [0.3]]
    belief = pw.GaussianProcess(pw.Matern52(0.25), noise=1e-2).condition(X, [0.5, 0.6, 0.55])
    noisy = pw.LogNoisyExpectedImprovement(X)
    wider, other = dataclasses.replace(noisy, spread=1.0), dataclasses.replace(noisy, points=[*X, [0.5]])
    values = [pw.expectation(goal, belief, [[0.5]]).value for goal in (noisy, wider, other)]

    assert values[0] == values[1]
    assert values[2] < values[0] - 1
    assert [3, 3, 4] == [int(goal.live.sum()) for goal in (noisy, wider, other)]
