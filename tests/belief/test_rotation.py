"""A kernel with axes of its own: beliefs, searches and paths measure distances along them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.reference import gaussian_process as reference

import poolwise as pw
from poolwise.belief.gaussian_process import turnable, turned

rng = np.random.default_rng(0)
AXES = np.linalg.qr(rng.standard_normal((2, 2)))[0]
ROTATION = pw.Rotation(AXES)
LENGTHS = [0.15, 0.9]
PLAIN = pw.GaussianProcess(pw.Matern52(LENGTHS, amplitude=1.3), noise=1e-2, mean=0.2)
TURNED = pw.GaussianProcess(pw.Matern52(LENGTHS, amplitude=1.3, warp=ROTATION), noise=1e-2, mean=0.2)
X, Y = rng.random((12, 2)), rng.standard_normal(12)
POOL = np.array([[0.0, 0.0], [1.0, 0.3], [0.2, 1.0], [0.5, 0.5], [0.5, 0.5]])  # edges, and a point twice


def by_formula(points):
    return np.array([[0.5 + sum((x[i] - 0.5) * AXES[i, k] for i in range(2)) for k in range(2)] for x in points])


def test_points_are_turned_around_the_middle():
    """And back; evenly spread ones are left where they are."""
    np.testing.assert_allclose(by_formula(POOL), ROTATION(POOL), atol=1e-13)
    np.testing.assert_allclose(POOL, ROTATION.back(ROTATION(POOL)), atol=1e-13)
    np.testing.assert_array_equal(POOL, ROTATION.evenly(POOL))


def test_belief_is_the_plain_one_at_turned_points():
    """Prior and posterior, also on the edge and where points coincide, against loops over turned points."""
    mean, covariance = reference.posterior(PLAIN, by_formula(X), Y, by_formula(POOL))
    posterior = TURNED.condition(X, Y)
    normal = posterior(POOL)

    np.testing.assert_allclose(mean, normal.mean, atol=1e-11)
    np.testing.assert_allclose(covariance, normal.covariance, atol=1e-11)
    assert posterior.log_evidence == pytest.approx(reference.log_evidence(PLAIN, by_formula(X), Y))
    np.testing.assert_array_equal(X, posterior.X)


def test_a_posterior_of_turned_points_becomes_one_of_the_points_themselves():
    """Nothing is computed anew, and nothing that it says changes; the cube's own axes change nothing at all."""
    moved = turned(PLAIN.condition(by_formula(X), Y), AXES, X)
    plain = PLAIN.condition(X, Y)

    np.testing.assert_allclose(TURNED.condition(X, Y)(POOL).mean, moved(POOL).mean, atol=1e-10)
    np.testing.assert_allclose(plain(POOL).covariance, turnable(plain)(POOL).covariance, atol=1e-12)
    assert turnable(moved) is moved


def test_gradient_of_an_expectation_on_the_edge_of_the_cube():
    """Slopes are those of one-sided differences."""
    posterior, goal, step = TURNED.condition(X, Y), pw.ExpectedImprovement(0.5), 1e-6

    def value(corner):
        return pw.expectation(goal, posterior, corner[None, :], samples=256, seed=0).value

    with jax.enable_x64(True):
        corner = jnp.array([0.0, 1.0])
        gradient = np.asarray(jax.grad(value)(corner))
        inward = [(value(corner + h) - value(corner)) / step for h in step * np.array([[1.0, 0.0], [0.0, -1.0]])]

    np.testing.assert_allclose(gradient * [1, -1], inward, rtol=1e-3, atol=1e-7)


def test_paths_are_the_plain_beliefs_at_turned_points():
    """The same random waves, over turned points."""
    bent = pw.sample_paths(TURNED.condition(X, Y), 3, seed=1)(POOL)
    flat = pw.sample_paths(PLAIN.condition(by_formula(X), Y), 3, seed=1)(by_formula(POOL))

    np.testing.assert_allclose(bent, flat, atol=1e-9)


def test_a_search_sees_what_the_posterior_says():
    """A pool's value on fresh samples beats what random pools reach, and its points are in the cube."""
    proposal = pw.propose(TURNED.condition(X, Y), pw.UpperConfidenceBound(), 3, seed=1)

    assert proposal.beats_random
    assert (proposal.pool >= 0).all() and (proposal.pool <= 1).all()


def test_lengthscales_along_the_axes_of_the_cube():
    """Inverse squares add up: where two points differ along one axis of the cube only, the distance is theirs."""
    along = TURNED.kernel.along(2)
    s = (TURNED.kernel.scaled(np.array([[0.3, 0.6]])) - TURNED.kernel.scaled(np.array([[0.8, 0.6]]))) ** 2

    assert 0.5 / along[0] == pytest.approx(float(np.sqrt(np.sum(np.asarray(s)))))
    np.testing.assert_allclose(LENGTHS, PLAIN.kernel.along(2))


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: pw.Rotation([[1.0, 0.5], [0.0, 1.0]]), "axes: columns are not orthonormal"),
        (lambda: pw.Rotation([[1.0, 0.0]]), "axes: columns are not orthonormal"),
        (lambda: pw.Matern52([0.5], warp=ROTATION), "lengthscale: has 1 values where 2"),
        (lambda: ROTATION([[0.5]]), "points: has 1 columns where 2"),
    ],
)
def test_mistakes(make, says):
    with pytest.raises(pw.InputError, match=says):
        make()
