"""The search's view of a posterior agrees with the posterior itself, in value and gradient."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import poolwise as pw
from poolwise.acquisition.base_samples import normals
from poolwise.maximizers import lbfgsb
from poolwise.maximizers.climb import value_and_gradient
from poolwise.pool.ascent import _advance, _begin, general_objective, max_objective, search
from poolwise.pool.effort import Limit
from poolwise.pool.field import JITTER, field_of
from poolwise.pool.greedy import with_points
from poolwise.pool.prefix import factor_rows, first_samples, nobody
from poolwise.pool.starts import with_room

RNG = np.random.default_rng(7)
X, POOL, PENDING = RNG.random((20, 3)), RNG.random((4, 3)), RNG.random((2, 3))
Y = np.sin(4 * X).sum(axis=1)
NOBODY = np.zeros((0, 3))
KERNELS = [pw.Matern12, pw.Matern32, pw.Matern52, pw.SquaredExponential]
GOALS = [
    pw.ExpectedImprovement(1.5),
    pw.ProbabilityOfImprovement(1.5, 0.1),
    pw.UpperConfidenceBound(),
    pw.SimpleRegret(),
]


def belief(kernel=pw.Matern52):
    return pw.GaussianProcess(kernel([0.4, 0.6, 0.9], 1.3), noise=1e-2, mean=0.2).condition(X, Y)


@pytest.mark.parametrize("kernel", KERNELS)
def test_field_rows_are_the_posterior(kernel):
    """Means, and covariances made of k and w, are those of the posterior."""
    posterior = belief(kernel)
    with jax.enable_x64(True):
        field = field_of(posterior)
        rows = field.rows(jnp.asarray(POOL))
        covariance = field.covariances(rows.scaled, rows.scaled) - rows.k @ rows.w.T
    exact = posterior(POOL)

    np.testing.assert_allclose(rows.mean, exact.mean, rtol=0, atol=1e-12)
    np.testing.assert_allclose(covariance, exact.covariance, rtol=0, atol=1e-6)  # Matern-1/2 at distance zero


def test_factor_rows_are_rows_of_the_cholesky_factor():
    """One more point needs only its own row of the factor, and that row is the full factor's last."""
    posterior, goal = belief(), pw.SimpleRegret()
    with jax.enable_x64(True):
        field = field_of(posterior)
        prefix = with_points(field, goal, nobody(field, jnp.asarray(normals(8, 4))), jnp.asarray(POOL[:3]), jnp.ones(3))
        left, pivot = factor_rows(prefix, field, field.rows(jnp.asarray(POOL[3:])))
    jittered = posterior(POOL).covariance + JITTER * 1.3**2 * np.eye(4)

    row = np.append(np.asarray(left)[0, :3], np.asarray(pivot))

    np.testing.assert_allclose(row, np.linalg.cholesky(jittered)[3], rtol=0, atol=1e-8)
    assert 0 == np.asarray(left)[0, 3]


@pytest.mark.parametrize("goal", GOALS, ids=lambda goal: type(goal).__name__)
@pytest.mark.parametrize("pending", [NOBODY, PENDING], ids=["alone", "pending"])
def test_joint_objective_is_the_expectation(goal, pending):
    """On the same base samples, the fast objective, the general one and `expectation` agree."""
    posterior = belief()
    with jax.enable_x64(True):
        fast, _ = max_objective(posterior, goal, 4, pending, samples=64, seed=3)
        plain = general_objective(posterior, goal, 4, pending, samples=64, seed=3)
        flat = jnp.asarray(POOL.reshape(1, -1))
        values = float(fast(flat)[0]), float(plain(flat)[0])
    expected = pw.expectation(goal, posterior, POOL, pending=pending, samples=64, seed=3).value

    np.testing.assert_allclose(values, expected, rtol=1e-6)


@pytest.mark.parametrize("goal", GOALS, ids=lambda goal: type(goal).__name__)
@pytest.mark.parametrize("pending", [NOBODY, PENDING], ids=["alone", "pending"])
def test_a_pool_without_a_value_has_none(goal, pending):
    """What is not a number is not taken for a pool that is worth nothing, or for one as good as the pending points."""
    with jax.enable_x64(True):
        objective, _ = max_objective(belief(), goal, 4, pending, samples=64, seed=3)
        values = objective(jnp.asarray(POOL.reshape(1, -1)).at[0, 5].set(jnp.nan))

    assert np.isnan(values).all()


@pytest.mark.parametrize("goal", GOALS, ids=lambda goal: type(goal).__name__)
def test_joint_gradient_is_that_of_central_differences(goal):
    """Holding w constant loses nothing of the gradient."""
    with jax.enable_x64(True):
        objective, _ = max_objective(belief(), goal, 4, PENDING, samples=64, seed=3)
        flat, step = POOL.reshape(1, -1), 1e-6
        _, gradient = value_and_gradient(objective, jnp.asarray(flat))
        moved = flat + step * np.concatenate([np.eye(12), -np.eye(12)])
        values = np.asarray(objective(jnp.asarray(moved)))

    np.testing.assert_allclose(gradient[0], (values[:12] - values[12:]) / (2 * step), rtol=1e-4, atol=1e-6)


def test_fresh_samples_are_unbiased():
    """The mean over redrawn objectives is the expectation, pending points included."""
    posterior, goal = belief(), pw.ExpectedImprovement(1.5)
    with jax.enable_x64(True):
        objective, _ = max_objective(posterior, goal, 4, PENDING, samples=64, seed=0)
        keys = jax.random.split(jax.random.key(1), 200)
        flat = jnp.asarray(POOL.reshape(1, -1))
        values = np.array([float(objective.redraw(key, 64)(flat)[0]) for key in keys])
    exact = pw.expectation(goal, posterior, POOL, pending=PENDING, samples=2**16)

    assert abs(values.mean() - exact.value) < 4 * values.std() / np.sqrt(len(values))


def test_screening_uses_the_first_samples():
    """Fewer base samples of the same prefix are its first ones."""
    with jax.enable_x64(True):
        _, prefix = max_objective(belief(), pw.SimpleRegret(), 2, PENDING, samples=64, seed=0)
        few = first_samples(prefix, 16)

    np.testing.assert_array_equal(few.best, prefix.best[:16])
    np.testing.assert_array_equal(few.normals, prefix.normals[:16])


@pytest.mark.parametrize("pending", [0, 3])
def test_one_point_is_integrated_by_formula(pending):
    """A single point is worth its exact value on a few samples: its own outcome is not sampled, only pending ones."""
    rng = np.random.default_rng(3)
    X = rng.random((12, 2))
    belief = pw.GaussianProcess(pw.Matern52(0.4), noise=1e-3).condition(X, np.sin(5 * X).sum(axis=1))
    waiting, points = rng.random((pending, 2)), rng.random((4, 2))
    integrand = pw.ExpectedImprovement(1.2)
    with jax.enable_x64(True):
        few, _ = max_objective(belief, integrand, 1, waiting, samples=64, seed=0)
        values = np.asarray(few(jnp.asarray(points)))

    pools = [belief(np.concatenate([waiting, x[None]])) for x in points]
    exact = [float(pw.exact.expected_improvement(normal, 1.2)) for normal in pools]
    assert values == pytest.approx(exact, abs=5e-3 if pending else 1e-8)


@pytest.mark.parametrize("q", [2, pytest.param(6, marks=pytest.mark.slow), pytest.param(7, marks=pytest.mark.slow), 9])
def test_the_compiled_climb_sees_the_same_values(q):
    """In one dimension jaxlib 0.10.2 compiled the loop wrongly while a distance's root was guarded in its value."""
    posterior = pw.GaussianProcess(pw.Matern52(0.15), noise=1e-6).condition([[0.2], [0.22], [0.8]], [0.0, 0.9, -2.0])
    with jax.enable_x64(True):
        objective, _ = max_objective(
            posterior, pw.ProbabilityOfImprovement(2.5), q, np.zeros((0, 1)), samples=64, seed=0
        )
        end = _advance(objective, lbfgsb.init(jnp.asarray(np.random.default_rng(q).random((1, q)))), 7)
        with jax.disable_jit():
            value, gradient = value_and_gradient(objective, end.points)

    np.testing.assert_allclose(end.values, value, rtol=1e-9)
    np.testing.assert_allclose(end.gradients, gradient, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(("d", "q"), [(1, 3), pytest.param(2, 2, marks=pytest.mark.slow)])
def test_compiled_picks_are_those_of_the_functions(d, q):
    """The program of greedy picks does what its functions do without compilation."""
    rng = np.random.default_rng(d)
    X = rng.random((5, d))
    posterior = pw.GaussianProcess(pw.Matern52(0.3), noise=1e-4).condition(X, np.sin(5 * X).sum(axis=1))
    room = with_room(np.zeros((0, d)), normals(64, q))
    with jax.enable_x64(True):
        arrays = jax.tree.map(jnp.asarray, (posterior, pw.ProbabilityOfImprovement(1.0), *room, rng.random((q, 6, d))))
        _, compiled, _ = _begin(*arrays, 2, q, starts=2)
        with jax.disable_jit():
            _, plain, _ = _begin.__wrapped__(*arrays, 2, q, starts=2)

    np.testing.assert_allclose(compiled.values, plain.values, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(compiled.pool, plain.pool, atol=1e-6)


def test_fewer_picks_are_the_first_of_all():
    """Of greedy picks that no ascent follows, only those that are wanted are made, and they are the same."""
    X = np.random.default_rng(1).random((9, 2))
    posterior = pw.GaussianProcess(pw.Matern52(0.3), noise=1e-4).condition(X, np.sin(5 * X).sum(axis=1))
    effort, beside = pw.Ascent(polish=0, lanes=1), np.zeros((0, 2))
    with jax.enable_x64(True):
        options = {"seed": 3, "limit": Limit()}
        every = search(effort, posterior, pw.LogExpectedImprovement(1.5), 4, beside, **options)
        some = search(effort, posterior, pw.LogExpectedImprovement(1.5), 4, beside, picks=2, **options)

    assert np.array_equal(some.pool, every.pool[:2])
    assert some.evaluations < 0.6 * every.evaluations
