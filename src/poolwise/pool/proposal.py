"""`propose`: from a belief and an integrand to a pool, with what it is worth and what each point contributes."""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from poolwise import checks
from poolwise.acquisition.base_samples import normals
from poolwise.acquisition.expectation import Base, Estimate, as_pytree, check_integrand, estimate, look_ahead
from poolwise.acquisition.integrand import (
    ExpectedImprovement,
    MaxType,
    ProbabilityOfImprovement,
    UpperConfidenceBound,
)
from poolwise.belief.factor import cholesky
from poolwise.belief.gaussian_process import GaussianProcess, Posterior
from poolwise.belief.normal import outcomes
from poolwise.belief.padding import masked
from poolwise.checks import Numbers
from poolwise.errors import InputError
from poolwise.maximizers.climb import Budget, Maximizer
from poolwise.pool.ascent import Ascent, Found, Limit, general_objective, max_objective, search
from poolwise.pool.starts import marginal_pools, near_best, spread, with_room
from poolwise.precision import to_numpy

log = logging.getLogger(__name__)

FRESH = 2**10  # base samples, not those of the search, that judge the pool
FRESH_SEED = 2**31 - 1  # no seed of a search: always the same judge, so that proposals can be compared
STARTS = 32  # pools that other maximizers start from, as in the paper
NOISE_FLOOR = 1e-6  # relative to the kernel's variance: with less noise the inverse is too coarse to search with
APART = 1e-6  # points closer than this, in every coordinate, are the same point


@dataclass(frozen=True, eq=False)
class Proposal:
    """A pool, and why.

    `value` and `error` are the acquisition value and its standard error on fresh base samples, which the search has not
    seen; `contributions` what is lost by leaving out each point; `evaluations` how many points or pools the search
    scored, in `seconds`.
    """

    pool: Float[np.ndarray, "q d"]
    value: float
    error: float
    contributions: Float[np.ndarray, " q"]
    evaluations: int
    seconds: float
    _random: Any = field(repr=False, default=None)

    @functools.cached_property
    def random_value(self) -> float:
        """The best value among 256 random pools, on the same fresh samples; computed when first asked for."""
        return float(self._random())

    @property
    def beats_random(self) -> bool:
        """Whether the pool is worth more than the best of 256 random pools."""
        return self.value > self.random_value


def propose(  # noqa: PLR0913
    posterior: Posterior,
    integrand: Any,
    q: int,
    *,
    pending: Numbers | None = None,
    maximizer: Ascent | Maximizer = Ascent(),  # noqa: B008
    budget: Budget | None = None,
    deadline: float | None = None,
    seed: int = 0,
    replicate: bool = False,
) -> Proposal:
    """Choose q points of the unit cube whose joint outcome is worth most.

    `pending` points are being evaluated already; they count in the integral and stay where they are. `maximizer` is how
    the value is climbed: `Ascent()`, greedy and then joint, or any other maximizer on the whole pool at once. `budget`
    limits evaluations or seconds (greedy picks are always made); `deadline` is a limit in seconds, after which the best
    pool so far is returned.
    Points differ from each other and from pending ones, unless `replicate` is set. The same arguments give the same
    pool, unless a clock ends the search.

    >>> from poolwise import ExpectedImprovement, GaussianProcess, Matern52
    >>> posterior = GaussianProcess(Matern52(0.3), noise=1e-4).condition([[0.2], [0.6]], [0.0, 1.0])
    >>> propose(posterior, ExpectedImprovement(1.0), q=2).pool.shape
    (2, 1)
    """
    began = time.perf_counter()
    checks.kind(
        "posterior", posterior, Posterior, "give what fit(X, y) or GaussianProcess(...).condition(X, y) returns."
    )
    checks.count("q", q)
    checks.count("seed", seed, least=0)
    check_integrand(integrand)
    if isinstance(maximizer, type) or not (isinstance(maximizer, Ascent) or callable(maximizer)):
        raise InputError(f"maximizer: expected an instance such as Ascent() or Lbfgsb(), got {maximizer!r}.")
    limit = _limit(budget, deadline)
    with jax.enable_x64(True):
        waiting = _pending(posterior, pending)
        worth = as_pytree(integrand)
        belief = _searchable(posterior)
        find = functools.partial(_find, maximizer, belief, limit=limit, began=began, seed=seed)
        found = _distinct(find(_climbable(worth), q, waiting), waiting, seed, replicate)
        judged, contributions = _judge(worth, posterior, found.pool, waiting)
        if isinstance(worth, MaxType) and limit.seconds is None and not judged.value > _nothing(worth):
            log.warning("propose: no base sample improves anywhere; the pool was chosen by upper confidence bound")
            found = _distinct(find(UpperConfidenceBound(), q, waiting), waiting, seed, replicate)
            judged, contributions = _judge(worth, posterior, found.pool, waiting)
    return Proposal(
        found.pool,
        float(judged.value),
        float(judged.error),
        contributions,
        found.evaluations,
        time.perf_counter() - began,
        functools.partial(_best_random, worth, posterior, q, waiting, seed),
    )


def _limit(budget: Budget | None, deadline: float | None) -> Budget:
    given = budget or Budget()
    if deadline is None:
        return given
    if not deadline > 0:
        raise InputError(f"deadline: must be above zero seconds, got {deadline!r}; leave it out for no limit.")
    return Budget(given.evaluations, deadline if given.seconds is None else min(deadline, given.seconds))


def _pending(posterior: Posterior, pending: Numbers | None) -> Float[np.ndarray, "w d"]:
    if pending is None or np.size(pending) == 0:
        return np.zeros((0, posterior.dimension))
    return np.asarray(checks.matrix("pending", pending, columns=posterior.dimension))


def _searchable(posterior: Posterior) -> Posterior:
    """The posterior itself, or with a little more noise where its inverse would lose the digits a search needs."""
    process = posterior.process
    floor = NOISE_FLOOR * float(process.kernel.amplitude) ** 2
    if float(np.min(posterior.noise)) >= floor:
        return posterior
    lifted = np.maximum(posterior.noise, floor)
    return GaussianProcess(process.kernel, lifted, process.mean).condition(posterior.X, posterior.y)


def _climbable(integrand: Any) -> Any:
    """The integrand itself; a step, which has no slope, is searched in its soft form and judged as it is."""
    if isinstance(integrand, ProbabilityOfImprovement) and integrand.temperature is None:
        return ProbabilityOfImprovement(integrand.threshold, spread=integrand.spread)
    return integrand


def _find(  # noqa: PLR0913
    maximizer: Ascent | Maximizer,
    posterior: Posterior,
    integrand: Any,
    q: int,
    pending: Float[np.ndarray, "w d"],
    *,
    limit: Budget,
    began: float,
    seed: int,
) -> Found:
    """Search with the default, or with a maximizer that knows nothing but a function on the cube."""
    if isinstance(maximizer, Ascent):
        until = None if limit.seconds is None else began + limit.seconds
        return search(maximizer, posterior, integrand, q, pending, seed=seed, limit=Limit(until, limit.evaluations))
    starts = acquisition_starts(posterior, integrand, q, pending, seed=seed)
    if isinstance(integrand, MaxType):
        objective: Any = max_objective(posterior, integrand, q, pending, samples=1024, seed=seed)[0]
    else:
        objective = general_objective(posterior, integrand, q, pending, samples=256, seed=seed)
    climb = maximizer(objective, starts.reshape(len(starts), -1), limit, seed=seed)
    return Found(climb.best.reshape(q, -1), climb.evaluations)


def acquisition_starts(
    posterior: Posterior, integrand: Any, q: int, pending: Float[np.ndarray, "w d"], *, seed: int
) -> Float[np.ndarray, "r q d"]:
    """Pools sampled from the acquisition function: points in proportion to their own value, as in the paper."""
    points = np.concatenate([spread(2**10, posterior.dimension, seed), near_best(posterior, 64, seed)])
    if isinstance(integrand, MaxType):
        objective: Any = max_objective(posterior, integrand, 1, pending, samples=128, seed=seed)[0]
    else:
        objective = general_objective(posterior, integrand, 1, pending, samples=32, seed=seed)
    return marginal_pools(points, np.asarray(_values(objective, jnp.asarray(points))), q, STARTS, seed)


@jax.jit
def _values(objective: Any, flat: Float[Array, "r p"]) -> Float[Array, " r"]:
    return objective(flat)


def _distinct(found: Found, pending: Float[np.ndarray, "w d"], seed: int, replicate: bool) -> Found:
    """The pool, with any point that is not finite or stands on another replaced by one that fills the space."""
    if replicate:
        return found
    pool = np.array(found.pool)
    spare: Iterator[Any] = iter(())
    for i in range(len(pool)):
        others = np.concatenate([pending, pool[:i]])
        while not np.isfinite(pool[i]).all() or (np.abs(others - pool[i]).max(axis=1, initial=0.0) < APART).any():
            log.info("propose: point %d stood on another or was not finite; replaced by one that fills the space", i)
            if (fresh := next(spare, None)) is None:
                spare = iter(spread(4 * len(pool) + len(pending), pool.shape[1], seed + 1))
                fresh = next(spare)
            pool[i] = fresh
    return Found(pool, found.evaluations)


def _nothing(integrand: MaxType) -> Any:
    """What an empty pool is worth: 0 for improvements, minus infinity for values."""
    return {ExpectedImprovement: 0.0, ProbabilityOfImprovement: 0.0}.get(type(integrand), -np.inf)


def _judge(
    integrand: Any, posterior: Posterior, pool: Float[np.ndarray, "q d"], pending: Float[np.ndarray, "w d"]
) -> tuple[Estimate, Float[np.ndarray, " q"]]:
    """The value of a pool on fresh samples, and what each of its points contributes."""
    z = normals(FRESH, len(pending) + len(pool), seed=FRESH_SEED)
    if not isinstance(integrand, MaxType):
        return to_numpy(_judge_general(integrand, posterior, np.concatenate([pending, pool]), z, len(pool)))
    room = with_room(pending, z)
    points, live = np.concatenate([room.points, pool]), np.append(room.taken, np.ones(len(pool))) > 0
    return to_numpy(_judge_max(integrand, posterior, points, live, room.normals, len(pool)))


@functools.partial(jax.jit, static_argnames=("q",))
def _judge_max(  # noqa: PLR0913
    integrand: MaxType,
    posterior: Posterior,
    points: Float[Array, "p d"],
    live: Bool[Array, " p"],
    z: Float[Array, "m p"],
    q: int,
) -> tuple[Estimate, Float[Array, " q"]]:
    """A point contributes where a sample's best score is its own, as much as the second best is worth less."""
    normal = posterior(points)
    mean, factor = jnp.asarray(normal.mean), cholesky(masked(jnp.asarray(normal.covariance), live))
    each = jnp.where(live[None, :], integrand.score(outcomes(mean, factor, z), mean[None, :]), -jnp.inf)
    top, order = jax.lax.top_k(jnp.concatenate([each, jnp.full((z.shape[0], 1), -jnp.inf)], axis=1), 2)
    values = integrand.value(top[:, 0])
    whole = Estimate(jnp.mean(values), jnp.std(values) / jnp.sqrt(z.shape[0]))
    lost = jnp.where(jnp.isfinite(top[:, 1]), values - integrand.value(top[:, 1]), values)
    mine = order[:, :1] == jnp.arange(points.shape[0] - q, points.shape[0])[None, :]
    return whole, jnp.mean(jnp.where(mine, lost[:, None], 0.0), axis=0)


@functools.partial(jax.jit, static_argnames=("q",))
def _judge_general(
    integrand: Any, posterior: Posterior, points: Float[Array, "p d"], z: Float[Array, "m p"], q: int
) -> tuple[Estimate, Float[Array, " q"]]:
    """The value on fresh samples, and its difference to the value of the pool without each point."""
    p = points.shape[0]
    whole = estimate(*look_ahead(integrand, posterior, points), Base(z))
    if p == 1:
        return whole, whole.value[None]
    rest = jnp.array([[j for j in range(p) if j != i] for i in range(p - q, p)])

    def without(index: Array) -> Float[Array, ""]:
        return estimate(*look_ahead(integrand, posterior, points[index]), Base(z[:, : p - 1])).value

    return whole, whole.value - jax.lax.map(without, rest)


def _best_random(integrand: Any, posterior: Posterior, q: int, pending: Float[np.ndarray, "w d"], seed: int) -> float:
    with jax.enable_x64(True):
        pools = np.random.default_rng([seed, 5]).random((256, q * posterior.dimension))
        judge = general_objective(posterior, integrand, q, pending, samples=FRESH, seed=FRESH_SEED)
        return float(jnp.max(jax.lax.map(judge, jnp.asarray(pools).reshape(8, 32, -1))))
