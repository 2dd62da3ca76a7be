"""Which parameters matter to the model: by the variance of its mean, or by its lengthscales."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from poolwise.plot.record import Belief
from poolwise.sobol import sobol
from poolwise.space.axes import Axis, Corners
from poolwise.space.space import Space

SAMPLES = 1024


@dataclass(frozen=True)
class Share:
    """The share of the variance that a parameter explains alone, and with all others."""

    first: float
    total: float


def of_variance(belief: Belief) -> dict[str, Share]:
    """Sobol' indices of the posterior mean over the whole space, constraints aside."""
    scale = belief.model.scale

    def outcomes(U: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
        return (belief.predict(U)[0] / scale.unit - scale.sign * scale.centre) / scale.spread

    return shares(outcomes, belief.record.definition.space)


def shares(
    f: Callable[[Float[np.ndarray, "n d"]], Float[np.ndarray, " n"]], space: Space, samples: int = SAMPLES
) -> dict[str, Share]:
    """Sobol' indices of a function of the cube, in a unit in which 1e-9 is nothing, by the estimators of Jansen (1999).

    With A and B independent samples, and A_i equal to A but for parameter i, which it has from B,

        first_i = 1 - E (f(B) - f(A_i))^2 / (2 V),        total_i = E (f(A) - f(A_i))^2 / (2 V).
    """
    unit = sobol(samples, 2 * len(space.axes), np.random.default_rng(0))
    A, B = (_points(space, half) for half in np.split(unit, 2, axis=1))
    at_a, at_b = f(A), f(B)
    variance = float(np.var(np.concatenate([at_a, at_b])))
    size = max(1.0, float(np.abs(at_a).max()))
    found = {}
    for name in space.axes:
        mixed = A.copy()
        mixed[:, space.columns[name]] = B[:, space.columns[name]]
        at_mixed = f(mixed)
        if variance <= (1e-9 * size) ** 2:  # a constant has no shares
            found[name] = Share(0.0, 0.0)
            continue
        first = 1 - float(np.mean((at_b - at_mixed) ** 2)) / (2 * variance)
        total = float(np.mean((at_a - at_mixed) ** 2)) / (2 * variance)
        total = min(total, 1.0)
        found[name] = Share(min(max(first, 0.0), total), total)
    return found


def of_lengthscale(belief: Belief) -> dict[str, float]:
    """How many lengthscales each parameter's range is long, as shares of their sum.

    Values of a choice lie in several columns, at distance one from each other: the mean of their inverse squares.
    """
    space = belief.record.definition.space
    lengths = belief.model.posterior.process.kernel.along(space.dimension)
    long = {name: float(np.sqrt(np.mean(lengths[space.columns[name]] ** -2.0))) for name in space.axes}
    return {name: value / sum(long.values()) for name, value in long.items()}


def _points(space: Space, unit: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "n d"]:
    """Experiments drawn by one uniform number for each parameter."""
    codes = {name: _codes(axis, unit[:, i]) for i, (name, axis) in enumerate(space.axes.items())}
    return space.place(codes, len(unit))


def _codes(axis: Axis, u: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    return np.floor(u * axis.count) if isinstance(axis, Corners) else axis.read(u[:, None])
