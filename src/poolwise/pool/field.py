"""What a search reads of a posterior: means and covariances of many points by few matrix products.

With k the covariances of a point with the data, the explained variance k' K^-1 k needs w = K^-1 k once: w is also half
of its derivative. So w is held constant, and 2 k.w - hold(k.w) has the right value and the right gradient: the n by n
inverse is read once for both.

A trend in doubt explains less than nothing, -r r' with r = (b - k K^-1 B) F (see `Doubt`). So k is longer by b, the
trend's basis, and with P = K^-1 B F the inverse is

    [ K^-1 - P P'   P F' ]
    [ F P'         -F F' ].
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from poolwise.belief.gaussian_process import Posterior
from poolwise.belief.kernel import Kernel, scaled
from poolwise.belief.trend import Trend, basis, mean_at
from poolwise.belief.warp import Moved, straightened
from poolwise.pytree import pytree, static

hold = jax.lax.stop_gradient

SPARE = 4
JITTER = 1e-8  # relative to the kernel's variance, on every pivot of a search


@pytree
class Field:
    """A posterior, laid out for searching."""

    data: Float[Array, "n d"]  # observed points, scaled
    live: Float[Array, " n"]
    weights: Float[Array, " n"]
    inverse: Float[Array, "w w"]
    lengthscale: Float[Array, " d"]
    variance: Float[Array, ""]
    mean: Float[Array, ""] | Trend
    warp: Moved | None
    kernel: type[Kernel] = static()

    def scaled(self, points: Float[Array, "... d"]) -> Float[Array, "... d"]:
        """Points as distances are measured: warped, where the kernel is, over the lengthscale."""
        return scaled(points, self.lengthscale, self.warp)

    def before(self, points: Float[Array, "p d"]) -> Float[Array, " p"]:
        """The prior mean at points."""
        return jnp.broadcast_to(mean_at(self.mean, points, self.warp), points.shape[:1])

    def covariances(self, a: Float[Array, "p d"], b: Float[Array, "n d"]) -> Float[Array, "p n"]:
        """Prior covariances of scaled points, squared distances |a|^2 - 2 a.b + |b|^2 by one matrix product.

        It has a few columns more than are used, so that what comes next does not write over it: see `QUICK`.
        """
        left = jnp.concatenate([a, jnp.sum(a * a, axis=1, keepdims=True), jnp.ones_like(a[:, :1])], axis=1)
        right = jnp.concatenate([-2 * b, jnp.ones_like(b[:, :1]), jnp.sum(b * b, axis=1, keepdims=True)], axis=1)
        s = (left @ jnp.concatenate([right, jnp.zeros((SPARE, right.shape[1]), right.dtype)]).T)[:, : b.shape[0]]
        return self.variance * self.kernel.profile(jnp.where(s < 0, 0.0, s))

    def rows(self, points: Float[Array, "p d"]) -> Rows:
        """Means of points, and what their covariances with each other and with other points are made of."""
        at = self.scaled(points)
        k = self.covariances(at, self.data) * self.live[None, :]
        mean = self.before(points) + k @ self.weights
        if self.inverse.shape[0] > self.data.shape[0]:
            k = jnp.concatenate([k, basis(straightened(points, self.warp))], axis=1)
        return Rows(at, mean, k, hold(hold(k) @ self.inverse))


@pytree
class Rows:
    """Points seen by a field: scaled, with means, covariances k with the data, and w = K^-1 k held constant."""

    scaled: Float[Array, "p d"]
    mean: Float[Array, " p"]
    k: Float[Array, "p w"]
    w: Float[Array, "p w"]


def field_of(posterior: Posterior) -> Field:
    """Lay a posterior out for searching."""
    kernel, data = posterior.process.kernel, posterior.data
    lengths = jnp.broadcast_to(jnp.asarray(kernel.lengthscale), data.X.shape[1:])
    return Field(
        scaled(data.X, lengths, kernel.warp),
        jnp.asarray(data.live, dtype=data.X.dtype),
        jnp.asarray(posterior.weights),
        _inverse(posterior),
        lengths,
        jnp.asarray(kernel.amplitude) ** 2,
        jax.tree.map(jnp.asarray, posterior.process.mean),
        kernel.warp,
        type(kernel),
    )


def _inverse(posterior: Posterior) -> Float[Array, "w w"]:
    """The inverse of the data's covariance, bordered where the trend is in doubt."""
    inverse, doubt = posterior.inverse, posterior.doubt
    if doubt is None:
        return inverse
    P, F = doubt.pull @ doubt.factor, jnp.asarray(doubt.factor)
    return jnp.block([[inverse - P @ P.T, P @ F.T], [F @ P.T, -F @ F.T]])
