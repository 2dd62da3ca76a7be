"""Surfaces over pairs of points hold the values that they claim to show; every page of an integrand has its picture."""

import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest

import poolwise as pw
from poolwise.plot.surfaces import Fineness, maxima, pair_values, surface

PAGES = Path(__file__).parents[2] / "docs" / "integrands"
NAMES = sorted(path.stem for path in PAGES.glob("*.md") if path.stem != "README")
COARSE = Fineness(grid=5, samples=64)
X = np.linspace(0, 1, COARSE.grid)


@pytest.fixture(scope="module")
def posterior():
    """Three observations on a line."""
    process = pw.GaussianProcess(pw.Matern52(0.25), noise=1e-2)
    return process.condition([[0.1], [0.5], [0.85]], [0.86, 0.39, 0.78])


@pytest.fixture(scope="module")
def make():
    """The script that draws the pages' pictures."""
    spec = importlib.util.spec_from_file_location("make_integrands", PAGES / "make.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    "integrand",
    [
        lambda posterior: pw.ExpectedImprovement(0.86),
        lambda posterior: pw.LogNoisyExpectedImprovement.over(posterior),
    ],
    ids=["max-type", "with a baseline"],
)
def test_values_are_expectations_of_both_orders(posterior, integrand):
    """Each cell is the mean of `expectation` at (a, b) and at (b, a), and so the surface is symmetric to the bit."""
    goal = integrand(posterior)
    values = pair_values(posterior, goal, COARSE)
    for i, j in ((0, 3), (2, 2)):
        pools = ([[X[i]], [X[j]]], [[X[j]], [X[i]]])
        both = [float(pw.expectation(goal, posterior, pool, samples=COARSE.samples).value) for pool in pools]

        assert np.mean(both) == pytest.approx(values[i, j], rel=1e-9)
    assert np.array_equal(values, values.T)


def test_a_surface_marks_its_highest_pair(posterior):
    """Stars lie on the argmax in either order and, left, on the means there; axes and colour bar say what they are."""
    goal = pw.ExpectedImprovement(0.86)
    values = pair_values(posterior, goal, COARSE)
    left, right, bar = surface(posterior, goal, name="Worth", label="unit", fineness=COARSE).axes
    best = X[list(np.unravel_index(np.argmax(values), values.shape))]
    stars = [tuple(map(float, np.ravel(line.get_data()))) for line in right.lines if line.get_marker() == "*"]
    [means] = [line.get_ydata() for line in left.lines if line.get_label() == "best pair"]
    [level] = [line.get_ydata() for line in left.lines if line.get_label() == "threshold"]
    [seen] = [line.get_xydata() for line in left.lines if line.get_label() == "observed"]

    assert {tuple(best), tuple(best[::-1])} == set(stars)
    assert posterior(best[:, None]).mean == pytest.approx(means)
    assert [0.86, 0.86] == list(level)
    assert np.column_stack([posterior.X, posterior.y]) == pytest.approx(seen)
    assert ("Belief", "Worth", "unit") == (left.get_title(), right.get_title(), bar.get_ylabel())
    assert (values.min(), values.max()) == pytest.approx(bar.get_ylim())


def test_a_surface_marks_a_pool_that_was_chosen(posterior):
    """Where one is given, the stars are its points."""
    pool = np.array([[0.15], [0.7]])
    left, right, _ = surface(posterior, pw.Probability(), name="Worth", fineness=COARSE, pool=pool).axes
    [(x, y)] = [line.get_data() for line in left.lines if line.get_label() == "the pool"]
    stars = {tuple(map(float, np.ravel(line.get_data()))) for line in right.lines if line.get_marker() == "*"}

    assert ([0.15, 0.7], posterior(pool).mean.tolist()) == (x.tolist(), pytest.approx(y.tolist()))
    assert {(0.15, 0.7), (0.7, 0.15)} == stars


def test_few_low_values_do_not_take_all_colours(posterior):
    """Colours run over the bulk of the values; the diagonal, which is far below, is what the bar's tip stands for."""
    narrow = pw.integrand(lambda y, mean: mean[0] + mean[1] - 1e3 * (abs(mean[0] - mean[1]) < 1e-9))
    values = pair_values(posterior, narrow, COARSE)
    *_, bar = surface(posterior, narrow, name="Worth", fineness=COARSE).axes
    low, high = bar.get_ylim()

    assert values.min() < -900 and -10 < low < high == pytest.approx(values.max())


def test_a_flat_surface_is_drawn(posterior, tmp_path):
    """A value that is the same everywhere gives a picture, and no warning."""
    path = tmp_path / "flat.png"
    surface(posterior, pw.Probability(), name="One", fineness=COARSE).savefig(path, dpi=40)

    assert path.read_bytes().startswith(b"\x89PNG")


def test_maxima_are_counted(posterior):
    """Shares of pairs are products, sum to one, and are largest where a belief's functions are highest most often."""
    figure = maxima(posterior, name="Thompson", fineness=Fineness(grid=101, samples=512))
    left, right, _ = figure.axes
    shares = np.asarray(right.collections[0].get_array()).reshape(20, 20)
    [stars] = [line.get_xydata() for line in left.lines if line.get_label() == "their maxima"]
    drawn = [line.get_ydata() for line in left.lines if len(line.get_xdata()) == 101]

    assert np.array_equal(shares, shares.T)
    assert 1.0 == pytest.approx(shares.sum(), abs=0.02)  # the emptiest cells are lifted to the lowest colour
    assert shares[10].max() < shares[0].max()  # hardly ever beside the poor observation at 0.5
    assert [y.max() for y in drawn] == pytest.approx(stars[:, 1])


def test_what_cannot_be_drawn_is_named(posterior):
    """Points of two dimensions, a class in place of an integrand, and a grid of one point."""
    plane = pw.GaussianProcess(pw.Matern52(0.25), noise=1e-2).condition([[0.1, 0.2]], [1.0])

    with pytest.raises(pw.InputError, match="posterior: its points have 2 dimensions"):
        surface(plane, pw.SimpleRegret(), name="Worth")
    with pytest.raises(pw.InputError, match="give an instance"):
        surface(posterior, pw.SimpleRegret, name="Worth")
    with pytest.raises(pw.InputError, match="grid: expected a whole number, 2 or more"):
        Fineness(grid=1)


def test_every_page_has_a_picture_that_the_script_draws(make, posterior, monkeypatch):
    """Pages, pictures and the script name the same integrands; the belief drawn is the pages' own."""
    drawn = pw.Maxima(np.array([[0.2]]), np.array([1.5]))
    monkeypatch.setattr(make.pw, "path_maxima", lambda *_: drawn)
    titles = {name: each.title for name, each in make.pictures(posterior).items()}

    assert NAMES == sorted([*titles, "thompson"])
    assert NAMES == sorted(path.stem for path in (PAGES / "pictures").glob("*.png"))
    assert np.array_equal(posterior.X, make.belief().X) and np.array_equal(posterior.y, make.belief().y)


@pytest.mark.parametrize("name", NAMES)
def test_pages_have_one_structure(name):
    """Picture, code, when to use it and when not, references, and a line in the index; pictures stay small."""
    page, index = (PAGES / f"{name}.md").read_text(), (PAGES / "README.md").read_text()
    heads = re.findall(r"^## (.*)$", page, re.MULTILINE)

    assert f"](pictures/{name}.png)" in page and "```python" in page
    assert ["When to use it", "When not to use it", "References"] == heads[-3:]
    assert f"]({name}.md)" in index
    assert (PAGES / "pictures" / f"{name}.png").stat().st_size < 80_000
