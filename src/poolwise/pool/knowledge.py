"""Greedy picks and whole pools for the knowledge gradient over given candidates, on fixed base samples.

What is recommended after the pool is observed is the candidate with the best mean. On sample z the means are

    m(c | y) = m(c) + B_c z,        B = S_CX L^-T,        L L' = S_X + noise I,

so one more point adds a column to B: a greedy pick needs that column alone, and all picks are one compiled program.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from poolwise.acquisition.base_samples import normals
from poolwise.acquisition.integrand import unit_of
from poolwise.acquisition.knowledge import KnowledgeGradient
from poolwise.acquisition.volume import Marginals, between, marginals, observation_noise
from poolwise.belief.factor import cholesky, inverse_factor
from poolwise.belief.gaussian_process import Posterior
from poolwise.belief.padding import masked
from poolwise.pool.slots import Slots, greedy_slots
from poolwise.pool.starts import with_room
from poolwise.programs import quickly
from poolwise.pytree import pytree
from poolwise.slices import slice_of


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
            return jnp.mean(jnp.max(seen(self, Slots(points, live)).means, axis=1)) - self.best

        return jax.vmap(one)(flat)

    @property
    def best(self) -> Float[Array, ""]:
        """The best mean of a candidate as things are."""
        return jnp.max(marginals(self.posterior, jnp.asarray(self.integrand.candidates)).mean)

    @property
    def dimension(self) -> int:
        """How many coordinates a point has."""
        return self.pending.shape[1]

    @property
    def unit(self) -> float | Float[Array, ""]:
        """What its values count in."""
        return unit_of(self.integrand, jnp.asarray(self.posterior.process.kernel.amplitude))

    def rough(self, divisor: int) -> KnowledgeObjective:
        """The same on the first part of the base samples."""
        z = self.normals[: self.normals.shape[0] // divisor]
        return KnowledgeObjective(self.posterior, self.integrand, self.pending, self.taken, z)

    def redraw(self, key: Array, samples: int) -> KnowledgeObjective:
        """The same with fresh independent base samples."""
        z = jax.random.normal(key, (samples, self.normals.shape[1]), self.normals.dtype)
        return KnowledgeObjective(self.posterior, self.integrand, self.pending, self.taken, z)


@pytree
class Seen:
    """What observations at some points say about the candidates: `means` of each in each sample are m(C) + B z."""

    at: Slots
    there: Marginals
    candidates: Marginals
    root: Float[Array, "c c"]  # L^-1
    columns: Float[Array, "a c"]  # B
    means: Float[Array, "m a"]


def seen(goal: KnowledgeObjective, at: Slots) -> Seen:
    """The candidates after observations at the points that are taken."""
    C, posterior = jnp.asarray(goal.integrand.candidates), goal.posterior
    there, here = marginals(posterior, at.points), marginals(posterior, C)
    noise = observation_noise(goal.integrand, posterior) * jnp.eye(at.taken.shape[0])
    root = inverse_factor(cholesky(masked(between(posterior, at.points, at.points, (there, there)) + noise, at.taken)))
    columns = (between(posterior, C, at.points, (here, there)) * at.taken[None, :]) @ root.T
    return Seen(at, there, here, root, columns, here.mean[None, :] + goal.normals @ columns.T)


def with_one(
    goal: KnowledgeObjective, before: Seen, own: Float[Array, " m"], points: Float[Array, "p d"]
) -> Float[Array, " p"]:
    """The mean over samples of the best mean, with each of some points as the next, on the base samples `own`."""
    C, posterior, noise = goal.integrand.candidates, goal.posterior, observation_noise(goal.integrand, goal.posterior)
    new = marginals(posterior, points)
    side = (
        between(posterior, points, before.at.points, (new, before.there)) * before.at.taken[None, :]
    ) @ before.root.T
    left = jnp.maximum(new.variance + noise - jnp.sum(side * side, axis=1), noise)
    toward = between(posterior, points, jnp.asarray(C), (new, before.candidates)) - side @ before.columns.T
    column = toward / jnp.sqrt(left)[:, None]
    return jnp.mean(jnp.max(before.means[None] + own[None, :, None] * column[:, None, :], axis=2), axis=1)


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

    def worth_beside(before: Slots, slot: Int[Array, ""]) -> Any:
        own = slice_of(objective.normals, slot, axis=1)
        return functools.partial(with_one, objective, seen(objective, before), own)

    beside = Slots(objective.pending, objective.taken)
    return greedy_slots(worth_beside, beside, candidates, rounds, starts=starts, unit=objective.unit)
