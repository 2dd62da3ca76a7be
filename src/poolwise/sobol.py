"""Scrambled Sobol' points, the very ones of `scipy.stats.qmc.Sobol`, without the half second that importing it takes.

Joe and Kuo (2008), doi:10.1137/070709359, whose direction numbers SciPy carries; scrambled by random lower triangular
matrices and a shift, after Matousek (1998), doi:10.1006/jcom.1998.0489.
"""

from __future__ import annotations

import functools
import importlib.util
from pathlib import Path

import numpy as np
from jaxtyping import Float, UInt32

BITS = 30
MOST_DIMENSIONS = 21201
FEW = 64  # dimensions that one reading of the direction numbers is good for


def sobol(count: int, dimensions: int, rng: np.random.Generator) -> Float[np.ndarray, "n d"]:
    """The first `count` points in [0, 1)^d of a sequence scrambled by `rng`; balanced best for powers of two."""
    count, dimensions = int(count), int(dimensions)  # whole numbers of NumPy's count in fewer bits
    columns, shift = _scrambled(_directions(dimensions), rng.spawn(1)[0])  # as SciPy does
    index = np.arange(count, dtype=np.uint32)
    gray = index ^ (index >> 1)
    points = np.broadcast_to(shift, (count, dimensions)).copy()
    for bit in range(max(count - 1, 0).bit_length()):
        points ^= columns[:, bit] * (gray >> bit & 1)[:, None]
    return points * 2.0**-BITS


def _scrambled(
    columns: UInt32[np.ndarray, "d b"], rng: np.random.Generator
) -> tuple[UInt32[np.ndarray, "d b"], UInt32[np.ndarray, " d"]]:
    """The directions times a random unit lower triangular matrix of bits for each dimension, and a random shift."""
    d = len(columns)
    powers = 2 ** np.arange(BITS, dtype=np.uint32)
    shift = rng.integers(2, size=(d, BITS), dtype=np.uint32) @ powers
    lower = np.tril(rng.integers(2, size=(d, BITS, BITS), dtype=np.uint32), -1) + np.eye(BITS, dtype=np.uint32)
    bits = columns[:, None, :] >> np.arange(BITS - 1, -1, -1, dtype=np.uint32)[None, :, None] & 1  # highest bit first
    mixed = np.rint(lower.astype(float) @ bits.astype(float)).astype(np.uint32) & 1
    return (mixed * powers[::-1][None, :, None]).sum(axis=1, dtype=np.uint32), shift


def _directions(dimensions: int) -> UInt32[np.ndarray, "d b"]:
    """Direction numbers of the first dimensions; those of some more are kept, for reading SciPy's table takes long."""
    return _more_directions(max(FEW, 1 << (dimensions - 1).bit_length()))[:dimensions]


@functools.lru_cache(maxsize=64)
def _more_directions(dimensions: int) -> UInt32[np.ndarray, "d b"]:
    """Direction numbers by Sobol's recurrence, each with its bits moved to the top."""
    with np.load(_scipy() / "stats" / "_sobol_direction_numbers.npz", allow_pickle=False) as table:
        polynomials, first = table["poly"][:dimensions].tolist(), table["vinit"][:dimensions].tolist()
    rows = []
    for polynomial, start in zip(polynomials, first, strict=True):
        degree = polynomial.bit_length() - 1
        row = start[:degree] if degree else [1] * BITS
        for j in range(len(row), BITS):
            new = row[j - degree]
            for k in range(degree):
                if polynomial >> (degree - 1 - k) & 1:
                    new ^= row[j - k - 1] << (k + 1)
            row.append(new)
        rows.append([value << (BITS - 1 - j) for j, value in enumerate(row)])
    return np.array(rows, dtype=np.uint32)


def _scipy() -> Path:
    """SciPy's folder, without importing it."""
    spec = importlib.util.find_spec("scipy")
    assert spec is not None and spec.origin is not None  # a dependency of ours
    return Path(spec.origin).parent
