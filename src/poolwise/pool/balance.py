"""Balanced pools: half of the points where outcomes may be high, half where they tell most about the maximum.

The hopeful half looks for new hills by upper confidence bound where lengthscales are so short that the cube can hold
many; where they are longer it climbs the hill that is known, by probability of improvement over the best expected
outcome. The other half, by joint entropy search, learns where the top is; it counts the first as pending.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from poolwise import checks
from poolwise.acquisition.information import JointEntropySearch
from poolwise.acquisition.integrand import ProbabilityOfImprovement, UpperConfidenceBound
from poolwise.belief.gaussian_process import Posterior
from poolwise.checks import Numbers
from poolwise.pool.ascent import Ascent
from poolwise.pool.domain import Domain, ground_of
from poolwise.pool.draws import path_maxima
from poolwise.pool.proposal import Proposal, chosen_otherwise, propose

SHORT = 0.3  # lengthscales below this many diagonals of the cube, by their geometric mean: it can hold many hills
PATHS = 16  # functions drawn from the belief, whose maxima the second half learns about
FEATURES = 256  # random waves of each


def balanced(
    posterior: Posterior, q: int, *, pending: Numbers | None = None, domain: Domain | None = None, seed: int = 0
) -> Proposal:
    """Choose q points, half where outcomes may be high and half where they tell most about the maximum.

    It is what a `Study` does. The first half is by `UpperConfidenceBound` where lengthscales are short, and else by
    `ProbabilityOfImprovement`; the second by `JointEntropySearch`. An odd point goes to the one or the other in turn,
    by the number of observations and pending points. `value` is the expected best outcome of the pool, and what its
    points contribute is in that unit.
    """
    began = time.perf_counter()
    checks.kind("posterior", posterior, Posterior, "give what fit(X, y) or GaussianProcess(...).condition returns.")
    checks.count("q", q)
    waiting = np.zeros((0, posterior.dimension))
    if pending is not None and np.size(pending):
        waiting = np.asarray(checks.matrix("pending", pending, columns=posterior.dimension), dtype=float)
    options: dict[str, Any] = {"domain": domain, "seed": seed}
    high = (q + (len(posterior.y) + len(waiting) + 1) % 2) // 2
    pool, cost = waiting[:0], 0
    if high:
        found = propose(posterior, hopeful(posterior), high, pending=waiting, **options)
        pool, cost = found.pool, found.evaluations
    if q > high:
        telling = JointEntropySearch(*path_maxima(posterior, PATHS, features=FEATURES, **options))
        found = propose(posterior, telling, q - high, pending=np.concatenate([waiting, pool]), **options)
        pool, cost = np.concatenate([pool, found.pool]), cost + found.evaluations
    ground = ground_of(domain, posterior.dimension, Ascent())
    return chosen_otherwise(posterior, pool, waiting, domain=ground, evaluations=cost, began=began, seed=seed)


def hopeful(posterior: Posterior) -> UpperConfidenceBound | ProbabilityOfImprovement:
    """The integrand of the first half."""
    kernel = posterior.process.kernel
    lengths = np.broadcast_to(np.asarray(kernel.lengthscale), (posterior.dimension,))
    if np.exp(np.mean(np.log(lengths))) < SHORT * np.sqrt(len(lengths)):
        return UpperConfidenceBound()
    return ProbabilityOfImprovement(best_expected(posterior), spread=float(kernel.amplitude))


def best_expected(posterior: Posterior) -> float:
    """The best expected outcome of observed points, y - noise K^-1 (y - mean); the best observed may be a lucky one."""
    weights = np.asarray(posterior.weights)[np.asarray(posterior.data.live)]
    return float(np.max(posterior.y - posterior.noise * weights))
