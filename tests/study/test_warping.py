"""Warped outcomes: a monotone map there and back, chosen by evidence; predictions stay in the unit of the user."""

import dataclasses

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from poolwise import Float, InputError, Int, Rotation, Settings, Study
from poolwise.plot.record import belief_of
from poolwise.plot.sensitivity import of_lengthscale
from poolwise.study.scaling import Scale, scale_of
from poolwise.study.warping import HIGHEST, LOWEST, likely_power, log_slope, unwarp, warp

powers = st.floats(LOWEST, HIGHEST)


@settings(max_examples=60, deadline=None)
@given(power=powers, z=st.lists(st.floats(-15, 15), min_size=2, max_size=8, unique=True))
def test_warping_keeps_the_order_and_can_be_undone(power, z):
    z = np.sort(np.array(z))

    assert (np.diff(warp(z, power)) >= 0).all()
    assert np.allclose(unwarp(warp(z, power), power), z, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("power", [-2.0, 0.0, 1.0, 2.0, 3.3])
def test_slope_is_that_of_differences(power):
    z = np.array([-4.0, -0.5, 0.3, 5.0])

    differences = (warp(z + 1e-6, power) - warp(z - 1e-6, power)) / 2e-6

    assert np.exp(log_slope(z, power)) == pytest.approx(differences, rel=1e-6)


def test_a_power_of_one_changes_nothing():
    z = np.array([-3.0, 0.0, 2.5])

    assert warp(z, 1.0) == pytest.approx(z, abs=1e-15)


@pytest.mark.parametrize("seed", range(5))
def test_the_likely_power_is_the_best_of_many_by_itself(seed):
    """Compared one by one, with the likelihood written out."""
    z = np.random.default_rng(seed).exponential(size=40) - 1

    def likelihood(power):
        sample = warp(z, power)
        return scipy.stats.norm(*scipy.stats.norm.fit(sample)).logpdf(sample).sum() + log_slope(z, power).sum()

    one_by_one = np.linspace(LOWEST, HIGHEST, 61)
    assert likely_power(z) == one_by_one[np.argmax([likelihood(power) for power in one_by_one])]


def test_likely_powers():
    """Gaussian outcomes are left about as they are; a long bad tail is drawn in, a long good one too."""
    rng = np.random.default_rng(0)
    plain, skewed = rng.standard_normal(400), rng.exponential(2.0, 400)

    assert abs(likely_power(plain) - 1) < 0.3
    assert likely_power(1 - skewed) > 1.5
    assert likely_power(skewed - 1) < 0.5


def test_a_scale_with_a_power_goes_there_and_back():
    values = np.array([1.0, 5.0, 20.0, 300.0, 2.0, 7.0])
    scale = scale_of(values, maximize=False)
    warped = type(scale)(scale.sign, scale.unit, scale.centre, scale.spread, 1.8)
    inner = values[values < 100]

    assert warped.values(warped.outcomes(inner)) == pytest.approx(inner)
    assert np.argsort(warped.outcomes(values)).tolist() == np.argsort(-values).tolist()
    small = 1e-4 * np.ones(len(inner))
    near = warped.deviations(warped.outcomes(inner), small)
    assert near == pytest.approx(1e-4 * scale.unit * scale.spread / np.exp(warped.log_slopes(inner)), rel=1e-3)
    assert np.isnan(warped.variances(inner, np.full(len(inner), np.nan))).all()


def test_standard_errors_are_warped_with_their_values():
    """An outcome's variance is the square of what a small error of its value makes of it."""
    values = np.array([1.0, 5.0, 20.0, 2.0, 7.0, 11.0])
    scale = dataclasses.replace(scale_of(values, maximize=True), power=1.8)
    h = 1e-5
    slopes = (scale.outcomes(values + h) - scale.outcomes(values - h)) / (2 * h)

    assert scale.variances(values, np.full(len(values), 0.3)) == pytest.approx((0.3 * slopes) ** 2, rel=1e-6)


@pytest.fixture(scope="module")
def bent():
    """Told trials of a function that falls from ten thousand to one."""
    study = Study(space={"x": Float(0, 1), "y": Float(0, 1)}, minimize="loss")
    for x, y in np.random.default_rng(1).random((20, 2)):
        study.add({"x": x, "y": y}, float(np.exp(9 * np.hypot(x - 0.3, y - 0.6))))
    return study


def test_evidence_warps_badly_scaled_outcomes(bent):
    model = bent.model()
    told = np.array([trial.value for trial in model.trials])

    mean, deviation = model.predict([trial.params for trial in model.trials])

    assert model.scale.power > 1.2
    assert np.median(np.abs(mean / told - 1)) < 0.2
    assert (deviation > 0).all()


def test_warping_can_be_left_out(bent):
    plain = Study(space=bent.space, minimize="loss", settings=Settings(warp=False))
    for trial in bent.trials:
        plain.add(trial.params, trial.value)

    assert 1.0 == plain.model().scale.power


@pytest.mark.parametrize("power", [LOWEST, -1.0, 3.0, HIGHEST])
def test_deviations_in_the_users_unit_stay_among_the_values(power):
    """Beyond the end of a bounded warping there is no value: a deviation is not a million spreads."""
    scale = Scale(-1.0, 1.0, 0.0, 1.0, power)
    outcomes = scale.outcomes(np.array([-3.0, 0.0, 3.0]))

    assert scale.deviations(outcomes, np.ones(3)).max() < 30
    assert scale.values(outcomes) == pytest.approx([-3.0, 0.0, 3.0])


def test_warp_is_true_or_false():
    with pytest.raises(InputError, match="warp: expected true or false"):
        Settings(warp=1)


@pytest.fixture(scope="module")
def rate():
    """Told trials of a loss that is smooth in the logarithm of a rate, whose space does not say so."""
    study = Study(space={"rate": Float(1e-4, 1.0), "x": Float(0, 1)}, minimize="loss", seed=2)
    for r, x in np.random.default_rng(3).random((48, 2)):
        study.add({"rate": 1e-4 + r**3 * 0.9999, "x": x}, float(np.sin(3 * np.log10(1e-4 + r**3)) + (x - 0.4) ** 2))
    return study


def test_evidence_warps_a_badly_scaled_input(rate):
    """The model straightens the axis; its posterior is still one over the cube, and pools are asked for as ever."""
    model = rate.model()
    warp = model.posterior.process.kernel.warp
    told = np.array([trial.value for trial in model.trials])
    mean, _ = model.predict([trial.params for trial in model.trials])

    assert warp is not None
    assert warp.low[0] < 0.5
    assert np.sqrt(np.mean((mean - told) ** 2)) < 0.1
    assert all(1e-4 <= trial.params["rate"] <= 1 for trial in rate.ask(4))


@pytest.fixture(scope="module")
def ratio():
    """Told trials of a loss of which hardly more than the ratio of two parameters matters, on logarithmic axes."""
    space = {"rate": Float(1e-4, 1.0, log=True), "batch": Int(16, 1024, log=True), "x": Float(0, 1)}
    study = Study(space=space, minimize="loss", seed=2)
    for u in np.random.default_rng(3).random((48, 3)):
        params = study.space.decode(u)
        across = np.log10(params["rate"]) - np.log10(params["batch"])
        study.add(params, float(np.cos(2.5 * across) + (params["x"] - 0.4) ** 2))
    return study


def test_evidence_turns_the_axes_of_what_matters_together(ratio):
    """One axis of the model runs along the valley, and hardly matters; pools are asked for as ever."""
    kernel = ratio.model().posterior.process.kernel
    longest = kernel.warp.axes[:, int(np.argmax(kernel.lengthscale))]
    asked = ratio.ask(4)

    assert isinstance(kernel.warp, Rotation)
    assert longest[0] * longest[1] > 0.2  # rate and batch grow together
    assert 4 == len({tuple(trial.params.values()) for trial in asked})
    assert all(16 <= trial.params["batch"] <= 1024 for trial in asked)


def test_pictures_of_a_turned_model_are_by_the_axes_of_the_space(ratio, tmp_path):
    """What matters together matters alike; nearness and slices are drawn."""
    shares = of_lengthscale(belief_of(ratio, "importance"))

    assert shares["rate"] > shares["x"] and shares["batch"] > shares["x"]
    ratio.plot.slices().savefig(tmp_path / "slices.png", dpi=40)


def test_axes_are_not_turned_where_warping_is_off(ratio):
    off = Study(space=ratio.space, minimize="loss", settings=Settings(warp=False))
    for trial in ratio.trials:
        if trial.value is not None:
            off.add(trial.params, trial.value)

    assert off.model().posterior.process.kernel.warp is None


def test_inputs_are_not_warped_without_evidence_or_where_warping_is_off(rate):
    # Waves that no warping makes parabolas: half a wave is one, and evidence says so.
    even = Study(space={"x": Float(0, 1), "y": Float(0, 1)}, minimize="loss")
    for x, y in np.random.default_rng(1).random((24, 2)):
        even.add({"x": x, "y": y}, float(np.sin(9 * x) + np.cos(8 * y)))
    off = Study(space=rate.space, minimize="loss", settings=Settings(warp=False))
    for trial in rate.trials:
        if trial.value is not None:
            off.add(trial.params, trial.value)

    assert even.model().posterior.process.kernel.warp is None
    assert off.model().posterior.process.kernel.warp is None
