"""Exact Gaussian process regression: a prior, conditioned on data, gives a joint Gaussian at any pool."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from poolwise import checks
from poolwise.belief.factor import inverse_by, inverse_cholesky
from poolwise.belief.kernel import Kernel, covariances
from poolwise.belief.normal import Normal
from poolwise.belief.padding import bucket, masked, padded
from poolwise.belief.rotation import Rotation
from poolwise.belief.trend import Doubt, Mean, Trend, basis, mean_at
from poolwise.belief.warp import straightened
from poolwise.checks import Numbers
from poolwise.errors import InputError
from poolwise.precision import AnyArray, concrete, double, narrow, to_double, to_numpy
from poolwise.programs import quickly
from poolwise.pytree import pytree

LOG_TAU = math.log(2 * math.pi)


@pytree
class GaussianProcess:
    """A prior over functions: a kernel, the variance of the observation noise, and a mean.

    `noise` is one number, or one for each observation that `condition` will be given. `mean` is a number, or a `Trend`.

    >>> from poolwise.belief.kernel import Matern52
    >>> process = GaussianProcess(Matern52(lengthscale=0.7), noise=1e-3)
    >>> posterior = process.condition([[0.1], [0.5]], [1.0, 2.0])
    >>> posterior([[0.1], [0.9]]).mean.shape
    (2,)
    """

    kernel: Kernel
    noise: Numbers = 0.0
    mean: Mean = 0.0

    def __post_init__(self) -> None:
        checks.kind("kernel", self.kernel, Kernel, "for instance poolwise.Matern52(lengthscale=0.5).")
        with jax.enable_x64(True):
            noise = checks.positive("noise", checks.array("noise", self.noise), zero=True)
            if noise.ndim > 0:
                checks.vector("noise", noise)
            object.__setattr__(self, "noise", to_numpy(noise))
            if not isinstance(self.mean, Trend):
                object.__setattr__(self, "mean", to_numpy(checks.scalar("mean", self.mean)))
            elif self.kernel.dimension not in (None, len(self.mean.slope)):
                raise InputError(f"mean: has {len(self.mean.slope)} slopes where {self.kernel.dimension} are needed.")

    @property
    def dimension(self) -> int | None:
        """How many coordinates a point has; None if any number will do."""
        known = self.kernel.dimension
        return len(self.mean.slope) if known is None and isinstance(self.mean, Trend) else known

    @double
    def __call__(self, pool: Numbers) -> Normal:
        """The prior's joint Gaussian of the noise-free outcomes at a pool."""
        return _prior(self, checks.matrix("pool", pool, columns=self.dimension))

    def condition(self, X: Numbers, y: Numbers) -> Posterior:
        """The belief after seeing outcomes y at the rows of X."""
        if narrow((self, X, y)):
            return _conditioned(self, X, y)
        with jax.enable_x64(True):
            points = checks.matrix("X", X, columns=self.dimension)
            outcomes = checks.vector("y", y)
            noise = to_double(self.noise)
            data = padded_data(points, outcomes, noise)
            # Noise of each observation is padded too: a program knows its arguments by their shapes.
            process = GaussianProcess(self.kernel, data.noise, self.mean) if noise.ndim else self
            return Posterior(process, data, *_condition(process, data))


@double
def _conditioned(process: GaussianProcess, X: Numbers, y: Numbers) -> Posterior:
    """Under a transformation in 32 bit: forward and backward in 64."""
    return process.condition(X, y)


@pytree
class Data:
    """Observations, padded to a bucket of rows; `live` tells which rows are real."""

    X: Float[AnyArray, "n d"]
    y: Float[AnyArray, " n"]
    noise: Float[AnyArray, " n"]
    live: Bool[AnyArray, " n"]


def padded_data(
    X: Float[Array | np.ndarray, "n d"],
    y: Float[Array | np.ndarray, " m"],
    noise: Float[Array | np.ndarray, "*n"],
    rows: int | None = None,
) -> Data:
    """Observations padded to their bucket, or to so many rows; `noise` is one variance for all, or one for each."""
    if noise.ndim and noise.shape != y.shape:
        raise InputError(
            f"noise: has shape {noise.shape} for {y.shape[0]} observations; give one number for all, or one for each."
        )
    if X.shape[0] != y.shape[0]:
        raise InputError(f"y: has {y.shape[0]} values for the {X.shape[0]} rows of X; give one outcome for each row.")
    rows = bucket(X.shape[0]) if rows is None else rows
    each = noise if noise.ndim else (np.full if concrete(noise) else jnp.full)(y.shape, noise)
    live: Any = np.arange(rows) < X.shape[0]
    return Data(padded(X, rows), padded(y, rows), padded(each, rows), live)


@pytree
class Posterior:
    """A Gaussian process that has seen data; `posterior(pool)` is the joint Gaussian of the noise-free outcomes there.

    The inverse factor of the data's covariance is kept, so that a pool costs matrix products and no solve.
    """

    process: GaussianProcess
    data: Data
    root: Float[Array, "n n"]  # L^-1, where L L' = K + noise
    inverse: Float[Array, "n n"]  # (K + noise)^-1, for searches that read it once for value and gradient
    weights: Float[AnyArray, " n"]  # (K + noise)^-1 (y - mean)
    doubt: Doubt | None = None  # of the mean's coefficients, where they were learned

    def __repr__(self) -> str:
        n, d = int(np.asarray(self.data.live).sum()), self.data.X.shape[1]
        return f"Posterior(n={n}, d={d}, process={self.process!r})"

    @double
    def __call__(self, pool: Numbers) -> Normal:
        """The joint Gaussian of the outcomes at the rows of a pool, without observation noise."""
        return _predict(self, checks.matrix("pool", pool, columns=self.dimension))

    @property
    def log_evidence(self) -> float:
        """The logarithm of the probability density of the observed outcomes under the prior.

        Where the mean's coefficients were learned it is that under the likeliest ones.
        """
        live, residual = np.asarray(self.data.live), np.asarray(residuals(self.process, self.data))
        roots = np.diagonal(np.asarray(self.root))[live]
        return float(np.log(roots).sum() - residual @ np.asarray(self.weights) / 2 - live.sum() * LOG_TAU / 2)

    @property
    def dimension(self) -> int:
        """How many coordinates a point has."""
        return int(self.data.X.shape[1])

    @property
    def noise(self) -> Float[np.ndarray, "*n"] | np.float64:
        """The variance of the observation noise, without padding: one number, or one for each observation."""
        noise = np.asarray(self.process.noise)
        return noise[np.asarray(self.data.live)] if noise.ndim else noise[()]

    @property
    def X(self) -> Float[np.ndarray, "n d"]:
        """The observed points, without padding."""
        return np.asarray(self.data.X)[np.asarray(self.data.live)]

    @property
    def y(self) -> Float[np.ndarray, " n"]:
        """The observed outcomes, without padding."""
        return np.asarray(self.data.y)[np.asarray(self.data.live)]


def covariance_of_data(kernel: Kernel, data: Data) -> Float[Array, "n n"]:
    """K + noise for live rows; the others vary with nothing."""
    return masked(covariances(kernel, data.X, data.X) + jnp.diag(data.noise), data.live)


@quickly()
def _condition(
    process: GaussianProcess, data: Data
) -> tuple[Float[Array, "n n"], Float[Array, "n n"], Float[Array, " n"]]:
    """The inverse factor and the inverse of the data's covariance, and the data's weights in the posterior mean."""
    root = inverse_cholesky(covariance_of_data(process.kernel, data))
    return root, inverse_by(root), root.T @ (root @ residuals(process, data))


def prepare(process: GaussianProcess, data: Data) -> None:
    """Start to make the program that conditions such a process on such data, where it is made for the first time."""
    _condition.ahead(process, data)


def straight(posterior: Posterior) -> Posterior:
    """The same belief over the cube that its kernel's warping leads to, without one; nothing is computed anew."""
    process, data, warp = posterior.process, posterior.data, posterior.process.kernel.warp
    if warp is None:
        return posterior
    plain = GaussianProcess(dataclasses.replace(process.kernel, warp=None), process.noise, process.mean)
    moved: Any = warp(data.X)
    return dataclasses.replace(posterior, process=plain, data=dataclasses.replace(data, X=moved))


def turned(posterior: Posterior, axes: Float[np.ndarray, "d d"], X: Float[np.ndarray, "n d"]) -> Posterior:
    """A posterior of turned points as one of the points X themselves, whose kernel turns them; nothing is computed."""
    process, data = posterior.process, posterior.data
    kernel = dataclasses.replace(process.kernel, warp=Rotation(axes))
    moved = GaussianProcess(kernel, process.noise, process.mean)
    points = dataclasses.replace(data, X=padded(np.asarray(X), data.X.shape[0]))
    return dataclasses.replace(posterior, process=moved, data=points)


def turnable(posterior: Posterior) -> Posterior:
    """The same belief with axes, those of the cube where it has none: one program serves beliefs of both kinds."""
    if posterior.process.kernel.warp is not None:
        return posterior
    return turned(posterior, np.eye(posterior.dimension), np.asarray(posterior.data.X))


def with_mean(posterior: Posterior, mean: Mean, factor: Float[AnyArray, "k k"] | None = None) -> Posterior:
    """The posterior of the same data under a prior with another mean; `factor` is that of the `Doubt` in it."""
    process = GaussianProcess(posterior.process.kernel, posterior.process.noise, mean)
    root, data = np.asarray(posterior.root), posterior.data
    weights = root.T @ (root @ np.asarray(residuals(process, data)))
    doubt = None if factor is None else Doubt(factor, root.T @ (root @ basis_of_data(posterior)))
    return Posterior(process, data, posterior.root, posterior.inverse, weights, doubt)


def basis_of_data(posterior: Posterior) -> Float[np.ndarray, "n k"]:
    """What each observation sees of a trend's coefficients; zero for padded rows."""
    X: Any = np.asarray(posterior.data.X)
    rows = np.asarray(basis(straightened(X, posterior.process.kernel.warp)))
    return rows * np.asarray(posterior.data.live)[:, None]


def residuals(process: GaussianProcess, data: Data) -> Float[AnyArray, " n"]:
    """Outcomes less the prior mean there, zero for padded rows."""
    rest = data.y - mean_at(process.mean, data.X, process.kernel.warp)
    xp: Any = np if isinstance(rest, np.ndarray) else jnp
    return xp.where(data.live, rest, 0.0)


def cross_covariance(posterior: Posterior, pool: Float[Array, "q d"]) -> Float[Array, "q n"]:
    """Prior covariance of a pool with the data; zero for padded rows."""
    return covariances(posterior.process.kernel, pool, posterior.data.X) * posterior.data.live[None, :]


def expected(posterior: Posterior, points: Float[Array, "q d"], cross: Float[Array, "q n"]) -> Float[Array, " q"]:
    """The posterior mean at points whose prior covariances with the data are known already."""
    process = posterior.process
    return mean_at(process.mean, points, process.kernel.warp) + cross @ posterior.weights


def whitened(posterior: Posterior, points: Float[Array, "q d"], cross: Float[Array, "q n"]) -> Float[Array, "q w"]:
    """Rows w of points, such that the data explain w . `against`(w') of the prior covariance of two of them.

    That is L^-1 k. A doubtful trend has columns of its own, which explain less than nothing: see `Doubt`.
    """
    rows, doubt = cross @ posterior.root.T, posterior.doubt
    if doubt is None:
        return rows
    here = basis(straightened(points, posterior.process.kernel.warp))
    return jnp.concatenate([rows, (here - cross @ doubt.pull) @ doubt.factor], axis=1)


def against(posterior: Posterior, rows: Float[Array, "q w"]) -> Float[Array, "q w"]:
    """`whitened` rows as the other side of a product: the columns of a doubtful trend count the other way."""
    if posterior.doubt is None:
        return rows
    n = posterior.root.shape[0]
    return jnp.concatenate([rows[:, :n], -rows[:, n:]], axis=1)


def precision(posterior: Posterior) -> Float[np.ndarray, "n n"]:
    """The inverse of the observations' covariance, with that of a doubtful trend, without padding.

    With C the covariance of the coefficients before there were data, (K + B C B')^-1 = K^-1 - P P', P = K^-1 B F.
    """
    whole = np.asarray(posterior.inverse)
    if posterior.doubt is not None:
        pull = np.asarray(posterior.doubt.pull) @ np.asarray(posterior.doubt.factor)
        whole = whole - pull @ pull.T
    live = np.asarray(posterior.data.live)
    return whole[np.ix_(live, live)]


@jax.jit
def _predict(posterior: Posterior, pool: Float[Array, "q d"]) -> Normal:
    """mean + k K^-1 (y - mean) and k(pool, pool) - k K^-1 k', and a doubtful trend's share."""
    kernel = posterior.process.kernel
    cross = cross_covariance(posterior, pool)
    rows = whitened(posterior, pool, cross)
    prior = covariances(kernel, pool, pool)
    return Normal(expected(posterior, pool, cross), prior - rows @ against(posterior, rows).T)


@jax.jit
def _prior(process: GaussianProcess, pool: Float[Array, "q d"]) -> Normal:
    mean = jnp.broadcast_to(mean_at(process.mean, pool, process.kernel.warp), pool.shape[:1])
    return Normal(mean, covariances(process.kernel, pool, pool))
