"""Greedy picks without samples: what a point adds is the difference of two values, in slots of fixed number."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import poolwise as pw
from poolwise.acquisition.energy import EnergyEntropy
from poolwise.acquisition.information import JointEntropySearch, MaxValueEntropy
from poolwise.pool.slots import Slots
from poolwise.pool.starts import candidate_sets
from poolwise.pool.volume import gain, greedy_volume, volume_objective

JOINT, ENERGY = JointEntropySearch([[0.3, 0.9], [0.4, 1.0]], [1.9, 2.2]), EnergyEntropy(0.7)
PENDING = np.array([[0.3, 0.3], [0.6, 0.1]])


@jax.jit
def values_and_gain(goal, posterior, slots, x):
    """The value of the points that are taken, of those and one more, and what that one adds."""
    before = goal.of(posterior, slots.points, slots.taken)
    whole = goal.of(posterior, slots.points.at[2].set(x[0]), slots.taken.at[2].set(True))
    return before, whole, gain(posterior, goal, slots)(x)[0]


@pytest.mark.parametrize("goal", [ENERGY, pytest.param(JOINT, marks=pytest.mark.slow)], ids=["energy", "joint"])
def test_a_point_adds_the_difference_of_two_values(goal, plane):
    """Beside two points that are taken and a slot that is free."""
    with jax.enable_x64(True):
        slots = Slots(jnp.concatenate([PENDING, jnp.full((1, 2), 0.5)]), jnp.array([True, True, False]))
        for x in ([0.35, 0.8], [0.31, 0.3]):
            before, whole, added = values_and_gain(goal, plane, slots, jnp.array([x]))

            assert float(whole - before) == pytest.approx(float(added), rel=1e-6, abs=1e-8)


def test_greedy_pools_are_good_and_the_same_each_time(plane):
    """Eight picks beside pending points: worth more than random pools, none twice, no chance left."""
    with jax.enable_x64(True):
        objective = volume_objective(plane, ENERGY, PENDING)
        offered = jnp.asarray(candidate_sets(8, 64, 2, seed=0))
        pool, first, spent = (np.asarray(part) for part in greedy_volume(objective, offered, 8, starts=4))
        again = np.asarray(greedy_volume(objective, offered, 8, starts=4)[0])
        rivals = np.random.default_rng(0).random((64, 16))
        values = np.asarray(jax.jit(objective)(np.concatenate([pool.reshape(1, -1), rivals])))
    points = np.concatenate([PENDING, pool])
    gaps = np.abs(points[:, None] - points[None]).max(axis=2)[np.triu_indices(10, 1)]

    assert values[0] > values[1:].max()
    assert gaps.min() > 1e-3
    assert (64,) == first.shape and spent > 8 * 64
    np.testing.assert_array_equal(pool, again)


@pytest.mark.slow
@pytest.mark.parametrize("goal", [MaxValueEntropy([1.5, 2.2]), JOINT, ENERGY], ids=lambda goal: type(goal).__name__)
def test_a_proposal_without_samples(goal, plane):
    """`propose` climbs it as a whole, with a value that has no error but rounding."""
    found = pw.propose(plane, goal, q=2, pending=PENDING)

    assert found.beats_random
    assert found.error < 1e-12
    assert found.value == pytest.approx(pw.expectation(goal, plane, found.pool, pending=PENDING).value, rel=1e-9)
