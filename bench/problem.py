"""The reference problem of the speed benchmark, and the judge both libraries stand before.

NumPy and SciPy only: the judge shares no code with Poolwise or BoTorch. Written for clarity, never timed.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_solve, cholesky, solve_triangular
from scipy.spatial.distance import cdist
from scipy.special import ndtri

DIMENSIONS = 8
LENGTHSCALE = 0.5
NOISE = 1e-4  # a variance
BETA = np.sqrt(3.0)  # UCB is mean + sqrt(beta) sd, the paper's literal reading
TEMPERATURE = 0.01  # of the relaxed PI that maximizers climb; the judge takes the hard one
JUDGE_SAMPLES_LOG2 = 14
JUDGE_SEED = 20171204
JITTER = 1e-10  # a standard deviation of 1e-5: makes pools with repeated points factorable
FEATURES = 4096


@dataclass(frozen=True)
class Problem:
    """Observations of one draw of the prior, with the factor of their covariance K + noise I."""

    X: np.ndarray  # (n, d), uniform in the unit cube
    y: np.ndarray  # (n,)
    factor: np.ndarray  # (n, n), lower

    @property
    def threshold(self) -> float:
        return float(self.y.max())


def matern52(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """k(a, b) = (1 + s + s^2 / 3) exp(-s) with s = sqrt(5) |a - b| / lengthscale."""
    s = np.sqrt(5.0) * cdist(A, B) / LENGTHSCALE
    return (1 + s + s * s / 3) * np.exp(-s)


def reference(n: int, seed: int = 0) -> Problem:
    """The same n and seed give the same observations, in any process."""
    rng = np.random.default_rng([seed, n])
    X = rng.uniform(size=(n, DIMENSIONS))
    factor = cholesky(matern52(X, X) + NOISE * np.eye(n), lower=True)
    return Problem(X, factor @ rng.standard_normal(n), factor)  # y ~ N(0, K + noise I)


def posterior(problem: Problem, pool: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean (q,) and covariance (q, q) of the noise-free outcomes at a pool."""
    cross = matern52(problem.X, pool)
    half = solve_triangular(problem.factor, cross, lower=True)
    return cross.T @ cho_solve((problem.factor, True), problem.y), matern52(pool, pool) - half.T @ half


def judge_normals(q: int) -> np.ndarray:
    """Scrambled Sobol' points through the normal quantile, the same for every pool of q: (2^14, q)."""
    from scipy.stats import qmc  # half a second, which a cold start must not pay for the judge

    uniforms = qmc.Sobol(q, scramble=True, rng=JUDGE_SEED).random_base2(JUDGE_SAMPLES_LOG2)
    return ndtri(uniforms + 2.0**-31)  # the middle of each of the 2^30 cells: never 0, never 1


def judge(problem: Problem, pool: np.ndarray, name: str) -> float:
    """What a pool is worth on the judge's samples: `name` is ei, pi (hard), ucb or sr."""
    mean, covariance = posterior(problem, np.asarray(pool, dtype=float))
    q = len(mean)
    outcomes = mean + judge_normals(q) @ np.linalg.cholesky(covariance + JITTER * np.eye(q)).T
    return float(INTEGRANDS[name](outcomes, mean, problem.threshold).mean())


INTEGRANDS: dict[str, Callable[[np.ndarray, np.ndarray, float], np.ndarray]] = {
    "ei": lambda y, mean, threshold: np.maximum(y.max(1) - threshold, 0.0),
    "pi": lambda y, mean, threshold: (y.max(1) > threshold).astype(float),
    "ucb": lambda y, mean, threshold: (mean + np.sqrt(BETA * np.pi / 2) * np.abs(y - mean)).max(1),
    "sr": lambda y, mean, threshold: y.max(1),
}


def task(seed: int = 0) -> Callable[[np.ndarray], np.ndarray]:
    """A smooth deterministic function (m, d) -> (m,): a draw of the prior by random Fourier features."""
    rng = np.random.default_rng([seed, FEATURES])
    # The spectral density of Matern-5/2 is a multivariate t with five degrees of freedom.
    scale = np.sqrt(rng.chisquare(5, size=(FEATURES, 1)) / 5)
    frequencies = rng.standard_normal((FEATURES, DIMENSIONS)) / (LENGTHSCALE * scale)
    phases = rng.uniform(0, 2 * np.pi, FEATURES)
    weights = rng.standard_normal(FEATURES) * np.sqrt(2 / FEATURES)
    return lambda X: np.cos(np.asarray(X, dtype=float) @ frequencies.T + phases) @ weights
