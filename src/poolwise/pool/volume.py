"""Greedy picks and whole pools for acquisition functions without samples: own worth and volume.

One more point x adds own(x) + weight / 2 log(s^2(x) + noise), s^2 its variance once the points before it are observed:
all picks of a pool are one compiled program, and pending points are slots that are taken from the beginning.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from poolwise.acquisition.volume import VolumeType, between, marginals, observation_noise
from poolwise.belief.factor import cholesky, inverse_factor
from poolwise.belief.gaussian_process import Posterior
from poolwise.belief.padding import masked
from poolwise.maximizers.lbfgsb import ascend
from poolwise.pool.starts import with_room
from poolwise.programs import quickly
from poolwise.pytree import pytree


@pytree
class VolumeObjective:
    """Values of r pools at once, beside pending points in slots of which some may be free."""

    posterior: Posterior
    integrand: VolumeType
    pending: Float[Array, "w d"]
    taken: Bool[Array, " w"]

    def __call__(self, flat: Float[Array, "r p"]) -> Float[Array, " r"]:
        def one(x: Float[Array, " p"]) -> Float[Array, ""]:
            pool = jnp.concatenate([self.pending, x.reshape(-1, self.dimension)])
            live = jnp.concatenate([self.taken, jnp.ones(pool.shape[0] - self.taken.shape[0], bool)])
            return self.integrand.of(self.posterior, pool, live)

        return jax.vmap(one)(flat)

    @property
    def dimension(self) -> int:
        """How many coordinates a point has."""
        return self.pending.shape[1]

    def rough(self, divisor: int) -> VolumeObjective:
        """The same: there are no base samples to take fewer of."""
        return self

    def redraw(self, key: Array, samples: int) -> VolumeObjective:
        """The same: there are no base samples to draw again."""
        return self


def volume_objective(posterior: Posterior, integrand: VolumeType, pending: Float[np.ndarray, "w d"]) -> VolumeObjective:
    """The joint objective beside pending points."""
    room = with_room(pending, np.zeros((1, len(pending))))
    return VolumeObjective(posterior, integrand, jnp.asarray(room.points), jnp.asarray(room.taken > 0))


@pytree
class Slots:
    """Points of a pool, in an array of fixed size; those that are not taken yet stand for nothing."""

    points: Float[Array, "c d"]
    taken: Bool[Array, " c"]


@quickly("starts")
def greedy_volume(
    objective: VolumeObjective, candidates: Float[Array, "q c d"], rounds: int | Int[Array, ""], *, starts: int
) -> tuple[Float[Array, "q d"], Float[Array, " c"], Int[Array, ""]]:
    """A pool of as many points as there are sets of candidates, the first set's gains, and the evaluations made."""
    w, (q, c, d) = objective.pending.shape[0], candidates.shape
    slots = Slots(
        jnp.concatenate([objective.pending, jnp.full((q, d), 0.5)]),
        jnp.concatenate([objective.taken, jnp.zeros(q, bool)]),
    )

    def step(carry: Slots, offered: tuple[Array, Array]) -> tuple[Slots, Any]:
        slot, points = offered
        add = gain(objective.posterior, objective.integrand, carry)

        def value_and_gradient(x: Float[Array, "p d"]) -> tuple[Float[Array, " p"], Float[Array, "p d"]]:
            values, pull = jax.vjp(add, x)
            return values, pull(jnp.ones_like(values))[0]

        values = add(points)
        _, order = jax.lax.top_k(jnp.where(jnp.isnan(values), -jnp.inf, values), starts)
        end = ascend(value_and_gradient, points[order], rounds=rounds, gtol=1e-4, ftol=1e-6, memory=5)
        best = end.points[jnp.argmax(end.values)]
        picked = Slots(carry.points.at[slot].set(best), carry.taken.at[slot].set(True))
        return picked, (best, values, c + jnp.sum(end.evaluations))

    _, (pool, values, evaluations) = jax.lax.scan(step, slots, (w + jnp.arange(q), candidates))
    return pool, values[0], jnp.sum(evaluations)


def gain(posterior: Posterior, integrand: VolumeType, before: Slots) -> Any:
    """What each of some points adds to the points before it: own(x) + weight / 2 log(s^2(x) + noise)."""
    noise, weight = observation_noise(integrand, posterior), integrand.weight(posterior)
    there = marginals(posterior, before.points)
    seen = between(posterior, before.points, before.points, (there, there)) + noise * jnp.eye(before.taken.shape[0])
    root = inverse_factor(cholesky(masked(seen, before.taken)))

    def add(points: Float[Array, "p d"]) -> Float[Array, " p"]:
        here = marginals(posterior, points)
        cross = between(posterior, points, before.points, (here, there)) * before.taken[None, :]
        side = cross @ root.T
        left = jnp.maximum(here.variance + noise - jnp.sum(side * side, axis=1), noise)
        return integrand.own(posterior, points) + weight / 2 * jnp.log(left)

    return add


@pytree
class VolumeSeat:
    """The free seat of a pool, for a search over a set of points."""

    posterior: Posterior
    integrand: VolumeType
    others: Slots

    def at(self, points: Float[Array, "p d"]) -> Float[Array, " p"]:
        """The value of the pool with each of the points in the free seat."""
        alone = self.integrand.of(self.posterior, self.others.points, self.others.taken)
        return alone + gain(self.posterior, self.integrand, self.others)(points)

    def worth(self, seen: Float[Array, "p d"]) -> Float[Array, " p"]:
        """The same: nothing of a point is known ahead."""
        return self.at(seen)


@dataclass(frozen=True, eq=False)
class VolumeTable:
    """Seats for an acquisition function without samples: one shape for every pick."""

    posterior: Posterior
    integrand: VolumeType
    pending: Float[np.ndarray, "w d"]
    q: int

    block: ClassVar[int] = 256
    breadth: ClassVar[int] = 8  # candidates, in units of `Ascent.candidates`
    even: ClassVar[bool] = True  # every seat has the same shape

    def seat(self, pool: Float[np.ndarray, "_ d"], free: int) -> VolumeSeat:
        """The seat `free` beside the pool's other points and the pending ones; it may be one past the last."""
        others = np.concatenate([self.pending, np.delete(pool, [free] if free < len(pool) else [], axis=0)])
        count = max(8, 1 << (len(self.pending) + self.q - 1).bit_length())
        points = np.concatenate([others, np.full((count - len(others), others.shape[1]), 0.5)])
        slots = Slots(jnp.asarray(points), jnp.asarray(np.arange(count) < len(others)))
        return VolumeSeat(self.posterior, self.integrand, slots)

    def look(self, points: Float[np.ndarray, "p d"]) -> Float[Array, "p d"]:
        """Nothing can be known ahead."""
        return jnp.asarray(points)
