"""Starts: spread over the cube, near what is best, and sampled from the acquisition function."""

import jax
import numpy as np

import poolwise as pw
from poolwise.pool.searching import acquisition_starts
from poolwise.pool.starts import candidate_sets, marginal_pools, near_best, spread, with_room

RNG = np.random.default_rng(5)


def test_spread_fills_every_half_evenly():
    """Sobol' points: exactly half of them on either side of each axis."""
    points = spread(64, 5, seed=1)

    assert [32] * 5 == (points < 0.5).sum(axis=0).tolist()


def test_candidate_sets_differ():
    """No point is offered to two picks."""
    sets = candidate_sets(4, 32, 3, seed=0)

    assert 4 * 32 == len(np.unique(sets.reshape(-1, 3), axis=0))


def test_near_best_is_near_the_best():
    """Points lie around the best quarter of the observations, within the cube."""
    X = RNG.random((16, 2))
    y = -((X - 0.9) ** 2).sum(axis=1)
    posterior = pw.GaussianProcess(pw.Matern52(0.5), noise=1e-3).condition(X, y)
    points = near_best(posterior, 50, seed=0)
    top = X[np.argsort(-y)[:4]]
    distance = np.abs(points[:, None] - top[None]).max(axis=2).min(axis=1)

    assert distance.max() < 0.3
    assert (points >= 0).all() and (points <= 1).all()


def test_half_of_the_points_near_the_best_differ_along_few_axes():
    """All axes at first, then few, at least one; and where the best is a corner, none of those is that corner again."""
    X = np.concatenate([RNG.random((7, 5)), np.ones((1, 5))])
    posterior = pw.GaussianProcess(pw.Matern52(0.5), noise=1e-3).condition(X, X.sum(axis=1))
    points = near_best(posterior, 4 * 50, seed=0).reshape(50, 2, 2, 5)  # all or few; the best two
    moved = points[:, :, 0] != 1.0

    assert moved[:, 1].any(axis=1).all()
    assert 1.5 < moved[:, 1].sum(axis=1).mean() < 2.5
    assert moved[:, 0].sum(axis=1).mean() > 2.0  # the other half of their moves is out of the cube, and clipped


def test_few_axes_are_those_of_the_belief():
    """Where the belief turns its axes, points move along these, and not along those of the cube."""
    turn = pw.Rotation(np.linalg.qr(RNG.standard_normal((5, 5)))[0])
    X = 0.3 + 0.4 * RNG.random((8, 5))
    posterior = pw.GaussianProcess(pw.Matern52(0.5, warp=turn), noise=1e-3).condition(X, X.sum(axis=1))
    points = near_best(posterior, 4 * 50, seed=0).reshape(50, 2, 2, 5)[:, 1, 0]
    moves = turn(points) - turn(X[[np.argmax(X.sum(axis=1))]])

    assert (np.abs(moves) > 1e-9).sum(axis=1).mean() < 2.5


def test_marginal_pools_follow_the_values():
    """Points are drawn in proportion to their value above the lowest, none twice in a pool."""
    points, values = RNG.random((50, 2)), np.full(50, 100.0)
    values[:10] = 101.0
    pools = marginal_pools(points, values, q=4, count=200, seed=0)

    assert (200, 4, 2) == pools.shape
    assert all(len(np.unique(pool, axis=0)) == 4 for pool in pools)
    assert np.isin(pools.reshape(-1, 2)[:, 0], points[:10, 0]).all()


def test_marginal_pools_survive_flat_and_broken_values():
    """Equal values and NaN leave a uniform draw of the rest."""
    points = RNG.random((20, 1))
    values = np.full(20, 3.0)
    values[:5] = np.nan
    pools = marginal_pools(points, values, q=3, count=50, seed=0)

    assert (50, 3, 1) == pools.shape


def test_starts_from_the_acquisition_function_are_better_than_uniform_ones():
    """What the paper calls sampling starts from the acquisition function: their mean value is higher."""
    X = RNG.random((30, 3))
    y = np.sin(5 * X).sum(axis=1)
    posterior = pw.GaussianProcess(pw.Matern52(0.5), noise=1e-3).condition(X, y)
    goal = pw.ExpectedImprovement(y.max())
    with jax.enable_x64(True):
        starts = acquisition_starts(posterior, goal, 2, np.zeros((0, 3)), seed=0)
    uniform = RNG.random((32, 2, 3))

    def mean(pools):
        return np.mean([pw.expectation(goal, posterior, pool).value for pool in pools])

    assert mean(starts) > mean(uniform)


def test_pending_points_come_in_buckets():
    """1 to 8 pending points share a shape; their base samples and the pool's stay as they were."""
    normals = RNG.standard_normal((4, 5))
    room = with_room(RNG.random((3, 2)), normals)

    assert (8, 2) == room.points.shape
    assert [1, 1, 1, 0, 0, 0, 0, 0] == room.taken.tolist()
    np.testing.assert_array_equal(normals, room.normals[:, [0, 1, 2, 8, 9]])
    assert (0, 2) == with_room(np.zeros((0, 2)), normals).points.shape
