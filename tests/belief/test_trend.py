"""A mean that is a parabola along each axis: beliefs, searches and paths around it, and what `fit` learns of it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.reference import gaussian_process as reference

import poolwise as pw
from poolwise.acquisition.noisy import baseline
from poolwise.acquisition.volume import between, marginals
from poolwise.belief.gaussian_process import precision, straight
from poolwise.belief.learned_trend import trend_variance, with_learned_trend
from poolwise.pool.ascent import max_objective
from poolwise.pool.field import field_of
from poolwise.pool.searching import _searchable

rng = np.random.default_rng(1)
TREND = pw.Trend(constant=0.7, slope=[0.5, -1.0], curve=[-2.0, 0.8])
WARP = pw.Warp(low=[0.4, 1.3], high=[1.2, 0.7])
KERNEL = pw.Matern52([0.4, 0.7], amplitude=1.3)
PROCESS = pw.GaussianProcess(KERNEL, noise=1e-2, mean=TREND)
X, Y = rng.random((12, 2)), rng.standard_normal(12)
POOL = np.array([[0.0, 0.0], [1.0, 0.3], [0.2, 1.0], [0.5, 0.5], [0.5, 0.5]])  # edges, and a point twice


def by_formula(points):
    u = 2 * np.asarray(points) - 1
    return 0.7 + u @ [0.5, -1.0] + (u**2 - 1 / 3) @ [-2.0, 0.8]


def test_belief_is_that_of_the_residuals_around_the_trend():
    """Mean, covariance and evidence of outcomes less the trend, under a process of mean zero, by loops."""
    plain = pw.GaussianProcess(KERNEL, noise=1e-2)
    mean, covariance = reference.posterior(plain, X, Y - by_formula(X), POOL)
    posterior = PROCESS.condition(X, Y)
    normal = posterior(POOL)

    np.testing.assert_allclose(mean + by_formula(POOL), normal.mean, atol=1e-11)
    np.testing.assert_allclose(covariance, normal.covariance, atol=1e-11)
    np.testing.assert_allclose(by_formula(POOL), PROCESS(POOL).mean, atol=1e-13)
    assert posterior.log_evidence == pytest.approx(reference.log_evidence(plain, X, Y - by_formula(X)))


def test_the_mean_over_the_cube_is_the_constant():
    """Slopes and curves cancel over an even grid of cells."""
    cells = (np.stack(np.meshgrid(*[np.arange(30)] * 2), axis=-1).reshape(-1, 2) + 0.5) / 30

    assert np.mean(PROCESS(cells).mean) == pytest.approx(0.7, abs=1e-3)


def test_a_trend_is_one_of_warped_points():
    """As distances are: the belief is that of straight points without a warping."""
    bent = pw.GaussianProcess(pw.Matern52([0.4, 0.7], amplitude=1.3, warp=WARP), noise=1e-2, mean=TREND)
    posterior, flat = bent.condition(X, Y), PROCESS.condition(WARP(X), Y)

    np.testing.assert_allclose(flat(WARP(POOL)).mean, posterior(POOL).mean, atol=1e-10)
    np.testing.assert_allclose(flat(WARP(POOL)).mean, straight(posterior)(WARP(POOL)).mean, atol=1e-10)
    assert flat.log_evidence == pytest.approx(posterior.log_evidence)


def test_gradient_of_an_expectation_beside_a_coincident_point_and_on_the_edge():
    """Against central differences, one-sided on the edge: a trend has a slope everywhere."""
    posterior, goal, step = PROCESS.condition(X, Y), pw.SimpleRegret(), 1e-6

    def value(point):
        return pw.expectation(goal, posterior, point[None, :], samples=256, seed=0).value

    with jax.enable_x64(True):
        for point, way in (([0.3, 0.6], [1, 1]), ([0.0, 1.0], [1, -1]), (X[3], [1, 1])):
            at = jnp.asarray(point)
            gradient = np.asarray(jax.grad(value)(at))
            steps = step * np.diag(way)
            back = 0 if 0.0 in point else 1
            numeric = [(value(at + h) - value(at - back * h)) / ((1 + back) * step) for h in steps]
            np.testing.assert_allclose(gradient * way, numeric, rtol=2e-4, atol=2e-4)


def test_a_search_sees_what_the_posterior_says():
    """The search's layout gives the value of `expectation` on the same samples, and its own gradient."""
    posterior, pools = PROCESS.condition(X, Y), np.stack([POOL[:3].ravel(), X[:3].ravel() * 0.9])
    with jax.enable_x64(True):
        goal, _ = max_objective(posterior, pw.SimpleRegret(), 3, np.zeros((0, 2)), samples=4096, seed=0)
        values, pull = jax.vjp(goal, jnp.asarray(pools))
        gradient = pull(jnp.ones_like(values))[0]
        numeric = reference.slope(lambda flat: float(goal(jnp.asarray(flat)[None])[0]), pools[1], 1e-6)
        inside = np.asarray(gradient)[1]

    direct = [pw.expectation(pw.SimpleRegret(), posterior, pool.reshape(3, 2), samples=4096).value for pool in pools]
    np.testing.assert_allclose(direct, values, atol=1e-2)
    np.testing.assert_allclose(numeric, inside, atol=1e-5)


def test_paths_go_around_the_trend():
    """Of the prior on average; of the posterior through the data, which have hardly any noise here."""
    prior = np.asarray(pw.sample_paths(PROCESS, 4000, features=64, seed=0)(POOL))
    sure = pw.GaussianProcess(KERNEL, noise=1e-8, mean=TREND).condition(X, Y)

    np.testing.assert_allclose(by_formula(POOL), prior.mean(axis=0), atol=4 * 1.3 / np.sqrt(4000))
    np.testing.assert_allclose(np.tile(Y, (3, 1)), pw.sample_paths(sure, 3, seed=1)(X), atol=1e-3)
    assert np.asarray(pw.path_maxima(sure, 4, seed=0).values).min() > Y.max() - 1e-2


def test_a_bowl_is_known_after_a_few_observations():
    """Ten dimensions, 32 points: a stationary kernel alone errs by half of what it does not know."""
    points, others = np.random.default_rng(2).random((32, 10)), np.random.default_rng(3).random((200, 10))
    centre = np.linspace(0.2, 0.8, 10)
    bowl = pw.fit(points, -np.sum((points - centre) ** 2, axis=1))
    truth = -np.sum((others - centre) ** 2, axis=1)

    assert np.std(np.asarray(bowl(others).mean) - truth) < 0.01 * np.std(truth)
    np.testing.assert_allclose(np.full(10, -0.25), bowl.process.mean.curve, rtol=0.02)


def test_the_learned_trend_is_the_mean_of_the_whole_model():
    """The posterior mean is that of a process whose coefficients are unknown: they are part of its covariance."""
    y = np.sin(5 * X[:, 0]) + 3 * X[:, 1] ** 2
    learned = pw.fit(X, y)
    kernel, mean, u = learned.process.kernel, learned.process.mean, 2 * X - 1
    B = np.concatenate([u, u**2 - 1 / 3], axis=1)
    around, bowls = y - np.asarray(mean.constant), np.concatenate([mean.slope, mean.curve])
    K = reference.covariance(kernel, X, X) + learned.noise * np.eye(12)
    # Where the likelihood's pull on each coefficient is balanced by one and the same prior variance:
    variances = bowls / (B.T @ np.linalg.solve(K, around - B @ bowls))

    np.testing.assert_allclose(np.full(4, variances.mean()), variances, rtol=1e-6)
    whole = K + variances.mean() * B @ B.T
    np.testing.assert_allclose(variances.mean() * B.T @ np.linalg.solve(whole, around), bowls, rtol=1e-6)


SCALE, VARIANCE = 2.0, 0.3  # of a learned trend's constant; of its slopes and curves, in that unit


def in_doubt(kernel=KERNEL, noise=1e-2):
    """A belief whose trend was learned."""
    return with_learned_trend(pw.GaussianProcess(kernel, noise, 0.2).condition(X, Y), SCALE, VARIANCE)


def by_one_kernel(points, moved=lambda points: points, noise=1e-2):
    """Mean, covariance and the data's covariance where the trend is a part of the kernel, k + b C b'."""

    def covariance(a, b):
        a, b = moved(a), moved(b)
        rows = [np.concatenate([np.ones((len(x), 1)), 2 * x - 1, (2 * x - 1) ** 2 - 1 / 3], axis=1) for x in (a, b)]
        prior = SCALE**2 * np.diag([1.0, *[VARIANCE] * 4])
        return np.asarray(KERNEL(a, b)) + rows[0] @ prior @ rows[1].T

    K = covariance(X, X) + noise * np.eye(len(X))
    cross = covariance(points, X)
    mean = 0.2 + cross @ np.linalg.solve(K, Y - 0.2)
    return mean, covariance(points, points) - cross @ np.linalg.solve(K, cross.T), K


@pytest.mark.parametrize("bent", [False, True], ids=["straight", "warped"])
def test_a_learned_trend_is_part_of_the_belief(bent):
    """The belief is that of one kernel for both; so is what searches see, over straight points too."""
    moved = WARP if bent else lambda points: points
    mean, covariance, K = by_one_kernel(POOL, moved)
    posterior = in_doubt(pw.Matern52([0.4, 0.7], amplitude=1.3, warp=WARP) if bent else KERNEL)
    flat = straight(posterior)

    np.testing.assert_allclose(mean, posterior(POOL).mean, atol=1e-10)
    np.testing.assert_allclose(covariance, posterior(POOL).covariance, atol=1e-9)
    np.testing.assert_allclose(covariance, flat(moved(POOL)).covariance, atol=1e-9)
    np.testing.assert_allclose(np.linalg.inv(K), precision(posterior), atol=1e-8)
    with jax.enable_x64(True):
        points = jnp.asarray(POOL)
        field, seen = field_of(posterior), marginals(posterior, points)
        rows = field.rows(points)
        explained = rows.k @ rows.w.T
        np.testing.assert_allclose(covariance, field.covariances(rows.scaled, rows.scaled) - explained, atol=1e-6)
        np.testing.assert_allclose(mean, rows.mean, atol=1e-9)
        np.testing.assert_allclose(np.diag(covariance), seen.variance, atol=1e-9)
        np.testing.assert_allclose(covariance, between(posterior, points, points, (seen, seen)), atol=1e-9)


def test_a_search_beside_a_learned_trend():
    """Its value on the same samples is that of `expectation`, and its gradient that of central differences."""
    posterior, pools = in_doubt(), np.stack([POOL[:3].ravel(), X[:3].ravel() * 0.9])
    with jax.enable_x64(True):
        goal, _ = max_objective(posterior, pw.SimpleRegret(), 3, np.zeros((0, 2)), samples=4096, seed=0)
        values, pull = jax.vjp(goal, jnp.asarray(pools))
        gradient = pull(jnp.ones_like(values))[0]
        numeric = reference.slope(lambda flat: float(goal(jnp.asarray(flat)[None])[0]), pools[1], 1e-6)

    direct = [pw.expectation(pw.SimpleRegret(), posterior, pool.reshape(3, 2), samples=4096).value for pool in pools]
    np.testing.assert_allclose(direct, values, atol=2e-2)
    np.testing.assert_allclose(numeric, np.asarray(gradient)[1], atol=1e-5)


def test_little_noise_leaves_a_learned_trend_in_doubt():
    """A search lifts the noise to keep its digits; the belief far from the data stays as unsure."""
    posterior, corner = in_doubt(noise=1e-9), np.array([[1.0, 1.0]])
    lifted = _searchable(posterior)

    assert lifted is not posterior
    np.testing.assert_allclose(posterior(corner).covariance, lifted(corner).covariance, rtol=1e-3)


def test_paths_have_trends_of_their_own():
    """Mean and covariance of many paths are the belief's, within four standard errors."""
    posterior, count = in_doubt(), 4000
    mean, covariance, _ = by_one_kernel(POOL[:3])
    drawn = np.asarray(pw.sample_paths(posterior, count, features=2048, seed=0)(POOL[:3]))
    error = np.sqrt((np.outer(np.diag(covariance), np.diag(covariance)) + covariance**2) / count)

    np.testing.assert_array_less(np.abs(drawn.mean(axis=0) - mean), 4 * np.sqrt(np.diag(covariance) / count))
    np.testing.assert_array_less(np.abs(np.cov(drawn.T) - covariance), 4 * error + 0.02 * np.diag(covariance).max())
    maxima = pw.path_maxima(posterior, 3, seed=0)
    drawn = np.asarray(pw.sample_paths(posterior, 3, seed=0)(np.asarray(maxima.points)))
    np.testing.assert_allclose(np.diag(drawn), maxima.values, atol=1e-9)


def test_a_baseline_counts_the_doubt():
    """Observations are the best as often as in joint draws of the noise-free outcomes, by one kernel."""
    posterior = in_doubt(noise=1.0)
    mean, covariance, _ = by_one_kernel(X, noise=1.0)
    draws = np.random.default_rng(0).multivariate_normal(mean, covariance, size=4096)
    best = np.bincount(np.argmax(draws, axis=1), minlength=len(X))

    np.testing.assert_array_equal(X[np.argmax(best)], baseline(posterior)[0])
    assert set(map(tuple, X[best > 40])) <= set(map(tuple, baseline(posterior)))


def test_the_variance_of_a_learned_trend_is_found_again():
    """A warm start takes it from the coefficients."""
    assert trend_variance(in_doubt()) == pytest.approx(VARIANCE * SCALE**2)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: pw.Trend(0.0, [1.0], [1.0, 2.0]), "curve: has 2 values where slope has 1"),
        (lambda: pw.Trend([0.0], [1.0], [1.0]), "constant: expected one number"),
        (lambda: pw.Trend(0.0, [np.nan], [1.0]), "slope"),
        (lambda: pw.GaussianProcess(pw.Matern52([0.5, 0.5, 0.5]), mean=TREND), "mean: has 2 slopes where 3"),
        (
            lambda: pw.GaussianProcess(pw.Matern52(0.5), mean=TREND).condition([[0.5]], [1.0]),
            "X: has 1 columns where 2",
        ),
    ],
)
def test_mistakes(make, says):
    with pytest.raises(pw.InputError, match=says):
        make()
