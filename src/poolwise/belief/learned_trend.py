"""A trend whose coefficients are learned: the likeliest ones, and how far they may be off.

A priori the coefficients c are normal around zero, with a covariance C. With B the basis at the data, and K the
covariance of the data around their trend,

    c | y ~ N(S B' K^-1 y, S),        S = (B' K^-1 B + C^-1)^-1.

The belief at x is that of a process whose kernel is k(x, x') + b(x)' C b(x'), but computed with care: C may be large.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from poolwise.belief.gaussian_process import Posterior, basis_of_data, with_mean
from poolwise.belief.trend import Trend


def with_learned_trend(posterior: Posterior, scale: float, variance: float) -> Posterior:
    """The posterior of a process of constant mean, around a trend that is learned as well.

    The trend's constant has a prior of standard deviation `scale` around that mean, its slopes and curves one of that
    `variance` in this unit.
    """
    B = basis_of_data(posterior)
    precision = np.array([1.0, *[1 / variance] * (B.shape[1] - 1)]) / scale**2
    # S = root^-1' root^-1 where root root' is its inverse, so that it has a factor whatever rounding does
    root = np.linalg.cholesky(B.T @ np.asarray(posterior.inverse) @ B + np.diag(precision))
    factor: Any = np.linalg.inv(root).T
    constant, *rest = factor @ (factor.T @ (B.T @ np.asarray(posterior.weights)))
    trend = Trend(posterior.process.mean + constant, *np.split(np.array(rest), 2))
    return with_mean(posterior, trend, factor)


def trend_variance(posterior: Posterior) -> float:
    """The prior variance t of slopes and curves c that a fit had: its likeliest ones are c = t B' K^-1 (y - mean)."""
    mean = posterior.process.mean
    if not isinstance(mean, Trend):
        return 0.0
    pull = basis_of_data(posterior)[:, 1:].T @ np.asarray(posterior.weights)
    return float(np.concatenate([mean.slope, mean.curve]) @ pull / max(pull @ pull, 1e-300))
