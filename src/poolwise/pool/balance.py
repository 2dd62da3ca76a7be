"""Balanced pools: as much exploration as the belief says there are hills to find.

Where lengthscales are so short that the cube can hold many hills, half of a pool looks for new ones, by upper
confidence bound, and half, by joint entropy search, learns where the top is; it counts the first half as pending.
Where they are longer the pool climbs the hill that is known, by probability of improvement over the best expected
outcome.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from jaxtyping import Float

from poolwise import checks
from poolwise.acquisition.information import JointEntropySearch
from poolwise.acquisition.integrand import UpperConfidenceBound
from poolwise.acquisition.log_space import LogProbabilityOfImprovement
from poolwise.belief.gaussian_process import Posterior
from poolwise.checks import Numbers
from poolwise.pool.ascent import Ascent
from poolwise.pool.domain import Domain, ground_of
from poolwise.pool.draws import path_maxima
from poolwise.pool.proposal import Proposal, chosen_otherwise, propose

SHORT = 0.3  # lengthscales below this many diagonals of the cube, so that it can hold many hills
PATHS = 16  # functions drawn from the belief, whose maxima the second half learns about
FEATURES = 256  # random waves of each


def balanced(
    posterior: Posterior, q: int, *, pending: Numbers | None = None, domain: Domain | None = None, seed: int = 0
) -> Proposal:
    """Choose q points, by improvement or by exploration, as lengthscales say. It is what a `Study` does.

    Where there may be `many_hills`, half of them are by `UpperConfidenceBound` and half by `JointEntropySearch`; an odd
    point goes to the one or the other in turn, by the number of observations and pending points. Otherwise all are by
    `LogProbabilityOfImprovement` over the best expected outcome. `value` is the expected best outcome of the pool, and
    what its points contribute is in that unit.
    """
    began = time.perf_counter()
    checks.kind("posterior", posterior, Posterior, "give what fit(X, y) or GaussianProcess(...).condition returns.")
    checks.count("q", q)
    waiting = np.zeros((0, posterior.dimension))
    if pending is not None and np.size(pending):
        waiting = np.asarray(checks.matrix("pending", pending, columns=posterior.dimension), dtype=float)
    options: dict[str, Any] = {"domain": domain, "seed": seed}
    if many_hills(posterior):
        pool, cost = _explored(posterior, q, waiting, options)
    else:
        found = propose(posterior, likely_better(posterior), q, pending=waiting, **options)
        pool, cost = found.pool, found.evaluations
    ground = ground_of(domain, posterior.dimension, Ascent())
    return chosen_otherwise(posterior, pool, waiting, domain=ground, evaluations=cost, began=began, seed=seed)


def many_hills(posterior: Posterior) -> bool:
    """Whether lengthscales are short, by their geometric mean."""
    lengths = np.broadcast_to(np.asarray(posterior.process.kernel.lengthscale), (posterior.dimension,))
    return bool(np.exp(np.mean(np.log(lengths))) < SHORT * np.sqrt(len(lengths)))


def likely_better(posterior: Posterior) -> LogProbabilityOfImprovement:
    """Improvement over the best expected outcome; a small one is small beside the spread of the observations."""
    spread = float(np.std(posterior.y)) or float(posterior.process.kernel.amplitude)
    return LogProbabilityOfImprovement(best_expected(posterior), spread=spread)


def best_expected(posterior: Posterior) -> float:
    """The best expected outcome of observed points, y - noise K^-1 (y - mean); the best observed may be a lucky one."""
    weights = np.asarray(posterior.weights)[np.asarray(posterior.data.live)]
    return float(np.max(posterior.y - posterior.noise * weights))


def _explored(
    posterior: Posterior, q: int, waiting: Float[np.ndarray, "w d"], options: dict[str, Any]
) -> tuple[Float[np.ndarray, "q d"], int]:
    """Half by bound, then half by information; and the evaluations made."""
    high = (q + (len(posterior.y) + len(waiting) + 1) % 2) // 2
    pool, cost = waiting[:0], 0
    if high:
        found = propose(posterior, UpperConfidenceBound(), high, pending=waiting, **options)
        pool, cost = found.pool, found.evaluations
    if q > high:
        telling = JointEntropySearch(*path_maxima(posterior, PATHS, features=FEATURES, **options))
        found = propose(posterior, telling, q - high, pending=np.concatenate([waiting, pool]), **options)
        pool, cost = np.concatenate([pool, found.pool]), cost + found.evaluations
    return pool, cost
