"""The joint Gaussian of a pool's outcomes, and the one map from base samples to outcomes."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from poolwise import checks
from poolwise.belief.factor import cholesky, inverse_factor
from poolwise.checks import Numbers
from poolwise.errors import InputError
from poolwise.precision import AnyArray, concrete, double, to_numpy
from poolwise.pytree import pytree


@pytree
class Normal:
    """Outcomes of q points, jointly Gaussian: N(mean, covariance).

    >>> Normal(mean=[0.0, 1.0], covariance=[[1.0, 0.2], [0.2, 0.5]]).mean.tolist()
    [0.0, 1.0]
    """

    mean: Numbers
    covariance: Numbers

    def __post_init__(self) -> None:
        with jax.enable_x64(True):
            mean = checks.vector("mean", self.mean)
            covariance = checks.matrix("covariance", self.covariance, columns=mean.shape[0])
            _check_covariance(covariance)
            object.__setattr__(self, "mean", to_numpy(mean))
            object.__setattr__(self, "covariance", to_numpy(covariance))

    @double
    def outcomes(self, normals: Numbers) -> Float[Array | np.ndarray, "m q"]:
        """Outcomes of base samples, one pool a row: y = mean + L z [W17, reparameterization]."""
        z = checks.matrix("normals", normals, columns=self.mean.shape[0])
        return outcomes(jnp.asarray(self.mean), cholesky(jnp.asarray(self.covariance)), z)


def outcomes(
    mean: Float[Array, " q"], factor: Float[Array, "q q"], normals: Float[AnyArray, "m q"]
) -> Float[Array, "m q"]:
    """The reparameterization y = rho(z; mean, covariance) = mean + L z, the only place where it is written.

    [W17, reparameterization]. Lower-triangular L means that the first outcomes use the first base samples alone: a
    point that is appended to a pool leaves the samples of the others as they were.
    """
    return mean[None, :] + normals @ factor.T


@pytree
class Update:
    """How observing some outcomes will move the belief about others: the mean linearly, the covariance always alike."""

    seen: Normal
    mean: Float[Array, " r"]
    gain: Float[Array, "r q"]
    covariance: Float[Array, "r r"]

    def belief(self, y: Float[Array, " q"]) -> Normal:
        """What will be believed after the observations y."""
        return Normal(self.mean + self.gain @ (y - self.seen.mean), self.covariance)


def observing(joint: Normal, first: int, noise: Numbers) -> tuple[Normal, Update]:
    """The belief about the first outcomes of a joint Gaussian, and how observing the rest with noise will move it.

    With K = S_XX + noise = L L':  gain = S_RX K^-1,  covariance = S_RR - S_RX K^-1 S_XR.
    """
    mean, sigma = jnp.asarray(joint.mean), jnp.asarray(joint.covariance)
    K = sigma[first:, first:] + noise * jnp.eye(mean.shape[0] - first)
    inverse = inverse_factor(cholesky(K))
    half = sigma[:first, first:] @ inverse.T
    now = Normal(mean[:first], sigma[:first, :first])
    return now, Update(Normal(mean[first:], K), mean[:first], half @ inverse, sigma[:first, :first] - half @ half.T)


def _check_covariance(covariance: Float[AnyArray, "p q"]) -> None:
    """Symmetric and positive semi-definite up to what the last rung of the ladder mends."""
    q = covariance.shape[1]
    if covariance.shape[0] != q:
        raise InputError(f"covariance: must be {q} by {q} to go with {q} means, got shape {covariance.shape}.")
    if not concrete(covariance):
        return
    sigma = np.asarray(covariance)
    size = np.abs(sigma).max()
    if (off := np.abs(sigma - sigma.T).max()) > 1e-8 * size:
        i, j = np.unravel_index(np.abs(sigma - sigma.T).argmax(), sigma.shape)
        raise InputError(
            f"covariance: is not symmetric: [{i}, {j}] and [{j}, {i}] differ by {off:.3g}; use (C + C.T) / 2 if "
            "that is rounding, or look for a mistake in how it was made."
        )
    if (lowest := np.linalg.eigvalsh(sigma)[0]) < -1e-6 * max(size, 1e-300):
        raise InputError(
            f"covariance: is not positive semi-definite: its smallest eigenvalue is {lowest:.3g}; "
            "no Gaussian has such a covariance."
        )
