"""The one-shot knowledge gradient: never above the nested one, and as good a pool as exhaustive search finds."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import poolwise as pw
from poolwise.acquisition.knowledge import KnowledgeGradient
from poolwise.pool.ascent import general_objective
from poolwise.pool.fantasies import OneShot, _begin, _shot, _turn

GRID = np.linspace(0, 1, 101)[:, None]
GOAL = KnowledgeGradient(GRID, noise=0.05)
SETTINGS = OneShot(fantasies=32, lanes=2, rounds=20, turns=2)
STARTS = np.random.default_rng(0).random((8, 2))
NOBODY = np.zeros((0, 1))


@pytest.fixture(scope="module")
def objective(posterior):
    with jax.enable_x64(True):
        return general_objective(posterior, GOAL, 2, NOBODY, samples=512, seed=7)


def test_the_pool_is_as_good_as_any_pair_of_a_grid(objective):
    """Its nested value on fresh fantasies is at least that of the best of 210 pairs, less one percent; each time."""
    climb, again = SETTINGS(objective, STARTS, seed=1), SETTINGS(objective, STARTS, seed=1)
    grid = np.linspace(0, 1, 21)
    pairs = np.array([(a, b) for a in grid for b in grid if a < b])
    with jax.enable_x64(True):
        values = np.asarray(jax.jit(objective)(jnp.asarray(np.concatenate([climb.best[None], pairs]))))

    assert values[0] >= 0.99 * values[1:].max()
    np.testing.assert_array_equal(climb.points, again.points)


def test_one_shot_never_exceeds_the_nested_value_and_reaches_it(objective):
    """On the same fantasies: it starts from the grid's best recommendations, and ends at none worse."""
    with jax.enable_x64(True):
        shot = _shot(objective, STARTS, SETTINGS, 1)
        lanes, nested = _begin(shot, jnp.asarray(STARTS), lanes=2)
        _, first = _turn(shot, lanes, 1)  # the first round only looks where it stands
        climbed, values = _turn(shot, lanes, 20)
        _, again = _turn(shot, climbed, 1)
        first, nested, values, again, climbed = (np.asarray(a) for a in (first, nested, values, again, climbed))

    np.testing.assert_allclose(nested, first, rtol=1e-9)
    assert (values > nested).all()
    assert ((climbed >= 0) & (climbed <= 1)).all()
    # At the climbed pool the best of the fine grid is as good as the climbed recommendation, to the climb's tolerance.
    assert (again >= values).all()
    np.testing.assert_allclose(again, values, rtol=2e-3)


def test_other_integrands_are_refused(posterior):
    """With a word on what to use instead."""
    with jax.enable_x64(True):
        other = general_objective(posterior, pw.SimpleRegret(), 2, NOBODY, samples=8, seed=0)
    with pytest.raises(pw.InputError, match="OneShot climbs a KnowledgeGradient alone"):
        SETTINGS(other, STARTS)


@pytest.mark.slow
def test_a_proposal_in_one_shot(posterior):
    """Through `propose`, beside a pending point: judged by the nested form, better than random pools."""
    found = pw.propose(posterior, GOAL, q=2, pending=[[0.95]], maximizer=SETTINGS)

    assert found.beats_random
    assert abs(found.value - pw.expectation(GOAL, posterior, found.pool, pending=[[0.95]]).value) < 4 * found.error
