"""Base samples z ~ N(0, I): what is random in an estimate, free of every parameter.

Drawn once and kept, they make the estimate a smooth deterministic function of the pool; drawn afresh at each step, they
make its gradient the unbiased one of stochastic ascent.
"""

from __future__ import annotations

import functools

import numpy as np
from jaxtyping import Float

from poolwise import checks
from poolwise.errors import InputError
from poolwise.quantile import ndtri
from poolwise.sobol import MOST_DIMENSIONS, sobol

BASES = ("antithetic", "iid", "sobol")


def normals(samples: int, q: int, *, base: str = "sobol", seed: int = 0) -> Float[np.ndarray, "m q"]:
    """`samples` standard normal vectors of length q, a row each; the same arguments give the same rows.

    "sobol" is a scrambled low-discrepancy sequence (best in powers of two), "iid" independent draws, "antithetic"
    independent pairs z, -z in neighbouring rows.
    """
    checks.option("base", base, BASES)
    samples, seed = checks.count("samples", samples), checks.count("seed", seed, least=0)
    if base == "antithetic" and samples % 2:
        raise InputError(f"samples: antithetic samples come in pairs, so give an even number, not {samples}.")
    if base == "sobol" and q > MOST_DIMENSIONS:
        raise InputError(f"base: Sobol' points exist up to {MOST_DIMENSIONS} dimensions, not {q}; use base='iid'.")
    return _normals(samples, q, base, seed)


@functools.lru_cache(maxsize=64)
def _normals(samples: int, q: int, base: str, seed: int) -> Float[np.ndarray, "m q"]:
    result = {"sobol": _sobol, "iid": _iid, "antithetic": _antithetic}[base](samples, q, seed)
    result.setflags(write=False)
    return result


def _sobol(samples: int, q: int, seed: int) -> Float[np.ndarray, "m q"]:
    points = sobol(samples, q, np.random.default_rng(seed))
    # Scrambled points live on a grid of 2^-30 that includes 0; the middle of the cell keeps every normal finite.
    return np.asarray(ndtri(points + 2.0**-31))


def _iid(samples: int, q: int, seed: int) -> Float[np.ndarray, "m q"]:
    return np.random.default_rng(seed).standard_normal((samples, q))


def _antithetic(samples: int, q: int, seed: int) -> Float[np.ndarray, "m q"]:
    half = _iid(samples // 2, q, seed)
    return np.stack([half, -half], axis=1).reshape(samples, q)
