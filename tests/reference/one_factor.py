"""Slow reference values for pools of any size whose covariance is diag(d) + lam lam^T.

Given the common factor z ~ N(0, 1) the outcomes are independent, so the distribution of the maximum is one integral,

    F(t) = int phi(z) prod_i Phi((t - mean_i - lam_i z) / sqrt(d_i)) dz,

and every value is one more: EI = int_alpha^inf (1 - F), SR = lo + int_lo^inf (1 - F) for lo below every outcome, UCB
likewise with |gamma|, gamma ~ N(0, beta pi / 2 covariance). Each d_i must be above zero. Accurate to about 1e-12.
"""

import numpy as np
from scipy.special import expit, ndtr

REACH = 9.5  # standard deviations: what is beyond adds less than 1e-20


def ei(mean, d, lam, threshold):
    """E max(0, max y - threshold)."""
    mean, sigma = np.asarray(mean), _sigma(d, lam)
    t, weights = _grid(threshold, np.max(mean + REACH * sigma), np.min(sigma))

    return float(weights @ _above(t, mean, d, lam))


def pi(mean, d, lam, threshold, temperature=None):
    """P(max y > threshold), or with a temperature the expectation of the sigmoid."""
    if temperature is None:
        return float(_above(np.array([threshold]), mean, d, lam)[0])
    logistic, weights = _grid(-40.0, 40.0, min(1.0, np.min(_sigma(d, lam)) / temperature))
    density = expit(logistic) * expit(-logistic)

    return float(weights @ (density * _above(threshold + temperature * logistic, mean, d, lam)))


def sr(mean, d, lam):
    """E max y."""
    lowest = float(np.max(np.asarray(mean) - REACH * _sigma(d, lam)))

    return lowest + ei(mean, d, lam, lowest)


def ucb(mean, d, lam, beta):
    """E max_i (mean_i + |gamma_i|), gamma ~ N(0, beta pi / 2 covariance)."""
    mean, k = np.asarray(mean), np.sqrt(beta * np.pi / 2)
    sigma, root, factor = k * _sigma(d, lam), k * np.sqrt(d), k * np.asarray(lam)
    t, weights = _grid(np.max(mean), np.max(mean + REACH * sigma), np.min(sigma))
    z, density = _factor_grid(d, lam)
    inside = np.array([density @ _box(s - mean, factor[None, :] * z[:, None], root) for s in t])

    return float(np.max(mean) + weights @ (1 - inside))


def _box(half, shift, root):
    """P(|gamma_i| <= half_i for all i) for each value of the common factor."""
    return np.prod(ndtr((half - shift) / root) - ndtr((-half - shift) / root), axis=1)


def _above(t, mean, d, lam):
    """1 - F(t) for each t."""
    z, density = _factor_grid(d, lam)
    centre = np.asarray(mean)[None, :] + z[:, None] * np.asarray(lam)[None, :]
    below = np.array([density @ np.prod(ndtr((s - centre) / np.sqrt(d)), axis=1) for s in t])

    return 1 - below


def _sigma(d, lam):
    return np.sqrt(np.asarray(d) + np.asarray(lam) ** 2)


def _factor_grid(d, lam):
    """Points of z with phi(z) in their weights, as fine as the steepest Phi((t - lam z) / sqrt(d))."""
    z, weights = _grid(-REACH, REACH, min(1.0, np.min(np.sqrt(d) / np.maximum(np.abs(lam), 1e-12))))

    return z, weights * np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi)


def _grid(start, end, width):
    """Gauss-Legendre on panels of about `width`, twelve points on each."""
    x, w = np.polynomial.legendre.leggauss(12)
    edges = np.linspace(start, end, max(2, int(np.ceil((end - start) / width)) + 1))
    half, middle = np.diff(edges) / 2, (edges[1:] + edges[:-1]) / 2

    return (middle[:, None] + half[:, None] * x).ravel(), (half[:, None] * w).ravel()
