"""Pictures of the model: what they draw is what the model of the study says, and no second model."""

import dataclasses
import sys

import numpy as np
import pytest

from poolwise.belief.gaussian_process import GaussianProcess
from poolwise.belief.kernel import Matern52
from poolwise.belief.learned_trend import trend_variance, with_learned_trend
from poolwise.belief.rotation import Rotation
from poolwise.belief.warp import Warp
from poolwise.errors import InputError, MissingExtra
from poolwise.plot.calibration import WIDE, leave_one_out
from poolwise.plot.record import ROWS, belief_of
from poolwise.plot.sensitivity import of_lengthscale, of_variance, shares
from poolwise.plot.slices import columns_for
from poolwise.plot.study import PICTURES
from poolwise.space.parameters import Choice, Float, Int
from poolwise.space.space import Space
from poolwise.study.definition import Settings
from poolwise.study.study import Study


@pytest.fixture(scope="session")
def model(study):
    return study.model()


def labelled(axes, label):
    return [artist for artist in [*axes.lines, *axes.collections] if artist.get_label() == label]


def test_slices_follow_the_posterior(study, model, centre):
    """The line along a parameter is the model's mean with the other parameters at the point, wherever allowed."""
    axes = study.plot.slices(at=centre).axes[0]
    [line] = labelled(axes, "posterior mean")
    x, y = (np.asarray(part) for part in line.get_data())
    mean, _ = model.predict([centre | {"lr": float(lr)} for lr in x])
    allowed = 2 * x <= 1

    assert ("lr", "log") == (axes.get_xlabel(), axes.get_xscale())
    assert y[allowed] == pytest.approx(mean[allowed])
    assert np.isnan(y[~allowed]).all() and (~allowed).any()


def test_panels_of_slices_fill_their_rows():
    """Four are a square."""
    assert [1, 2, 3, 2, 3, 3] == [columns_for(panels) for panels in range(1, 7)]


def test_slices_have_bands_of_two_deviations(study, model, centre):
    """The outer band reaches two deviations to both sides of the mean."""
    axes = study.plot.slices(at=centre).axes[0]
    corners = axes.collections[0].get_paths()[0].vertices
    low, high = (end(corners[np.isclose(corners[:, 0], 1e-4), 1]) for end in (np.min, np.max))
    [mean], [deviation] = model.predict([centre | {"lr": 1e-4}])

    assert (low, high) == pytest.approx((mean - 2 * deviation, mean + 2 * deviation))


def test_slices_of_few_values_are_boxes(study, model, centre):
    """A choice has a box for each value, with its name below; an integer has whole numbers below."""
    _, n, kind = study.plot.slices(at=centre).axes
    mean, deviation = model.predict([centre | {"kind": value} for value in "abc"])

    assert [str(text.get_text()) for text in kind.get_xticklabels()] == ["a", "b", "c"]
    assert [box.get_y() for box in kind.patches[:3]] == pytest.approx((mean - 2 * deviation).tolist())
    assert [box.get_height() for box in kind.patches[:3]] == pytest.approx((4 * deviation).tolist())
    assert all(float(tick).is_integer() for tick in n.get_xticks())


def test_slices_hold_trials_and_the_pending_pool(study, model, centre):
    """Every told trial, those with equal other parameters opaque and others faint; pending ones at their means."""
    axes = study.plot.slices(at=centre).axes[0]
    [told] = labelled(axes, "told")
    [star] = labelled(axes, "pending pool")
    points = {(float(x), float(y)): alpha for (x, y), alpha in zip(told.get_offsets(), told.get_alpha(), strict=True)}
    trials = [trial for trial in study.trials if trial.state == "told"]
    near = {trial.number for trial in trials if trial.added}

    assert {(trial.params["lr"], trial.value) for trial in trials} == set(points)
    for trial in trials:
        assert (points[trial.params["lr"], trial.value] > 1 - 1e-9) == (trial.number in near)
    assert [trial.params["lr"] for trial in study.pending] == pytest.approx(star.get_xdata())
    assert model.predict([trial.params for trial in study.pending])[0] == pytest.approx(star.get_ydata())


@pytest.mark.parametrize("pair", [("lr", "n"), ("kind", "lr")])
def test_contours_show_the_posterior_mean(study, model, centre, pair):
    """Cells over a parameter of few values carry the model's mean; the two sides have the parameters' names."""
    axes = study.plot.contours(pair, at=centre).axes[0]
    mesh = axes.collections[0]
    shown = np.asarray(mesh.get_array())
    corner = {"lr": 1e-4, "n": 1, "kind": "a"}
    [mean], _ = model.predict([centre | {name: corner[name] for name in pair}])

    assert pair == (axes.get_xlabel(), axes.get_ylabel())
    assert shown.ravel()[0] == pytest.approx(mean)
    assert len(study.pending) == len(labelled(axes, "pending pool")[0].get_xdata())


def test_contours_choose_the_most_important_pair(study, centre):
    """Without names, two parameters by importance: the loss hardly knows n."""
    axes = study.plot.contours(at=centre).axes[0]

    assert ("lr", "kind") == (axes.get_xlabel(), axes.get_ylabel())


def test_wrong_pairs_are_named(study, centre):
    """An unknown name gets a suggestion; one name twice is an error too."""
    with pytest.raises(InputError, match=r"'kin' is no parameter that varies.*kind"):
        study.plot.contours(("lr", "kin"), at=centre)
    with pytest.raises(InputError, match="two different parameters"):
        study.plot.contours(("lr", "lr"), at=centre)


def test_leave_one_out_is_what_leaving_one_out_gives(model):
    """The closed form equals learning the same trend from all observations but one, noise added."""
    posterior = model.posterior
    kernel, noise, y = posterior.process.kernel, np.broadcast_to(posterior.noise, 9), posterior.y
    scale, variance = np.std(y), trend_variance(posterior) / np.var(y)
    for i, (m, s) in enumerate(zip(*leave_one_out(posterior), strict=True)):
        others = np.arange(9) != i
        rest = GaussianProcess(kernel, noise[others], np.mean(y)).condition(posterior.X[others], y[others])
        normal = with_learned_trend(rest, scale, variance)(posterior.X[i : i + 1])

        assert m == pytest.approx(normal.mean[0], abs=1e-8)
        assert s**2 == pytest.approx(normal.covariance[0, 0] + noise[i], rel=1e-6)


@pytest.mark.parametrize("name", ["study", "maximizing"])
def test_calibration_shows_predictions_against_values(name, request):
    """Told values across, predictions up, in the user's unit and sign; the title counts what lies within."""
    study = request.getfixturevalue(name)
    model = study.model()
    mean, deviation = leave_one_out(model.posterior)
    off = np.abs(model.outcomes - mean) / deviation
    [axes] = study.plot.calibration().axes
    points = [line for line in axes.lines if line.get_label() in ("within 95 %", "outside 95 %")]
    shown = sorted((float(x), float(y)) for line in points for x, y in zip(*line.get_data(), strict=True))
    expected = sorted(zip([t.value for t in model.trials], model.scale.values(mean), strict=True))

    assert np.array(shown) == pytest.approx(np.array(expected))
    assert f"{(off <= 1).sum()} of 9 trials" in axes.get_title(loc="left")
    assert f"{(off <= WIDE).sum()} of 9 trials" in axes.get_title(loc="left").splitlines()[1]


def test_variance_shares_of_a_known_function():
    """Ishigami's function, whose Sobol' indices are known: 0.314, 0.442, 0 alone; 0.558, 0.442, 0.244 in all."""
    space = Space({name: Float(-np.pi, np.pi) for name in "abc"})

    def ishigami(U):
        a, b, c = (2 * U.T - 1) * np.pi
        return np.sin(a) + 7 * np.sin(b) ** 2 + 0.1 * c**4 * np.sin(a)

    found = shares(ishigami, space)

    assert [0.314, 0.442, 0.0] == pytest.approx([share.first for share in found.values()], abs=0.03)
    assert [0.558, 0.442, 0.244] == pytest.approx([share.total for share in found.values()], abs=0.03)


def test_variance_shares_of_choices_and_constants():
    """Several columns of one choice are moved together, each value a third of the time; a constant has no shares."""
    space = Space({"kind": Choice(["a", "b", "c"]), "n": Int(1, 2)})
    additive = shares(lambda U: np.where(U[:, 1] > 0, 3.0, 0.0) + np.where(U[:, 3] > 0.5, 1.0, 0.0), space)

    # variances: 9 (1/3)(2/3) = 2 and 1/4
    assert [8 / 9, 1 / 9] == pytest.approx([share.first for share in additive.values()], abs=0.01)
    assert [8 / 9, 1 / 9] == pytest.approx([share.total for share in additive.values()], abs=0.01)
    assert [0.0, 0.0] == [share.total for share in shares(lambda U: np.full(len(U), 2.5), space).values()]


def test_importance_bars(study, model):
    """Bars carry the shares, largest on top, and the axis names the method."""
    [axes] = study.plot.importance().axes
    totals = [bar.get_width() for bar in axes.patches[:3]]
    expected = of_variance(belief_of(study, "test"))
    ranked = sorted(expected, key=lambda name: expected[name].total)
    [by_length] = study.plot.importance(method="lengthscale").axes
    lengths = np.asarray(model.posterior.process.kernel.lengthscale)
    long = np.array([1 / lengths[0], 1 / lengths[1], np.sqrt(np.mean(lengths[2:] ** -2))])

    assert totals == [pytest.approx(expected[name].total) for name in ranked]
    assert ranked == [label.get_text() for label in axes.get_yticklabels()]
    assert "variance" in axes.get_xlabel() and "lengthscales" in by_length.get_xlabel()
    assert sorted(long / long.sum()) == pytest.approx([bar.get_width() for bar in by_length.patches])
    assert 1.0 == pytest.approx(sum(of_lengthscale(belief_of(study, "test")).values()))


def test_many_points_are_predicted_in_parts(study, model):
    """Chunks of one size give what the model gives at once."""
    U = np.random.default_rng(0).random((ROWS + 3, study.space.dimension))
    mean, deviation = belief_of(study, "test").predict(U)

    assert mean == pytest.approx(model.at(U)[0]) and deviation == pytest.approx(model.at(U)[1], abs=1e-9)


@pytest.mark.parametrize("name", ["slices", "contours", "calibration", "importance"])
def test_too_few_trials_say_how_many_are_needed(name):
    """The message has the number that is there and the number that is needed, which is four in any space."""
    study = Study(space={parameter: Float(0, 1) for parameter in "abcde"}, minimize="loss")
    study.add(dict.fromkeys("abcde", 0.5), 1.0)

    with pytest.raises(InputError, match=f"{name}: needs a model, and a model needs 4 told trials .* has 1"):
        getattr(study.plot, name)()


@pytest.mark.slow
def test_a_picture_through_the_recommended_point(study):
    """Without a point of the caller's, slices go through what the study recommends."""
    best = study.recommend()
    figure = study.plot.slices()
    [line] = labelled(figure.axes[0], "the point")

    assert "the recommended point" in figure.get_suptitle()
    assert best["lr"] == pytest.approx(line.get_xdata()[0])


@pytest.mark.parametrize("values", [[2.0] * 8, [0.0] * 8, [*np.linspace(0, 1, 7), 1e300]], ids=["2", "0", "1e300"])
def test_every_picture_is_drawn_of_dull_and_wild_values(values, tmp_path):
    """Constant outcomes and one that drowns the rest give pictures, without a screen and without a warning."""
    space = {"a $x$": Float(0, 1), "n": Int(1, 3), "k": Choice(["p", None, True])}
    study = Study(space=space, maximize="y", settings=Settings(acquisition="fill"))
    for trial, value in zip(study.ask(len(values)), values, strict=True):
        study.tell(trial, value)
    at = {"a $x$": 0.5, "n": 2, "k": None}
    options = {"slices": {"at": at}, "contours": {"at": at}}
    for name, draw in PICTURES.items():
        path = tmp_path / f"{name}.png"
        draw(study, **options.get(name, {})).savefig(path, dpi=40)

        assert path.read_bytes().startswith(b"\x89PNG")


def test_without_matplotlib_the_message_has_the_pip_line(study, monkeypatch):
    """Whoever lacks the extra is told how to get it."""
    monkeypatch.setitem(sys.modules, "matplotlib.backends.backend_agg", None)

    with pytest.raises(MissingExtra, match=r"pip install 'poolwise\[plot\]'"):
        study.plot.history()


def test_trials_are_near_as_the_belief_measures_distances(study):
    """Where the belief warps its inputs, trials are near as at warped points."""
    belief = belief_of(study, "slices")
    d = belief.X.shape[1]
    warp = Warp([0.3] * d, [1.4] * d)

    def near(points, warp=None):
        process = GaussianProcess(Matern52(np.full(d, 0.4), warp=warp), noise=1e-2)
        model = dataclasses.replace(belief.model, posterior=process.condition(belief.X, belief.values))
        return dataclasses.replace(belief, model=model).nearness(points, points[0], ["lr"])

    assert near(belief.X, warp) == pytest.approx(near(np.asarray(warp(belief.X))))
    assert near(belief.X, warp) != pytest.approx(near(belief.X))


def test_a_free_parameter_makes_no_trial_far(study):
    """Also where the belief turns its axes, so that a move along one of the space is one along several."""
    belief = belief_of(study, "slices")
    d, column = belief.X.shape[1], study.space.columns["lr"]
    turn = Rotation(np.linalg.qr(np.random.default_rng(0).standard_normal((d, d)))[0])
    process = GaussianProcess(Matern52(np.full(d, 0.4), warp=turn), noise=1e-2)
    turned = dataclasses.replace(belief.model, posterior=process.condition(belief.X, belief.values))
    elsewhere = belief.X.copy()
    elsewhere[:, column] = 0.9
    for each in (belief, dataclasses.replace(belief, model=turned)):
        near = each.nearness(belief.X, belief.X[0], ["lr"])

        assert near == pytest.approx(each.nearness(elsewhere, belief.X[0], ["lr"]))
        assert near.min() < 0.5 < near.max()
