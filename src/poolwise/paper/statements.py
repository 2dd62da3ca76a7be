"""What the paper says that can be computed on the spot: its estimator, its bound, its relaxation, and one slip."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
from scipy.integrate import quad
from scipy.stats import norm

import poolwise as pw
from poolwise.acquisition.base_samples import normals
from poolwise.paper.figure1 import belief

POOL = np.array([[0.3], [0.7]])
BATCHES = 4096


def unbiased_gradient() -> float:
    """The largest deviation, in standard errors, of the mean of minibatch gradients from the exact gradient."""
    posterior, best = belief(), float(belief().y.max())
    with jax.enable_x64(True):
        value = lambda pool: pw.exact.expected_improvement(posterior(pool), best)  # noqa: E731
        exact = np.asarray(jax.jit(jax.grad(value))(POOL))

        def gradient(seed: int) -> np.ndarray:
            goal = pw.ExpectedImprovement(best)
            value = lambda pool: pw.expectation(goal, posterior, pool, samples=64, base="iid", seed=seed).value  # noqa: E731
            return np.asarray(jax.grad(value)(POOL))

        each = np.stack([gradient(seed) for seed in range(BATCHES // 64)])
    error = each.std(axis=0, ddof=1) / math.sqrt(len(each))
    return float(np.max(np.abs(each.mean(axis=0) - exact) / error))


def bound_of_one() -> float:
    """The difference between the integral form of the bound at one point and mean + sqrt(beta) deviation."""
    mean, deviation, beta = 0.3, 0.7, math.sqrt(3)
    value = pw.exact.upper_confidence_bound(pw.Normal([mean], [[deviation**2]]), beta)
    return abs(float(value) - (mean + math.sqrt(beta) * deviation))


def marginal_bound() -> float:
    """The difference between the bound of a subset, and the pool's integral with the other terms left out."""
    posterior = belief()
    pool = np.array([[0.3], [0.7], [0.95]])
    z = normals(1024, 3, seed=0)
    whole, part = posterior(pool), posterior(pool[:2])
    goal = pw.UpperConfidenceBound()
    many, few = np.asarray(whole.outcomes(z))[:, :2], np.asarray(part.outcomes(z[:, :2]))
    with jax.enable_x64(True):
        mean = jnp.asarray(part.mean)[None, :]
        scores = [jnp.max(goal.score(jnp.asarray(y), mean), axis=1) for y in (many, few)]
        return float(jnp.abs(scores[0] - scores[1]).max())


def simplified_bound() -> tuple[float, float]:
    """The last expression of the appendix, int_mu^inf y N(y; mu, 2 pi beta sigma^2) dy, and what it is said to be."""
    mean, deviation, beta = 1.3, 0.7, math.sqrt(3)
    wide = math.sqrt(2 * math.pi * beta) * deviation
    printed = quad(lambda y: y * norm.pdf(y, mean, wide), mean, mean + 40 * wide)[0]
    return float(printed), mean + math.sqrt(beta) * deviation


def relaxation_order() -> float:
    """How fast the soft probability of improvement tends to the hard one: the exponent of the temperature."""
    normal = pw.Normal([0.3], [[0.49]])
    hard = pw.exact.probability_of_improvement(normal, 0.5)
    gaps = [abs(float(pw.exact.probability_of_improvement(normal, 0.5, temperature=t) - hard)) for t in (0.1, 0.05)]
    return math.log2(gaps[0] / gaps[1])
