"""`propose`: a good pool, the same each time, with an honest account of itself."""

import logging
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import poolwise as pw
from poolwise.acquisition.expectation import Estimate
from poolwise.acquisition.integrand import MaxType
from poolwise.pool.idle import IDLE, idle_points
from poolwise.pool.judge import Judged, judge
from poolwise.pytree import pytree

RNG = np.random.default_rng(3)
X = RNG.random((24, 2))
Y = np.sin(5 * X).sum(axis=1)
PENDING = np.array([[0.3, 0.3], [0.6, 0.1]])
GOAL = pw.ExpectedImprovement(Y.max())


@pytest.fixture(scope="module")
def posterior():
    return pw.GaussianProcess(pw.Matern52(0.4), noise=1e-4).condition(X, Y)


@pytest.fixture(scope="module")
def proposal(posterior):
    return pw.propose(posterior, GOAL, q=3, pending=PENDING, seed=1)


def test_same_arguments_same_pool(posterior, proposal):
    """Whatever ran in between."""
    pw.propose(posterior, GOAL, q=3, pending=PENDING, seed=2)
    again = pw.propose(posterior, GOAL, q=3, pending=PENDING, seed=1)

    np.testing.assert_array_equal(proposal.pool, again.pool)
    assert proposal.value == again.value


def test_value_is_the_expectation_on_fresh_samples(posterior, proposal):
    """The reported value agrees with an independent estimate within their errors."""
    independent = pw.expectation(GOAL, posterior, proposal.pool, pending=PENDING, samples=2**14, base="iid", seed=9)

    assert abs(proposal.value - independent.value) < 4 * np.hypot(proposal.error, independent.error)


def test_contributions_are_leave_one_out(posterior, proposal):
    """Each point's contribution is what the pool is worth less without it."""
    whole = pw.expectation(GOAL, posterior, proposal.pool, pending=PENDING, samples=2**13).value
    for i, contribution in enumerate(proposal.contributions):
        rest = np.delete(proposal.pool, i, axis=0)
        lost = whole - pw.expectation(GOAL, posterior, rest, pending=PENDING, samples=2**13).value

        assert abs(lost - contribution) < 4 * proposal.error


def test_pool_beats_random_pools_and_shows_it(posterior, proposal):
    """The best of 256 random pools is worth less, and is really the best of random pools."""
    pools = np.random.default_rng(0).random((64, 3, 2))
    values = [pw.expectation(GOAL, posterior, pool, pending=PENDING).value for pool in pools]

    assert proposal.beats_random
    assert np.mean(values) < proposal.random_value < proposal.value


def test_joint_ascent_leaves_the_greedy_trap():
    """The best single point need not be in the best pair: on the paper's example, greedy alone takes the corner."""
    x = np.array([0.1, 0.5, 0.85])
    y = -(3.6 * x - 1.4) * np.sin(21.6 * x)
    posterior = pw.GaussianProcess(pw.Matern52(0.25), noise=1e-3).condition(x[:, None], y)
    pool = np.sort(pw.propose(posterior, pw.ExpectedImprovement(y.max()), q=2).pool[:, 0])
    grid = np.linspace(0, 1, 41)
    pairs = [(a, b) for a in grid for b in grid if a < b]
    exact = [pw.exact.expected_improvement(posterior(np.array(p)[:, None]), y.max()) for p in pairs]
    value = pw.exact.expected_improvement(posterior(pool[:, None]), y.max())

    assert value >= max(exact) - 1e-4
    np.testing.assert_allclose(pool, [0.0, 0.2376], atol=0.01)


def test_points_differ_from_each_other_and_from_pending_ones():
    """Also where the value is highest at one corner for all of them."""
    posterior = pw.GaussianProcess(pw.SquaredExponential(5.0), noise=1e-6).condition(X, X.sum(axis=1))
    pool = pw.propose(posterior, pw.SimpleRegret(), q=4, pending=[[1.0, 1.0]]).pool
    points = np.concatenate([[[1.0, 1.0]], pool])
    gaps = np.abs(points[:, None] - points[None]).max(axis=2)[np.triu_indices(5, 1)]

    assert gaps.min() >= 1e-6


@pytest.fixture(scope="module")
def slope():
    """A belief whose best place is the corner x = 1, also for replicates."""
    grid = np.linspace(0, 1, 9)[:, None]
    return pw.GaussianProcess(pw.Matern52(0.5), noise=1e-2).condition(grid, 2 * grid[:, 0])


@pytest.mark.parametrize(
    "goal",
    [pw.EnergyEntropy(0.01), pw.integrand(lambda y, mean: jnp.min(y)), pw.integrand(lambda y, mean: jnp.mean(y))],
    ids=["energy", "min", "mean"],
)
@pytest.mark.parametrize("pending", [None, [[1.0]]], ids=["alone", "pending"])
def test_points_of_which_all_want_one_place_stand_side_by_side(slope, goal, pending):
    """Worth what replicates are, but for a thousandth, and within the cube."""
    proposal = pw.propose(slope, goal, 3, pending=pending)
    replicates = pw.propose(slope, goal, 3, pending=pending, replicate=True)
    gaps = np.diff(np.sort(np.concatenate([proposal.pool.ravel(), np.ravel(pending or [])])))

    assert gaps.min() >= 1e-6
    assert proposal.pool.min() >= 0
    assert proposal.pool.max() <= 1
    assert proposal.value > replicates.value - 1e-2


def test_a_point_that_can_add_nothing_does_not_stand_beside_a_pending_one():
    """An own maximum, in whose corner somebody is already: the other is to look elsewhere."""
    grid = np.linspace(0, 1, 9)[:, None]
    steep = pw.GaussianProcess(pw.Matern52(2.0), noise=1e-4).condition(grid, 5 * grid[:, 0])
    pool = pw.propose(steep, pw.integrand(lambda y, mean: jnp.max(y)), 1, pending=[[1.0]]).pool

    assert pool[0, 0] < 0.95


@pytest.mark.parametrize(
    "maximizer",
    [
        pw.RandomSearch(2**8),
        pw.Direct(evaluations=200),
        pw.Lbfgsb(rounds=30),
        pw.Stochastic("adam", steps=60),
        pw.Stochastic("rmsprop", steps=60),
        pw.Stochastic("momentum", steps=60),
        pw.Ascent(candidates=64, starts=2, rounds=6, lanes=1),
    ],
    ids=lambda maximizer: type(maximizer).__name__ + getattr(maximizer, "rule", ""),
)
def test_every_maximizer_gives_a_pool(posterior, maximizer):
    """Any maximizer climbs the joint objective, and gradient ones get near what the default finds."""
    found = pw.propose(posterior, GOAL, q=2, maximizer=maximizer)

    assert (2, 2) == found.pool.shape
    assert found.value > 0 and found.evaluations > 0


def test_own_integrand_gets_a_pool(posterior):
    """A decorated function is climbed like any other: here the second best outcome, so a pool of one is worth least."""

    @pw.integrand
    def second_best(y, mean):
        return jnp.sort(y)[-2] if y.shape[0] > 1 else y[0] - 10.0

    found = pw.propose(posterior, second_best, q=2, maximizer=pw.Ascent(samples=256, candidates=64))

    assert found.beats_random
    assert (2,) == found.contributions.shape


def test_entropy_search_gets_a_pool(posterior):
    """A lookahead integrand is climbed by the same call, and its value is information."""
    goal = pw.EntropySearch(RNG.random((12, 2)), noise=1e-4, samples=64)
    found = pw.propose(posterior, goal, q=1, maximizer=pw.Ascent(samples=128, candidates=32, starts=2, rounds=5))

    assert found.value > 0
    assert found.value >= found.random_value - 4 * found.error


def test_where_nothing_improves_log_improvement_decides(posterior, caplog):
    """A threshold out of reach leaves improvement flat, which is said; the pool is one that its logarithm likes."""
    with caplog.at_level(logging.WARNING, logger="poolwise"):
        flat = pw.propose(posterior, pw.ExpectedImprovement(9.0), q=2, seed=4)

    assert ["no base sample improves anywhere" in record.message for record in caplog.records] == [True]
    random = [exact_log_improvement(posterior, pool, 9.0) for pool in RNG.random((256, 2, 2))]
    assert exact_log_improvement(posterior, flat.pool, 9.0) > max(random)


def judged(goal, posterior, pool, pending=()):
    with jax.enable_x64(True):
        return judge(goal, posterior, pool, np.reshape(pending, (-1, pool.shape[1])))


def exact_log_improvement(posterior, pool, threshold):
    return float(pw.exact.log_expected_improvement(posterior(pool), threshold))


def test_points_that_add_nothing_go_where_something_may_be():
    """Six points hold all of a probability; the other two are chosen again, for how much more there may be."""
    posterior = pw.GaussianProcess(pw.Matern52(0.15), noise=1e-6).condition([[0.2], [0.22], [0.8]], [0.0, 0.9, -2.0])
    goal = pw.ProbabilityOfImprovement(3.5)
    before, after = pw.propose(posterior, goal, 8, budget=pw.Budget(10**9)), pw.propose(posterior, goal, 8)
    kept = ~idle_points(goal, judged(goal, posterior, before.pool))
    logs = [
        pw.expectation(pw.LogExpectedImprovement(3.5), posterior, found.pool, samples=2**12).value
        for found in (before, after)
    ]

    assert 0 < kept.sum() < 8
    np.testing.assert_array_equal(before.pool[kept], after.pool[: kept.sum()])
    assert after.value >= before.value * (1 - 8 * IDLE)
    assert logs[1] > logs[0]


@pytest.mark.parametrize(
    ("goal", "value", "idle"),
    [
        (pw.ExpectedImprovement(0.0), 0.9, [True, True, False]),
        (pw.ExpectedImprovement(0.0), 0.995, [True, True, False]),
        (pw.ProbabilityOfImprovement(0.0), 0.9, [True, False, False]),
        (pw.ProbabilityOfImprovement(0.0), 0.991, [False, False, False]),
        (pw.ProbabilityOfImprovement(0.0), 0.995, [True, True, False]),
        (pw.SimpleRegret(), 0.9, [False, False, False]),
    ],
)
def test_who_is_idle(goal, value, idle):
    """What a point adds counts beside the value, of a probability beside what is left.

    Where it is sure nobody is idle, unless pending points alone make it so, as the last of them do.
    """
    gains = np.array([0.0, 2e-4, 2e-3])

    assert idle == idle_points(goal, Judged(Estimate(value, 0.0), gains, gains)).tolist()


@pytest.mark.parametrize(("first", "idle"), [(0.992, [False, True, False]), (0.988, [False, False, False])])
def test_who_is_idle_beside_a_sure_point(first, idle):
    """Where the first point alone is all but sure to improve, others must add something; otherwise they need not."""
    gains = np.array([first, 2e-4, 0.998 - first])

    found = idle_points(pw.ProbabilityOfImprovement(0.0), Judged(Estimate(0.998, 0.0), gains, gains))

    assert idle == found.tolist()


def test_a_pool_beside_a_sure_point_holds_the_top_too():
    """Its first point is far above the threshold and far below the top, which adds nothing to a probability of one."""
    X = np.random.default_rng(0).random((30, 4))
    y = -5 * np.sum((X - 0.4) ** 2, axis=1) + np.sin(5 * X[:, 0])
    posterior = pw.fit(X, y)
    top = pw.propose(posterior, pw.SimpleRegret(), 1).value
    found = pw.balanced(posterior, 4)

    assert pw.expectation(pw.ProbabilityOfImprovement(y.max()), posterior, found.pool).value > 0.99
    assert found.value > top - 0.1 * (top - y.max())


def test_a_point_that_adds_nothing_to_pending_ones_is_no_alarm(caplog):
    """Pending points cover the only hill: one more adds next to nothing, but there is improvement."""
    posterior = pw.GaussianProcess(pw.Matern52(0.15), noise=1e-6).condition([[0.2], [0.22], [0.8]], [0.0, 0.9, -2.0])
    goal, hill = pw.ExpectedImprovement(1.0), np.linspace(0.25, 0.45, 16)[:, None]
    with caplog.at_level(logging.WARNING, logger="poolwise"):
        found = pw.propose(posterior, goal, 1, pending=hill)
        alone = pw.propose(posterior, goal, 1, pending=hill, budget=pw.Budget(10**9))

    assert judged(goal, posterior, alone.pool, hill).gains <= IDLE * alone.value
    assert found.pool != pytest.approx(alone.pool, abs=0.01)
    assert not caplog.records


def test_gains_add_up_to_the_value_and_exceed_what_leaving_out_loses(posterior):
    """What each point adds to those before it sums to the whole; beside all others it adds less."""
    pool, pending = RNG.random((4, 2)), RNG.random((2, 2))
    alone, beside = judged(GOAL, posterior, pool), judged(GOAL, posterior, pool, pending)

    assert alone.gains.sum() == pytest.approx(float(alone.estimate.value), rel=1e-9)
    assert (alone.gains >= alone.contributions - 1e-12).all()
    assert alone.gains[-1] == pytest.approx(alone.contributions[-1], rel=1e-9)
    waiting = judged(GOAL, posterior, pending).estimate.value
    assert beside.gains.sum() == pytest.approx(float(beside.estimate.value - waiting), abs=4 * beside.estimate.error)


def test_noise_free_data_can_be_searched():
    """Without noise the inverse is too coarse; the search lifts the noise a little, the judge does not."""
    posterior = pw.GaussianProcess(pw.Matern52(0.5)).condition(X, Y)
    found = pw.propose(posterior, GOAL, q=3)
    independent = pw.expectation(GOAL, posterior, found.pool, samples=2**14, base="iid", seed=9)

    assert found.beats_random
    assert abs(found.value - independent.value) < 4 * np.hypot(found.error, independent.error)


@pytest.mark.parametrize(("q", "lanes"), [(20, 2), (2, 18)])
def test_a_pool_may_be_larger_than_a_set_of_candidates(posterior, q, lanes):
    """Of sixteen candidates a pick; as many lanes as one likes."""
    settings = pw.Ascent(samples=64, candidates=16, starts=2, rounds=2, lanes=lanes, polish=2)
    found = pw.propose(posterior, pw.SimpleRegret(), q=q, maximizer=settings)

    assert len(np.unique(found.pool, axis=0)) == q


@pytree
class Root(MaxType):
    """The square root of the best outcome, no number where that is below zero."""

    def value(self, best):
        return jnp.where(best > 0, jnp.sqrt(jnp.abs(best)), jnp.nan)


def test_places_without_a_value_are_not_the_best(posterior):
    """Only near the top all samples have a root; elsewhere the value is no number."""
    settings = pw.Ascent(samples=64, candidates=64, starts=2, rounds=2, lanes=1, polish=2)
    found = pw.propose(posterior, Root(), q=2, maximizer=settings)

    assert np.isnan(pw.expectation(Root(), posterior, [[0.9, 0.9], [0.9, 0.8]]).value)
    assert np.isfinite(found.value)


@pytest.mark.parametrize(("lanes", "pools"), [(1, 0), (2, 16), (18, 18)])
def test_pools_that_lanes_are_chosen_from_count(posterior, lanes, pools):
    """Beyond the greedy picks nothing may be spent, so no lane climbs."""

    def spent(lanes):
        settings = pw.Ascent(samples=64, candidates=16, starts=2, rounds=2, lanes=lanes, polish=2)
        return pw.propose(posterior, GOAL, q=2, maximizer=settings, budget=pw.Budget(evaluations=1)).evaluations

    assert pools == spent(lanes) - spent(1)


def test_deadline_is_kept(posterior):
    """A deadline that has passed leaves the greedy pool: no joint climb is begun, and no time is lost."""
    whole = pw.propose(posterior, GOAL, q=3, deadline=60.0)
    found = pw.propose(posterior, GOAL, q=3, deadline=1e-6)

    assert found.evaluations < whole.evaluations
    assert (3, 2) == found.pool.shape and found.value > 0


def test_budget_of_evaluations_is_kept(posterior):
    """Four evaluations beyond the greedy picks are four rounds of the last climb at most."""
    least = pw.propose(posterior, GOAL, q=3, budget=pw.Budget(evaluations=1)).evaluations
    whole = pw.propose(posterior, GOAL, q=3).evaluations
    some = pw.propose(posterior, GOAL, q=3, budget=pw.Budget(evaluations=least + 4)).evaluations

    assert least < some <= least + 4 < whole


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"q": 0}, "q"),
        ({"pending": [[0.1, 0.2, 0.3]]}, "pending"),
        ({"pending": [[np.nan, 0.2]]}, "pending"),
        ({"deadline": 0.0}, "deadline"),
        ({"integrand": 3.0}, "integrand"),
    ],
)
def test_bad_input_is_named(posterior, change, named):
    """Each bad argument is an InputError that begins with its name."""
    arguments = {"integrand": GOAL, "q": 2} | change
    with pytest.raises(pw.InputError, match=f"^{named}"):
        pw.propose(posterior, arguments.pop("integrand"), arguments.pop("q"), **arguments)


WRONG_TYPES = """
import poolwise as pw
from poolwise.pool.idle import IDLE, idle_points
from poolwise.pool.judge import Judged, judge
posterior = pw.GaussianProcess(pw.Matern52(0.4), noise=1e-4).condition([[0.1], [0.6]], [0.0, 1.0])
goal = pw.ExpectedImprovement(1.0)
for named, call in {
    "q": lambda: pw.propose(posterior, goal, 2.5),
    "posterior": lambda: pw.propose("none", goal, 2),
    "maximizer": lambda: pw.propose(posterior, goal, 2, maximizer="lbfgs"),
    "deadline": lambda: pw.propose(posterior, goal, 2, deadline="3"),
    "budget": lambda: pw.propose(posterior, goal, 2, budget=200),
    "evaluations": lambda: pw.Budget(evaluations=200.5),
    "evaluations: expected": lambda: pw.Budget(evaluations="a"),
    "seconds": lambda: pw.Budget(seconds="a"),
}.items():
    try:
        call()
    except pw.InputError as error:
        assert str(error).startswith(named), error
    else:
        raise AssertionError(named)
"""


def test_wrong_types_are_named():
    """The same for types that the tests' own type checker would catch first, so in a process without it."""
    ran = subprocess.run([sys.executable, "-c", WRONG_TYPES], capture_output=True, text=True)

    assert "" == ran.stderr


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda y, mean: y, "returns shape"),
        (lambda y, mean: None, "returns nothing"),
        (lambda y: y.max(), "raised TypeError"),
    ],
    ids=["vector", "nothing", "one argument"],
)
def test_integrand_that_is_no_number_is_named(function, message, posterior):
    """A mistake in one's own integrand is said in one sentence, before anything is compiled."""
    with pytest.raises(pw.InputError, match=message):
        pw.propose(posterior, pw.integrand(function), q=2)


def test_integrand_that_is_never_finite_is_said(posterior, caplog):
    """A pool that fills the space, and a warning: never a silent NaN."""
    never = pw.integrand(lambda y, mean: jnp.sum(y) * jnp.nan)
    with caplog.at_level(logging.WARNING, logger="poolwise"):
        found = pw.propose(posterior, never, q=1, maximizer=pw.RandomSearch(points=64))

    assert np.isfinite(found.pool).all()
    assert "nothing to climb" in caplog.text
