"""Learned hyperparameters: the evidence's gradient, what `fit` finds, and data that would break it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.reference import gaussian_process as reference

import poolwise as pw
from poolwise import learning
from poolwise.belief.gaussian_process import padded_data
from poolwise.evidence import Logs, bounds, log_evidence, log_posterior, product_distance

KERNELS = [pw.Matern12, pw.Matern32, pw.Matern52, pw.SquaredExponential]
rng = np.random.default_rng(0)
POINTS = rng.random((60, 2))
TRUTH = pw.GaussianProcess(pw.Matern52([0.2, 0.8], amplitude=1.0), noise=1e-3)
OUTCOMES = pw.sample_paths(TRUTH, 1, features=4096, seed=3)(POINTS)[0] + np.sqrt(1e-3) * rng.standard_normal(60)


@pytest.fixture(scope="module")
def learned():
    """One fit of the truth's data, which several tests look at."""
    return pw.fit(POINTS, OUTCOMES)


def hyperparameters(posterior):
    kernel = posterior.process.kernel
    return np.array([*kernel.lengthscale, kernel.amplitude, posterior.process.noise])


def trend_variance(posterior):
    """The prior variance of slopes and curves, by which the data's pull on them is balanced."""
    mean, u = posterior.process.mean, 2 * posterior.X - 1
    pull = np.concatenate([u, u**2 - 1 / 3], axis=1).T @ np.asarray(posterior.weights)[: len(u)]
    return np.mean(np.concatenate([mean.slope, mean.curve]) / pull)


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.__name__)
def test_gradient_of_the_evidence(kernel):
    """The hand-written gradient against central differences, and against autodiff through JAX's own Cholesky."""
    X, y = POINTS[:12], OUTCOMES[:12]
    theta = np.log([0.4, 0.7, 1.3, 2e-2, 0.3])
    B = np.concatenate([2 * X - 1, (2 * X - 1) ** 2 - 1 / 3], axis=1)

    @jax.jit
    def evidence(theta):
        k = kernel(jnp.exp(theta[:2]), jnp.exp(theta[2] / 2))
        K = k(X, X) + 1.0 + jnp.exp(theta[4]) * jnp.asarray(B @ B.T) + jnp.exp(theta[3]) * jnp.eye(12)
        L = jnp.linalg.cholesky(K)
        r = jax.scipy.linalg.solve_triangular(L, jnp.asarray(y), lower=True)
        return -0.5 * (r @ r) - jnp.sum(jnp.log(jnp.diagonal(L))) - 6 * jnp.log(2 * jnp.pi)

    with jax.enable_x64(True):
        data = padded_data(jnp.asarray(X), jnp.asarray(y), jnp.asarray(0.0))
        logs = Logs(*map(jnp.asarray, (theta[:2], *theta[2:])))
        value, slope = jax.jit(lambda logs: log_evidence(logs, data, kernel, True))(logs)
        automatic = jax.jit(jax.grad(evidence))(jnp.asarray(theta))
        exact = float(evidence(jnp.asarray(theta)))
        difference = reference.slope(lambda t: float(evidence(jnp.asarray(t))), theta, 1e-5)
    gradient = np.array([*slope.lengthscale, slope.amplitude, slope.noise, slope.trend])

    assert exact == pytest.approx(float(value), rel=1e-10)
    np.testing.assert_allclose(automatic, gradient, rtol=1e-7)
    np.testing.assert_allclose(difference, gradient, rtol=1e-5)


def test_the_fit_is_a_stationary_point(learned):
    """At the result the gradient of the log posterior is small; hyperparameters lie within their bounds."""
    scale = np.std(OUTCOMES)
    lengths, (amplitude, noise) = hyperparameters(learned)[:2], hyperparameters(learned)[2:]
    theta = np.log([*lengths, amplitude**2 / scale**2, noise / scale**2, trend_variance(learned) / scale**2])
    with jax.enable_x64(True):
        standard = jnp.asarray((OUTCOMES - OUTCOMES.mean()) / scale)
        data = padded_data(jnp.asarray(POINTS), standard, jnp.asarray(0.0))
        _, gradient = jax.jit(lambda theta: log_posterior(theta, data, pw.Matern52, True))(jnp.asarray(theta))

    assert np.abs(gradient).max() < 0.1  # of log posterior, for a hyperparameter e times as large
    assert ((bounds(2).low <= theta) & (theta <= bounds(2).high)).all()


def test_lengthscales_are_recovered(learned):
    """Sixty points of a known process: short and long lengthscales within a factor of two, and the noise's size."""
    short, long, amplitude, noise = hyperparameters(learned)

    assert 0.5 < short / 0.2 < 2
    assert 0.5 < long / 0.8 < 2
    assert 0.3 < amplitude < 3
    assert 2e-4 < noise < 5e-3


def test_predictions_of_the_fit(learned):
    """Held-out outcomes of the same path are predicted within the error that the fit believes in."""
    new = np.random.default_rng(9).random((50, 2))
    truth = pw.sample_paths(TRUTH, 1, features=4096, seed=3)(new)[0]
    normal = learned(new)
    z_scores = (truth - normal.mean) / np.sqrt(np.diagonal(normal.covariance) + 1e-3)

    assert 0.3 < np.sqrt(np.mean(z_scores**2)) < 2


@pytest.mark.parametrize("unit, level", [(250.0, 1e4), (1e-7, 0.0), (1e7, 0.0), (1e-100, 0.0), (1e100, 0.0)])
def test_affine_change_of_outcomes(unit, level, learned):
    """Other units, the same model: lengthscales stay, amplitude and noise scale, predictions move along."""
    moved = pw.fit(POINTS, level - unit * OUTCOMES)
    new = np.array([[0.3, 0.4], [0.9, 0.2]])
    scales = np.array([1, 1, unit, unit**2])

    np.testing.assert_allclose(hyperparameters(learned) * scales, hyperparameters(moved), rtol=0.02)
    np.testing.assert_allclose(level - unit * learned(new).mean, moved(new).mean, rtol=1e-5)
    assert moved.log_evidence + len(OUTCOMES) * np.log(unit) == pytest.approx(learned.log_evidence, abs=1e-3)


def test_warm_start_leads_to_the_same_optimum(learned):
    """Starting from an earlier round's result changes the way, not the end."""
    earlier = pw.fit(POINTS[:50], OUTCOMES[:50])
    warm = pw.fit(POINTS, OUTCOMES, start=earlier)

    np.testing.assert_allclose(hyperparameters(learned), hyperparameters(warm), rtol=0.05)


def test_a_warm_start_begins_where_the_fit_ended(learned):
    """All hyperparameters are read off a posterior, the variance of its trend too: else a warping seems to gain."""
    with jax.enable_x64(True):
        problem = learning.problem_of(POINTS, OUTCOMES, pw.Matern52, None)
        data = problem.data()
        end = learning.race(problem, data, learning.starts_of(problem, None, 0, False))
        again = problem.climb(data, learning.begun(learning.starts_of(problem, learned, 0, False)[0]), 1)

    assert learning.height_of(end) == pytest.approx(learning.height_of(again), abs=1e-6)


def test_same_arguments_same_fit(learned):
    """Nothing is random that the seed does not say."""
    again = pw.fit(POINTS, OUTCOMES)

    np.testing.assert_array_equal(hyperparameters(learned), hyperparameters(again))


@pytest.mark.parametrize("noise", [1e-3, np.full(60, 1e-3)], ids=["one", "each"])
def test_known_noise_is_kept(noise, learned):
    """Noise that the user knows, for all or for each observation, is not learned."""
    posterior = pw.fit(POINTS, OUTCOMES, noise=noise)

    np.testing.assert_array_equal(noise, posterior.noise)
    np.testing.assert_allclose(learned.process.kernel.lengthscale, posterior.process.kernel.lengthscale, rtol=0.3)


@pytest.mark.parametrize(
    "X, y",
    [
        (POINTS[:5], np.full(5, 3.7)),
        (POINTS[:5], np.zeros(5)),
        (POINTS[:1], [2.0]),
        (np.tile(POINTS[:1], (8, 1)), np.arange(8.0)),
        (POINTS[:6], 1e140 * OUTCOMES[:6]),
        (POINTS[:6], 1e-140 * OUTCOMES[:6]),
        (POINTS[:6], [0, 0, 0, 0, 0, 1e9]),
    ],
    ids=["constant", "zeros", "one point", "coincident", "huge", "tiny", "outlier"],
)
def test_difficult_data_do_not_fail(X, y):
    """Finite beliefs where there is little to learn, or too much."""
    normal = pw.fit(X, y)([[0.1, 0.9], [0.5, 0.5]])

    assert np.isfinite(normal.mean).all()
    assert np.isfinite(normal.covariance).all()
    assert (np.diagonal(normal.covariance) >= 0).all()


def test_constant_outcomes_are_believed():
    """What has always been 3.7 is expected to be 3.7 again."""
    posterior = pw.fit(POINTS[:5], np.full(5, 3.7))

    np.testing.assert_allclose([3.7, 3.7], posterior([[0.1, 0.9], [0.5, 0.5]]).mean, rtol=1e-6)


def test_distances_by_products_are_those_by_differences():
    """The faster form in `fit` rounds, but never below zero and exactly zero on the diagonal."""
    with jax.enable_x64(True):
        s = np.asarray(product_distance(jnp.asarray(POINTS)))

    np.testing.assert_allclose(((POINTS[:, None] - POINTS[None]) ** 2).sum(-1), s, atol=1e-14)
    assert s.min() == 0.0
    np.testing.assert_array_equal(np.zeros(60), np.diagonal(s))


def test_starts_race_and_the_leader_goes_on():
    """Four starts, then two, then one, which keeps what its climb has learned: as one climb after the other."""
    with jax.enable_x64(True):
        problem = learning.problem_of(POINTS, OUTCOMES, pw.Matern52, None)
        data, starts = problem.data(), learning.starts_of(problem, None, 0, warp=False)
        four = [problem.climb(data, learning.begun(start), 4) for start in starts]
        two = [problem.climb(data, state, 4) for state in sorted(four, key=learning.height_of)[2:]]
        leader = max(two, key=learning.height_of)
        end = problem.climb(data, leader, 60)
        raced = learning.race(problem, data, starts)
        alone = learning.alone(problem, data, starts[1], 60)
        same = problem.climb(data, learning.begun(starts[1]), 60)

    assert 8 == int(leader.rounds) < int(end.rounds) == int(raced.rounds)
    np.testing.assert_allclose(learning.cube_of(raced), learning.cube_of(end), atol=1e-9)
    assert learning.height_of(raced) == pytest.approx(learning.height_of(end), rel=1e-12)
    np.testing.assert_allclose(learning.cube_of(alone), learning.cube_of(same), atol=1e-9)


def test_a_warm_start_runs_no_race(learned, monkeypatch):
    """Its copies would end where it does, and cost as much again."""
    turns, race = [], learning._race
    monkeypatch.setattr(learning, "_race", lambda *args, **kwargs: turns.append(args[2][:, 1]) or race(*args, **kwargs))

    pw.fit(POINTS, OUTCOMES)
    pw.fit(POINTS, OUTCOMES, start=learned)

    assert learning.TURNS[:, 1].tolist() == turns[0].tolist()
    assert [0] * (len(learning.TURNS) - 1) + [learning.ROUNDS] == turns[1].tolist()


@pytest.mark.parametrize("noise", [None, 1e-3])
def test_rows_of_a_fit_change_nothing(noise, monkeypatch):
    """Between two buckets a fit has rows of its own; with those of the belief it finds the same hyperparameters."""
    rng = np.random.default_rng(5)
    X = rng.random((70, 2))
    y = np.sin(5 * X).sum(axis=1) + 0.03 * rng.standard_normal(70)
    own = pw.fit(X, y, noise=noise)
    assert (96, 128) == (learning.rows_of(70), own.data.X.shape[0])
    monkeypatch.setattr(learning, "MIDDLE", 0)
    assert 128 == learning.rows_of(70)
    as_usual = pw.fit(X, y, noise=noise)

    np.testing.assert_allclose(own.process.kernel.lengthscale, as_usual.process.kernel.lengthscale, rtol=1e-6)
    assert own.log_evidence == pytest.approx(as_usual.log_evidence, rel=1e-9)
