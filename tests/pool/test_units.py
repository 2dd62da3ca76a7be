"""Outcomes in another unit, of nanofarads or of millions: the same pool, worth as much in that unit."""

import jax.numpy as jnp
import numpy as np
import pytest

import poolwise as pw

RNG = np.random.default_rng(3)
X = RNG.random((24, 2))
Y = np.sin(5 * X).sum(axis=1)
PENDING = np.array([[0.3, 0.3], [0.6, 0.1]])
SPACE = pw.Space({"x": pw.Float(0.0, 1.0), "k": pw.Int(0, 40)})

WAYS = {
    "expected improvement": lambda belief, unit: proposed(belief, pw.ExpectedImprovement(unit * Y.max())),
    "energy": lambda belief, unit: proposed(belief, pw.EnergyEntropy()),
    "knowledge": lambda belief, unit: pw.propose(belief, pw.KnowledgeGradient(X[:9]), 2, seed=1),
    "one shot": lambda belief, unit: pw.propose(belief, pw.KnowledgeGradient(), 2, maximizer=pw.OneShot(), seed=1),
    "direct": lambda belief, unit: climbed(belief, unit, pw.Direct(evaluations=200)),
    "lbfgsb": lambda belief, unit: climbed(belief, unit, pw.Lbfgsb(rounds=40)),
    "momentum": lambda belief, unit: climbed(belief, unit, pw.Stochastic("momentum", steps=80)),
    "adam": lambda belief, unit: climbed(belief, unit, pw.Stochastic(steps=80)),
    "paths": lambda belief, unit: pw.thompson(belief, 3, seed=1),
    "space": lambda belief, unit: pw.propose(belief, pw.SimpleRegret(), 2, domain=SPACE, seed=1),
    "balanced": lambda belief, unit: pw.balanced(belief, 3, pending=PENDING, seed=1),
}


@pw.integrand
def second_best(y, mean):
    return jnp.sort(y)[-2]


def proposed(belief, goal):
    return pw.propose(belief, goal, 3, pending=PENDING, seed=1)


def climbed(belief, unit, maximizer):
    return pw.propose(belief, pw.ExpectedImprovement(unit * Y.max()), 2, maximizer=maximizer, seed=1)


def belief(unit):
    return pw.GaussianProcess(pw.Matern52(0.4, amplitude=unit), noise=1e-4 * unit**2).condition(X, unit * Y)


@pytest.mark.parametrize("way", WAYS)
def test_the_unit_of_outcomes_changes_no_pool(way):
    """The search climbs as far, and what is padded is as large as what is not."""
    usual = WAYS[way](belief(1.0), 1.0)
    for unit in (1e-8, 1e8):
        other = WAYS[way](belief(unit), unit)

        np.testing.assert_allclose(usual.pool, other.pool, atol=1e-6)
        np.testing.assert_allclose([usual.value, usual.error], [other.value / unit, other.error / unit], rtol=1e-6)
        np.testing.assert_allclose(unit * usual.contributions, other.contributions, rtol=1e-4, atol=1e-9 * unit)


@pytest.mark.slow
def test_the_unit_of_outcomes_changes_no_pool_of_ones_own():
    """An integrand that does not say what it counts in is climbed as far in a small unit."""
    usual, other = proposed(belief(1.0), second_best), proposed(belief(1e-8), second_best)

    np.testing.assert_allclose(usual.pool, other.pool, atol=1e-3)
