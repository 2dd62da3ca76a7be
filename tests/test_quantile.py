"""The normal quantile is SciPy's."""

import numpy as np
from scipy.special import ndtri as exact

from poolwise.quantile import ndtri


def test_the_quantile_is_right_to_rounding():
    """In the middle, in the tails and on the grid of Sobol' points."""
    tails = np.logspace(-300, -2, 400)
    p = np.concatenate([np.linspace(0.001, 0.999, 999), tails, 1 - tails[tails > 1e-12], [2.0**-31, 1 - 2.0**-31]])

    np.testing.assert_allclose(ndtri(p), exact(p), rtol=2e-15, atol=1e-16)


def test_rows_keep_their_shape():
    """A matrix gives a matrix, and one half is zero."""
    assert [[0.0, 0.0]] == ndtri(np.full((1, 2), 0.5)).tolist()
