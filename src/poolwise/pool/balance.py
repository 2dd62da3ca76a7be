"""Balanced pools: they explore or climb, as the belief says how many hills there are.

Where lengthscales are so short that the cube can hold many hills, points look for new ones, by expected improvement:
how much better they may be. Where hyperparameters are known, and were not learned, they do so by upper confidence
bound; half of them later on, and the others, which count the first as pending, go by the knowledge gradient: what a
right belief recommends is right.

So they do where much of what was learned is noise: a rough function has no hill that one could climb.

Where lengthscales are longer the pool climbs the hill that is known: by its expected best outcome while one point alone
is likelier than not to be better than the best expected outcome so far, and then by the probability that any is. Points
that add nothing to an improvement are chosen by the logarithm of expected improvement.

Learned lengthscales must be shorter than known ones to say so: observations that crowd around a top, or outcomes that
are warped, make them short where there is one hill.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from jaxtyping import Float

from poolwise.acquisition.integrand import (
    ExpectedImprovement,
    ProbabilityOfImprovement,
    SimpleRegret,
    UpperConfidenceBound,
)
from poolwise.acquisition.knowledge import KnowledgeGradient
from poolwise.acquisition.log_space import LogExpectedImprovement, LogProbabilityOfImprovement
from poolwise.belief.gaussian_process import Posterior, straight, turnable
from poolwise.checks import Numbers
from poolwise.pool.domain import Domain, ground_of
from poolwise.pool.draws import path_maxima
from poolwise.pool.effort import Ascent, Found
from poolwise.pool.idle import alone
from poolwise.pool.proposal import Proposal, asked, chosen_otherwise, otherwise_ahead
from poolwise.pool.searching import busy, searched, seen, with_work

SHORT = 0.2  # lengthscales below this many diagonals of the cube, so that it can hold many hills;
SHORT_IF_KNOWN = 0.3  # and where they are known, not learned
ROUGH = 0.1  # learned noise beyond this share of the amplitude, both as variances: more roughness than hill
LIKELY = 0.55  # that one point improves, so that it matters how much; at the best one known it is one half
SEARCH = 20  # observations for each dimension that look for hills, where hyperparameters are known;
LOOKING = 2  # after that, one point of so many
PLACES = 64  # maxima of drawn functions that may be recommended in the end, for the knowledge gradient,
FEATURES = 256  # random waves of each function,
SEEN = 7  # and the best observations, beside the highest mean;
AGAIN = 8  # its points count as if each were observed so often: other pools will follow this one
EFFORT = Ascent(lanes=1)  # a second lane changed no pool of 32 tasks where less of all else cost regret
EQUAL = 1e-12  # outcomes that spread by a smaller share of their size are equal
CLIMBING = Ascent(samples=512, lanes=1, rounds=4)  # of a probability, which takes twice as many samples


def balanced(  # noqa: PLR0913
    posterior: Posterior,
    q: int,
    *,
    pending: Numbers | None = None,
    domain: Domain | None = None,
    seed: int = 0,
    known: bool = False,
) -> Proposal:
    """Choose q points that explore or climb, as lengthscales say. It is what a `Study` does.

    Where there may be `many_hills`, or what was learned is `rough`, they go by `ExpectedImprovement`. Otherwise they go
    by their expected best outcome (`SimpleRegret`) where one point, or those that are pending, are likelier than not to
    improve, and by `ProbabilityOfImprovement` where not; improvement is that over the best expected outcome. `known`
    says that hyperparameters are known, and were not learned from these observations: then many hills are looked for by
    `UpperConfidenceBound`, and after 20 observations for each dimension half of the points go by `KnowledgeGradient`.
    `value` is the expected best outcome of the pool, and what its points contribute is in that unit.
    """
    began = time.perf_counter()
    q, waiting, seed = asked(posterior, q, pending, seed)
    otherwise_ahead(posterior, q, waiting)
    found = balanced_pool(posterior, q, waiting, domain=domain, seed=seed, known=known)
    ground, cost = ground_of(domain, posterior.dimension, EFFORT), found.evaluations
    return chosen_otherwise(posterior, found.pool, waiting, domain=ground, evaluations=cost, began=began, seed=seed)


def balanced_pool(  # noqa: PLR0913
    posterior: Posterior,
    q: int,
    pending: Float[np.ndarray, "w d"],
    *,
    domain: Domain | None,
    seed: int,
    known: bool = False,
) -> Found:
    """The pool of `balanced`, not judged: a study asks for no more."""
    ground = ground_of(domain, posterior.dimension, EFFORT)
    warp = posterior.process.kernel.warp
    if ground is None and warp is not None and warp.keeps_cube:  # search where axes are straight
        waiting = np.asarray(warp(pending)) if len(pending) else pending
        found = balanced_pool(turnable(straight(posterior)), q, waiting, domain=None, seed=seed, known=known)
        return Found(warp.back(found.pool), found.evaluations)
    options: dict[str, Any] = {"domain": ground, "seed": seed}
    if not many_hills(posterior, known=known) and (known or not rough(posterior)):
        return _climbing(posterior, q, pending, **options)
    if known:
        return _exploring(posterior, q, pending, **options)
    return _improving(posterior, q, pending, **options)


def _climbing(posterior: Posterior, q: int, pending: Float[np.ndarray, "w d"], **options: Any) -> Found:
    """The pool that most likely improves; where its first point alone does so already, the one whose best is best."""
    better = some_better(posterior)
    found, judged = seen(posterior, better, q, pending, maximizer=CLIMBING, **options)
    if alone(judged) < LIKELY:
        return with_work(posterior, better, found, judged, pending, maximizer=CLIMBING, **options)
    best = searched(posterior, SimpleRegret(), q, pending, maximizer=EFFORT, **options)
    return Found(best.pool, found.evaluations + best.evaluations)


def _improving(posterior: Posterior, q: int, pending: Float[np.ndarray, "w d"], **options: Any) -> Found:
    """The pool that is expected to improve most."""
    return busy(posterior, ExpectedImprovement(best_expected(posterior)), q, pending, maximizer=EFFORT, **options)[0]


def _exploring(posterior: Posterior, q: int, pending: Float[np.ndarray, "w d"], **options: Any) -> Found:
    """Some points by upper confidence bound, the others beside them by what they make of the recommended one."""
    pool, cost = pending[:0], 0
    high = _looking(len(posterior.y) + len(pending), q, posterior.dimension)
    if high:
        found = searched(posterior, UpperConfidenceBound(), high, pending, maximizer=EFFORT, **options)
        pool, cost = found.pool, found.evaluations
    if q > high:
        telling, beside = _recommending(posterior, **options), np.concatenate([pending, pool])
        found = searched(posterior, telling, q - high, beside, maximizer=EFFORT, **options)
        pool, cost = np.concatenate([pool, found.pool]), cost + found.evaluations
    return Found(pool, cost)


def _looking(seen: int, q: int, d: int) -> int:
    """How many of the next q points look for hills, after so many: all at first, then each that is a multiple."""
    first = min(q, max(SEARCH * d - seen, 0))
    return first + (seen + q) // LOOKING - (seen + first) // LOOKING


def _recommending(posterior: Posterior, **options: Any) -> KnowledgeGradient:
    """How much better the recommended point gets, which is one of the likely tops."""
    tops = path_maxima(posterior, PLACES, features=FEATURES, **options).points
    highest = searched(posterior, SimpleRegret(), 1, tops[:0], maximizer=EFFORT, replicate=True, **options).pool
    best = posterior.X[np.argsort(-posterior.y, kind="stable")[:SEEN]]
    noise = float(np.mean(posterior.noise)) / AGAIN
    return KnowledgeGradient(np.concatenate([tops, highest, best]), noise=noise)


def many_hills(posterior: Posterior, *, known: bool = False) -> bool:
    """Whether lengthscales are short, by their geometric mean."""
    lengths = np.broadcast_to(np.asarray(posterior.process.kernel.lengthscale), (posterior.dimension,))
    short = SHORT_IF_KNOWN if known else SHORT
    return bool(np.exp(np.mean(np.log(lengths))) < short * np.sqrt(len(lengths)))


def rough(posterior: Posterior) -> bool:
    """Whether noise is a good part of what the belief sees."""
    return float(np.mean(posterior.noise)) > ROUGH * float(posterior.process.kernel.amplitude) ** 2


def some_better(posterior: Posterior) -> ProbabilityOfImprovement:
    """The probability of improvement over the best expected outcome, as samples see it."""
    return ProbabilityOfImprovement(best_expected(posterior), spread=_spread(posterior))


def likely_better(posterior: Posterior) -> LogProbabilityOfImprovement:
    """The logarithm of that probability, which has a slope everywhere."""
    return LogProbabilityOfImprovement(best_expected(posterior), spread=_spread(posterior))


def much_better(posterior: Posterior) -> LogExpectedImprovement:
    """The improvement over the best expected outcome."""
    return LogExpectedImprovement(best_expected(posterior), _spread(posterior))


def best_expected(posterior: Posterior) -> float:
    """The best expected outcome of observed points, y - noise K^-1 (y - mean); the best observed may be a lucky one."""
    weights = np.asarray(posterior.weights)[np.asarray(posterior.data.live)]
    return float(np.max(posterior.y - posterior.noise * weights))


def _spread(posterior: Posterior) -> float:
    """Of the observations; of the prior where they are all equal, but for rounding."""
    spread = float(np.std(posterior.y))
    return spread if spread > EQUAL * np.abs(posterior.y).max() else float(posterior.process.kernel.amplitude)
