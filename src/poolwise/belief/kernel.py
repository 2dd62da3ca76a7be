"""Stationary kernels: how strongly outcomes at two points go together.

Each kernel is a profile g of the scaled squared distance s = sum_k ((a_k - b_k) / lengthscale_k)^2, times amplitude^2.
Profiles are written in s, their derivative by hand: the chain rule through r = sqrt(s) is 0 / 0 where points coincide.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from poolwise import checks
from poolwise.belief.warp import Moved, straightened
from poolwise.checks import Numbers
from poolwise.precision import AnyArray, double, to_numpy
from poolwise.pytree import pytree

Profile = Callable[[Float[Array, "..."]], Float[Array, "..."]]


def with_slope(value: Profile, slope: Profile) -> Profile:
    """A profile of s whose derivative is the given one, finite at s = 0."""

    @jax.custom_jvp
    def profile(s: Float[Array, "..."]) -> Float[Array, "..."]:
        return value(s)

    @profile.defjvp
    def _(primals: Any, tangents: Any) -> Any:
        (s,), (ds,) = primals, tangents
        return profile(s), slope(s) * ds

    return profile


@jax.custom_jvp
def _root(s: Float[Array, "..."]) -> Float[Array, "..."]:
    """sqrt(s), with 0 as its derivative at 0; a guard belongs there alone, see the test of the compiled climb."""
    return jnp.sqrt(s)


@_root.defjvp
def _root_jvp(primals: Any, tangents: Any) -> Any:
    root = _root(*primals)
    return root, jnp.where(root > 0, 0.5 / jnp.where(root > 0, root, 1.0), 0.0) * tangents[0]


def _matern12(s: Float[Array, "..."]) -> Float[Array, "..."]:
    return jnp.exp(-_root(s))


def _matern12_slope(s: Float[Array, "..."]) -> Float[Array, "..."]:
    """At s = 0 the kernel has a kink; 0 is the mean of its one-sided derivatives."""
    r = jnp.sqrt(jnp.where(s > 0, s, 1.0))
    return jnp.where(s > 0, -jnp.exp(-r) / (2 * r), 0.0)


def _matern32(s: Float[Array, "..."]) -> Float[Array, "..."]:
    t = math.sqrt(3) * _root(s)
    return (1 + t) * jnp.exp(-t)


def _matern32_slope(s: Float[Array, "..."]) -> Float[Array, "..."]:
    return -1.5 * jnp.exp(-math.sqrt(3) * _root(s))


def _matern52(s: Float[Array, "..."]) -> Float[Array, "..."]:
    t = math.sqrt(5) * _root(s)
    return (1 + t + t * t / 3) * jnp.exp(-t)


def _matern52_slope(s: Float[Array, "..."]) -> Float[Array, "..."]:
    t = math.sqrt(5) * _root(s)
    return -(5 / 6) * (1 + t) * jnp.exp(-t)


def _gaussian(s: Float[Array, "..."]) -> Float[Array, "..."]:
    return jnp.exp(-s / 2)


def _gaussian_slope(s: Float[Array, "..."]) -> Float[Array, "..."]:
    return -jnp.exp(-s / 2) / 2


def squared_distance(A: Float[AnyArray, "p d"], B: Float[AnyArray, "n d"]) -> Float[Array, "p n"]:
    """sum_k (a_k - b_k)^2 by differences: exactly zero at coincident points, with an exact derivative there."""
    # As one reduction: a sum unrolled over dimensions is miscompiled by the CPU backend of jaxlib 0.10.2 where A is B.
    return jnp.sum((A[:, None, :] - B[None, :, :]) ** 2, axis=-1)


@dataclass(frozen=True, eq=False)
class Kernel:
    """A stationary kernel: amplitude^2 g(s), with one lengthscale or one for each dimension.

    `amplitude` is a standard deviation: the kernel's value at distance zero is its square. With `warp`, a `Warp` or a
    `Rotation`, distances are those of the warped or turned points.
    """

    lengthscale: Numbers
    amplitude: Numbers = 1.0
    warp: Moved | None = None

    freedom: ClassVar[float]  # degrees of freedom of the spectrum, a multivariate t; infinite for a Gaussian

    @staticmethod
    def profile(s: Float[Array, "..."], /) -> Float[Array, "..."]:
        """g(s), differentiable at s = 0."""
        raise NotImplementedError

    @staticmethod
    def slope(s: Float[Array, "..."], /) -> Float[Array, "..."]:
        """dg / ds."""
        raise NotImplementedError

    def __post_init__(self) -> None:
        with jax.enable_x64(True):
            lengths = checks.positive("lengthscale", checks.array("lengthscale", self.lengthscale))
            if lengths.ndim > 0:
                checks.vector("lengthscale", lengths)
            amplitude = checks.positive("amplitude", checks.scalar("amplitude", self.amplitude))
            if self.warp is not None:
                checks.kind("warp", self.warp, Moved, "for instance poolwise.Warp(low=[0.5], high=[1.0]).")
                if lengths.ndim > 0:
                    checks.vector("lengthscale", lengths, length=self.warp.dimension)
            object.__setattr__(self, "lengthscale", to_numpy(lengths))
            object.__setattr__(self, "amplitude", to_numpy(amplitude))

    @property
    def dimension(self) -> int | None:
        """How many coordinates a point has; None if one lengthscale serves any number."""
        if self.warp is not None:
            return self.warp.dimension
        return int(self.lengthscale.shape[0]) if self.lengthscale.ndim else None

    def along(self, d: int) -> Float[np.ndarray, " d"]:
        """The lengthscale along each axis of the cube."""
        lengths = np.broadcast_to(np.asarray(self.lengthscale, dtype=float), (d,))
        return lengths if self.warp is None else self.warp.along(lengths)

    def scaled(self, points: Float[AnyArray, "... d"]) -> Float[Array, "... d"]:
        """Points, warped or turned if the kernel says so, in units of the lengthscale."""
        return scaled(points, jnp.broadcast_to(jnp.asarray(self.lengthscale), points.shape[-1:]), self.warp)

    @double
    def __call__(self, A: Numbers, B: Numbers) -> Float[Array | np.ndarray, "p n"]:
        """The covariance of each point of A, a row each, with each point of B."""
        a = checks.matrix("A", A, columns=self.dimension)
        return covariances(self, a, checks.matrix("B", B, columns=a.shape[1]))


@pytree
class Matern12(Kernel):
    """g(s) = exp(-r), r = sqrt(s): continuous paths, differentiable nowhere."""

    profile = staticmethod(with_slope(_matern12, _matern12_slope))
    slope = staticmethod(_matern12_slope)
    freedom = 1.0


@pytree
class Matern32(Kernel):
    """g(s) = (1 + sqrt(3) r) exp(-sqrt(3) r): paths differentiable once."""

    profile = staticmethod(with_slope(_matern32, _matern32_slope))
    slope = staticmethod(_matern32_slope)
    freedom = 3.0


@pytree
class Matern52(Kernel):
    """g(s) = (1 + sqrt(5) r + 5 s / 3) exp(-sqrt(5) r): paths differentiable twice; the paper's kernel and the default.

    >>> float(Matern52(lengthscale=0.5)([[0.0]], [[0.0]])[0, 0])
    1.0
    """

    profile = staticmethod(with_slope(_matern52, _matern52_slope))
    slope = staticmethod(_matern52_slope)
    freedom = 5.0


@pytree
class SquaredExponential(Kernel):
    """g(s) = exp(-s / 2): infinitely smooth paths."""

    profile = staticmethod(with_slope(_gaussian, _gaussian_slope))
    slope = staticmethod(_gaussian_slope)
    freedom = math.inf


def scaled(
    points: Float[AnyArray, "... d"], lengths: Float[AnyArray, " d"], warp: Moved | None
) -> Float[Array, "... d"]:
    """Points, warped or turned if there is such a move, in units of the lengthscales."""
    return straightened(points, warp) / jnp.reshape(lengths, (1,) * (points.ndim - 1) + lengths.shape)


def covariances(kernel: Kernel, A: Float[AnyArray, "p d"], B: Float[AnyArray, "n d"]) -> Float[Array, "p n"]:
    """amplitude^2 g(s(a, b)) for each pair of points."""
    return jnp.asarray(kernel.amplitude) ** 2 * kernel.profile(squared_distance(kernel.scaled(A), kernel.scaled(B)))
