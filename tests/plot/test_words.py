"""Words and numbers of pictures: none is cut off, lies on another or looks like its neighbour."""

import pytest

from poolwise.errors import InputError
from poolwise.plot import look
from poolwise.plot.canvas import new_figure
from poolwise.plot.record import belief_of
from poolwise.plot.sensitivity import of_variance
from poolwise.plot.study import PICTURES
from poolwise.space.parameters import Choice, Float
from poolwise.space.space import Space
from poolwise.study.definition import Settings
from poolwise.study.study import Study

LONG = "a_very_long_name_of_an_objective_that_goes_on_and_on_until_the_end"


@pytest.fixture(scope="module")
def wordy():
    """A study of long names, with values that are nearly the same beside their size."""
    space = Space({f"parameter_number_{i}_of_the_reactor_setup": Float(0, 1) for i in range(3)})
    study = Study(space=space, maximize=LONG, settings=Settings(acquisition="fill"))
    for trial in study.ask(8):
        study.tell(trial, 1e9 + sum(trial.params.values()))
    return study


@pytest.mark.parametrize("name", PICTURES)
def test_long_names_stay_within_the_picture(wordy, name):
    """They are shortened in the middle or broken into lines, so that nothing is cut off."""
    options = {"at": dict.fromkeys(wordy.space.names, 0.5)} if name in ("slices", "contours") else {}
    figure = PICTURES[name](wordy, **options)
    figure.canvas.draw()
    drawn, (width, height) = figure.get_tightbbox(), figure.get_size_inches()

    assert -0.02 < drawn.x0 < drawn.x1 < width + 0.02
    assert -0.02 < drawn.y0 < drawn.y1 < height + 0.02


def test_names_and_numbers_that_begin_alike_are_told_apart(wordy):
    """On rulers, where there is little room."""
    [axes] = wordy.plot.parallel().axes
    words = [text.get_text() for text in axes.texts]

    assert [f"…{i}_of_th…r_setup" for i in range(3)] == [word for word in words if "setup" in word]
    assert len({word for word in words if word.startswith("100000000")}) > 2


def test_shares_do_not_depend_on_an_offset(wordy):
    """Values with a billion added have the same importance: a third each, as all parameters are alike."""
    assert [1 / 3] * 3 == pytest.approx([s.total for s in of_variance(belief_of(wordy, "test")).values()], abs=0.05)


def test_the_legend_of_importance_is_below_the_bars(study):
    """With few parameters there is no room beside them."""
    figure = study.plot.importance()

    assert figure.axes[0].get_legend() is None and 1 == len(figure.legends)


@pytest.mark.parametrize("count, rotation, size", [(8, 30, 10), (12, 90, 6), (30, 90, 6)])
def test_words_of_many_choices_do_not_overlap(count, rotation, size):
    """They are slanted and end at their ticks, then upright and small, then every n-th only."""
    choice = Choice([f"catalyst-{i}" for i in range(count)])
    _, axes = new_figure()
    look.dress(axes, "x", "kind", choice, choice.axis())
    labels = axes.get_xticklabels()

    assert {(rotation, "right", "anchor", size)} == {
        (label.get_rotation(), label.get_ha(), label.get_rotation_mode(), label.get_fontsize()) for label in labels
    }
    assert [f"catalyst-{i}" for i in range(0, count, 2 if count > 15 else 1)] == [t.get_text() for t in labels]


def test_values_that_no_axis_holds():
    """It is said, in words."""
    study = Study(space={"x": Float(0, 1)}, maximize="y", settings=Settings(acquisition="fill"))
    for trial in study.ask(5):
        study.tell(trial, 5e307 * (-1) ** trial.number)

    with pytest.raises(InputError, match=r"slices: values as large as 5e\+307 cannot be drawn"):
        study.plot.slices()
