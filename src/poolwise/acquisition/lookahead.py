"""Looking two pools ahead: an integrand whose value is an expectation under a later belief [W17, recursion]."""

from __future__ import annotations

from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from poolwise import checks
from poolwise.acquisition.integrand import Integrand, store_number
from poolwise.acquisition.tail import upside
from poolwise.acquisition.volume import store_noise
from poolwise.belief.gaussian_process import Posterior
from poolwise.belief.normal import Normal, observing
from poolwise.checks import Numbers
from poolwise.precision import to_numpy
from poolwise.pytree import pytree

SUREST = 1e-20  # relative to the kernel's variance: no candidate counts as surer than this


@pytree
class TwoStepExpectedImprovement:
    """The improvement by this pool, and the best expected improvement that one more point will then promise.

        h(y) = max(0, max(y) - threshold) + max over candidates c of E[max(0, f(c) - max(threshold, max(y))) | y]

    `candidates` are the points that the second step may choose from, a row each; `noise` is the variance with which the
    pool is observed. The inner expectation is exact. It is never below `ExpectedImprovement`, and the two need not
    agree on where to look. Needs the posterior and the pool:
    `expectation(TwoStepExpectedImprovement(...), posterior, pool)`.
    """

    as_outcomes: ClassVar[bool | None] = True
    threshold: Numbers
    candidates: Numbers
    noise: Numbers = 0.0

    def __post_init__(self) -> None:
        store_number(self, "threshold")
        with jax.enable_x64(True):
            object.__setattr__(self, "candidates", to_numpy(checks.matrix("candidates", self.candidates)))
        store_noise(self)

    def after(self, posterior: Posterior, pool: Float[Array, "q d"]) -> tuple[Normal, Integrand]:
        """The Gaussian of the pool's observations, and what each is worth now and one step later."""
        C = checks.matrix("candidates", self.candidates, columns=posterior.dimension)
        joint = posterior(jnp.concatenate([C, pool]))
        _, update = observing(joint, C.shape[0], self.noise)
        least = SUREST * jnp.asarray(posterior.process.kernel.amplitude) ** 2
        deviations = jnp.sqrt(jnp.maximum(jnp.diagonal(update.covariance), least))

        def two_steps(y: Float[Array, " q"], mean: Float[Array, " q"]) -> Float[Array, ""]:
            improved = jnp.maximum(jnp.max(y), self.threshold)
            promised = upside(update.mean + update.gain @ (y - mean), deviations, improved)
            return improved - self.threshold + jnp.max(promised)

        return update.seen, two_steps
