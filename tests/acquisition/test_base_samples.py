"""Base samples: standard normal, repeatable, finite, of three kinds."""

import numpy as np
import pytest
from scipy.stats import kstest

from poolwise.acquisition.base_samples import BASES, normals


@pytest.mark.parametrize("base", BASES)
def test_standard_normal_and_uncorrelated(base):
    """Each column passes a Kolmogorov-Smirnov test; columns do not correlate."""
    z = normals(4096, 5, base=base, seed=1)

    assert (4096, 5) == z.shape
    assert np.isfinite(z).all()
    assert min(kstest(column, "norm").pvalue for column in z.T) > 1e-3
    np.testing.assert_allclose(np.eye(5), np.corrcoef(z.T), atol=4 / np.sqrt(2048))


@pytest.mark.parametrize("base", BASES)
def test_the_seed_decides(base):
    """Same seed, same rows; another seed, other rows; nobody can overwrite what is kept."""
    first, again, other = (normals(8, 2, base=base, seed=seed) for seed in (3, 3, 4))

    np.testing.assert_array_equal(first, again)
    assert np.abs(first - other).max() > 0
    with pytest.raises(ValueError, match="read-only"):
        first[0, 0] = 0.0


def test_antithetic_rows_are_mirrored_neighbours():
    """z and -z side by side: odd functions average to zero."""
    z = normals(64, 3, base="antithetic")

    np.testing.assert_array_equal(z[0::2], -z[1::2])


def test_sobol_is_closer_than_independent():
    """The mean of a smooth function: a hundred times the accuracy at 2^12 points."""
    errors = {
        base: np.std([np.exp(0.3 * normals(4096, 4, base=base, seed=s).sum(axis=1)).mean() for s in range(16)])
        for base in ("iid", "sobol")
    }

    assert errors["sobol"] < errors["iid"] / 20


def test_any_number_of_sobol_points():
    """A count that is no power of two is the user's choice, without a warning."""
    assert (100, 2) == normals(100, 2).shape


def test_many_points_in_the_pool():
    """Sobol' points of 128 dimensions stay finite."""
    assert np.isfinite(normals(1024, 128)).all()
