"""Greedy picks into slots: a pool in arrays of fixed size, so that all of its picks are one compiled program."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from poolwise.maximizers.climb import value_and_gradient
from poolwise.maximizers.lbfgsb import ascend
from poolwise.pytree import pytree
from poolwise.slices import slice_of, with_slice


@pytree
class Slots:
    """Points of a pool, in an array of fixed size; those that are not taken yet stand for nothing."""

    points: Float[Array, "c d"]
    taken: Bool[Array, " c"]


Worth = Callable[[Float[Array, "p d"]], Float[Array, " p"]]


def greedy_slots(  # noqa: PLR0913
    worth_beside: Callable[[Slots, Int[Array, ""]], Worth],
    pending: Slots,
    candidates: Float[Array, "q c d"],
    rounds: int | Int[Array, ""],
    *,
    starts: int,
    unit: float | Float[Array, ""],
) -> tuple[Float[Array, "q d"], Float[Array, " c"], Int[Array, ""]]:
    """A pool of as many points as there are sets of candidates, the first set's values, and the evaluations made.

    `worth_beside` gives what each of some points is worth in a slot beside the points that are taken. The candidates
    are scored, and the best of them climb for some rounds; their worth counts in a `unit`.
    """
    q, c, d = candidates.shape
    slots = Slots(
        jnp.concatenate([pending.points, jnp.full((q, d), 0.5)]), jnp.concatenate([pending.taken, jnp.zeros(q, bool)])
    )

    def step(carry: Slots, offered: tuple[Array, Array]) -> tuple[Slots, Any]:
        slot, points = offered
        worth = worth_beside(carry, slot)
        climbs = functools.partial(value_and_gradient, worth)
        values = worth(points)
        _, order = jax.lax.top_k(jnp.where(jnp.isnan(values), -jnp.inf, values), starts)
        end = ascend(climbs, points[order], rounds=rounds, gtol=1e-4, ftol=1e-6, memory=5, unit=unit)
        best = slice_of(end.points, jnp.argmax(end.values))
        picked = Slots(with_slice(carry.points, best, slot), with_slice(carry.taken, jnp.array(True), slot))
        return picked, (best, values, c + jnp.sum(end.evaluations))

    order = pending.taken.shape[0] + jnp.arange(q)
    _, (pool, values, evaluations) = jax.lax.scan(step, slots, (order, candidates))
    return pool, values[0], jnp.sum(evaluations)
