"""Search for the pool that an integrand values most; what it is worth is seen on samples that the search has not."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from poolwise.acquisition.expectation import as_pytree
from poolwise.acquisition.integrand import MaxType, ProbabilityOfImprovement, unit_of
from poolwise.acquisition.log_space import LogExpectedImprovement
from poolwise.belief.gaussian_process import GaussianProcess, Posterior, with_mean
from poolwise.maximizers.climb import Budget, Maximizer
from poolwise.pool.apart import Worth, distinct
from poolwise.pool.ascent import general_objective, max_objective, search
from poolwise.pool.domain import Domain, Rules
from poolwise.pool.effort import Ascent, Found, Limit
from poolwise.pool.idle import idle_points, reseated
from poolwise.pool.judge import Judged, judge, judge_ahead
from poolwise.pool.picks import search_domain
from poolwise.pool.starts import evenly, marginal_pools, near_best, spread
from poolwise.pytree import pytree

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
        return found if replicate else distinct(found, pending, seed, beside(posterior, as_pytree(integrand), pending))


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
    climb = maximizer(InUnits(objective), starts.reshape(len(starts), -1), limit, seed=seed)
    return Found(climb.best.reshape(q, -1), climb.evaluations)


def beside(posterior: Posterior, integrand: Any, pending: Float[np.ndarray, "w d"]) -> Worth | None:
    """What tells whether a point is worth more next to another; to a maximum one in the same place adds nothing."""
    if isinstance(integrand, MaxType):
        return None
    lengths = np.broadcast_to(np.asarray(posterior.process.kernel.lengthscale), (posterior.dimension,))
    unit = float(unit_of(integrand, jnp.asarray(posterior.process.kernel.amplitude)))
    return Worth(lambda pool: float(judge(integrand, posterior, pool, pending).estimate.value) / unit, lengths)


@pytree
class InUnits:
    """An objective in the unit that its values count in, so that a maximizer's tolerances and steps fit."""

    objective: Any

    def __call__(self, flat: Float[Array, "r p"]) -> Float[Array, " r"]:
        return self.objective(flat) / self.objective.unit

    def __getattr__(self, name: str) -> Any:
        """What else the objective has, for a maximizer that knows more of it than its values."""
        if name == "objective":
            raise AttributeError(name)
        return getattr(self.objective, name)

    def redraw(self, key: Array, samples: int) -> InUnits:
        """The same with fresh independent base samples."""
        return InUnits(self.objective.redraw(key, samples))


@jax.jit
def _values(objective: Any, flat: Float[Array, "r p"]) -> Float[Array, " r"]:
    return objective(flat)
