"""Energy and entropy: a trade-off between good points and informative ones that stays in control for large pools."""

from __future__ import annotations

from typing import ClassVar

import jax.numpy as jnp
from jaxtyping import Array, Float

from poolwise.acquisition.integrand import store_number
from poolwise.acquisition.volume import VolumeType, marginals, observation_noise, store_noise
from poolwise.belief.gaussian_process import Posterior
from poolwise.checks import Numbers
from poolwise.pytree import pytree


@pytree
class EnergyEntropy(VolumeType):
    """The sum of a pool's means, and what its observations tell about its outcomes: BEEBO [T24].

        sum_i m_i + temperature spread 1/2 log det(I + S_X / noise)

    The second term is the mutual information of outcomes and observations, in nats: half the log-determinant of the
    belief at the pool before it is observed, less that after. `temperature` counts in units of `spread`, by default the
    kernel's amplitude. Both terms grow with the pool, so that one temperature means the same for 8 points and for 800.
    """

    as_outcomes: ClassVar[bool | None] = True
    temperature: Numbers = 1.0
    spread: Numbers | None = None

    def __post_init__(self) -> None:
        store_noise(self)
        store_number(self, "temperature", positive=True)
        if self.spread is not None:
            store_number(self, "spread", positive=True)

    def weight(self, posterior: Posterior) -> Float[Array, ""]:
        spread = posterior.process.kernel.amplitude if self.spread is None else self.spread
        return jnp.asarray(self.temperature) * jnp.asarray(spread)

    def own(self, posterior: Posterior, points: Float[Array, "p d"]) -> Float[Array, " p"]:
        known = jnp.log(observation_noise(self, posterior)) / 2
        return marginals(posterior, points).mean - self.weight(posterior) * known
