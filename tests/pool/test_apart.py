"""Points that stand on another get a place of their own."""

import numpy as np
import pytest

from poolwise.pool.apart import Worth, distinct
from poolwise.pool.effort import Found

CORNER = np.ones((1, 2))


@pytest.mark.parametrize(("better", "beside"), [(1e-5, False), (1e-1, True)])
def test_a_place_beside_another_must_be_clearly_better(better, beside):
    """What is no more than rounding is no reason to stay; the place is free and within the cube."""
    worth = Worth(lambda pool: better * float(np.abs(pool - 1).max() < 0.01), np.array([0.3, 0.3]))
    [point] = distinct(Found(CORNER, 0), CORNER, 0, worth).pool
    gap = np.abs(point - 1).max()

    assert 1e-6 <= gap <= 1
    assert beside == (gap < 0.01)
