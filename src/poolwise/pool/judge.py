"""What a pool is worth on base samples that its search has not seen, and what each of its points contributes."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from poolwise.acquisition.base_samples import normals
from poolwise.acquisition.expectation import Base, Estimate, estimate, look_ahead, summary
from poolwise.acquisition.integrand import MaxType, baseline_slots
from poolwise.belief.factor import cholesky
from poolwise.belief.gaussian_process import Posterior
from poolwise.belief.normal import outcomes
from poolwise.belief.padding import masked
from poolwise.pool.ascent import general_objective
from poolwise.pool.domain import Domain, random_pools
from poolwise.pool.starts import with_room
from poolwise.precision import AnyArray, to_numpy
from poolwise.programs import Program, quickly

FRESH = 2**10  # base samples, not those of the search, that judge the pool
FRESH_SEED = 2**31 - 1  # no seed of a search: always the same judge, so that proposals can be compared


class Judged(NamedTuple):
    """The value of a pool, what is lost by leaving out each point, and what each adds to the points before it.

    The last is the same as the second where the integrand is no maximum.
    """

    estimate: Estimate
    contributions: Float[AnyArray, " q"]
    gains: Float[AnyArray, " q"]


def judge(
    integrand: Any, posterior: Posterior, pool: Float[np.ndarray, "q d"], pending: Float[np.ndarray, "w d"]
) -> Judged:
    """The value of a pool on fresh samples, and what each of its points contributes."""
    program, given = _judgement(integrand, posterior, pool, pending)
    judged: Judged = to_numpy(program(*given, q=len(pool)))
    return judged


def judge_ahead(integrand: Any, posterior: Posterior, q: int, pending: Float[np.ndarray, "w d"]) -> None:
    """Make the judge's program while the pool is searched, where it is made for the first time."""
    program, given = _judgement(integrand, posterior, np.zeros((q, posterior.dimension)), pending)
    program.ahead(*given, q=q)


def _judgement(
    integrand: Any, posterior: Posterior, pool: Float[np.ndarray, "q d"], pending: Float[np.ndarray, "w d"]
) -> tuple[Program, tuple[Any, ...]]:
    """The judge's program and its arguments."""
    z = normals(FRESH, len(pending) + len(pool) + baseline_slots(integrand), seed=FRESH_SEED)
    if not isinstance(integrand, MaxType):
        return _judge_general, (integrand, posterior, np.concatenate([pending, pool]), z)
    room = with_room(pending, z, integrand)
    points, live = np.concatenate([room.points, pool]), np.append(room.taken, np.ones(len(pool))) > 0
    return _judge_max, (integrand, posterior, points, live, room.normals)


@quickly("q")
def _judge_max(  # noqa: PLR0913
    integrand: MaxType,
    posterior: Posterior,
    points: Float[Array, "p d"],
    live: Bool[Array, " p"],
    z: Float[Array, "m p"],
    q: int,
) -> Judged:
    """A point contributes where a sample's best score is its own, as much as the second best is worth less."""
    normal = posterior(points)
    mean, factor = jnp.asarray(normal.mean), cholesky(masked(jnp.asarray(normal.covariance), live))
    y, scored = outcomes(mean, factor, z), live
    if low := baseline_slots(integrand):
        y = y - jnp.max(jnp.where(live[None, :low], y[:, :low], -jnp.inf), axis=1, keepdims=True)
        scored = live & (jnp.arange(live.shape[0]) >= low)
    each = jnp.where(scored[None, :], integrand.score(y, mean[None, :]), -jnp.inf)
    top, order = jax.lax.top_k(jnp.concatenate([each, jnp.full((z.shape[0], 1), -jnp.inf)], axis=1), 2)
    whole = summary(integrand, integrand.value(integrand.pooled(each.T[None])[0]))
    exact = jnp.exp if integrand.logarithmic else jnp.asarray  # what is lost is counted in what the logarithm is of
    values, others = exact(integrand.value(top[:, 0])), exact(integrand.value(top[:, 1]))
    lost = jnp.where(jnp.isfinite(top[:, 1]), values - others, values)
    mine = order[:, :1] == jnp.arange(points.shape[0] - q, points.shape[0])[None, :]
    nobody = jnp.full((z.shape[0], 1), -jnp.inf)
    leading = jax.lax.cummax(jnp.concatenate([nobody, each], axis=1), axis=1)[:, -q - 1 :]
    gains = jnp.diff(jnp.mean(exact(integrand.value(leading)), axis=0))
    return Judged(whole, jnp.mean(jnp.where(mine, lost[:, None], 0.0), axis=0), gains)


@quickly("q")
def _judge_general(
    integrand: Any, posterior: Posterior, points: Float[Array, "p d"], z: Float[Array, "m p"], q: int
) -> Judged:
    """The value on fresh samples, and its difference to the value of the pool without each point."""
    p = points.shape[0]
    whole = estimate(*look_ahead(integrand, posterior, points), Base(z))
    if p == 1:
        return Judged(whole, whole.value[None], whole.value[None])
    rest = jnp.array([[j for j in range(p) if j != i] for i in range(p - q, p)])

    def without(index: Array) -> Float[Array, ""]:
        return estimate(*look_ahead(integrand, posterior, points[index]), Base(z[:, : p - 1])).value

    lost = whole.value - jax.lax.map(without, rest)
    return Judged(whole, lost, lost)


def best_random(  # noqa: PLR0913
    integrand: Any,
    posterior: Posterior,
    q: int,
    pending: Float[np.ndarray, "w d"],
    seed: int,
    domain: Domain | None,
) -> float:
    """The best value among 256 random pools."""
    rng = np.random.default_rng([seed, 5])
    with jax.enable_x64(True):
        pools = rng.random((256, q * posterior.dimension)) if domain is None else random_pools(domain, q, seed)
        fresh = general_objective(posterior, integrand, q, pending, samples=FRESH, seed=FRESH_SEED)
        return float(jnp.max(jax.lax.map(fresh, jnp.asarray(pools).reshape(8, 32, -1))))
