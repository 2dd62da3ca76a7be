"""Sample paths: whole functions drawn from a belief, which one can evaluate anywhere and differentiate.

A prior path is a sum of random waves; a posterior path adds Matheron's correction, which moves the prior path through
the data (Wilson et al. 2020, pathwise conditioning):

    (f | y)(x) = f(x) + k(x, X) (K + noise)^-1 (y - f(X) - e),        e ~ N(0, noise).

Where the trend is in doubt, each path goes around one of its own, drawn from what the data leave open.
"""

from __future__ import annotations

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from poolwise import checks
from poolwise.belief.gaussian_process import GaussianProcess, Posterior, cross_covariance
from poolwise.belief.trend import Trend, basis, mean_at
from poolwise.belief.turning import cos_and_sin
from poolwise.belief.warp import Moved, straightened
from poolwise.checks import Numbers
from poolwise.errors import InputError
from poolwise.precision import double
from poolwise.pytree import pytree


@pytree
class Waves:
    """Random features of a kernel: f(x) = sum_i a_i cos(w_i . x) + b_i sin(w_i . x), a and b Gaussian.

    Frequencies follow the kernel's spectrum: Gaussian for the squared exponential, multivariate t with 2 nu degrees of
    freedom for Matern-nu, divided by the lengthscale. Where the kernel warps its inputs, x is the warped point.
    """

    frequencies: Float[Array, "f d"]
    weights: Float[Array, "c 2 f"]
    mean: Float[Array, ""] | Trend
    warp: Moved | None = None
    bends: Float[Array, "c k"] | None = None  # by how much each path's trend differs, where the trend is in doubt

    def turned(self, points: Float[Array, "p d"]) -> tuple[Float[Array, "p f"], Float[Array, "p f"]]:
        """Cosines and sines of all waves at points."""
        return cos_and_sin(straightened(points, self.warp) @ self.frequencies.T)

    def means(self, points: Float[Array, "p d"]) -> Float[Array, " p"]:
        """What the waves go around."""
        return jnp.broadcast_to(mean_at(self.mean, points, self.warp), points.shape[:1])

    def bases(self, points: Float[Array, "p d"]) -> Float[Array, "p k"]:
        """What the `bends` of a path are the coefficients of."""
        return basis(straightened(points, self.warp))

    def __call__(self, points: Float[Array, "p d"]) -> Float[Array, "c p"]:
        cosines, sines = self.turned(points)
        values = self.means(points)[None, :] + self.weights[:, 0] @ cosines.T + self.weights[:, 1] @ sines.T
        return values if self.bends is None else values + self.bends @ self.bases(points).T


@pytree
class Paths:
    """Functions drawn from a belief; call them with points, a row each, for a row of outcomes each.

    >>> from poolwise.belief.kernel import Matern52
    >>> paths = sample_paths(GaussianProcess(Matern52(lengthscale=0.5)), 3, dimension=2, seed=1)
    >>> paths([[0.2, 0.4], [0.9, 0.1]]).shape
    (3, 2)
    """

    waves: Waves
    posterior: Posterior | None
    corrections: Float[Array, "c n"] | None

    @double
    def __call__(self, points: Numbers) -> Float[Array | np.ndarray, "c p"]:
        return _evaluate(self, checks.matrix("points", points, columns=self.waves.frequencies.shape[1]))


@jax.jit
def _evaluate(paths: Paths, points: Float[Array, "p d"]) -> Float[Array, "c p"]:
    values = paths.waves(points)
    if paths.posterior is None or paths.corrections is None:
        return values
    return values + paths.corrections @ cross_covariance(paths.posterior, points).T


def sample_paths(
    belief: GaussianProcess | Posterior,
    count: int = 1,
    *,
    dimension: int | None = None,
    features: int = 1024,
    seed: int = 0,
) -> Paths:
    """Draw `count` functions from a prior or a posterior, with `features` random waves each.

    All paths share one draw of the waves' frequencies, so the variance of their outcomes misses that of the belief by
    a little, which more paths do not cure, and more `features` do.

    A prior with a single lengthscale does not know how many dimensions it is wanted in: give `dimension`.
    """
    count, features = checks.count("count", count), checks.count("features", features)
    rng = np.random.default_rng(checks.count("seed", seed, least=0))
    with jax.enable_x64(True):
        if isinstance(belief, Posterior):
            waves = _waves(belief.process, belief.dimension, (count, features), rng)
            noise = np.sqrt(np.asarray(belief.data.noise)) * rng.standard_normal((count, belief.data.X.shape[0]))
            if belief.doubt is not None:
                factor = np.asarray(belief.doubt.factor)
                bends = jnp.asarray(rng.standard_normal((count, len(factor))) @ factor.T)
                waves = dataclasses.replace(waves, bends=bends)
            return Paths(waves, belief, _corrections(waves, belief, jnp.asarray(noise)))
        checks.kind("belief", belief, GaussianProcess, "give a GaussianProcess or a Posterior.")
        return Paths(_waves(belief, _dimension(belief.dimension, dimension), (count, features), rng), None, None)


def _dimension(given: int | None, dimension: int | None) -> int:
    if dimension is None and given is None:
        raise InputError("dimension: give the number of dimensions; one lengthscale does not tell it.")
    known = given or checks.count("dimension", dimension)
    if dimension not in (None, known):
        raise InputError(f"dimension: is {dimension} where the kernel has {known} lengthscales.")
    return known


def _waves(process: GaussianProcess, d: int, shape: tuple[int, int], rng: np.random.Generator) -> Waves:
    kernel, (count, features) = process.kernel, shape
    frequencies = rng.standard_normal((features, d))
    if math.isfinite(kernel.freedom):
        frequencies /= np.sqrt(rng.chisquare(kernel.freedom, (features, 1)) / kernel.freedom)
    weights = rng.standard_normal((count, 2, features)) * (np.asarray(kernel.amplitude) / math.sqrt(features))
    scaled = jnp.asarray(frequencies / np.asarray(kernel.lengthscale))
    return Waves(scaled, jnp.asarray(weights), jax.tree.map(jnp.asarray, process.mean), kernel.warp)


@jax.jit
def _corrections(waves: Waves, posterior: Posterior, noise: Float[Array, "c n"]) -> Float[Array, "c n"]:
    """(K + noise)^-1 (y - f(X) - e), zero for padded rows."""
    data = posterior.data
    residual = jnp.where(data.live[None, :], data.y[None, :] - waves(data.X) - noise, 0.0)
    return residual @ posterior.root.T @ posterior.root
