"""Gaussian process regression written straight from the book: NumPy, loops, no padding, no jitter."""

import math

import numpy as np

PROFILES = {
    "Matern12": lambda r: math.exp(-r),
    "Matern32": lambda r: (1 + math.sqrt(3) * r) * math.exp(-math.sqrt(3) * r),
    "Matern52": lambda r: (1 + math.sqrt(5) * r + 5 * r * r / 3) * math.exp(-math.sqrt(5) * r),
    "SquaredExponential": lambda r: math.exp(-r * r / 2),
}


def covariance(kernel, A, B):
    """k(a, b) for each pair of points, one pair at a time."""
    profile, amplitude = PROFILES[type(kernel).__name__], float(kernel.amplitude)
    lengths = np.broadcast_to(kernel.lengthscale, (np.shape(A)[1],))
    rows = [[amplitude**2 * profile(math.dist(a / lengths, b / lengths)) for b in B] for a in A]

    return np.array(rows)


def posterior(process, X, y, pool):
    """Mean and covariance of the noise-free outcomes at a pool."""
    K = covariance(process.kernel, X, X) + np.diag(np.broadcast_to(process.noise, len(y)))
    k = covariance(process.kernel, pool, X)
    mean = process.mean + k @ np.linalg.solve(K, y - process.mean)

    return mean, covariance(process.kernel, pool, pool) - k @ np.linalg.solve(K, k.T)


def log_evidence(process, X, y):
    """The logarithm of N(y; mean, K + noise)."""
    K = covariance(process.kernel, X, X) + np.diag(np.broadcast_to(process.noise, len(y)))
    r = y - process.mean
    _, log_determinant = np.linalg.slogdet(K)

    return -0.5 * (r @ np.linalg.solve(K, r) + log_determinant + len(y) * math.log(2 * math.pi))


def slope(function, theta, step=1e-5):
    """The gradient of a function of a vector by central differences."""
    shifts = step * np.eye(len(theta))

    return np.array([(function(theta + h) - function(theta - h)) / (2 * step) for h in shifts])
