"""Inputs made straight: a warping and a rotation are learned where they gain enough, and cost little where not."""

import numpy as np
import pytest

import poolwise as pw
from poolwise import learning, straightening
from poolwise.straightening import fit_rotated, fit_warped

rng = np.random.default_rng(0)
POINTS = rng.random((60, 2))
TRUTH = pw.GaussianProcess(pw.Matern52([0.2, 0.8]))
OUTCOMES = np.asarray(pw.sample_paths(TRUTH, 1, features=4096, seed=3)(POINTS)[0]) + 0.03 * rng.standard_normal(60)
ANGLE = 0.6
AXES = np.array([[np.cos(ANGLE), -np.sin(ANGLE)], [np.sin(ANGLE), np.cos(ANGLE)]])


def on_a_log_axis(points):
    """A path whose first axis should have been given on a log scale, from 1e-3 to 1."""
    straight = np.stack([1 + np.log10(1e-3 + (1 - 1e-3) * points[:, 0]) / 3, points[:, 1]], axis=1)
    return np.asarray(
        pw.sample_paths(pw.GaussianProcess(pw.Matern52([0.25, 0.6])), 1, features=4096, seed=4)(straight)[0]
    )


@pytest.fixture(scope="module")
def bent():
    """A plain fit and a warped one of such a path."""
    X = np.random.default_rng(7).random((60, 2))
    return pw.fit(X, on_a_log_axis(X)), pw.fit(X, on_a_log_axis(X), warp=True)


@pytest.fixture(scope="module")
def learned():
    """A plain fit of a path along the axes."""
    return pw.fit(POINTS, OUTCOMES)


def across(points):
    """A path that changes four times as quickly across a valley as along it."""
    return np.asarray(pw.sample_paths(TRUTH, 1, features=4096, seed=5)(0.5 + (points - 0.5) @ AXES)[0])


@pytest.fixture(scope="module")
def valley():
    """A plain fit of such a path."""
    X = np.random.default_rng(7).random((60, 2))
    return pw.fit(X, across(X))


def test_a_warped_fit_predicts_what_a_plain_one_cannot(bent):
    """Half the error of a plain fit near the end where outcomes change quickly; the straight axis stays straight."""
    new = np.random.default_rng(6).random((200, 2)) * [0.2, 1.0]
    truth = on_a_log_axis(new)
    plain, warped = (np.sqrt(np.mean((np.asarray(belief(new).mean) - truth) ** 2)) for belief in bent)
    warp = bent[1].process.kernel.warp

    assert bent[0].process.kernel.warp is None
    assert warped < 0.5 * plain
    assert warp.low[0] < 0.6
    assert np.abs(np.log([warp.low[1], warp.high[1]])).max() < 0.5


def test_a_warping_must_gain_what_is_asked(bent):
    """From a plain fit: found where it gains enough, None where it would have to gain more, or data are straight."""
    X, y, plain = bent[0].X, bent[0].y, bent[0]
    found = fit_warped(X, y, plain, gain=3.0)
    gain = found.log_evidence - plain.log_evidence

    assert found.log_evidence == pytest.approx(bent[1].log_evidence, abs=1.0)
    assert gain > 3
    assert fit_warped(X, y, plain, gain=gain + 10) is None
    assert fit_warped(POINTS, OUTCOMES, pw.fit(POINTS, OUTCOMES), gain=3.0) is None


def test_a_warping_is_tried_on_some_of_many_observations():
    """With more than the scouts' number, the result is of all of them; known noise is kept."""
    X = np.random.default_rng(7).random((300, 2))
    y = on_a_log_axis(X) + 0.1 * np.random.default_rng(8).standard_normal(300)
    found = fit_warped(X, y, pw.fit(X, y, noise=0.01), noise=0.01, gain=3.0)

    assert 300 == len(found.y)
    assert 0.01 == found.noise
    assert found.process.kernel.warp.low[0] < 0.6


def test_a_warping_that_begins_badly_is_not_gone_on_with(learned, monkeypatch):
    """Straight data cost a few rounds, not a whole climb."""
    rounds, climb = [], learning.Problem.climb
    monkeypatch.setattr(learning.Problem, "climb", lambda *args: rounds.append(args[-1]) or climb(*args))

    assert fit_warped(POINTS, OUTCOMES, learned, gain=3.0) is None
    assert [1, straightening.TRIAL - 1] == rounds


def test_a_rotation_predicts_what_a_plain_fit_cannot(valley):
    """The axes are those of the valley, the steep one last; half of the error at points that were not seen."""
    new = np.random.default_rng(6).random((200, 2))
    found = fit_rotated(valley.X, valley.y, valley, gain=4.0)
    plain, turned = (np.sqrt(np.mean((np.asarray(belief(new).mean) - across(new)) ** 2)) for belief in (valley, found))
    axes, lengths = found.process.kernel.warp.axes, found.process.kernel.lengthscale

    assert turned < 0.6 * plain
    assert abs(axes[:, 1] @ AXES[:, 0]) > np.cos(0.1)
    assert lengths[0] > 2 * lengths[1]
    np.testing.assert_array_equal(valley.X, found.X)


def test_a_rotation_must_gain_what_is_asked(valley, learned):
    """The log posterior grows by at least that; None where it would have to gain more, or axes are right already."""
    found = fit_rotated(valley.X, valley.y, valley, gain=4.0)
    gain = found.log_evidence - valley.log_evidence

    assert gain > 4
    assert fit_rotated(valley.X, valley.y, valley, gain=1.5 * gain) is None
    assert fit_rotated(POINTS, OUTCOMES, learned, gain=4.0) is None


def test_a_rotation_that_begins_badly_is_not_gone_on_with(learned, monkeypatch):
    """Data along the axes cost a few rounds, not a whole climb."""
    rounds, alone = [], straightening.alone
    monkeypatch.setattr(straightening, "alone", lambda *args: rounds.append(args[-1]) or alone(*args))

    assert fit_rotated(POINTS, OUTCOMES, learned, gain=4.0) is None
    assert [1, straightening.TRIAL] == rounds


@pytest.mark.parametrize("noise", [0.01, np.full(300, 0.01)], ids=["one", "each"])
def test_a_rotation_is_tried_on_some_of_many_observations(noise):
    """With more than the scouts' number, the result is of all of them; known noise, one or for each, is kept."""
    X = np.random.default_rng(7).random((300, 2))
    y = across(X) + 0.1 * np.random.default_rng(8).standard_normal(300)
    found = fit_rotated(X, y, pw.fit(X, y, noise=noise), noise=noise, gain=4.0)

    assert 300 == len(found.y)
    np.testing.assert_array_equal(noise, found.noise)
    assert abs(found.process.kernel.warp.axes[:, 1] @ AXES[:, 0]) > np.cos(0.1)


def test_one_axis_cannot_be_turned(monkeypatch):
    """So nothing is climbed."""
    X = np.linspace(0, 1, 9)[:, None]
    plain = pw.fit(X, X[:, 0] ** 2)
    rounds, alone = [], straightening.alone
    monkeypatch.setattr(straightening, "alone", lambda *args: rounds.append(args[-1]) or alone(*args))

    assert fit_rotated(X, X[:, 0] ** 2, plain, gain=0.0) is None
    assert [] == rounds


def test_a_fit_may_begin_at_a_rotated_one(valley):
    """Its lengthscales along the axes of the cube are where the plain fit starts from."""
    found = fit_rotated(valley.X, valley.y, valley, gain=4.0)
    again = pw.fit(valley.X, valley.y, start=found)

    assert again.process.kernel.warp is None
    assert again.log_evidence == pytest.approx(valley.log_evidence, abs=0.5)


@pytest.mark.parametrize(
    "y",
    [np.full(8, 3.7), np.zeros(8), [*np.zeros(7), 1e9], 1e149 * OUTCOMES[:8], 1e-149 * OUTCOMES[:8]],
    ids=["constant", "zeros", "outlier", "huge", "tiny"],
)
def test_dull_and_wild_outcomes_do_no_harm(y):
    """Whatever there is to learn, the result is a belief or None."""
    found = fit_rotated(POINTS[:8], y, pw.fit(POINTS[:8], y), gain=0.0)

    assert found is None or np.isfinite(found(POINTS[:2]).mean).all()
