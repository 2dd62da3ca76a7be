"""Greedy picks and whole pools for the knowledge gradient over given candidates, on fixed base samples.

What is recommended after the pool is observed is the candidate with the best mean. On sample z the means are

    m(c | y) = m(c) + B_c z,        B = S_CX L^-T,        L L' = S_X + noise I,

so one more point adds a column to B: a greedy pick needs that column alone, and all picks are one compiled program.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from poolwise.acquisition.base_samples import normals
from poolwise.acquisition.knowledge import KnowledgeGradient
from poolwise.acquisition.volume import between, marginals, observation_noise
from poolwise.belief.factor import cholesky, inverse_factor
from poolwise.belief.gaussian_process import Posterior
from poolwise.belief.padding import masked
from poolwise.maximizers.lbfgsb import ascend
from poolwise.pool.starts import with_room
from poolwise.pool.volume import Slots
from poolwise.programs import quickly
from poolwise.pytree import pytree


@pytree
class KnowledgeObjective:
    """Values of r pools at once, beside pending points in slots of which some may be free."""

    posterior: Posterior
    integrand: KnowledgeGradient
    pending: Float[Array, "w d"]
    taken: Bool[Array, " w"]
    normals: Float[Array, "m c"]

    def __call__(self, flat: Float[Array, "r p"]) -> Float[Array, " r"]:
        def one(x: Float[Array, " p"]) -> Float[Array, ""]:
            points = jnp.concatenate([self.pending, x.reshape(-1, self.dimension)])
            live = jnp.concatenate([self.taken, jnp.ones(points.shape[0] - self.taken.shape[0], bool)])
            return jnp.mean(jnp.max(Seen(self, Slots(points, live)).means, axis=1)) - self.best

        return jax.vmap(one)(flat)

    @property
    def best(self) -> Float[Array, ""]:
        """The best mean of a candidate as things are."""
        return jnp.max(marginals(self.posterior, jnp.asarray(self.integrand.candidates)).mean)

    @property
    def dimension(self) -> int:
        """How many coordinates a point has."""
        return self.pending.shape[1]

    def rough(self, divisor: int) -> KnowledgeObjective:
        """The same on the first part of the base samples."""
        z = self.normals[: self.normals.shape[0] // divisor]
        return KnowledgeObjective(self.posterior, self.integrand, self.pending, self.taken, z)

    def redraw(self, key: Array, samples: int) -> KnowledgeObjective:
        """The same with fresh independent base samples."""
        z = jax.random.normal(key, (samples, self.normals.shape[1]), self.normals.dtype)
        return KnowledgeObjective(self.posterior, self.integrand, self.pending, self.taken, z)


class Seen:
    """What observations at some points say about the candidates: their means in each sample, and what one more adds."""

    def __init__(self, goal: KnowledgeObjective, at: Slots) -> None:
        self.posterior, self.normals, self.at = goal.posterior, goal.normals, at
        self.candidates = jnp.asarray(goal.integrand.candidates)
        self.noise = observation_noise(goal.integrand, goal.posterior)
        self.here, self.there = marginals(self.posterior, self.candidates), marginals(self.posterior, at.points)
        K = between(self.posterior, at.points, at.points, (self.there, self.there))
        self.root = inverse_factor(cholesky(masked(K + self.noise * jnp.eye(at.taken.shape[0]), at.taken)))
        cross = between(self.posterior, self.candidates, at.points, (self.here, self.there))
        self.columns = (cross * at.taken[None, :]) @ self.root.T
        self.means = self.here.mean[None, :] + self.normals @ self.columns.T

    def with_one(self, points: Float[Array, "p d"], own: Float[Array, " m"]) -> Float[Array, " p"]:
        """The mean over samples of the best mean, with each of some points as the next, on the samples `own`."""
        new = marginals(self.posterior, points)
        cross = between(self.posterior, points, self.at.points, (new, self.there)) * self.at.taken[None, :]
        side = cross @ self.root.T
        left = jnp.maximum(new.variance + self.noise - jnp.sum(side * side, axis=1), self.noise)
        toward = between(self.posterior, points, self.candidates, (new, self.here)) - side @ self.columns.T
        column = toward / jnp.sqrt(left)[:, None]
        return jnp.mean(jnp.max(self.means[None] + own[None, :, None] * column[:, None, :], axis=2), axis=1)


def knowledge_objective(  # noqa: PLR0913
    posterior: Posterior,
    integrand: KnowledgeGradient,
    q: int,
    pending: Float[np.ndarray, "w d"],
    *,
    samples: int,
    seed: int,
) -> KnowledgeObjective:
    """The joint objective beside pending points."""
    room = with_room(pending, normals(samples, len(pending) + q, seed=seed))
    return KnowledgeObjective(
        posterior, integrand, jnp.asarray(room.points), jnp.asarray(room.taken > 0), jnp.asarray(room.normals)
    )


@quickly("starts")
def greedy_knowledge(
    objective: KnowledgeObjective, candidates: Float[Array, "q c d"], rounds: int | Int[Array, ""], *, starts: int
) -> tuple[Float[Array, "q d"], Float[Array, " c"], Int[Array, ""]]:
    """A pool of as many points as there are sets of candidates, the first set's values, and the evaluations made."""
    w, (q, c, d) = objective.pending.shape[0], candidates.shape
    slots = Slots(
        jnp.concatenate([objective.pending, jnp.full((q, d), 0.5)]),
        jnp.concatenate([objective.taken, jnp.zeros(q, bool)]),
    )

    def step(carry: Slots, offered: tuple[Array, Array]) -> tuple[Slots, Any]:
        slot, points = offered
        seen, own = Seen(objective, carry), jnp.take(objective.normals, slot, axis=1)

        def value_and_gradient(x: Float[Array, "p d"]) -> tuple[Float[Array, " p"], Float[Array, "p d"]]:
            values, pull = jax.vjp(lambda x: seen.with_one(x, own), x)
            return values, pull(jnp.ones_like(values))[0]

        values = seen.with_one(points, own)
        _, order = jax.lax.top_k(jnp.where(jnp.isnan(values), -jnp.inf, values), starts)
        end = ascend(value_and_gradient, points[order], rounds=rounds, gtol=1e-4, ftol=1e-6, memory=5)
        best = end.points[jnp.argmax(end.values)]
        picked = Slots(carry.points.at[slot].set(best), carry.taken.at[slot].set(True))
        return picked, (best, values, c + jnp.sum(end.evaluations))

    _, (pool, values, evaluations) = jax.lax.scan(step, slots, (w + jnp.arange(q), candidates))
    return pool, values[0], jnp.sum(evaluations)
