"""Pictures of trials alone: history and parallel coordinates hold the data that they claim to show."""

import numpy as np
import pytest

from poolwise.errors import InputError
from poolwise.plot.history import running_best
from poolwise.space.parameters import Float
from poolwise.study.study import Study


def lines(axes, label):
    """The coordinates of the line of that label."""
    [line] = [line for line in axes.lines if line.get_label() == label]
    return [np.asarray(part, dtype=float).tolist() for part in line.get_data()]


@pytest.mark.parametrize("name, better", [("study", min), ("maximizing", max)])
def test_history_shows_each_value_and_the_running_best(name, better, request):
    """Points are the told trials; the step line is the best of them up to each, carried on to the last trial."""
    study = request.getfixturevalue(name)
    told = [trial for trial in study.trials if trial.state == "told"]
    [axes] = study.plot.history().axes
    numbers, values = lines(axes, "told")
    _, best = lines(axes, "best so far")

    assert [trial.number for trial in told] == numbers
    assert [trial.value for trial in told] == values
    assert [better(values[: k + 1]) for k in range(len(values))] == best[:-1]
    assert best[-1] == best[-2]
    assert [[study.best.number], [study.best.value]] == lines(axes, "best")


def test_history_marks_what_has_no_value(study):
    """Failed and pending trials lie on the axis, at their numbers."""
    [axes] = study.plot.history().axes

    assert [[3.0], [0.0]] == lines(axes, "failed")
    assert [[10.0, 11.0], [0.0, 0.0]] == lines(axes, "pending")


def test_history_names_the_pools(study):
    """Every pool has its number above it, and every second one is shaded from edge to edge; added trials have none."""
    [axes] = study.plot.history().axes

    assert ["pool 0", "1", "2"] == [text.get_text() for text in axes.texts]
    assert [(-0.5, 3.0), (9.5, 2.0)] == [(patch.get_x(), patch.get_width()) for patch in axes.patches]


def test_history_shows_known_standard_errors():
    """A trial with a standard error has a bar of that length on both sides."""
    study = told([1.0, 2.0])
    study.add({"x": 0.7}, 1.5, sem=0.25)
    [axes] = study.plot.history().axes

    assert [[[2.0, 1.25], [2.0, 1.75]]] == [bar.tolist() for bar in axes.collections[-1].get_segments()]


@pytest.mark.parametrize(
    "values, scale, expected",
    [
        ([1.0, 0.5, 0.2], "auto", "linear"),
        ([10.0, 1.0, 0.5], "auto", "log"),
        ([10.0, 1.0, -0.05], "auto", "linear"),
        ([10.0, 1.0, 0.05], "linear", "linear"),
        ([1.0, 0.5, 0.2], "log", "log"),
    ],
)
def test_scale_of_values(values, scale, expected):
    """Logarithmic where it helps, or where it is asked for."""
    study = told(values)

    assert expected == study.plot.history(scale=scale).axes[0].get_yscale()


def test_a_logarithmic_axis_has_round_numbers():
    """Also where it spans little more than a decade."""
    [axes] = told([30.0, 5.0, 2.5]).plot.history().axes

    assert ["2", "5", "10", "20"] == [label.get_text() for label in axes.get_yticklabels()]


def test_wrong_scales_are_named():
    """A logarithm of what is not above zero, and an unknown word, are errors that say so."""
    study = told([1.0, 0.0])

    with pytest.raises(InputError, match="'log' needs values above zero, and the smallest is 0"):
        study.plot.history(scale="log")


def test_an_odd_value_does_not_spoil_the_axis():
    """A value far out is marked at the edge, and the others keep their room."""
    [axes] = told([-0.1, *np.linspace(0.0, 1.0, 20), 1e9]).plot.history().axes
    _, high = axes.get_ylim()

    assert high < 2
    assert [[21.0], [high]] == lines(axes, "above the axis")


def test_pictures_of_an_empty_study_say_so():
    """No trial, or none told, gives a figure with a message."""
    study = Study(space={"x": Float(0, 1)}, minimize="loss")

    assert "No trials yet" in study.plot.history().axes[0].texts[0].get_text()
    assert "No trial has been told" in study.plot.parallel().axes[0].texts[0].get_text()

    study.ask(2)

    assert "No trial has been told yet" == study.plot.history().axes[0].get_title(loc="left")


@pytest.mark.parametrize("name", ["study", "maximizing"])
def test_parallel_lines_lead_from_parameters_to_values(name, request):
    """Heights are cube positions, cells of equal height for choices; better lines are later, the best is drawn over."""
    study = request.getfixturevalue(name)
    told = [trial for trial in study.trials if trial.state == "told"]
    sign = 1 if study.direction == "maximize" else -1
    [axes] = study.plot.parallel().axes
    paths = [np.asarray(path) for path in axes.collections[0].get_segments()]
    ranked = sorted(told, key=lambda trial: sign * trial.value)
    values = np.array([trial.value for trial in ranked])

    assert [[0, 1, 2, 3]] * len(told) == [path[:, 0].tolist() for path in paths]
    for trial, path in zip(ranked, paths, strict=True):
        cells = ["a", "b", "c"].index(trial.params["kind"])
        expected = [np.log10(trial.params["lr"]) / 4 + 1, (trial.params["n"] - 0.5) / 4, (cells + 0.5) / 3]
        assert path[:3, 1] == pytest.approx(expected)
    assert [path[3, 1] for path in paths] == pytest.approx((values - values.min()) / np.ptp(values))
    assert paths[-1][:, 1].tolist() == lines(axes, "best")[1]


def test_parallel_rulers_have_their_names_and_choices(study):
    """Every parameter that varies and the objective; all values of a choice, round numbers elsewhere."""
    words = [text.get_text() for text in study.plot.parallel().axes[0].texts]

    assert [word for word in words if word in {"lr", "n", "kind", "fixed", "loss"}] == ["lr", "n", "kind", "loss"]
    assert {"a", "b", "c", "0.001", "1", "2", "3", "4"} <= set(words)


def test_running_best_is_direction_aware():
    """The smallest or the largest so far."""
    values = np.array([3.0, 1.0, 2.0, 5.0])

    assert [3.0, 1.0, 1.0, 1.0] == running_best(values, "minimize").tolist()
    assert [3.0, 3.0, 3.0, 5.0] == running_best(values, "maximize").tolist()


def told(values):
    """A study of these values."""
    study = Study(space={"x": Float(0, 1)}, minimize="loss")
    for i, value in enumerate(values):
        study.add({"x": i / len(values)}, value)
    return study
