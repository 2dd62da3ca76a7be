"""`propose`: from a belief and an integrand to a pool, with what it is worth and what each point contributes."""

from __future__ import annotations

import functools
import logging
import time
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from poolwise import checks
from poolwise.acquisition.expectation import as_pytree, check_integrand
from poolwise.acquisition.integrand import MaxType, SimpleRegret
from poolwise.belief.gaussian_process import Posterior
from poolwise.checks import Numbers
from poolwise.errors import InputError
from poolwise.maximizers.climb import Budget, Maximizer
from poolwise.pool.domain import Domain, ground_of
from poolwise.pool.effort import Ascent
from poolwise.pool.idle import IMPROVEMENTS
from poolwise.pool.judge import best_random, judge, judge_ahead
from poolwise.pool.searching import busy

log = logging.getLogger(__name__)


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
    q, waiting, seed = asked(posterior, q, pending, seed)
    check_integrand(integrand)
    if isinstance(maximizer, type) or not (isinstance(maximizer, Ascent) or callable(maximizer)):
        raise InputError(f"maximizer: expected an instance such as Ascent() or Lbfgsb(), got {maximizer!r}.")
    limit, ground = _limit(budget, deadline), ground_of(domain, posterior.dimension, maximizer)
    with jax.enable_x64(True):
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
    given = Budget() if budget is None else budget
    checks.kind("budget", given, Budget, "for instance Budget(evaluations=1000).")
    if deadline is None:
        return given
    deadline = checks.duration("deadline", deadline)
    return Budget(given.evaluations, deadline if given.seconds is None else min(deadline, given.seconds))


def asked(
    posterior: Posterior, q: int, pending: Numbers | None, seed: int
) -> tuple[int, Float[np.ndarray, "w d"], int]:
    """How many points are asked for, beside which pending ones, and the seed, once all are checked."""
    checks.kind("posterior", posterior, Posterior, "give what fit(X, y) or GaussianProcess(...).condition returns.")
    waiting = np.zeros((0, posterior.dimension))
    if pending is not None and np.size(pending):
        with jax.enable_x64(True):
            waiting = np.asarray(checks.matrix("pending", pending, columns=posterior.dimension))
    return checks.count("q", q), waiting, checks.count("seed", seed, least=0)
