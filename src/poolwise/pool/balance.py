"""Balanced pools: two halves, which explore or climb as the belief says how many hills there are.

Where lengthscales are so short that the cube can hold many hills, one half looks for new ones, by upper confidence
bound, and the other, by joint entropy search, learns where the top is. Where they are longer both climb the hill that
is known: by probability of improvement over the best expected outcome, and by expected improvement. The second half
counts the first as pending.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from poolwise import checks
from poolwise.acquisition.information import JointEntropySearch
from poolwise.acquisition.integrand import UpperConfidenceBound
from poolwise.acquisition.log_space import LogExpectedImprovement, LogProbabilityOfImprovement
from poolwise.belief.gaussian_process import Posterior
from poolwise.checks import Numbers
from poolwise.pool.ascent import Ascent
from poolwise.pool.domain import Domain, ground_of
from poolwise.pool.draws import path_maxima
from poolwise.pool.proposal import Proposal, chosen_otherwise, otherwise_ahead, searched

SHORT = 0.3  # lengthscales below this many diagonals of the cube, so that it can hold many hills
PATHS = 16  # functions drawn from the belief, whose maxima the second half learns about
FEATURES = 256  # random waves of each
EFFORT = Ascent(lanes=1)  # of a half; a second lane changed no pool of 32 tasks where less of all else cost regret


def balanced(
    posterior: Posterior, q: int, *, pending: Numbers | None = None, domain: Domain | None = None, seed: int = 0
) -> Proposal:
    """Choose q points in two halves, which explore or climb as lengthscales say. It is what a `Study` does.

    Where there may be `many_hills`, the halves are by `UpperConfidenceBound` and `JointEntropySearch`; otherwise by
    `LogProbabilityOfImprovement` and `LogExpectedImprovement` over the best expected outcome. An odd point goes to the
    one or the other in turn, by the number of observations and pending points. `value` is the expected best outcome of
    the pool, and what its points contribute is in that unit.
    """
    began = time.perf_counter()
    checks.kind("posterior", posterior, Posterior, "give what fit(X, y) or GaussianProcess(...).condition returns.")
    checks.count("q", q)
    waiting = np.zeros((0, posterior.dimension))
    if pending is not None and np.size(pending):
        waiting = np.asarray(checks.matrix("pending", pending, columns=posterior.dimension), dtype=float)
    ground = ground_of(domain, posterior.dimension, EFFORT)
    options: dict[str, Any] = {"domain": ground, "seed": seed}
    high = (q + (len(posterior.y) + len(waiting) + 1) % 2) // 2
    pool, cost = waiting[:0], 0
    otherwise_ahead(posterior, q, waiting)
    for half, count in zip(_halves(posterior, options), (high, q - high), strict=True):
        if count:
            beside = np.concatenate([waiting, pool])
            found = searched(posterior, half(), count, beside, maximizer=EFFORT, **options)
            pool, cost = np.concatenate([pool, found.pool]), cost + found.evaluations
    return chosen_otherwise(posterior, pool, waiting, domain=ground, evaluations=cost, began=began, seed=seed)


def many_hills(posterior: Posterior) -> bool:
    """Whether lengthscales are short, by their geometric mean."""
    lengths = np.broadcast_to(np.asarray(posterior.process.kernel.lengthscale), (posterior.dimension,))
    return bool(np.exp(np.mean(np.log(lengths))) < SHORT * np.sqrt(len(lengths)))


def likely_better(posterior: Posterior) -> LogProbabilityOfImprovement:
    """The probability of improvement over the best expected outcome."""
    return LogProbabilityOfImprovement(best_expected(posterior), spread=_spread(posterior))


def much_better(posterior: Posterior) -> LogExpectedImprovement:
    """The improvement over the best expected outcome."""
    return LogExpectedImprovement(best_expected(posterior), _spread(posterior))


def best_expected(posterior: Posterior) -> float:
    """The best expected outcome of observed points, y - noise K^-1 (y - mean); the best observed may be a lucky one."""
    weights = np.asarray(posterior.weights)[np.asarray(posterior.data.live)]
    return float(np.max(posterior.y - posterior.noise * weights))


def _spread(posterior: Posterior) -> float:
    """Of the observations; of the prior where they are all equal."""
    return float(np.std(posterior.y)) or float(posterior.process.kernel.amplitude)


def _halves(posterior: Posterior, options: dict[str, Any]) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """Makers of both halves' acquisition functions: a half may have no points, and drawing paths takes time."""
    if many_hills(posterior):
        paths = functools.partial(path_maxima, posterior, PATHS, features=FEATURES, **options)
        return UpperConfidenceBound, lambda: JointEntropySearch(*paths())
    return functools.partial(likely_better, posterior), functools.partial(much_better, posterior)
