"""Parameters: what they accept, and what they say to what they do not."""

import itertools
import math

import numpy as np
import pytest

from poolwise.space.errors import SpaceError
from poolwise.space.parameters import Choice, Fixed, Float, Int


@pytest.mark.parametrize(
    "make, words",
    [
        (lambda: Float(2, 1), "swap"),
        (lambda: Float(1, 1), "fix it"),
        (lambda: Float(0, math.inf), "finite"),
        (lambda: Float(math.nan, 1), "finite"),
        (lambda: Float(0, 1e250), "1e+200"),
        (lambda: Float("0", 1), "expected a number, got '0'"),
        (lambda: Float(False, 1), "expected a number"),
        (lambda: Float(0, 1, log=True), "above zero"),
        (lambda: Float(-1, 1, log=True), "above zero"),
        (lambda: Float(1, 1.0001, log=True), "leave log out"),
        (lambda: Float(1, 10, log=True, step=1), "do not go together"),
        (lambda: Float(0, 1, step=0), "above zero"),
        (lambda: Float(0, 1, step=-0.1), "above zero"),
        (lambda: Float(0, 1, step=2), "one value"),
        (lambda: Float(0, 1, step=1e-12), "leave it out"),
        (lambda: Float(1e17, 1e17 + 160, step=10), "lost"),
        (lambda: Float(0, 1e-250), "too narrow"),
        (lambda: Int(3, 2), "swap"),
        (lambda: Int(0.5, 2), "whole number"),
        (lambda: Int(0, 2**41), "2**40"),
        (lambda: Int(0, 10, log=True), "starts at 1"),
        (lambda: Choice([]), "empty"),
        (lambda: Choice("abc"), "list"),
        (lambda: Choice(["a", "b", "a"]), "'a' is there twice"),
        (lambda: Choice([1, 1.0]), "twice"),
        (lambda: Choice([0.0, math.nan]), "finite"),
        (lambda: Choice([(1, 2)]), "tuple"),
        (lambda: Choice([2**60]), "as text"),
        (lambda: Fixed(math.inf), "finite"),
    ],
)
def test_a_wrong_parameter_says_what_to_change(make, words):
    """Each refusal names the fault."""
    with pytest.raises(SpaceError) as caught:
        make()

    assert words in str(caught.value)


@pytest.mark.parametrize(
    "parameter, values",
    [
        (Float(0, 1, step=0.3), [0.0, 0.3, 0.6, 0.9]),
        (Float(0.1, 0.5, step=0.1), [0.1, 0.2, 0.3, 0.4, 0.5]),
        (Float(-1, 1, step=0.5), [-1.0, -0.5, 0.0, 0.5, 1.0]),
        (Float(1 / 3, 1, step=1 / 3), [1 / 3, 1 / 3 + 1 / 3, 1.0]),
        (Float(0, 300, step=100), [0.0, 100.0, 200.0, 300.0]),
        (Int(-1, 1), [-1, 0, 1]),
        (Int(1, 4, log=True), [1, 2, 3, 4]),
        (Choice(["b", None, 1, True, 0.5]), ["b", None, 1, True, 0.5]),
        (Choice(np.array([1, 2])), [1, 2]),
    ],
)
def test_discrete_values_are_these(parameter, values):
    """Steps as the user would write them; both bounds included; plain Python types."""
    axis = parameter.axis()
    found = parameter.decode(np.arange(axis.count, dtype=float))

    assert values == found
    assert [type(v) for v in values] == [type(v) for v in found]


def test_true_and_one_are_different_choices():
    """So are a number and its text; a float finds the equal integer."""
    choice = Choice([True, 1, "1", 0, False, None])

    assert [0, 1, 2, 3, 4, 5] == [choice.code("c", v) for v in (True, 1.0, "1", 0.0, np.False_, None)]


@pytest.mark.parametrize("parameter", [Int(3, 3), Choice(["only"]), Fixed(1), Int(1, 1, log=True)])
def test_one_value_has_no_axis(parameter):
    """What cannot vary takes no column."""
    assert parameter.axis() is None


@pytest.mark.parametrize(
    "parameter, text",
    [
        (Float(1e-5, 1, log=True), "Float(1e-05, 1, log=True)"),
        (Float(0, 2.5, step=0.5), "Float(0, 2.5, step=0.5)"),
        (Int(1, 8), "Int(1, 8)"),
        (Choice(["a", 1], ordered=True), "Choice(['a', 1], ordered=True)"),
        (Fixed(None), "Fixed(None)"),
    ],
)
def test_a_parameter_prints_as_it_is_written(parameter, text):
    """The text makes the same parameter again."""
    assert text == repr(parameter)
    assert parameter == eval(text)  # noqa: S307


@pytest.mark.parametrize(
    "parameter", [Int(1, 5), Int(1, 40, log=True), Float(0, 1, step=0.25), Choice([3, 1, 2], ordered=True)]
)
def test_a_value_lies_in_the_middle_of_its_cell(parameter):
    """Cells fill the axis without gaps, each value in the middle of its own; linear ones have equal shares."""
    axis = parameter.axis()
    middles = axis.place(np.arange(axis.count, dtype=float))[:, 0]
    edges = [0.0]
    for middle in middles:
        edges.append(2 * middle - edges[-1])
    inside = np.array([[(1 - 1e-9) * a + 1e-9 * b, 1e-9 * a + (1 - 1e-9) * b] for a, b in itertools.pairwise(edges)])

    assert abs(edges[-1] - 1) < 1e-12
    for k, pair in enumerate(inside):
        np.testing.assert_array_equal([k, k], axis.read(pair[:, None]))
    if not getattr(parameter, "log", False):
        np.testing.assert_allclose(1 / axis.count, np.diff(edges), rtol=1e-9)
