"""What one more point is worth in a pool whose other points are known: the table, and the seat that is free.

A search over a set of points asks two things of a seat: the worth of given points there, and where gradient ascent of
some of their coordinates leads. Points are taken in blocks of one size, so each question is compiled once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from poolwise.acquisition.base_samples import normals
from poolwise.acquisition.integrand import MaxType, ProbabilityOfImprovement, baseline_slots, has_formula, unit_of
from poolwise.acquisition.volume import VolumeType
from poolwise.belief.gaussian_process import Posterior
from poolwise.maximizers import lbfgsb
from poolwise.maximizers.climb import value_and_gradient
from poolwise.pool.ascent import general_objective
from poolwise.pool.field import Field, Rows, field_of
from poolwise.pool.joint import GeneralObjective
from poolwise.pool.prefix import Prefix, extended, nobody, with_one
from poolwise.pool.volume import VolumeTable
from poolwise.programs import quickly
from poolwise.pytree import pytree
from poolwise.slices import slice_of

Points: TypeAlias = Float[np.ndarray, "_ d"]

SMOOTHER = 8  # times fewer base samples are enough where the outcome in the free seat is not sampled


@pytree
class Seat:
    """The free seat at an incremental table: the pool's other points are its prefix, in any order."""

    field: Field
    integrand: MaxType
    prefix: Prefix
    slot: Int[Array, ""]

    @property
    def unit(self) -> float | Float[Array, ""]:
        """What worth counts in."""
        return unit_of(self.integrand, jnp.sqrt(self.field.variance))

    def at(self, points: Float[Array, "p d"]) -> Float[Array, " p"]:
        """The worth of points not seen yet."""
        return self.worth(self.field.rows(points))

    def worth(self, seen: Rows) -> Float[Array, " p"]:
        """The value of the pool with each of the points in the free seat."""
        own = slice_of(self.prefix.normals, self.slot, axis=1)
        return with_one(self.prefix, self.field, seen, self.integrand, own)


@pytree
class GeneralSeat:
    """The last seat of a pool for any integrand: the points before it count as pending ones."""

    objective: GeneralObjective

    @property
    def unit(self) -> float | Float[Array, ""]:
        """What worth counts in."""
        return self.objective.unit

    def at(self, points: Float[Array, "p d"]) -> Float[Array, " p"]:
        """The worth of points not seen yet."""
        return self.objective(points)

    def worth(self, seen: Float[Array, "p d"]) -> Float[Array, " p"]:
        """The value of the pool with each of the points in the free seat."""
        return self.objective(seen)


@dataclass(frozen=True, eq=False)
class MaxTable:
    """Seats for a max-type integrand: one shape for every pick, and a point's rows are made once."""

    field: Field
    integrand: Any
    pending: Float[np.ndarray, "w d"]
    normals: Float[np.ndarray, "m c"]  # a column for each pending point and each of the pool, and spare ones

    block: ClassVar[int] = 256
    breadth: ClassVar[int] = 8  # candidates, in units of `Ascent.candidates`
    even: ClassVar[bool] = True  # every seat has the same shape

    def seat(self, pool: Points, free: int) -> Seat:
        """The seat `free` beside the pool's other points and the pending ones; it may be one past the last."""
        given, c, low = np.concatenate([self.pending, pool]), self.normals.shape[1], baseline_slots(self.integrand)
        points = np.concatenate([given, np.full((c - low - len(given), given.shape[1]), 0.5)])
        slot = low + len(self.pending) + free
        taken = (np.arange(c) < low + len(given)) & (np.arange(c) != slot)
        if low:
            points = np.concatenate([self.integrand.places, points])
            taken[:low] = self.integrand.live
        prefix = _prefix(self.field, self.integrand, self.normals, points, taken.astype(float))
        return Seat(self.field, self.integrand, prefix, jnp.asarray(slot))

    def look(self, points: Float[np.ndarray, "p d"]) -> Rows:
        """What is the same for every seat, made once."""
        return _rows(self.field, points)


@dataclass(frozen=True, eq=False)
class GeneralTable:
    """Seats for any integrand; a pool of another size is another program, so blocks are small and picks few."""

    posterior: Posterior
    integrand: Any
    pending: Float[np.ndarray, "w d"]
    samples: int
    seed: int

    block: ClassVar[int] = 64
    breadth: ClassVar[int] = 1
    even: ClassVar[bool] = False

    def seat(self, pool: Points, free: int) -> GeneralSeat:
        """The seat `free` beside the pool's other points and the pending ones; it may be one past the last."""
        others = np.concatenate([self.pending, np.delete(pool, [free] if free < len(pool) else [], axis=0)])
        objective = general_objective(self.posterior, self.integrand, 1, others, samples=self.samples, seed=self.seed)
        return GeneralSeat(objective)

    def look(self, points: Float[np.ndarray, "p d"]) -> Float[Array, "p d"]:
        """Nothing can be known ahead."""
        return jnp.asarray(points)


Table: TypeAlias = MaxTable | GeneralTable | VolumeTable


def table(  # noqa: PLR0913
    posterior: Posterior, integrand: Any, q: int, pending: Float[np.ndarray, "w d"], *, samples: int, seed: int
) -> Table:
    """The table for an integrand: incremental where it allows that."""
    if isinstance(integrand, VolumeType):
        return VolumeTable(posterior, integrand, pending, q)
    if not isinstance(integrand, MaxType):
        return GeneralTable(posterior, integrand, pending, samples // 4, seed)
    count = samples * (2 if isinstance(integrand, ProbabilityOfImprovement) else 1)
    if has_formula(integrand):
        count //= SMOOTHER
    z = normals(count, baseline_slots(integrand) + len(pending) + q, seed=seed)
    spare = max(8, 1 << (z.shape[1] - 1).bit_length()) - z.shape[1]
    return MaxTable(_field(posterior), integrand, pending, np.pad(z, ((0, 0), (0, spare))))


FEW = 8  # up to so many points are a block of their own size


def look(seats: Table, points: Points) -> list[Any]:
    """Points as the table's seats see them, in blocks; the last one is filled up with its first point."""
    block = FEW if len(points) <= FEW else seats.block
    parts = (points[i : i + block] for i in range(0, len(points), block))
    return [seats.look(_padded(part, block)) for part in parts]


def worth(seat: Any, seen: Iterable[Any], count: int) -> Float[np.ndarray, " p"]:
    """The worth of the first `count` points seen; the lowest finite number where it is none."""
    values = np.concatenate([np.zeros(0), *(np.asarray(_worth(seat, block)) for block in seen)])[:count]
    return np.nan_to_num(values, nan=np.finfo(float).min)


def climb(seat: Any, starts: Points, moving: Float[np.ndarray, " d"], *, room: int, rounds: int) -> tuple[Points, int]:
    """Where ascent of the moving coordinates leads from each of at most `room` starts, and the evaluations made."""
    end = _climb(seat, _padded(starts, room), moving, rounds)
    return np.asarray(end.points)[: len(starts)], int(np.asarray(end.evaluations)[: len(starts)].sum())


def _padded(points: Points, count: int) -> Points:
    return np.concatenate([points, np.repeat(points[:1], count - len(points), axis=0)])


_field = quickly()(field_of)


@quickly()
def _prefix(
    field: Field, integrand: MaxType, z: Float[Array, "m c"], points: Float[Array, "c d"], taken: Float[Array, " c"]
) -> Prefix:
    """The points that are taken, each in its slot."""

    def step(carry: Prefix, offered: tuple[Array, Rows, Array]) -> tuple[Prefix, None]:
        slot, row, real = offered
        longer = extended(carry, field, jax.tree.map(lambda leaf: leaf[None], row), integrand, slot)
        return jax.tree.map(lambda new, old: jnp.where(real > 0, new, old), longer, carry), None

    return jax.lax.scan(
        step, nobody(field, z, baseline_slots(integrand)), (jnp.arange(z.shape[1]), field.rows(points), taken)
    )[0]


@quickly()
def _rows(field: Field, points: Float[Array, "p d"]) -> Rows:
    return field.rows(points)


@quickly()
def _worth(seat: Any, seen: Any) -> Float[Array, " p"]:
    return seat.worth(seen)


@quickly()
def _climb(
    seat: Any, starts: Float[Array, "r d"], moving: Float[Array, " d"], rounds: int | Int[Array, ""]
) -> lbfgsb.State:
    def climbs(x: Float[Array, "r d"]) -> tuple[Float[Array, " r"], Float[Array, "r d"]]:
        values, slopes = value_and_gradient(seat.at, x)
        return values, slopes * moving[None, :]

    return lbfgsb.ascend(climbs, starts, rounds=rounds, gtol=1e-4, ftol=1e-6, memory=5, unit=seat.unit)
