"""The one-factor reference against the oracle of eight points, and against itself."""

import numpy as np
import pytest
from scipy.special import ndtr
from tests.conftest import ORACLES
from tests.reference import one_factor

[T7] = [entry for entry in ORACLES["normals"] if entry["name"] == "T7"]
POOL = (np.zeros(8), np.full(8, 0.5), np.full(8, np.sqrt(0.5)))


@pytest.mark.parametrize(
    "name, value",
    [
        ("ei", one_factor.ei(*POOL, T7["threshold"])),
        ("pi", one_factor.pi(*POOL, T7["threshold"])),
        ("sr", one_factor.sr(*POOL)),
        ("ucb", one_factor.ucb(*POOL, T7["beta"])),
        ("pi_soft_0.01", one_factor.pi(*POOL, T7["threshold"], temperature=0.01)),
        ("pi_soft_0.1", one_factor.pi(*POOL, T7["threshold"], temperature=0.1)),
    ],
)
def test_eight_points(name, value):
    """Each value of T7 to 1e-12."""
    assert T7["expected"][name] == pytest.approx(value, abs=1e-12)


def test_one_point():
    """At one point the closed forms."""
    mean, d, lam, threshold = [0.3], [0.29], [np.sqrt(0.2)], 0.5
    u = -0.2 / 0.7
    density = np.exp(-0.5 * u * u) / np.sqrt(2 * np.pi)

    assert 0.7 * (density + u * ndtr(u)) == pytest.approx(one_factor.ei(mean, d, lam, threshold), abs=1e-12)
    assert ndtr(u) == pytest.approx(one_factor.pi(mean, d, lam, threshold), abs=1e-12)
    assert abs(one_factor.sr(mean, d, lam) - 0.3) < 1e-12
    assert 0.3 + np.sqrt(2) * 0.7 == pytest.approx(one_factor.ucb(mean, d, lam, 2.0), abs=1e-12)


@pytest.mark.parametrize("iid, exact", list(zip(ORACLES["iid_max"]["q"], ORACLES["iid_max"]["expected"], strict=True)))
def test_independent_points(iid, exact):
    """Without a common factor, the expected maximum of iid standard normals, printed with nine digits."""
    assert exact == pytest.approx(one_factor.sr(np.zeros(iid), np.ones(iid), np.zeros(iid)), abs=1e-9)


def test_finer_grid_changes_nothing(monkeypatch):
    """With a steep factor (small d) the reference has converged to 1e-11."""
    pool = ([0.1, -0.3, 0.5, 0.0], [0.02, 0.01, 0.05, 0.3], [0.9, -0.7, 0.4, 1.1])
    coarse = [one_factor.ei(*pool, 0.4), one_factor.ucb(*pool, 1.5)]
    grid = one_factor._grid
    monkeypatch.setattr(one_factor, "_grid", lambda start, end, width: grid(start, end, 0.6 * width))

    assert [one_factor.ei(*pool, 0.4), one_factor.ucb(*pool, 1.5)] == pytest.approx(coarse, abs=1e-11)
