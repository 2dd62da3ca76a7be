"""Entropy search: how much a pool's outcomes tell about where the maximum is [W17, ES].

The maximiser is sought among representers r_1 .. r_M. With K = covariance of the pool's observations, K = L L', an
observation y moves the belief about the representers' outcomes to

    mean' = mean_R + C K^-1 (y - mean_X),        covariance' = covariance_R - C K^-1 C'        (the same for every y),

and p_i(y) = E[softmax(f_R / temperature)_i], itself an expectation, is the probability that r_i is the best. The worth
of y is what it changes, KL(p(y) || p); its expectation is the mutual information of outcomes and maximiser,
H[p] - E H[p(y)], and being a divergence it is not negative even sample by sample. Common base samples for p and all
p(y) make the estimate far less noisy than the difference of two estimated entropies.
"""

from __future__ import annotations

from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from poolwise import checks
from poolwise.acquisition.base_samples import normals
from poolwise.acquisition.expectation import Base, estimate
from poolwise.acquisition.integrand import Integrand, store_number
from poolwise.acquisition.volume import store_noise
from poolwise.belief.gaussian_process import Posterior
from poolwise.belief.normal import Normal, observing
from poolwise.checks import Numbers
from poolwise.precision import to_numpy
from poolwise.pytree import pytree, static

SMALLEST_SHARE = 1e-12  # mixed into each p, so that no logarithm meets a zero


@pytree
class Argmax:
    """Which outcome is the largest: softmax(y / temperature), or the right-continuous indicator 1[y_i = max(y)].

    [W17, ES], innermost integrand. E[softmax(y / t)]_i is the probability that i is best under extra Gumbel noise t G;
    ties of the indicator share the one.
    """

    temperature: Numbers | None = 0.01

    def __call__(self, y: Float[Array, " r"], mean: Float[Array, " r"]) -> Float[Array, " r"]:
        if self.temperature is None:
            best = jnp.where(y >= jnp.max(y), 1.0, 0.0)
            return best / jnp.sum(best)
        return jax.nn.softmax(y / self.temperature)


@pytree
class EntropySearch:
    """Information, in nats, that a pool's outcomes give about which representer is the maximum [W17, ES].

    `representers` are candidate maximisers, a row each; `noise` is the variance with which the pool will be observed;
    `temperature` counts in units of `spread`, and None takes the hard maximum (no gradient); `samples` base samples
    serve the inner expectation. The standard error of `expectation` is that of the outer one alone: few inner samples
    make the value too high, by more than it says. Needs the posterior and the pool:
    `expectation(EntropySearch(R), posterior, pool)`.
    """

    as_outcomes: ClassVar[bool | None] = False
    representers: Numbers
    noise: Numbers = 0.0
    temperature: Numbers | None = 0.01
    spread: Numbers = 1.0
    samples: int = static(default=512)
    seed: int = static(default=0)

    def __post_init__(self) -> None:
        with jax.enable_x64(True):
            object.__setattr__(self, "representers", to_numpy(checks.matrix("representers", self.representers)))
        store_noise(self)
        store_number(self, "spread", positive=True)
        if self.temperature is not None:
            store_number(self, "temperature", positive=True)
        checks.store_counts(self, "samples")

    def after(self, posterior: Posterior, pool: Float[Array, "q d"]) -> tuple[Normal, Integrand]:
        """The Gaussian of the pool's observations, and the divergence that each of them causes."""
        R = checks.matrix("representers", self.representers, columns=posterior.dimension)
        joint = posterior(jnp.concatenate([R, pool]))
        now, update = observing(joint, R.shape[0], self.noise)
        best = Argmax(None if self.temperature is None else self.temperature * self.spread)
        base = Base(jnp.asarray(normals(self.samples, R.shape[0], seed=self.seed)))
        prior = _away_from_zero(estimate(best, now, base).value)

        def divergence(y: Float[Array, " q"], mean: Float[Array, " q"]) -> Float[Array, ""]:
            p = _away_from_zero(estimate(best, update.belief(y), base).value)
            return jnp.sum(p * (jnp.log(p) - jnp.log(prior)))

        return update.seen, divergence


def _away_from_zero(p: Float[Array, " r"]) -> Float[Array, " r"]:
    """Probabilities mixed with a trace of the uniform; the mixture is linear, so the tower property stays exact."""
    return (1 - SMALLEST_SHARE) * p + SMALLEST_SHARE / p.shape[0]
