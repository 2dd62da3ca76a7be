"""One more outcome integrated by formula: against samples of it, and its slopes against differences."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

import poolwise as pw
from poolwise.acquisition.integrand import MaxType, averaged
from poolwise.acquisition.tail import density_and_share, log_h, quick_log_h, upside

POINTS = np.array([[0.1, 0.2], [0.8, 0.4]])
INTEGRANDS = {
    "ei": pw.ExpectedImprovement(0.3),
    "sr": pw.SimpleRegret(),
    "ucb": pw.UpperConfidenceBound(2.0),
    "logei": pw.LogExpectedImprovement(0.3),
    "lognei": pw.LogNoisyExpectedImprovement(POINTS),
}


@pytest.mark.parametrize("name", INTEGRANDS)
@pytest.mark.parametrize("best", [None, -0.4, 0.5])
def test_formula_is_the_mean_over_the_last_outcome(name, best):
    integrand = INTEGRANDS[name]
    with jax.enable_x64(True):
        given, mean, deviation = (jnp.asarray([[value]]) for value in (0.4, 0.1, 0.7))
        y = given + deviation * norm.ppf((np.arange(200_000)[None] + 0.5) / 200_000)
        there = jnp.full((1, 1), -jnp.inf) if best is None else integrand.score(jnp.asarray([[best]]), mean)

        exact = integrand.integrated(there, given, deviation, mean)
        sampled = averaged(integrand, integrand.value(jnp.maximum(integrand.score(y, mean), there)))

    assert float(exact[0, 0]) == pytest.approx(float(sampled[0]), abs=1e-4)


@pytest.mark.parametrize("name", INTEGRANDS)
@pytest.mark.parametrize("given", [-30.0, 0.2, 3.0])
def test_slopes_are_those_of_differences(name, given):
    integrand, step = INTEGRANDS[name], 1e-6
    with jax.enable_x64(True):
        there = jnp.full((1, 1), -40.0) if integrand.logarithmic else jnp.full((1, 1), 0.45)

        def value(x):
            return integrand.integrated(there, x[0].reshape(1, 1), x[1].reshape(1, 1), jnp.full((1, 1), given))[0, 0]

        x = jnp.asarray([given + 0.3, 0.8])
        slopes = np.asarray(jax.grad(value)(x))
        differences = [(value(x + step * e) - value(x - step * e)) / (2 * step) for e in jnp.eye(2)]

    assert slopes == pytest.approx(np.array(differences), rel=1e-6, abs=1e-9)


def test_density_and_share():
    u = np.linspace(-7, 9, 1001)
    with jax.enable_x64(True):
        density, share = density_and_share(jnp.asarray(u))

    assert np.asarray(density) == pytest.approx(norm.pdf(u), rel=1e-13)
    assert np.asarray(share) == pytest.approx(norm.cdf(u), rel=1e-8, abs=1e-15)


def test_upside_of_many_deviations_has_its_slope():
    with jax.enable_x64(True):
        value, (slope, down) = jax.value_and_grad(upside, argnums=(0, 2))(*map(jnp.asarray, (-7.0, 1.0, 0.0)))

    assert float(value) == pytest.approx(norm.pdf(7) - 7 * norm.sf(7), rel=1e-3)
    assert float(slope) == pytest.approx(norm.sf(7), rel=1e-8)
    assert float(down) == -float(slope)


def test_the_quick_form_is_that_of_the_exact_one():
    with jax.enable_x64(True):
        u = jnp.linspace(-60.0, 9.0, 2001)
        value, slope = jax.jvp(quick_log_h, (u,), (jnp.ones_like(u),))
        exact, exact_slope = jax.jvp(log_h, (u,), (jnp.ones_like(u),))

    assert np.asarray(value) == pytest.approx(np.asarray(exact), rel=1e-7, abs=1e-6)
    assert np.asarray(slope) == pytest.approx(np.asarray(exact_slope), rel=1e-6)


def test_a_formula_does_not_outlive_its_score():
    """A subclass that counts outcomes otherwise has no formula until it gives one."""

    class Squared(pw.ExpectedImprovement):
        def value(self, best):
            return jnp.maximum(best - self.threshold, 0.0) ** 2

    assert Squared.integrated is MaxType.integrated
    assert pw.ExpectedImprovement.integrated is not MaxType.integrated
