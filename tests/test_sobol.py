"""Our Sobol' points are SciPy's."""

import subprocess
import sys

import numpy as np
import pytest
from scipy.stats import qmc

from poolwise.sobol import MOST_DIMENSIONS, sobol


@pytest.mark.parametrize(("count", "dimensions"), [(1, 1), (2, 3), (16, 1), (1024, 8), (4096, 70), (64, 1200)])
@pytest.mark.parametrize("seed", [0, 7])
def test_same_points_as_scipy(count, dimensions, seed):
    """Bit for bit, so that SciPy is the oracle of the recurrence, the scrambling and the order."""
    theirs = qmc.Sobol(dimensions, rng=np.random.default_rng(seed)).random(count)

    np.testing.assert_array_equal(theirs, sobol(count, dimensions, np.random.default_rng(seed)))


def test_as_many_dimensions_as_scipy():
    """The limit in our messages is the table's."""
    assert qmc.Sobol.MAXDIM == MOST_DIMENSIONS


def test_loading_is_light():
    """The point of having our own: half a second of every start."""
    code = "import sys, poolwise; poolwise.fit, poolwise.propose; print('scipy.stats' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert "False" == done.stdout.strip()
