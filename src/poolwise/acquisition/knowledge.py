"""The knowledge gradient: by how much a pool's observations will raise the best posterior mean [F09]."""

from __future__ import annotations

from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from poolwise import checks
from poolwise.acquisition.integrand import Integrand
from poolwise.acquisition.volume import observation_noise, store_noise
from poolwise.belief.gaussian_process import Posterior
from poolwise.belief.normal import Normal, observing
from poolwise.checks import Numbers
from poolwise.precision import AnyArray, to_numpy
from poolwise.pytree import pytree


@pytree
class KnowledgeGradient:
    """The rise of the best posterior mean, once the pool is observed [F09].

        h(y) = max_c m(c | y) - max_c m(c),        m(c | y) = m(c) + S_cX (S_X + noise I)^-1 (y - m_X)

    `candidates` are the points c that may be recommended in the end, a row each. The maximum over them is exact, this
    is the nested form; the maximizer `OneShot` seeks recommendations in the whole cube. None takes the observed points,
    and after the observation the pool's as well [S11]. `noise` is the variance with which the pool will be observed;
    None takes the belief's own. Needs the posterior and the pool: `expectation(KnowledgeGradient(), posterior, pool)`.
    """

    as_outcomes: ClassVar[bool | None] = True
    candidates: Numbers | None = None
    noise: Numbers | None = None

    def __post_init__(self) -> None:
        store_noise(self)
        if self.candidates is not None:
            with jax.enable_x64(True):
                object.__setattr__(self, "candidates", to_numpy(checks.matrix("candidates", self.candidates)))

    def after(self, posterior: Posterior, pool: Float[Array, "q d"]) -> tuple[Normal, Integrand]:
        """The Gaussian of the pool's observations, and the rise that each of them causes."""
        fixed, live = self.recommendable(posterior)
        C = fixed if self.candidates is not None else jnp.concatenate([fixed, pool])
        alive = jnp.concatenate([live, jnp.ones(C.shape[0] - live.shape[0], bool)])
        _, update = observing(posterior(jnp.concatenate([C, pool])), C.shape[0], observation_noise(self, posterior))
        best = jnp.max(jnp.where(live, update.mean[: live.shape[0]], -jnp.inf))

        def rise(y: Float[Array, " q"], mean: Float[Array, " q"]) -> Float[Array, ""]:
            return jnp.max(jnp.where(alive, update.mean + update.gain @ (y - mean), -jnp.inf)) - best

        return update.seen, rise

    def recommendable(self, posterior: Posterior) -> tuple[Float[AnyArray, "c d"], Bool[AnyArray, " c"]]:
        """The points that may be recommended whatever the pool is, and which of these rows are real."""
        if self.candidates is None:
            return posterior.data.X, posterior.data.live
        C = checks.matrix("candidates", self.candidates, columns=posterior.dimension)
        return C, jnp.ones(C.shape[0], bool)
