"""Search for the pool that an integrand values most; what it is worth is seen on samples that the search has not."""

from __future__ import annotations

import dataclasses
import functools
import logging
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from poolwise.acquisition.expectation import as_pytree
from poolwise.acquisition.integrand import MaxType, ProbabilityOfImprovement
from poolwise.acquisition.log_space import LogExpectedImprovement
from poolwise.belief.gaussian_process import GaussianProcess, Posterior, with_mean
from poolwise.maximizers.climb import Budget, Maximizer
from poolwise.pool.ascent import Ascent, Found, Limit, general_objective, max_objective, search
from poolwise.pool.domain import APART, Domain, Rules
from poolwise.pool.idle import idle_points, reseated
from poolwise.pool.judge import Judged, judge, judge_ahead
from poolwise.pool.picks import search_domain
from poolwise.pool.starts import evenly, marginal_pools, near_best, spread

log = logging.getLogger(__name__)

STARTS = 32  # pools that other maximizers start from, as in the paper
NOISE_FLOOR = 1e-6  # relative to the kernel's variance: with less noise the inverse is too coarse to search with


def busy(  # noqa: PLR0913
    posterior: Posterior,
    integrand: Any,
    q: int,
    pending: Float[np.ndarray, "w d"],
    *,
    maximizer: Ascent | Maximizer,
    limit: Budget = Budget(),  # noqa: B008
    **options: Any,
) -> tuple[Found, Judged | None]:
    """The pool of `propose`, and what it is worth if that is known.

    Points that add nothing are chosen again, where no limit is set. `options` are those of `searched`.
    """
    found, judged = seen(posterior, integrand, q, pending, maximizer=maximizer, limit=limit, **options)
    if not isinstance(maximizer, Ascent) or limit != Budget():
        return found, judged
    mended = with_work(posterior, integrand, found, judged, pending, maximizer=maximizer, **options)
    return mended, judged if mended is found else None


def seen(
    posterior: Posterior,
    integrand: Any,
    q: int,
    pending: Float[np.ndarray, "w d"],
    *,
    maximizer: Ascent | Maximizer,
    **options: Any,
) -> tuple[Found, Judged]:
    """The pool of `searched`, and what it is worth. `options` are those of `searched`."""
    with jax.enable_x64(True):
        worth = as_pytree(integrand)
        judge_ahead(worth, posterior, q, pending)
        found = searched(posterior, worth, q, pending, maximizer=maximizer, **options)
        return found, judge(worth, posterior, found.pool, pending)


def with_work(  # noqa: PLR0913
    posterior: Posterior,
    integrand: Any,
    found: Found,
    judged: Judged,
    pending: Float[np.ndarray, "w d"],
    *,
    maximizer: Ascent,
    **options: Any,
) -> Found:
    """The pool, or another in which points that add nothing to an improvement are chosen again by its logarithm."""
    idle = idle_points(integrand, judged)
    if not idle.any():
        return found
    with jax.enable_x64(True):
        logs = as_pytree(LogExpectedImprovement(integrand.threshold, float(posterior.process.kernel.amplitude)))
        greedily = dataclasses.replace(maximizer, polish=0)
        picks: Callable[..., Found] = functools.partial(searched, posterior, logs, maximizer=greedily, **options)
        return reseated(found, idle, pending, picks, posterior, whole=options["domain"] is None)


def searched(  # noqa: PLR0913
    posterior: Posterior,
    integrand: Any,
    q: int,
    pending: Float[np.ndarray, "w d"],
    *,
    domain: Domain | None,
    maximizer: Ascent | Maximizer,
    seed: int,
    limit: Budget = Budget(),  # noqa: B008
    began: float = 0.0,
    replicate: bool = False,
    picks: int | None = None,
) -> Found:
    """The pool of `propose`, not judged. Points differ, unless they may be replicates; the clock runs from `began`.

    Of greedy picks on the whole cube only the first `picks` may be wanted.
    """
    bound = Limit(None if limit.seconds is None else began + limit.seconds, limit.evaluations)
    with jax.enable_x64(True):
        belief, worth = _searchable(posterior), _climbable(as_pytree(integrand))
        if domain is not None and isinstance(maximizer, Ascent):
            rules = Rules(domain, seed, replicate)
            return search_domain(maximizer, belief, worth, q, pending, rules=rules, limit=bound)
        if isinstance(maximizer, Ascent):
            found = search(maximizer, belief, worth, q, pending, seed=seed, limit=bound, picks=picks)
        else:
            found = _climb(maximizer, belief, worth, q, pending, limit=limit, seed=seed)
        return _distinct(found, pending, seed, replicate)


def acquisition_starts(
    posterior: Posterior, integrand: Any, q: int, pending: Float[np.ndarray, "w d"], *, seed: int
) -> Float[np.ndarray, "r q d"]:
    """Pools sampled from the acquisition function: points in proportion to their own value, as in the paper."""
    points = np.concatenate(
        [evenly(posterior, spread(2**10, posterior.dimension, seed)), near_best(posterior, 64, seed)]
    )
    if isinstance(integrand, MaxType):
        objective: Any = max_objective(posterior, integrand, 1, pending, samples=128, seed=seed)[0]
    else:
        objective = general_objective(posterior, integrand, 1, pending, samples=32, seed=seed)
    return marginal_pools(points, np.asarray(_values(objective, jnp.asarray(points))), q, STARTS, seed)


def _searchable(posterior: Posterior) -> Posterior:
    """The posterior itself, or with a little more noise where its inverse would lose the digits a search needs."""
    process = posterior.process
    floor = NOISE_FLOOR * float(process.kernel.amplitude) ** 2
    if float(np.min(posterior.noise)) >= floor:
        return posterior
    lifted = np.maximum(posterior.noise, floor)
    higher = GaussianProcess(process.kernel, lifted, process.mean).condition(posterior.X, posterior.y)
    return higher if posterior.doubt is None else with_mean(higher, process.mean, posterior.doubt.factor)


def _climbable(integrand: Any) -> Any:
    """The integrand itself; a step, which has no slope, is searched in its soft form and judged as it is."""
    if isinstance(integrand, ProbabilityOfImprovement) and integrand.temperature is None:
        return ProbabilityOfImprovement(integrand.threshold, spread=integrand.spread)
    return integrand


def _climb(  # noqa: PLR0913
    maximizer: Maximizer,
    posterior: Posterior,
    integrand: Any,
    q: int,
    pending: Float[np.ndarray, "w d"],
    *,
    limit: Budget,
    seed: int,
) -> Found:
    """Search with a maximizer that knows nothing but a function on the cube."""
    starts = acquisition_starts(posterior, integrand, q, pending, seed=seed)
    if isinstance(integrand, MaxType):
        objective: Any = max_objective(posterior, integrand, q, pending, samples=1024, seed=seed)[0]
    else:
        objective = general_objective(posterior, integrand, q, pending, samples=256, seed=seed)
    climb = maximizer(objective, starts.reshape(len(starts), -1), limit, seed=seed)
    return Found(climb.best.reshape(q, -1), climb.evaluations)


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
