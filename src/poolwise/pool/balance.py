"""Balanced pools: half of the points where outcomes may be high, half where they tell most about the maximum.

Points by upper confidence bound find new hills soon but learn little about the top of one; points by joint entropy
search learn where the top is but are slow to look elsewhere. The second half counts the first as pending.
"""

from __future__ import annotations

import time
from typing import Any

import jax
import numpy as np

from poolwise import checks
from poolwise.acquisition.information import JointEntropySearch
from poolwise.acquisition.integrand import SimpleRegret, UpperConfidenceBound
from poolwise.belief.gaussian_process import Posterior
from poolwise.checks import Numbers
from poolwise.pool.ascent import Ascent
from poolwise.pool.domain import Domain, ground_of
from poolwise.pool.draws import path_maxima
from poolwise.pool.judge import best_random, judge
from poolwise.pool.proposal import Proposal, propose

PATHS = 16  # functions drawn from the belief, whose maxima the second half learns about
FEATURES = 256  # random waves of each


def balanced(
    posterior: Posterior, q: int, *, pending: Numbers | None = None, domain: Domain | None = None, seed: int = 0
) -> Proposal:
    """Choose q points, half by `UpperConfidenceBound` and half by `JointEntropySearch`: what a `Study` does.

    An odd point goes to the one or the other in turn, by the number of observations and pending points. `value` is the
    expected best outcome of the pool, and what its points contribute is in that unit.

    >>> from poolwise import GaussianProcess, Matern52
    >>> posterior = GaussianProcess(Matern52(0.3), noise=1e-4).condition([[0.2], [0.6]], [0.0, 1.0])
    >>> balanced(posterior, q=2).pool.shape
    (2, 1)
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
        found = propose(posterior, UpperConfidenceBound(), high, pending=waiting, **options)
        pool, cost = found.pool, found.evaluations
    if q > high:
        telling = JointEntropySearch(*path_maxima(posterior, PATHS, features=FEATURES, **options))
        found = propose(posterior, telling, q - high, pending=np.concatenate([waiting, pool]), **options)
        pool, cost = np.concatenate([pool, found.pool]), cost + found.evaluations
    with jax.enable_x64(True):
        judged, contributions = judge(SimpleRegret(), posterior, pool, waiting)
        ground = ground_of(domain, posterior.dimension, Ascent())
    return Proposal(
        pool,
        float(judged.value),
        float(judged.error),
        contributions,
        cost,
        time.perf_counter() - began,
        lambda: best_random(SimpleRegret(), posterior, q, waiting, seed, ground),
    )
