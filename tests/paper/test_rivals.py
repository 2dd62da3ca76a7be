"""The classical ways to a pool."""

import numpy as np
import pytest

import poolwise as pw
from poolwise.paper import rivals


@pytest.fixture(scope="module")
def pools(plane):
    names = ("believer", "liar-min", "liar-max")
    return {name: rivals.STRATEGIES[name](plane, 3, None, 0) for name in names}


def value(goal, posterior, pool):
    return float(pw.expectation(goal, posterior, pool, samples=4096).value)


def check(pool):
    """Three different points of the unit cube."""
    assert (3, 2) == pool.shape
    assert pool.min() >= 0 and pool.max() <= 1
    assert len(np.unique(pool.round(6), axis=0)) == 3


def test_pools_are_in_the_cube(pools):
    """Every strategy gives that many different points."""
    for pool in pools.values():
        check(pool)


def test_first_points_agree(pools):
    """With nothing pending, liars and believer all begin at the maximum of expected improvement."""
    assert np.allclose(pools["believer"][0], pools["liar-min"][0], atol=1e-3)
    assert np.allclose(pools["believer"][0], pools["liar-max"][0], atol=1e-3)


@pytest.mark.slow
def test_pending_points_move_the_choice(plane, pools):
    """A point that is pending is not chosen again: the believer goes on as it would have."""
    first, second = pools["believer"][:2]

    assert np.allclose(second, rivals.kriging_believer(plane, 1, first[None], 1)[0], atol=1e-2)


@pytest.mark.slow
def test_nobody_beats_the_integral_at_its_own_game(plane):
    """q-EI has the highest expected improvement and q-UCB the highest bound, up to the judge's error."""
    pools = {name: strategy(plane, 3, None, 0) for name, strategy in rivals.STRATEGIES.items()}
    improvement, bound = pw.ExpectedImprovement(float(plane.y.max())), pw.UpperConfidenceBound()

    for name in rivals.IMPROVEMENT:
        check(pools[name])
        assert value(improvement, plane, pools["q-ei"]) >= value(improvement, plane, pools[name]) - 1e-3
    for name in rivals.BOUND:
        check(pools[name])
        assert value(bound, plane, pools["q-ucb"]) >= value(bound, plane, pools[name]) - 1e-3


def test_exact_improvement_is_for_small_pools(plane):
    """Six points are too many."""
    with pytest.raises(pw.InputError, match="up to 5 points"):
        rivals.exact_improvement(plane, 6)
