"""The knowledge gradient over candidates: values as `expectation` has them, and one more point by one column."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import poolwise as pw
from poolwise.maximizers.climb import value_and_gradient
from poolwise.pool.ascent import general_objective
from poolwise.pool.knowledge import greedy_knowledge, knowledge_objective, seen, with_one
from poolwise.pool.slots import Slots
from poolwise.pool.starts import candidate_sets

PLACES = np.random.default_rng(0).random((12, 2))
GOAL = pw.KnowledgeGradient(PLACES, noise=0.05)
PENDING = np.array([[0.3, 0.3], [0.6, 0.1]])
POOLS = np.random.default_rng(1).random((3, 4))


@pytest.mark.parametrize("pending", [PENDING[:0], PENDING], ids=["alone", "beside pending points"])
def test_values_are_those_of_the_nested_form(pending, plane):
    """On the same base samples, to rounding; slots that are free change nothing."""
    with jax.enable_x64(True):
        values = jax.jit(knowledge_objective(plane, GOAL, 2, pending, samples=64, seed=3))(POOLS)
        nested = jax.jit(general_objective(plane, GOAL, 2, pending, samples=64, seed=3))(POOLS)

    np.testing.assert_allclose(values, nested, rtol=1e-9)


def test_gradients_match_central_differences(plane):
    with jax.enable_x64(True):
        objective = knowledge_objective(plane, GOAL, 2, PENDING, samples=64, seed=3)
        _, gradient = jax.jit(value_and_gradient)(objective, POOLS)
        steps = 1e-6 * np.eye(4)
        up, down = (np.asarray(jax.jit(objective)(POOLS[0] + sign * steps)) for sign in (1, -1))

    np.testing.assert_allclose(gradient[0], (up - down) / 2e-6, rtol=1e-5, atol=1e-7)


def test_one_more_point_is_one_more_column(plane):
    """The value of a pool by its last point beside the others, on the samples of its slot."""
    with jax.enable_x64(True):
        objective = knowledge_objective(plane, GOAL, 3, PENDING[:0], samples=64, seed=3)
        pool = np.concatenate([PENDING, [[0.7, 0.8]]])
        before = Slots(jnp.asarray(np.concatenate([PENDING, [[0.5, 0.5]]])), jnp.array([True, True, False]))
        last = jax.jit(lambda x: with_one(objective, seen(objective, before), objective.normals[:, 2], x))(pool[2:])
        whole = jax.jit(objective)(pool.reshape(1, -1))
        rise = last - objective.best

    np.testing.assert_allclose(rise, whole, rtol=1e-6)


def test_greedy_pools_are_good_and_the_same_each_time(plane):
    with jax.enable_x64(True):
        objective = knowledge_objective(plane, GOAL, 4, PENDING, samples=64, seed=3)
        offered = candidate_sets(4, 32, 2, seed=0)
        pool, first, spent = (np.asarray(part) for part in greedy_knowledge(objective, offered, 8, starts=4))
        again = np.asarray(greedy_knowledge(objective, offered, 8, starts=4)[0])
        rivals = np.random.default_rng(0).random((64, 8))
        values = np.asarray(jax.jit(objective)(np.concatenate([pool.reshape(1, -1), rivals])))

    assert values[0] > values[1:].max()
    assert (32,) == first.shape and spent > 4 * 32
    np.testing.assert_array_equal(pool, again)


def test_a_proposal_over_candidates(plane):
    """`propose` takes that way, and reports the value of the nested form on fresh samples."""
    found = pw.propose(plane, GOAL, q=2, pending=PENDING, maximizer=pw.Ascent(256, lanes=1))
    nested = pw.expectation(GOAL, plane, found.pool, pending=PENDING, samples=2**12)

    assert found.beats_random
    assert abs(found.value - nested.value) < 4 * (found.error + nested.error)


def test_fewer_samples_and_fresh_ones(plane):
    with jax.enable_x64(True):
        objective, pools = knowledge_objective(plane, GOAL, 2, PENDING, samples=64, seed=3), jnp.asarray(POOLS)
        one, other = (jax.jit(objective.redraw(jax.random.key(k), 4096))(pools) for k in (0, 1))

    assert (16, 10) == objective.rough(4).normals.shape
    np.testing.assert_allclose(one, other, rtol=0.1)
    assert not np.array_equal(one, other)
