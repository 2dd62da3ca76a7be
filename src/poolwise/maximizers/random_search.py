"""Random search: the best of many points, looked at in chunks so that memory stays bounded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from numpy.typing import ArrayLike

from poolwise import checks
from poolwise.maximizers.climb import UNLIMITED, Budget, Climb, Log, Objective, as_pytree, as_starts, evaluate
from poolwise.precision import double

DESIGNS = ("uniform", "sobol")


@dataclass(frozen=True)
class RandomSearch:
    """The best r of `points` random points, the r starts among them; `chunk` points (rounded up to
    a power of two, which keeps Sobol' points balanced) are held in memory at a time.

    The design is "uniform" or "sobol" (scrambled).
    """

    points: int = 2**15
    design: str = "uniform"
    chunk: int = 2**10

    def __post_init__(self) -> None:
        checks.store_counts(self, "points", "chunk")
        checks.option("design", self.design, DESIGNS)

    @double
    def __call__(self, objective: Objective, starts: ArrayLike, budget: Budget = UNLIMITED, *, seed: int = 0) -> Climb:
        """Search; the results are sorted, highest first."""
        log, objective, first = Log(budget), as_pytree(objective), as_starts(starts)
        r = len(first)
        most, done = max(r, budget.allowed(self.points)), 0
        points, values = jnp.asarray(first), jnp.full(r, -jnp.inf)
        for candidates in self._chunks(first, seed):
            fresh = min(len(candidates), most - done)
            points, values = _best(objective, points, values, candidates, fresh)
            done += fresh
            log.note(done, float(_shown(values)[0]))
            if done == most or log.late():
                break
        return log.climb(points, _shown(values))

    def _chunks(self, starts: Float[np.ndarray, "r p"], seed: int) -> Iterator[Float[np.ndarray, "c p"]]:
        """Equal chunks without end; the first begins with the starts."""
        r, p = starts.shape
        size = 1 << (max(self.chunk, r) - 1).bit_length()
        rng = np.random.default_rng(seed)
        sobol = _endless_sobol(p, rng) if self.design == "sobol" else None
        first = True
        while True:
            chunk = rng.random((size, p)) if sobol is None else sobol.random(size)
            yield np.concatenate([starts, chunk[: size - r]]) if first else chunk
            first = False


def _endless_sobol(p: int, rng: np.random.Generator) -> Any:
    """SciPy's sequence, with bits enough for any budget."""
    from scipy.stats import qmc

    return qmc.Sobol(p, rng=rng, bits=62)


def _shown(values: Float[Array, " r"]) -> Float[np.ndarray, " r"]:
    """Values for the result: a point that was seen but is not finite is at -inf, as is one that was not seen."""
    seen = np.asarray(values)
    return np.where(seen > np.finfo(seen.dtype).min, seen, -np.inf)


@jax.jit
def _best(
    objective: Objective,
    points: Float[Array, "r p"],
    values: Float[Array, " r"],
    candidates: Float[Array, "c p"],
    fresh: Int[Array, ""],
) -> tuple[Float[Array, "r p"], Float[Array, " r"]]:
    """The best r of the points so far and the first `fresh` candidates.

    A candidate that is not finite counts as the lowest number, which is above the -inf of one that is not fresh.
    """
    found = evaluate(objective, candidates)
    found = jnp.where(jnp.isfinite(found), found, np.finfo(found.dtype).min)
    found = jnp.where(jnp.arange(len(found)) < fresh, found, -jnp.inf)
    values, rows = jax.lax.top_k(jnp.concatenate([values, found]), len(values))
    return jnp.concatenate([points, candidates])[rows], values
