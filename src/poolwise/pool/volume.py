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

from poolwise.acquisition.integrand import unit_of
from poolwise.acquisition.volume import VolumeType, between, marginals, observation_noise
from poolwise.belief.factor import cholesky, inverse_factor
from poolwise.belief.gaussian_process import Posterior
from poolwise.belief.padding import masked
from poolwise.pool.slots import Slots, greedy_slots
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

    @property
    def unit(self) -> float | Float[Array, ""]:
        """What its values count in."""
        return unit_of(self.integrand, jnp.asarray(self.posterior.process.kernel.amplitude))

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


@quickly("starts")
def greedy_volume(
    objective: VolumeObjective, candidates: Float[Array, "q c d"], rounds: int | Int[Array, ""], *, starts: int
) -> tuple[Float[Array, "q d"], Float[Array, " c"], Int[Array, ""]]:
    """A pool of as many points as there are sets of candidates, the first set's gains, and the evaluations made."""

    def worth_beside(before: Slots, _: Int[Array, ""]) -> Any:
        return gain(objective.posterior, objective.integrand, before)

    beside = Slots(objective.pending, objective.taken)
    return greedy_slots(worth_beside, beside, candidates, rounds, starts=starts, unit=objective.unit)


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

    @property
    def unit(self) -> float | Float[Array, ""]:
        """What worth counts in."""
        return unit_of(self.integrand, jnp.asarray(self.posterior.process.kernel.amplitude))

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
