"""Balanced pools: they look for hills, climb the one that is known, or both."""

import functools

import jax
import numpy as np
import pytest

import poolwise as pw
from poolwise.belief.gaussian_process import straight
from poolwise.pool.balance import (
    CLIMBING,
    EFFORT,
    SEARCH,
    _looking,
    best_expected,
    likely_better,
    many_hills,
    much_better,
    rough,
    some_better,
)
from poolwise.pool.idle import idle_points
from poolwise.pool.judge import judge
from poolwise.pool.searching import searched

part = functools.partial(pw.propose, maximizer=EFFORT)


@pytest.fixture(scope="module")
def belief():
    rng = np.random.default_rng(0)
    X = rng.random((10, 2))
    return pw.GaussianProcess(pw.Matern52(0.25), noise=1e-3).condition(X, np.sin(5 * X).sum(axis=1))


def test_short_lengthscales_are_explored_by_expected_improvement(belief):
    waiting = [[0.1, 0.9]]

    pool = pw.balanced(belief, 2, pending=waiting, seed=3).pool

    better = pw.ExpectedImprovement(best_expected(belief))
    assert np.array_equal(pool, part(belief, better, 2, pending=waiting, seed=3).pool)


@pytest.fixture(scope="module")
def settled():
    """The top is known, as are outcomes around it: what is better is a little better and no likelier than not."""
    X = np.concatenate([np.random.default_rng(0).random((20, 2)), [[0.5, 0.5]]])
    return pw.GaussianProcess(pw.Matern52(1.2, 2.0), noise=1e-3).condition(X, -((X - 0.5) ** 2).sum(axis=1))


@pytest.fixture(scope="module")
def promising():
    """All observations lie on the same slope, far below the top."""
    X = np.random.default_rng(0).random((8, 2)) / 3
    return pw.GaussianProcess(pw.Matern52(2.0), noise=1e-3).condition(X, -((X - [0.7, 0.3]) ** 2).sum(axis=1))


def climbed(belief, q, **options):
    return pw.propose(belief, some_better(belief), q, maximizer=CLIMBING, **options).pool


def test_long_lengthscales_are_climbed_by_improvement(settled):
    X, y = np.array([[0.1, 0.2], [0.8, 0.5], [0.4, 0.9]]), np.array([0.0, 10.0, 5.0])
    beliefs = [pw.GaussianProcess(pw.Matern52([0.2, size]), noise=0.04).condition(X, y) for size in (0.35, 0.8, 1.2)]
    long = beliefs[-1]
    better = some_better(long)

    assert [many_hills(belief) for belief in beliefs] == [True, False, False]
    assert [many_hills(belief, known=True) for belief in beliefs] == [True, True, False]
    assert better.threshold == pytest.approx(np.max(long(X).mean))
    assert better.threshold < 10.0
    assert better.spread == pytest.approx(np.std(y))
    assert np.array_equal(pw.balanced(settled, 2, seed=1).pool, climbed(settled, 2, seed=1))


def test_what_is_rough_is_explored_by_expected_improvement_unless_it_is_known_to_be_noise(settled):
    X, y = settled.X, settled.y
    calm, belief = (pw.GaussianProcess(pw.Matern52(1.2, 2.0), noise=n).condition(X, y) for n in (0.39, 0.41))
    better = pw.ExpectedImprovement(best_expected(belief))

    assert [False, True] == [rough(calm), rough(belief)]
    assert np.array_equal(pw.balanced(belief, 2).pool, part(belief, better, 2).pool)
    assert np.array_equal(pw.balanced(belief, 2, known=True).pool, climbed(belief, 2))


def test_known_lengthscales_are_believed_sooner(promising):
    belief = pw.GaussianProcess(pw.Matern52(0.4), noise=1e-3).condition(promising.X, promising.y)

    explored, better = (pw.balanced(belief, 2, known=known).pool for known in (True, False))

    assert np.array_equal(explored, part(belief, pw.UpperConfidenceBound(), 2).pool)
    assert np.array_equal(better, part(belief, pw.SimpleRegret(), 2).pool)


def test_points_that_add_nothing_to_the_climb_are_chosen_by_expected_improvement(caplog):
    """The best outcome is known and in the corner: one point beside it is as likely to be better as many are."""
    X = np.concatenate([np.random.default_rng(3).random((8, 2)), [[1.0, 1.0]]])
    known = pw.GaussianProcess(pw.Matern52(0.8), noise=1e-4).condition(X, 3 * X.sum(axis=1))

    pool = pw.balanced(known, 6).pool

    alone = searched(known, some_better(known), 6, np.zeros((0, 2)), domain=None, maximizer=CLIMBING, seed=0).pool
    with jax.enable_x64(True):
        idle = idle_points(some_better(known), judge(some_better(known), known, alone, np.zeros((0, 2))))
    assert 0 < idle.sum()
    assert np.array_equal(pool[: (~idle).sum()], alone[~idle])
    assert np.subtract(*(pw.expectation(much_better(known), known, each).value for each in (pool, alone))) > 1e-3
    assert not caplog.records  # nobody asked for that integrand, so nothing is said


def test_where_a_point_is_likely_to_improve_the_best_of_the_pool_counts(promising):
    pools = [pw.balanced(promising, 2).pool, climbed(promising, 2)]

    assert np.array_equal(pools[0], part(promising, pw.SimpleRegret(), 2).pool)
    best = [pw.expectation(pw.SimpleRegret(), promising, each, samples=2**13).value for each in pools]
    assert best[0] > best[1] + 0.01


def test_what_is_pending_may_be_likely_to_improve(settled):
    """Four points around the top: one of them will be better than it, and the pool is chosen to be better than they."""
    waiting = [[0.45, 0.5], [0.55, 0.5], [0.5, 0.45], [0.5, 0.55]]

    pool = pw.balanced(settled, 2, pending=waiting).pool

    assert np.array_equal(pool, part(settled, pw.SimpleRegret(), 2, pending=waiting).pool)
    assert not np.array_equal(pool, climbed(settled, 2, pending=waiting))


def test_known_hills_are_looked_for_first_and_then_learned():
    """All by the bound until there are twenty observations for each dimension, then half of them by knowledge."""
    X = np.random.default_rng(0).random((SEARCH + 1, 1))
    belief = pw.GaussianProcess(pw.Matern52(0.1), noise=1e-3).condition(X, np.sin(20 * X[:, 0]))
    early = pw.GaussianProcess(pw.Matern52(0.1), noise=1e-3).condition(X[:-3], np.sin(20 * X[:-3, 0]))

    first, later = (pw.balanced(belief, q, known=True, seed=1).pool for belief, q in ((early, 2), (belief, 4)))

    assert np.array_equal(first, part(early, pw.UpperConfidenceBound(), 2, seed=1).pool)
    assert np.array_equal(later[:2], part(belief, pw.UpperConfidenceBound(), 2, seed=1).pool)
    assert not np.array_equal(later, part(belief, pw.UpperConfidenceBound(), 4, seed=1).pool)


@pytest.mark.parametrize(
    ("seen", "q", "looking"), [(0, 8, 8), (36, 8, 6), (40, 8, 4), (40, 1, 0), (41, 1, 1), (41, 3, 2), (39, 1, 1)]
)
def test_how_many_points_look_for_hills(seen, q, looking):
    """In two dimensions: all up to 40, then each second."""
    assert looking == _looking(seen, q, 2)


def test_knowledge_raises_what_is_recommended():
    """Where hyperparameters are known and observations noisy, late pools raise the best mean by more than the bound."""
    X = np.random.default_rng(0).random((2 * SEARCH, 2))
    belief = pw.GaussianProcess(pw.Matern52(0.2), noise=0.05).condition(X, np.sin(10 * X).sum(axis=1))
    goal = pw.KnowledgeGradient(np.random.default_rng(1).random((512, 2)))

    pools = [pw.balanced(belief, 4, known=True).pool, part(belief, pw.UpperConfidenceBound(), 4).pool]
    told, bound = (pw.expectation(goal, belief, pool, samples=2**14) for pool in pools)

    assert told.value > bound.value + 4 * (told.error + bound.error)


def test_a_pool_is_searched_where_axes_are_straight():
    """A warping of inputs is undone for the search, pending points included: programs know of none."""
    rng, warp = np.random.default_rng(0), pw.Warp([0.4, 1.0], [1.0, 2.0])
    X = rng.random((12, 2))
    belief = pw.GaussianProcess(pw.Matern52(1.0, warp=warp), noise=1e-3).condition(X, np.sin(3 * X).sum(axis=1))
    plain = pw.GaussianProcess(pw.Matern52(1.0), noise=1e-3).condition(warp(X), belief.y)

    waiting = pw.balanced(belief, 1).pool  # it counts: without it this point would be chosen again

    pool = pw.balanced(belief, 3, pending=waiting).pool

    expected = warp.back(pw.balanced(plain, 3, pending=warp(waiting)).pool)
    np.testing.assert_allclose(pool, expected, atol=1e-6)
    np.testing.assert_allclose(straight(belief)(warp(pool)).covariance, belief(pool).covariance, atol=1e-12)
    assert straight(plain) is plain


@pytest.mark.parametrize("better", [some_better, likely_better, much_better])
def test_constant_outcomes_have_a_spread_too(better):
    points, outcomes = np.linspace(0, 1, 6)[:, None], np.full(6, 0.1)  # whose deviation is 1e-17, for rounding
    belief = pw.GaussianProcess(pw.Matern52(2.0, amplitude=3.0), noise=0.1).condition(points, outcomes)

    assert better(belief).spread == 3.0


def test_what_the_proposal_says(belief):
    proposal = pw.balanced(belief, 2)
    best = pw.expectation(pw.SimpleRegret(), belief, proposal.pool, samples=2**13)

    assert proposal.value == pytest.approx(best.value, abs=4 * (best.error + proposal.error))
    assert proposal.contributions.shape == (2,) and (proposal.contributions >= 0).all()
    assert np.array_equal(proposal.pool, pw.balanced(belief, 2).pool)


def test_over_a_domain_all_points_can_be_run_and_differ(belief):
    space = pw.Space({"a": pw.Int(0, 3), "b": pw.Int(0, 2)})

    pool = pw.balanced(belief, 2, domain=space).pool

    assert np.array_equal(pool, space.snap(pool))
    assert 2 == len(np.unique(pool, axis=0))


def test_known_hills_over_a_domain():
    """Late pools too: the knowledge gradient is searched among what can be run."""
    space = pw.Space({"a": pw.Int(0, 30), "b": pw.Int(0, 20)})
    X = space.snap(np.random.default_rng(0).random((2 * SEARCH + 4, 2)))
    belief = pw.GaussianProcess(pw.Matern52(0.2), noise=0.01).condition(X, np.sin(10 * X).sum(axis=1))

    pool = pw.balanced(belief, 2, domain=space, known=True, pending=X[:2]).pool

    assert np.array_equal(pool, space.snap(pool))
    assert 4 == len(np.unique(np.concatenate([pool, X[:2]]), axis=0))


@pytest.mark.parametrize("arguments", [{"q": 0}, {"q": 2, "pending": [[0.1]]}])
def test_bad_arguments_are_refused(belief, arguments):
    with pytest.raises(pw.InputError):
        pw.balanced(belief, **arguments)
