"""The one-shot knowledge gradient: a pool, and what would be recommended after each of J fantasies, climbed together.

    max over X and x'_1 .. x'_J of  mean_j m(x'_j | y_j),        y_j = m_X + L z_j,    L L' = S_X + noise I

The maximum over each recommendation x'_j stands outside the mean, so there is nothing nested: one smooth function of
(q + J) d coordinates, never above the nested value on the same fantasies, and equal to it at its maximum [B20].
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int
from numpy.typing import ArrayLike

from poolwise import checks
from poolwise.acquisition.base_samples import normals
from poolwise.acquisition.knowledge import KnowledgeGradient
from poolwise.acquisition.volume import Marginals, between, marginals, observation_noise
from poolwise.belief.factor import cholesky, inverse_factor
from poolwise.belief.gaussian_process import Posterior
from poolwise.belief.padding import masked
from poolwise.errors import InputError
from poolwise.maximizers import lbfgsb
from poolwise.maximizers.climb import UNLIMITED, Budget, Climb, Log, Objective, as_starts, value_and_gradient
from poolwise.pool.starts import evenly, near_best, spread
from poolwise.precision import double
from poolwise.programs import quickly
from poolwise.pytree import pytree

OFFERED = 256  # points that fill the cube and that a recommendation may jump to, beside those of the integrand
NEAR = 64  # and others around the best observations
PICKS = 64  # points of the starts, and points that fill the cube, that a greedy pick chooses from


@dataclass(frozen=True)
class OneShot:
    """Climbs a knowledge gradient and the recommendations of its fantasies at once; a maximizer for `propose`.

    `propose(posterior, KnowledgeGradient(), q, maximizer=OneShot())`. A greedy pool and the best `lanes - 1` of the
    starts climb for `turns` times `rounds` rounds; between turns each recommendation may jump to a better candidate.
    """

    fantasies: int = 64
    lanes: int = 3
    rounds: int = 30
    turns: int = 3

    def __post_init__(self) -> None:
        checks.store_counts(self, "fantasies", "lanes", "rounds", "turns")

    @double
    def __call__(self, objective: Objective, starts: ArrayLike, budget: Budget = UNLIMITED, *, seed: int = 0) -> Climb:
        """Climb; only the pools are returned, with what they are worth on these fantasies."""
        goal: Any = getattr(objective, "integrand", None)
        if not isinstance(goal, KnowledgeGradient):
            raise InputError("maximizer: OneShot climbs a KnowledgeGradient alone; for other integrands use Ascent().")
        log, shot = Log(budget), _shot(objective, starts, self, seed)
        first, d = jnp.asarray(as_starts(starts)), shot.pending.shape[1]
        most = max(1, budget.allowed(self.lanes * self.rounds * self.turns) // self.lanes)
        pools, values = _begin(shot, first, lanes=min(self.lanes, len(first) + 1))
        log.note(len(pools), float(values.max()))
        for turn in range(self.turns):
            left = min(self.rounds, most - turn * self.rounds)
            if left < 1 or log.late():
                break
            pools, values = _turn(shot, pools, left)
            log.note((turn * self.rounds + left) * len(pools), float(values.max()))
        q = first.shape[1] // d
        return log.climb(pools[:, : q * d], values)


@pytree
class Shot:
    """Fantasies of a pool beside pending points, and the points that a recommendation may jump to."""

    posterior: Posterior
    pending: Float[Array, "w d"]
    noise: Float[Array, ""]
    normals: Float[Array, "j c"]
    offered: Float[Array, "p d"]
    live: Bool[Array, " p"]

    def __call__(self, flat: Float[Array, "r p"]) -> Float[Array, " r"]:
        """The mean over fantasies of what their own recommendations are then expected to give."""
        return jax.vmap(lambda x: jnp.mean(self.recommended(*self.parts(x))))(flat)

    def parts(self, x: Float[Array, " p"]) -> tuple[Float[Array, "c d"], Float[Array, "j d"]]:
        """The pool, pending points ahead of it, and the recommendations."""
        points, q = x.reshape(-1, self.pending.shape[1]), self.normals.shape[1] - self.pending.shape[0]
        return jnp.concatenate([self.pending, points[:q]]), points[q:]

    def recommended(self, pool: Float[Array, "c d"], inner: Float[Array, "j d"]) -> Float[Array, " j"]:
        """m(x'_j | y_j) for each fantasy."""
        there, moves = self.moves(pool, jnp.ones(pool.shape[0], bool))
        here = marginals(self.posterior, inner)
        return here.mean + jnp.sum(between(self.posterior, inner, pool, (here, there)) * moves.T, axis=1)

    def anywhere(self, pool: Float[Array, "c d"], live: Bool[Array, " c"]) -> Float[Array, "p j"]:
        """m(x' | y_j) for every point on offer and every fantasy."""
        there, moves = self.moves(pool, live)
        here = marginals(self.posterior, self.offered)
        means = here.mean[:, None] + between(self.posterior, self.offered, pool, (here, there)) @ moves
        return jnp.where(self.live[:, None], means, -jnp.inf)

    def moves(self, pool: Float[Array, "c d"], live: Bool[Array, " c"]) -> tuple[Marginals, Float[Array, "c j"]]:
        """K^-1 (y_j - m_X) = L^-T z_j for each fantasy; zero for points that are not live."""
        there = marginals(self.posterior, pool)
        K = between(self.posterior, pool, pool, (there, there)) + self.noise * jnp.eye(pool.shape[0])
        root = inverse_factor(cholesky(masked(K, live)))
        return there, root.T @ (self.normals.T * live[:, None])


def _shot(objective: Any, starts: ArrayLike, settings: OneShot, seed: int) -> Shot:
    posterior, pending = objective.posterior, jnp.asarray(objective.pending)
    d = pending.shape[1]
    q = np.shape(starts)[1] // d
    named, live = objective.integrand.recommendable(posterior)
    filling = np.concatenate([evenly(posterior, spread(OFFERED, d, seed)), near_best(posterior, NEAR, seed)])
    z = jnp.asarray(normals(settings.fantasies, pending.shape[0] + q, seed=seed))
    offered = jnp.concatenate([named, jnp.asarray(filling)])
    return Shot(
        posterior,
        pending,
        observation_noise(objective.integrand, posterior),
        z,
        offered,
        jnp.concatenate([live, jnp.ones(len(filling), bool)]),
    )


@quickly("lanes")
def _begin(shot: Shot, starts: Float[Array, "r p"], *, lanes: int) -> tuple[Float[Array, "l s"], Float[Array, " l"]]:
    """The greedy pool and the best starts, with the best recommendation on offer for each fantasy."""
    pools = starts.reshape(starts.shape[0], -1, shot.pending.shape[1])
    whole = jnp.ones(shot.normals.shape[1], bool)
    values = jax.lax.map(lambda pool: _nested(shot, jnp.concatenate([shot.pending, pool]), whole), pools)
    _, order = jax.lax.top_k(values, lanes - 1)
    filling = shot.offered[shot.offered.shape[0] - OFFERED - NEAR :][:PICKS]
    picked = _greedy(shot, jnp.concatenate([pools.reshape(-1, pools.shape[2])[:PICKS], filling]))
    chosen = jnp.concatenate([picked[None], pools[order]])
    values = jnp.append(_nested(shot, jnp.concatenate([shot.pending, picked]), whole), values[order])
    inner = jax.vmap(lambda pool: _argmax(shot, jnp.concatenate([shot.pending, pool])))(chosen)
    return jnp.concatenate([chosen.reshape(lanes, -1), inner.reshape(lanes, -1)], axis=1), values


def _nested(shot: Shot, pool: Float[Array, "c d"], live: Bool[Array, " c"]) -> Float[Array, ""]:
    """The mean over fantasies of the best posterior mean on offer."""
    return jnp.mean(jnp.max(shot.anywhere(pool, live), axis=0))


def _argmax(shot: Shot, pool: Float[Array, "c d"]) -> Float[Array, "j d"]:
    """The best point on offer for each fantasy."""
    return shot.offered[jnp.argmax(shot.anywhere(pool, jnp.ones(pool.shape[0], bool)), axis=0)]


def _greedy(shot: Shot, points: Float[Array, "s d"]) -> Float[Array, "q d"]:
    """One point after the other, each the best addition to those before it."""
    w, c = shot.pending.shape[0], shot.normals.shape[1]
    empty = jnp.concatenate([shot.pending, jnp.full((c - w, points.shape[1]), 0.5)])

    def step(pool: Float[Array, "c d"], slot: Int[Array, ""]) -> tuple[Float[Array, "c d"], None]:
        live = jnp.arange(c) <= slot
        values = jax.lax.map(lambda x: _nested(shot, pool.at[slot].set(x), live), points)
        return pool.at[slot].set(points[jnp.argmax(values)]), None

    return jax.lax.scan(step, empty, jnp.arange(w, c))[0][w:]


@quickly()
def _turn(
    shot: Shot, lanes: Float[Array, "l s"], rounds: int | Int[Array, ""]
) -> tuple[Float[Array, "l s"], Float[Array, " l"]]:
    """Each recommendation jumps where one on offer is better; then pools and recommendations climb together."""

    def jump(x: Float[Array, " s"]) -> Float[Array, " s"]:
        pool, inner = shot.parts(x)
        means = shot.anywhere(pool, jnp.ones(pool.shape[0], bool))
        better = jnp.max(means, axis=0) > shot.recommended(pool, inner)
        moved = jnp.where(better[:, None], shot.offered[jnp.argmax(means, axis=0)], inner)
        return x.at[x.shape[0] - moved.size :].set(moved.ravel())

    climbs, unit = functools.partial(value_and_gradient, shot), jnp.asarray(shot.posterior.process.kernel.amplitude)
    end = lbfgsb.ascend(climbs, jax.vmap(jump)(lanes), rounds=rounds, gtol=1e-6, ftol=1e-8, unit=unit)
    return end.points, end.values
