"""Greedy selection: one point after another, each the best addition to those before it [W18].

For a max-type integrand the step is incremental: the samples of the points before stay as they are, and a candidate
needs only its own row of the Cholesky factor. Such a value is monotone and submodular in the points; where it starts
from zero, as improvements do, the greedy pool is worth at least 1 - 1/e of the best, in practice nearly all of it.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from poolwise.acquisition.integrand import MaxType, has_formula, unit_of
from poolwise.maximizers.climb import value_and_gradient
from poolwise.maximizers.lbfgsb import ascend
from poolwise.pool.field import Field
from poolwise.pool.prefix import Prefix, extended, first_samples, with_one
from poolwise.slices import slice_of, with_slice

SCREENING = 128  # base samples, the first of all, that candidates are scored on
SMOOTH = 32  # that are enough, for candidates and climbs, where a candidate's own outcome is not sampled

Pick = tuple[Float[Array, " d"], Float[Array, " c"], Int[Array, ""]]


@functools.partial(jax.jit, static_argnames=("starts",))
def greedy(  # noqa: PLR0913
    field: Field,
    integrand: MaxType,
    prefix: Prefix,
    candidates: Float[Array, "q c d"],
    *,
    rounds: int | Int[Array, ""],
    picks: int | Int[Array, ""],
    starts: int,
) -> tuple[Float[Array, "q d"], Float[Array, " c"], Int[Array, ""]]:
    """A pool of as many points as there are sets of candidates, the first set's values, and the evaluations made.

    The last slots of the prefix are free for them; the ones before hold pending points. Only the first `picks` points
    are chosen, the others are left at zero.
    """
    q, c, d = candidates.shape
    free = prefix.taken.shape[0] - q

    def step(i: int | Int[Array, ""], now: tuple[Prefix, Array, Array, Array]) -> tuple[Prefix, Array, Array, Array]:
        prefix, pool, first, spent = now
        offered = slice_of(candidates, i)
        point, values, evaluations = _pick(field, integrand, prefix, free + i, offered, rounds=rounds, starts=starts)
        longer = extended(prefix, field, field.rows(point[None]), integrand, free + i)
        return longer, with_slice(pool, point, i), jnp.where(i == 0, values, first), spent + evaluations

    begun = prefix, jnp.zeros((q, d)), jnp.zeros(c), jnp.zeros((), int)
    _, pool, first, spent = jax.lax.fori_loop(0, picks, step, begun)
    return pool, first, spent


def _pick(  # noqa: PLR0913
    field: Field,
    integrand: MaxType,
    prefix: Prefix,
    slot: int | Int[Array, ""],
    candidates: Float[Array, "c d"],
    *,
    rounds: int | Int[Array, ""],
    starts: int,
) -> Pick:
    """The best point to add: the candidates are scored, and the best of them climb for some rounds."""
    smooth = has_formula(integrand)
    few = first_samples(prefix, SMOOTH if smooth else SCREENING)
    climbed = few if smooth else prefix

    def worth(x: Float[Array, "p d"], prefix: Prefix = climbed) -> Float[Array, " p"]:
        return with_one(prefix, field, field.rows(x), integrand, slice_of(prefix.normals, slot, axis=1))

    values = worth(candidates, few)
    _, order = jax.lax.top_k(jnp.where(jnp.isnan(values), -jnp.inf, values), starts)
    end = ascend(
        functools.partial(value_and_gradient, worth),
        candidates[order],
        rounds=rounds,
        unit=unit_of(integrand, jnp.sqrt(field.variance)),
        gtol=1e-4,
        ftol=1e-6,
        memory=5,
    )
    return slice_of(end.points, jnp.argmax(end.values)), values, candidates.shape[0] + jnp.sum(end.evaluations)


def with_points(
    field: Field, integrand: MaxType, prefix: Prefix, points: Float[Array, "w d"], taken: Float[Array, " w"]
) -> Prefix:
    """The prefix with given points, such as pending ones, in its first slots; those not taken stay free."""

    def step(carry: Prefix, offered: tuple[Array, Array, Array]) -> tuple[Prefix, None]:
        slot, point, real = offered
        longer = extended(carry, field, field.rows(point[None]), integrand, slot)
        return jax.tree.map(lambda new, old: jnp.where(real > 0, new, old), longer, carry), None

    count = points.shape[0]
    return jax.lax.scan(step, prefix, (jnp.arange(count), points, taken))[0] if count else prefix
