"""`propose`: from a belief and an integrand to a pool, with what it is worth and what each point contributes."""

from __future__ import annotations

import dataclasses
import functools
import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from poolwise import checks
from poolwise.acquisition.expectation import as_pytree, check_integrand
from poolwise.acquisition.integrand import MaxType, ProbabilityOfImprovement, SimpleRegret
from poolwise.acquisition.log_space import LogExpectedImprovement
from poolwise.belief.gaussian_process import GaussianProcess, Posterior, with_mean
from poolwise.checks import Numbers
from poolwise.errors import InputError
from poolwise.maximizers.climb import Budget, Maximizer
from poolwise.pool.ascent import Ascent, Found, Limit, general_objective, max_objective, search
from poolwise.pool.domain import APART, Domain, Rules, ground_of
from poolwise.pool.idle import IMPROVEMENTS, idle_points, reseated
from poolwise.pool.judge import Judged, best_random, judge, judge_ahead
from poolwise.pool.picks import search_domain
from poolwise.pool.starts import evenly, marginal_pools, near_best, spread

log = logging.getLogger(__name__)

STARTS = 32  # pools that other maximizers start from, as in the paper
NOISE_FLOOR = 1e-6  # relative to the kernel's variance: with less noise the inverse is too coarse to search with


@dataclass(frozen=True, eq=False)
class Proposal:
    """A pool, and why.

    `value` and `error` are the acquisition value and its standard error on fresh base samples, which the search has not
    seen; `contributions` what is lost by leaving out each point, never in logarithms; `evaluations` how many points or
    pools the search scored, in `seconds`.
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
    domain: Domain | None = None,
    maximizer: Ascent | Maximizer = Ascent(),  # noqa: B008
    budget: Budget | None = None,
    deadline: float | None = None,
    seed: int = 0,
    replicate: bool = False,
) -> Proposal:
    """Choose q points of the unit cube whose joint outcome is worth most.

    `pending` points are being evaluated already; they count in the integral and stay where they are. `domain` says
    which points of the cube can be run, where whole numbers, choices or constraints leave some out: only those are
    scored, and having fewer than q of them left is an `InputError`. `maximizer` is how the value is climbed:
    `Ascent()`, greedy and then joint, or any other maximizer on the whole pool at once. `budget` limits evaluations or
    seconds (greedy picks are always made); `deadline` is a limit in seconds, after which the best pool so far is
    returned; the first call of its kind also compiles, which no deadline ends.
    Points differ from each other and from pending ones, unless `replicate` is set. Of an improvement, points that add
    nothing to the others are chosen again by its logarithm, if `Ascent` searches without a limit. The same arguments
    give the same pool, unless a clock ends the search.

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
    limit, ground = _limit(budget, deadline), ground_of(domain, posterior.dimension, maximizer)
    with jax.enable_x64(True):
        waiting = _pending(posterior, pending)
        worth = as_pytree(integrand)
        _check_scalar(worth, len(waiting) + q)

        options: dict[str, Any] = {"domain": ground, "maximizer": maximizer, "seed": seed, "replicate": replicate}
        found, seen = busy(posterior, worth, q, waiting, limit=limit, began=began, **options)
        judged = judge(worth, posterior, found.pool, waiting) if seen is None else seen
        value = float(judged.estimate.value)
        if value == 0.0 and isinstance(worth, IMPROVEMENTS):
            log.warning("propose: no base sample improves anywhere; LogExpectedImprovement has a slope there")
        if not np.isfinite(value):
            log.warning("propose: the integrand's value at the pool is %s; its search had nothing to climb", value)
    return Proposal(
        found.pool,
        value,
        float(judged.estimate.error),
        np.asarray(judged.contributions),
        found.evaluations,
        time.perf_counter() - began,
        functools.partial(best_random, worth, posterior, q, waiting, seed, ground),
    )


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
    search: Callable[..., Found] = functools.partial(searched, posterior, **options)
    with jax.enable_x64(True):
        worth = as_pytree(integrand)
        judge_ahead(worth, posterior, q, pending)
        found = search(worth, q, pending, maximizer=maximizer, limit=limit)
        judged = judge(worth, posterior, found.pool, pending)
        idle = idle_points(worth, judged)
        if idle.any() and isinstance(maximizer, Ascent) and limit == Budget():
            logs = LogExpectedImprovement(worth.threshold, float(posterior.process.kernel.amplitude))
            picks = functools.partial(search, logs, maximizer=dataclasses.replace(maximizer, polish=0))
            return reseated(found, idle, pending, picks, posterior, whole=options["domain"] is None), None
        return found, judged


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


def chosen_otherwise(  # noqa: PLR0913
    posterior: Posterior,
    pool: Float[np.ndarray, "q d"],
    pending: Float[np.ndarray, "w d"],
    *,
    domain: Domain | None,
    evaluations: int,
    began: float,
    seed: int,
) -> Proposal:
    """The proposal of a pool that climbs no single integrand: what it is worth is its expected best outcome."""
    best = SimpleRegret()
    with jax.enable_x64(True):
        judged = judge(best, posterior, pool, pending)
    random = functools.partial(best_random, best, posterior, len(pool), pending, seed, domain)
    value, error, contributions = *(float(x) for x in judged.estimate), np.asarray(judged.contributions)
    return Proposal(pool, value, error, contributions, evaluations, time.perf_counter() - began, random)


def otherwise_ahead(posterior: Posterior, q: int, pending: Float[np.ndarray, "w d"]) -> None:
    """Make the judge's program of `chosen_otherwise` while the pool is searched, if it is not there yet."""
    with jax.enable_x64(True):
        judge_ahead(SimpleRegret(), posterior, q, pending)


def _check_scalar(integrand: Any, q: int) -> None:
    """An integrand of the user's own gives one number for a joint outcome; else say so before anything is compiled."""
    if isinstance(integrand, MaxType) or hasattr(integrand, "after"):
        return
    outcome = jax.ShapeDtypeStruct((q,), np.float64)  # type: ignore[no-untyped-call]
    try:
        result: Any = jax.eval_shape(integrand, outcome, outcome)
    except Exception as error:
        raise InputError(
            f"integrand: calling it with (y, mean), each of length {q}, raised {type(error).__name__}: {error}"
        ) from error
    if getattr(result, "shape", None) != ():
        given = "nothing" if result is None else f"shape {getattr(result, 'shape', type(result).__name__)}"
        raise InputError(f"integrand: a pool is chosen by one number, but it returns {given}; return a scalar.")


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
