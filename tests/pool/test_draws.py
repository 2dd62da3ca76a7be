"""Thompson sampling: points are chosen as often as they are the best, and each is its own path's maximum."""

import jax
import numpy as np
import pytest

import poolwise as pw
from poolwise.belief.paths import sample_paths
from poolwise.pool.draws import path_maxima, thompson

FIVE = pw.Space({"x": pw.Int(0, 4)})


@pytest.fixture(scope="module")
def grid_belief():
    """A belief over five points of which the first and the fourth are observed."""
    U = FIVE.sample(5, 0)
    U = U[np.argsort(U[:, 0])]
    posterior = pw.GaussianProcess(pw.Matern52(0.3), noise=1e-2).condition(U[[0, 3]], [0.3, 0.1])
    return U, posterior


def test_choices_follow_the_probability_of_being_best(grid_belief):
    """1500 paths over five points: frequencies within four standard errors of exact probabilities of the maximum."""
    U, posterior = grid_belief
    rng = np.random.default_rng(0)
    normal = posterior(U)
    draws = rng.multivariate_normal(normal.mean, normal.covariance, size=10**6)
    exact = np.bincount(draws.argmax(axis=1), minlength=5) / 10**6
    n = 1500
    chosen = path_maxima(posterior, n, domain=FIVE, features=4096, seed=3).points
    shares = np.array([(np.abs(chosen - u) < 1e-9).all(axis=1).mean() for u in U])

    assert 1.0 == pytest.approx(shares.sum(), abs=1e-12)
    assert (np.abs(shares - exact) < 4 * np.sqrt(exact * (1 - exact) / n)).all()


def test_each_point_is_the_maximum_of_its_path(plane):
    """No point of 4096 random ones is higher, and the value is the path's own."""
    maxima, paths = path_maxima(plane, 6, seed=2), sample_paths(plane, 6, seed=2)
    elsewhere = paths(np.random.default_rng(1).random((4096, 2)))

    assert (maxima.values >= elsewhere.max(axis=1) - 1e-9).all()
    np.testing.assert_allclose(np.diagonal(paths(maxima.points)), maxima.values, rtol=1e-9)


def test_maxima_are_tops_in_many_dimensions():
    """The slope points out of the cube or is flat: climbs go on after their race."""
    rng = np.random.default_rng(2)
    X = rng.random((40, 8))
    belief = pw.GaussianProcess(pw.Matern52(0.5), noise=1e-3).condition(X, np.sin(6 * X).sum(axis=1))
    tops = pw.path_maxima(belief, 8, features=256, seed=5)
    paths = pw.sample_paths(belief, 8, features=256, seed=5)
    near = [np.clip(tops.points + step, 0.0, 1.0) for step in (*1e-3 * np.eye(8), *-1e-3 * np.eye(8))]
    around = np.stack([np.diagonal(paths(points)) for points in near])

    assert (around <= tops.values + 1e-6).all()


def test_a_pool_is_the_maxima_of_its_paths(plane):
    """The same seed draws the same paths; the value is the expected best outcome of the pool."""
    maxima, found = path_maxima(plane, 6, seed=2), thompson(plane, 6, seed=2)

    np.testing.assert_array_equal(maxima.points, found.pool)
    assert (
        abs(found.value - pw.expectation(pw.SimpleRegret(), plane, found.pool, samples=2**13).value) < 4 * found.error
    )


def test_pending_points_are_avoided(plane):
    """A path whose maximum is pending gives its next best point; the others stay."""
    points = path_maxima(plane, 6, seed=2).points
    found = thompson(plane, 6, pending=points[1:2], seed=2)

    np.testing.assert_array_equal(np.delete(points, 1, axis=0), np.delete(found.pool, 1, axis=0))
    assert np.abs(found.pool[1] - points[1]).max() >= 1e-6


def test_points_differ_over_a_small_domain(grid_belief):
    """Five points are asked for and all five come, each once; a sixth is an error that says so."""
    U, posterior = grid_belief
    pool = thompson(posterior, 5, domain=FIVE).pool

    np.testing.assert_allclose(U[:, 0], np.sort(pool[:, 0]))
    with pytest.raises(pw.InputError, match="has 4 left beside the pending ones"):
        thompson(posterior, 5, domain=FIVE, pending=U[:1])


def test_over_a_mixed_domain_points_can_be_run():
    """Whole numbers, choices and a constraint: paths are climbed within the domain, and gain by it."""
    space = pw.Space(
        {"n": pw.Int(0, 30), "kind": pw.Choice(["a", "b"]), "x": pw.Float(0, 1), "z": pw.Float(0, 1)},
        constraints=["x + z <= 1"],
    )
    U = space.sample(12, 0)
    posterior = pw.GaussianProcess(pw.Matern52(0.5), noise=1e-3).condition(U, np.sin(4 * U).sum(axis=1))
    found = path_maxima(posterior, 3, domain=space, seed=1)
    elsewhere = sample_paths(posterior, 3, seed=1)(space.sample(2048, 5)).max(axis=1)

    assert space.feasible(found.points).all()
    np.testing.assert_allclose(space.snap(found.points), found.points, atol=1e-12)
    assert (found.values >= elsewhere).all()


def test_far_from_data_without_noise():
    """One noise-free observation: finite, inside the cube, in 32-bit sessions as well."""
    posterior = pw.GaussianProcess(pw.Matern52([0.3, 0.3])).condition([[0.5, 0.5]], [1.0])
    pool = thompson(posterior, 6).pool

    assert not jax.config.jax_enable_x64
    assert np.isfinite(pool).all()
    assert ((pool >= 0) & (pool <= 1)).all()
