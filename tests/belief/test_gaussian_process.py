"""Exact regression: the notes' numbers, an independent library, noise of every kind, and derivatives in the inputs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn import gaussian_process
from tests.reference import gaussian_process as reference

import poolwise as pw

KERNELS = [pw.Matern12, pw.Matern32, pw.Matern52, pw.SquaredExponential]


def test_posterior_of_the_notes(posterior, pool, t9):
    """Oracle T9, to the twelve digits that it has."""
    normal = posterior(pool)

    np.testing.assert_allclose(t9["posterior_mean"], normal.mean, atol=1e-10)
    np.testing.assert_allclose(t9["posterior_covariance"], normal.covariance, atol=1e-10)
    assert np.float64 == normal.mean.dtype == normal.covariance.dtype


def test_joint_belief_of_representers_and_query(posterior, oracles):
    """The notes' entropy search oracle: means, covariances and the variance of a noisy observation."""
    es = oracles["entropy_search"]
    joint = posterior([[0.25], [0.4], [0.72], [0.33]])

    np.testing.assert_allclose(es["representer_mean"], joint.mean[:3], atol=1e-10)
    np.testing.assert_allclose(es["representer_covariance"], joint.covariance[:3, :3], atol=1e-10)
    np.testing.assert_allclose(es["cross_covariance"], joint.covariance[:3, 3], atol=1e-10)
    np.testing.assert_allclose(es["query_variance"], joint.covariance[3, 3] + 0.05, atol=1e-10)


def sklearn_kernel(kernel):
    kernels = gaussian_process.kernels
    nu = {"Matern12": 0.5, "Matern32": 1.5, "Matern52": 2.5, "SquaredExponential": np.inf}[type(kernel).__name__]
    return kernels.ConstantKernel(kernel.amplitude**2) * kernels.Matern(kernel.lengthscale, nu=nu)


@pytest.mark.parametrize("noise", ["one", "each"])
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.__name__)
def test_posterior_equals_scikit_learn(kernel, noise):
    """Mean, covariance and evidence of an independent library, to 1e-8."""
    rng = np.random.default_rng(3)
    X, y, new = rng.random((20, 2)), rng.standard_normal(20), rng.random((5, 2))
    variances = 1e-3 if noise == "one" else 10.0 ** rng.uniform(-4, -1, 20)
    k = kernel([0.4, 0.9], amplitude=1.4)
    peer = gaussian_process.GaussianProcessRegressor(sklearn_kernel(k), alpha=variances, optimizer=None).fit(X, y)
    mean, covariance = peer.predict(new, return_cov=True)
    posterior = pw.GaussianProcess(k, variances).condition(X, y)
    normal = posterior(new)

    np.testing.assert_allclose(mean, normal.mean, atol=1e-8)
    np.testing.assert_allclose(covariance, normal.covariance, atol=1e-8)
    np.testing.assert_allclose(peer.log_marginal_likelihood(), posterior.log_evidence, rtol=1e-10)


def test_more_rows_than_a_block():
    """150 observations: a bucket of 256 and a recursive factor give the same numbers."""
    rng = np.random.default_rng(4)
    X, y, new = rng.random((150, 3)), rng.standard_normal(150), rng.random((4, 3))
    process = pw.GaussianProcess(pw.Matern52(0.6), noise=1e-2, mean=0.5)
    posterior = process.condition(X, y)
    mean, covariance = reference.posterior(process, X, y, new)

    np.testing.assert_allclose(mean, posterior(new).mean, atol=1e-9)
    np.testing.assert_allclose(covariance, posterior(new).covariance, atol=1e-9)
    np.testing.assert_allclose(reference.log_evidence(process, X, y), posterior.log_evidence, rtol=1e-10)


def test_a_noisy_observation_counts_less():
    """Noise for each observation: a useless one changes nothing, an exact one is believed."""
    process = pw.GaussianProcess(pw.Matern52(0.3), noise=[0.0, 1e12])
    normal = process.condition([[0.2], [0.8]], [1.0, 5.0])([[0.2], [0.8]])
    alone = pw.GaussianProcess(pw.Matern52(0.3)).condition([[0.2]], [1.0])([[0.2], [0.8]])

    np.testing.assert_allclose(alone.mean, normal.mean, atol=1e-6)
    np.testing.assert_allclose([1.0, 0.0], [normal.mean[0], normal.covariance[0, 0]], atol=1e-6)


def test_noise_free_data_is_interpolated():
    """Without noise the posterior goes through the data, with no variance left."""
    X = np.linspace(0, 1, 6)[:, None]
    y = np.sin(6 * X[:, 0])
    normal = pw.GaussianProcess(pw.Matern52(0.3)).condition(X, y)(X)

    np.testing.assert_allclose(y, normal.mean, atol=1e-10)
    np.testing.assert_allclose(np.zeros((6, 6)), normal.covariance, atol=1e-10)


def test_coincident_observations_without_noise_are_survived():
    """The same point told twice, even with different outcomes, gives finite beliefs."""
    normal = pw.GaussianProcess(pw.Matern52(0.3)).condition([[0.4], [0.4], [0.4]], [1.0, 1.0, 2.0])([[0.4], [0.5]])

    assert np.isfinite(normal.mean).all()
    np.testing.assert_allclose(4 / 3, normal.mean[0], atol=1e-4)


def test_what_was_given_may_change_afterwards():
    """Numbers are copied: arrays that the caller writes to later leave a belief as it was."""
    X, y, noise, lengths = np.random.default_rng(0).random((64, 2)), np.arange(64.0), np.full(64, 0.1), np.full(2, 0.5)
    belief = pw.GaussianProcess(pw.Matern52(lengths), noise=noise).condition(X, y)
    before = belief([[0.3, 0.4]]), belief.X, belief.y, belief.noise
    X[:], y[:], noise[:], lengths[:] = 0.5, -1.0, 9.0, 3.0

    after = belief([[0.3, 0.4]]), belief.X, belief.y, belief.noise
    assert (before[0].mean, before[0].covariance) == (after[0].mean, after[0].covariance)
    assert all(np.array_equal(a, b) for a, b in zip(before[1:], after[1:], strict=True))


def test_prior_before_any_data():
    """A process that has seen nothing: its constant mean and its kernel."""
    process = pw.GaussianProcess(pw.Matern32(0.5, amplitude=2.0), mean=1.5)
    normal = process([[0.1], [0.4]])

    np.testing.assert_array_equal([1.5, 1.5], normal.mean)
    np.testing.assert_allclose(reference.covariance(process.kernel, [[0.1], [0.4]], [[0.1], [0.4]]), normal.covariance)


@pytest.mark.parametrize("point", [[0.3, 0.6], [0.0, 1.0]], ids=["inside", "edge"])
def test_gradient_in_the_pool_matches_central_differences(plane, point):
    """Mean and variance differentiate with respect to the input, also on the edge of the box."""

    def f(x):
        normal = plane(x[None, :])
        return normal.mean[0] + normal.covariance[0, 0]

    with jax.enable_x64(True):
        gradient = jax.grad(f)(jnp.array(point))

    np.testing.assert_allclose(reference.slope(f, np.array(point)), gradient, atol=1e-8)


def test_gradient_is_finite_at_an_observed_point_without_noise():
    """The variance is zero there, and so is its slope."""
    exact = pw.GaussianProcess(pw.Matern52(0.3)).condition([[0.2], [0.6]], [1.0, 0.0])
    with jax.enable_x64(True):
        gradient = jax.grad(lambda x: exact(x).covariance[0, 0])(jnp.array([[0.6]]))

    np.testing.assert_allclose([[0.0]], gradient, atol=1e-8)


def test_gradient_in_outcomes_and_hyperparameters(plane):
    """A posterior can be differentiated through conditioning: dmean/dy is the row of weights k K^-1."""
    X, y, new = plane.X, plane.y, np.array([[0.3, 0.6]])

    def mean(y, lengthscale):
        return pw.GaussianProcess(pw.Matern52(lengthscale), noise=1e-2).condition(X, y)(new).mean[0]

    with jax.enable_x64(True):
        by_y, by_length = jax.grad(mean, argnums=(0, 1))(jnp.asarray(y), jnp.asarray(0.5))

    np.testing.assert_allclose(reference.slope(lambda v: mean(v, 0.5), y), by_y, atol=1e-8)
    np.testing.assert_allclose(reference.slope(lambda v: mean(y, v[0]), np.array([0.5])), [by_length], atol=1e-8)


@pytest.mark.parametrize("name", ["lengthscale", "noise", "y"])
def test_gradient_through_conditioning_in_jaxs_32_bit_default(name):
    """In what a belief is made of: the same to the digits of 32 bit."""
    X, pool = np.array([[0.1], [0.5], [0.85]]), [[0.3], [0.7]]
    given = {"lengthscale": 0.25, "noise": 0.02, "y": np.array([0.86, 0.39, 0.78])}

    def value(part):
        now = given | {name: part}
        process = pw.GaussianProcess(pw.Matern52(now["lengthscale"]), noise=now["noise"])
        return pw.expectation(pw.ExpectedImprovement(0.9), process.condition(X, now["y"]), pool).value

    narrow = jax.grad(value)(jnp.asarray(given[name]))
    with jax.enable_x64(True):
        wide = jax.grad(value)(jnp.asarray(given[name]))

    assert np.float32 == narrow.dtype
    np.testing.assert_allclose(wide, narrow, rtol=1e-5)
