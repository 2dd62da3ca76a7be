"""A monotone warping of inputs: each axis of the unit cube is bent before distances are measured.

On an axis that a plain kernel models badly, a rate between 1e-5 and 1 given without a logarithm, say, outcomes change
quickly at one end and hardly at the other. Kumaraswamy's distribution function straightens such axes (Snoek et al.
2014),

    w(x) = F(e + (1 - 2 e) x), moved and stretched so that w(0) = 0 and w(1) = 1,        F(t) = 1 - (1 - t^a)^b.

The margin e keeps slopes finite on the edge of the cube. a = b = 1 changes nothing. Outside the cube an axis goes on
straight.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from poolwise import checks
from poolwise.belief.rotation import Rotation
from poolwise.checks import Numbers
from poolwise.errors import InputError
from poolwise.precision import AnyArray, double, to_numpy
from poolwise.pytree import pytree

EDGE = 1e-3  # e


@pytree
class Warp:
    """Kumaraswamy's map of each axis to itself: `low` (a) bends it near 0, `high` (b) near 1; one number for each axis.

    Below 1 an axis is stretched at that end, above 1 it is drawn together.

    >>> stretched = Warp(low=[0.3, 1.0], high=[1.0, 1.0])([[0.1, 0.1]])
    >>> bool(stretched[0, 0] > 0.4 and abs(stretched[0, 1] - 0.1) < 1e-9)
    True
    """

    low: Numbers
    high: Numbers

    keeps_cube: ClassVar[bool] = True  # whether points of the cube are moved onto the cube

    def __post_init__(self) -> None:
        with jax.enable_x64(True):
            low = checks.positive("low", checks.vector("low", self.low))
            high = checks.positive("high", checks.vector("high", self.high))
            if low.shape != high.shape:
                raise InputError(f"high: has {len(high)} values where low has {len(low)}; give one of each an axis.")
            object.__setattr__(self, "low", to_numpy(low))
            object.__setattr__(self, "high", to_numpy(high))

    @property
    def dimension(self) -> int:
        """How many coordinates a point has."""
        return int(self.low.shape[0])

    @property
    def bends(self) -> Float[np.ndarray, "2 d"]:
        """The logarithms of the exponents, zero where nothing is bent."""
        return np.log([self.low, self.high])

    @double
    def __call__(self, points: Numbers) -> Float[Array | np.ndarray, "n d"]:
        """Where points of the cube, a row each, are moved to."""
        return self.moved(checks.matrix("points", points, columns=self.dimension))

    def moved(self, points: Float[AnyArray, "... d"]) -> Float[AnyArray, "... d"]:
        """The same of points that are known to be such."""
        return warped(points, self.low, self.high)

    def back(self, points: Float[np.ndarray, "... d"]) -> Float[np.ndarray, "... d"]:
        """The points that are moved to these points of the cube."""
        first, last = (np.exp(self.high * np.log1p(-(t**self.low))) for t in (EDGE, 1 - EDGE))  # of 1 - F
        rest = last + (1 - np.clip(points, 0.0, 1.0)) * (first - last)
        with np.errstate(divide="ignore"):  # where F is zero to rounding, t is
            t = np.exp(np.log(-np.expm1(np.log(rest) / self.high)) / self.low)
        return np.clip((t - EDGE) / (1 - 2 * EDGE), 0.0, 1.0)

    def evenly(self, points: Float[np.ndarray, "... d"]) -> Float[np.ndarray, "... d"]:
        """Evenly spread points of the cube, moved to where they are evenly spread as distances are measured."""
        return self.back(points)

    def along(self, lengths: Float[np.ndarray, " d"]) -> Float[np.ndarray, " d"]:
        """Lengthscales along the axes of the cube: those of the axes, which are bent and not turned."""
        return lengths


Moved = Warp | Rotation  # what a kernel may do to points before it measures distances


def straightened(points: Float[AnyArray, "... d"], warp: Moved | None) -> Float[AnyArray, "... d"]:
    """Points as distances are measured: warped or turned, if the kernel does so."""
    return points if warp is None else warp.moved(points)


def warped(
    points: Float[AnyArray, "... d"], low: Float[AnyArray, " d"], high: Float[AnyArray, " d"]
) -> Float[AnyArray, "... d"]:
    """w(x) of each coordinate; of NumPy's arrays by NumPy, which compiles nothing for each number of points."""
    xp: Any = np if all(isinstance(array, np.ndarray) for array in (points, low, high)) else jnp
    shape = (1,) * (points.ndim - 1) + low.shape
    a, b = xp.reshape(low, shape), xp.reshape(high, shape)

    def distribution(log_t: Any) -> Any:
        return -xp.expm1(b * xp.log1p(-xp.exp(a * log_t)))

    first, last = distribution(math.log(EDGE)), distribution(math.log1p(-EDGE))
    inside = xp.where(points < 0, 0.0, xp.where(points > 1, 1.0, points))  # `clip` halves the slope on the edge
    moved = (distribution(xp.log(EDGE + (1 - 2 * EDGE) * inside)) - first) / (last - first)
    return moved + (points - inside)
