"""A mean that is not constant: a parabola along each axis of the unit cube.

    m(x) = constant + slope . u + curve . (u^2 - 1/3),        u = 2 x - 1.

Many objectives are a broad bowl with details in it. A stationary kernel has to learn the bowl from point to point; as a
mean it is known after about two observations for each dimension, and the kernel is left with the details.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from poolwise import checks
from poolwise.belief.warp import Moved, straightened
from poolwise.checks import Numbers
from poolwise.errors import InputError
from poolwise.precision import AnyArray, to_numpy
from poolwise.pytree import pytree

LEVEL = 1 / 3  # the mean of u^2 over the cube, so that a curve does not move the constant


@pytree
class Trend:
    """A mean for `GaussianProcess`: a constant, and a slope and a curve for each axis.

    Where the process's kernel warps its inputs, the parabolas are those of the warped points.

    >>> bowl = Trend(constant=1.0, slope=[0.0, 0.0], curve=[-3.0, -3.0])
    >>> mean_at(bowl, np.array([[0.5, 0.5], [0.5, 1.0]])).tolist()  # its top, and the middle of an edge
    [3.0, 0.0]
    """

    constant: Numbers
    slope: Numbers
    curve: Numbers

    def __post_init__(self) -> None:
        with jax.enable_x64(True):
            constant = checks.scalar("constant", self.constant)
            slope, curve = checks.vector("slope", self.slope), checks.vector("curve", self.curve)
            if slope.shape != curve.shape:
                raise InputError(
                    f"curve: has {len(curve)} values where slope has {len(slope)}; give one of each an axis."
                )
            object.__setattr__(self, "constant", to_numpy(constant))
            object.__setattr__(self, "slope", to_numpy(slope))
            object.__setattr__(self, "curve", to_numpy(curve))


Mean = Numbers | Trend


@pytree
class Doubt:
    """How far a trend's coefficients may be off: given the data, they are normal with the covariance F F'.

    With b the `basis` at a point, k its covariances with the data, K theirs with each other and B the basis at them,
    the coefficients' doubt adds r r' to the belief's covariances, r = (b - k K^-1 B) F.
    """

    factor: Float[AnyArray, "k k"]  # F
    pull: Float[AnyArray, "n k"]  # K^-1 B, zero for padded rows


def basis(points: Float[AnyArray, "n d"]) -> Float[AnyArray, "n k"]:
    """1, and the `bowls` of straight points: what a trend's constant, slopes and curves are the coefficients of."""
    xp: Any = np if isinstance(points, np.ndarray) else jnp
    return xp.concatenate([xp.ones_like(points[:, :1]), bowls(points)], axis=1)


def bowls(points: Float[AnyArray, "n d"]) -> Float[AnyArray, "n k"]:
    """u and u^2 - 1/3 of straight points, side by side: what a trend is a linear function of."""
    u = 2 * points - 1
    xp: Any = np if isinstance(points, np.ndarray) else jnp
    return xp.concatenate([u, u * u - LEVEL], axis=1)


def mean_at(mean: Any, points: Float[AnyArray, "n d"], warp: Moved | None = None) -> Float[AnyArray, "*n"]:
    """The prior mean at points: a number for all, or one for each."""
    if not isinstance(mean, Trend):
        return mean
    u = 2 * straightened(points, warp) - 1
    return mean.constant + (u @ mean.slope + (u * u - LEVEL) @ mean.curve)
