"""Choose a pool with each optimizer of the paper's comparison, on equal terms.

Random search sees uniform pools and DIRECT the cube, neither the starts that gradients climb from; all but the default
end with a few pools, of which fresh base samples choose one.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

import poolwise as pw
from poolwise.acquisition.base_samples import normals
from poolwise.acquisition.integrand import MaxType
from poolwise.paper.rivals import STRATEGIES
from poolwise.paper.screening import best_pools
from poolwise.paper.settings import Setup
from poolwise.pool.ascent import general_objective, max_objective
from poolwise.pool.searching import acquisition_starts
from poolwise.pool.starts import marginal_pools, near_best, spread

JUDGES = 2**12  # base samples that no search sees: what values are reported on
JUDGE_SEED = 2**31 - 1
REPRESENTERS, OUTER, INNER = 24, 16, 64  # of entropy search: candidate maximisers, outcomes of the pool, inner samples


@dataclass(frozen=True, eq=False)
class Choice:
    """A pool, the evaluations it took, and its seconds on the wall and on the processor."""

    pool: Float[np.ndarray, "q d"]
    evaluations: int
    seconds: float
    cpu_seconds: float


def integrand(acquisition: str, posterior: pw.Posterior, setup: Setup, seed: int) -> Any:
    """The acquisition function of that name: the threshold is the best outcome observed so far."""
    best, acquisition = float(posterior.y.max()), acquisition.removeprefix("rivals-")
    if acquisition == "es":
        return entropy_search(representers(posterior, best, seed), setup)
    return over(acquisition, best)


def entropy_search(representers: Float[np.ndarray, "r d"], setup: Setup) -> pw.EntropySearch:
    """Entropy search among candidate maximisers."""
    return pw.EntropySearch(representers, noise=setup.noise, samples=INNER)


def over(acquisition: str, best: float) -> Any:
    """An acquisition function that needs no more than the best outcome observed so far."""
    return {
        "ei": lambda: pw.ExpectedImprovement(best),
        "pi": lambda: pw.ProbabilityOfImprovement(best, temperature=0.01),
        "ucb": pw.UpperConfidenceBound,
        "sr": pw.SimpleRegret,
    }[acquisition]()


def representers(posterior: pw.Posterior, best: float, seed: int) -> Float[np.ndarray, "r d"]:
    """Candidate maximisers, drawn in proportion to their own expected improvement."""
    points = np.concatenate([spread(2**10, posterior.dimension, seed), near_best(posterior, 128, seed)])
    with jax.enable_x64(True):
        each = max_objective(posterior, pw.ExpectedImprovement(best), 1, points[:0], samples=128, seed=seed)[0]
        values = np.asarray(_values(each, jnp.asarray(points)))
    return marginal_pools(points, values, REPRESENTERS, 1, seed)[0]


def choose(  # noqa: PLR0913
    optimizer: str, posterior: pw.Posterior, worth: Any, setup: Setup, *, evaluations: int | None, seed: int
) -> Choice:
    """Choose a pool with so many evaluations; without a number, with the optimizer's own default."""
    began, cpu = time.perf_counter(), time.process_time()
    pool, used = _searches(optimizer)(posterior, worth, setup, evaluations, seed)
    return Choice(pool, used, time.perf_counter() - began, time.process_time() - cpu)


def _searches(optimizer: str) -> Any:
    if optimizer in STRATEGIES:
        return lambda posterior, _, setup, __, seed: (STRATEGIES[optimizer](posterior, setup.q, None, seed), 0)
    return {"random": _random, "direct": _direct, "default": _default}.get(optimizer, _climb(optimizer))


def _random(posterior: pw.Posterior, worth: Any, setup: Setup, evaluations: int | None, seed: int) -> Any:
    count = evaluations or setup.pools
    pools = np.random.default_rng([seed, 7]).random((count, setup.q, setup.d), dtype=np.float32)
    if isinstance(worth, MaxType):
        z = normals(setup.samples, setup.q, seed=seed)
        return _final(posterior, worth, best_pools(posterior, worth, z, pools, keep=setup.starts), setup, seed), count
    search = pw.RandomSearch(count, chunk=64)
    climb = search(objective(posterior, worth, setup, seed), pools[: setup.starts].reshape(setup.starts, -1), seed=seed)
    return _final(posterior, worth, climb.points, setup, seed), count


def _direct(posterior: pw.Posterior, worth: Any, setup: Setup, evaluations: int | None, seed: int) -> Any:
    middle = np.full((1, setup.q * setup.d), 0.5)
    budget = pw.Budget(evaluations)
    climb = pw.Direct()(objective(posterior, worth, setup, seed), middle, budget)
    return climb.best.reshape(setup.q, setup.d), climb.evaluations


def _climb(optimizer: str) -> Any:
    def search(posterior: pw.Posterior, worth: Any, setup: Setup, evaluations: int | None, seed: int) -> Any:
        size = setup.batch_size if isinstance(worth, MaxType) else OUTER
        maximizer = pw.Lbfgsb(rounds=1000) if optimizer == "gradient" else stochastic(optimizer, size, setup)
        starts = starting_pools(posterior, worth, setup, seed)
        climb = maximizer(objective(posterior, worth, setup, seed), starts, pw.Budget(evaluations), seed=seed)
        return _final(posterior, worth, climb.points, setup, seed), climb.evaluations

    return search


def stochastic(name: str, batch_size: int, setup: Setup) -> pw.Stochastic:
    """Stochastic ascent by its name: "stochastic", or a rule, samples a step and a rate, such as "rmsprop-128-0.01"."""
    rule, size, rate = [*name.split("-"), "", ""][:3]
    return pw.Stochastic(
        "adam" if rule == "stochastic" else rule,
        batch_size=int(size or batch_size),
        learning_rate=float(rate or setup.learning_rate),
    )


def _default(posterior: pw.Posterior, worth: Any, setup: Setup, evaluations: int | None, seed: int) -> Any:
    maximizer = pw.Ascent() if isinstance(worth, MaxType) else pw.Ascent(4 * OUTER, candidates=64, starts=4, polish=20)
    proposal = pw.propose(posterior, worth, setup.q, maximizer=maximizer, seed=seed)
    return proposal.pool, proposal.evaluations


def starting_pools(posterior: pw.Posterior, worth: Any, setup: Setup, seed: int) -> Float[np.ndarray, "r p"]:
    """Pools sampled from the acquisition function."""
    with jax.enable_x64(True):
        pools = acquisition_starts(posterior, worth, setup.q, np.zeros((0, setup.d)), seed=seed)
    count = setup.starts if isinstance(worth, MaxType) else setup.entropy_starts
    return pools[:count].reshape(count, -1)


def objective(posterior: pw.Posterior, worth: Any, setup: Setup, seed: int) -> Any:
    """The acquisition value of whole pools on fixed base samples."""
    with jax.enable_x64(True):
        nobody = np.zeros((0, setup.d))
        if isinstance(worth, MaxType):
            return max_objective(posterior, worth, setup.q, nobody, samples=setup.samples, seed=seed)[0]
        return general_objective(posterior, worth, setup.q, nobody, samples=OUTER, seed=seed)


def _final(
    posterior: pw.Posterior, worth: Any, pools: Float[np.ndarray, "r ..."], setup: Setup, seed: int
) -> Float[np.ndarray, "q d"]:
    """The best of a few pools on base samples that the search has not seen."""
    fresh = objective(posterior, worth, setup, seed + 1)
    with jax.enable_x64(True):
        values = np.asarray(_values(fresh, jnp.asarray(pools, jnp.float64).reshape(len(pools), -1)))
    return np.asarray(pools[int(np.nanargmax(values))], float).reshape(setup.q, setup.d)


def judged(posterior: pw.Posterior, worth: Any, pool: Float[np.ndarray, "q d"]) -> float:
    """The acquisition value of a pool on many samples, always the same ones."""
    with jax.enable_x64(True):
        nobody = np.zeros((0, posterior.dimension))
        judge: Any
        if isinstance(worth, MaxType):
            judge = max_objective(posterior, worth, len(pool), nobody, samples=JUDGES, seed=JUDGE_SEED)[0]
        else:
            judge = general_objective(posterior, worth, len(pool), nobody, samples=JUDGES // 16, seed=JUDGE_SEED)
        return float(_values(judge, jnp.asarray(pool).reshape(1, -1))[0])


@jax.jit
def _values(objective: Any, flat: Float[Array, "r p"]) -> Float[Array, " r"]:
    return objective(flat)
