"""Entropy search: the notes' oracle, what makes it an information, and its gradient."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.conftest import ORACLES
from tests.reference import gaussian_process as reference

import poolwise as pw
from poolwise.acquisition.base_samples import normals
from poolwise.acquisition.entropy import Argmax
from poolwise.acquisition.expectation import Base, estimate
from poolwise.belief.normal import observing

REPRESENTERS, QUERY, NOISE = [[0.25], [0.4], [0.72]], [[0.33]], 0.05
ORACLE = ORACLES["entropy_search"]


@pytest.mark.parametrize("temperature", [0.01, None], ids=["soft", "hard"])
def test_information_of_the_notes(temperature, posterior):
    """0.2185 nats to 2e-3, from 64 fantasies and 1024 inner samples."""
    search = pw.EntropySearch(REPRESENTERS, noise=NOISE, temperature=temperature, samples=1024)
    value = pw.expectation(search, posterior, QUERY, samples=64).value

    assert ORACLE["information_gain_nats"] == pytest.approx(value, abs=2e-3)


def test_probability_of_being_best():
    """The innermost integrand of Table 1: oracle T5's and the representers' p_max, hard and soft."""
    t5 = next(vector for vector in ORACLES["normals"] if vector["name"] == "T5")
    pairs = [
        (t5["expected"]["p_max"], pw.Normal(t5["mean"], t5["covariance"])),
        (ORACLE["p_max"], pw.Normal(ORACLE["representer_mean"], ORACLE["representer_covariance"])),
    ]
    for expected, normal in pairs:
        for temperature in (0.01, None):
            p, error = pw.expectation(Argmax(temperature), normal, samples=2**14)

            np.testing.assert_allclose(expected, p, atol=2e-3)
            assert (np.abs(p - expected) < 4 * error).all()
            assert 1.0 == pytest.approx(p.sum(), abs=1e-12)


def test_ties_share():
    """Equal outcomes of the hard maximum share the one; right-continuous, so all that attain it count."""
    with jax.enable_x64(True):
        assert [0.5, 0.0, 0.5] == Argmax(None)(jnp.array([2.0, 1.0, 2.0]), jnp.zeros(3)).tolist()


def after_observations(posterior, nodes):
    """p, and p(y) at standardised observations of the query."""
    with jax.enable_x64(True):
        now, update = observing(posterior(REPRESENTERS + QUERY), 3, NOISE)
        base = Base(jnp.asarray(normals(2**14, 3)))
        seen = update.seen.mean[0] + jnp.sqrt(update.seen.covariance[0, 0]) * jnp.asarray(nodes)
        best = Argmax(0.01)
        later = jax.jit(jax.vmap(lambda y: estimate(best, update.belief(y[None]), base).value))(seen)
        return np.asarray(estimate(best, now, base).value), np.asarray(later)


def test_what_will_be_believed_averages_to_what_is(posterior):
    """The tower property E_y p(y) = p, and the entropies of the oracle, by Gauss-Hermite over y."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    weights = weights / weights.sum()
    p, later = after_observations(posterior, nodes)

    def entropy(p):
        return -np.sum(np.where(p > 0, p * np.log(np.maximum(p, 1e-300)), 0.0), axis=-1)

    np.testing.assert_allclose(p, weights @ later, atol=2e-3)
    assert ORACLE["entropy"] == pytest.approx(entropy(p), abs=2e-3)
    assert ORACLE["expected_entropy_after"] == pytest.approx(weights @ entropy(later), abs=2e-3)


def test_information_is_never_negative(posterior):
    """Sample by sample a divergence: no observation is worth less than nothing, even with few inner samples."""
    search = pw.EntropySearch(REPRESENTERS, noise=NOISE, samples=16)
    with jax.enable_x64(True):
        normal, worth = search.after(posterior, jnp.array([[0.33], [0.9]]))
        y = jnp.asarray(normal.outcomes(normals(256, 2, base="iid")))
        values = np.asarray(jax.jit(jax.vmap(worth, (0, None)))(y, jnp.asarray(normal.mean)))

    assert values.min() >= 0
    assert values.max() > 0.1


def test_more_observations_tell_more(posterior):
    """Information grows with the pool, and vanishes with noise."""
    quiet, loud = (pw.EntropySearch(REPRESENTERS, noise=noise) for noise in (NOISE, 1e6))
    one = pw.expectation(quiet, posterior, QUERY, samples=256).value
    two = pw.expectation(quiet, posterior, [[0.33], [0.7]], samples=256).value

    assert one < two < ORACLE["entropy"]
    assert 0.0 == pytest.approx(pw.expectation(loud, posterior, QUERY, samples=256).value, abs=1e-4)


def test_gradient_matches_central_differences(posterior):
    """In the pool, on fixed samples, at a temperature that leaves the estimate smooth."""
    search = pw.EntropySearch(REPRESENTERS, noise=NOISE, temperature=0.1, samples=64)

    def f(flat):
        return pw.expectation(search, posterior, flat.reshape(2, 1), samples=16).value

    X = np.array([0.33, 0.6])
    with jax.enable_x64(True):
        gradient = jax.grad(f)(jnp.asarray(X))

    np.testing.assert_allclose(reference.slope(f, X, 1e-5), gradient, atol=1e-7)


def test_temperature_counts_in_units_of_the_spread():
    """Outcomes in other units: the same information."""
    X, y = np.array([[0.1], [0.5], [0.85]]), np.array([0.8, 0.4, 0.7])
    values = []
    for c in (1.0, 100.0):
        posterior = pw.GaussianProcess(pw.Matern52(0.25, amplitude=c), noise=1e-3 * c**2).condition(X, c * y)
        search = pw.EntropySearch(REPRESENTERS, noise=NOISE * c**2, spread=c, samples=64)
        values.append(pw.expectation(search, posterior, QUERY, samples=16).value)

    assert values[0] == pytest.approx(values[1], rel=1e-7)


def test_coincident_points_and_representers_are_finite(posterior):
    """A pool of equal points on a representer, noise-free: finite value and gradient."""
    search = pw.EntropySearch(REPRESENTERS, samples=32)
    with jax.enable_x64(True):
        value, gradient = jax.value_and_grad(lambda X: pw.expectation(search, posterior, X, samples=16).value)(
            jnp.array([[0.25], [0.25]])
        )

    assert np.isfinite(value)
    assert np.isfinite(gradient).all()
