"""A monotone warping of outcomes: a power transform that makes badly scaled ones look Gaussian (Yeo, Johnson 2000).

    g(z) = ((1 + z)^p - 1) / p  for z >= 0,        -((1 - z)^(2 - p) - 1) / (2 - p)  for z < 0,

with logarithms where an exponent is zero. p = 1 changes nothing; p > 1 draws a long tail of bad outcomes in and spreads
the good ones out. Being monotone it keeps the order: the best stays the best.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

LOWEST, HIGHEST = -2.0, 4.0  # powers; beyond them one side is all but flat
STEPS = 61  # powers that are compared
NO_POWER = 1e-9  # below it a power is a logarithm

Power = float | Float[np.ndarray, "s 1"]  # one, or a column of them


def warp(z: Float[np.ndarray, "*n"], power: Power) -> Float[np.ndarray, "*r"]:
    """g(z)."""
    return np.where(z >= 0, _grown(np.maximum(z, 0.0), power), -_grown(np.maximum(-z, 0.0), 2.0 - power))


def unwarp(g: Float[np.ndarray, "*n"], power: float) -> Float[np.ndarray, "*n"]:
    """The z with g(z) = g; the nearest that exists where g is beyond all of them."""
    return np.where(g >= 0, _shrunk(np.maximum(g, 0.0), power), -_shrunk(np.maximum(-g, 0.0), 2.0 - power))


def log_slope(z: Float[np.ndarray, "*n"], power: Power) -> Float[np.ndarray, "*r"]:
    """log g'(z)."""
    return np.where(z >= 0, power - 1.0, 1.0 - power) * np.log1p(np.abs(z))


def likely_power(z: Float[np.ndarray, " n"]) -> float:
    """The power after which outcomes are most like a Gaussian sample, by maximum likelihood; all powers at once."""
    powers = np.linspace(LOWEST, HIGHEST, STEPS)
    spreads = np.maximum(np.std(warp(z, powers[:, None]), axis=1), 1e-300)
    likelihoods = log_slope(z, powers[:, None]).sum(axis=1) - len(z) * np.log(spreads)
    return float(powers[np.argmax(likelihoods)])


def _grown(z: Float[np.ndarray, "*n"], p: Power) -> Float[np.ndarray, "*r"]:
    none = np.abs(p) < NO_POWER
    return np.where(none, np.log1p(z), np.expm1(p * np.log1p(z)) / np.where(none, 1.0, p))


def _shrunk(g: Float[np.ndarray, "*n"], p: float) -> Float[np.ndarray, "*n"]:
    return np.expm1(g) if abs(p) < NO_POWER else np.expm1(np.log1p(np.maximum(p * g, -1 + 1e-12)) / p)
