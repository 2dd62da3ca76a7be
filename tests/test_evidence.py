"""The prior of lengthscales: axes are alike until the data say otherwise."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad
from tests.reference import gaussian_process as reference

from poolwise.evidence import ALIKE, COMMON, FREEDOM, log_prior_of_lengths

rng = np.random.default_rng(5)


def by_integral(e):
    """The mean's normal density times that of the rest, whose variance v is integrated out: FREEDOM ALIKE^2 / chi^2."""
    mean, rest = e.mean(), e - e.mean()

    def beside(v):
        chi = FREEDOM * ALIKE**2 / v
        return v ** (-(len(e) - 1) / 2) * np.exp(-rest @ rest / (2 * v) - chi / 2) * chi ** (FREEDOM / 2) / v

    return -0.5 * (mean / COMMON) ** 2 + np.log(quad(beside, 0, np.inf, epsabs=0, epsrel=1e-10, limit=500)[0])


@pytest.mark.parametrize("d", [2, 5])
def test_the_prior_has_an_unknown_variance_integrated_out(d):
    """Differences of the log prior are those of the integral."""
    e, other = rng.standard_normal((2, d))
    with jax.enable_x64(True):
        found = [float(log_prior_of_lengths(jnp.asarray(at))[0]) for at in (e, other)]

    assert by_integral(e) - by_integral(other) == pytest.approx(found[0] - found[1], rel=1e-7)


@pytest.mark.parametrize(
    "e", [rng.standard_normal(1), rng.standard_normal(4), np.full(3, 0.7)], ids=["1", "4", "alike"]
)
def test_gradient(e):
    """Against central differences; one axis has none to be like."""
    with jax.enable_x64(True):
        numeric = reference.slope(lambda at: float(log_prior_of_lengths(jnp.asarray(at))[0]), e, 1e-6)
        gradient = np.asarray(log_prior_of_lengths(jnp.asarray(e))[1])

    np.testing.assert_allclose(numeric, gradient, atol=1e-8)
