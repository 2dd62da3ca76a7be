"""Constraints: what they mean, on columns of values, and how they refuse what they cannot read."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poolwise.space.errors import SpaceError
from poolwise.space.grammar import Parser, parse
from poolwise.space.parameters import Choice, Fixed, Float, Int
from poolwise.space.tokens import LONGEST

PARAMETERS = {
    "x": Float(-10, 10),
    "y": Float(-10, 10),
    "n": Int(0, 9),
    "act": Choice(["relu", "gelu", "tanh"]),
    "other": Choice(["gelu", "relu"]),
    "flag": Choice([True, False]),
    "drop": Choice([None, 0.1, 0.5]),
    "size": Choice([16, 32, 64]),
    "min": Float(0, 1),
    "learning rate": Float(0, 1),
    "mode": Fixed("fast"),
}
VALUES = {"x": 2.0, "y": -3.0, "n": 4, "act": "gelu", "other": "gelu", "flag": True, "drop": None, "size": 32}
VALUES |= {"min": 0.5, "learning rate": 0.25, "mode": "fast"}


def holds(text, **values):
    """Whether a constraint holds at one point."""
    point = {**VALUES, **values}
    codes = {name: np.array([p.code(name, point[name])]) for name, p in PARAMETERS.items()}
    return bool(parse(text, PARAMETERS)(codes, 1)[0])


@pytest.mark.parametrize(
    "text",
    [
        "x + y == -1",
        "x - y - 1 == 4",
        "x * y / 2 == -3",
        "-x**2 == -4",
        "x^2 == 4",
        "2 ** 3 ** 2 == 512",
        "2 ** -1 == 0.5",
        "--x == 2",
        "x-1 == 1",
        "(x + y) * n == -4",
        "1e1 == 10 and .5 == 5e-1 and 5. == 5",
        "-10 < y < x <= 2 < n",
        "not x < y",
        "not x < y and x > 1",
        "x < y or x > y and n == 4",
        "abs(y) == 3 and sqrt(n) == 2",
        "log(exp(x)) == x",
        "min(x, y, n) == y and max(x, y, n) == n",
        "min == 0.5 and min(min, 1) == 0.5",
        "`learning rate` * 4 == 1",
        'act == "gelu"',
        "act != 'relu'",
        "act == other",
        "'gelu' == act",
        "flag",
        "flag == true",
        "not (flag == false)",
        "flag == (x > 0)",
        "flag != (x < 0)",
        "drop == none",
        "drop != 0.5",
        "drop == none or drop == 0.1",
        "size >= 32 and size * 2 == 64",
        "mode == 'fast'",
        "mode == 'fast' or act == 'tanh'",
        "mode != 'slow'",
        "0.1 + 0.2 <= 0.3",
        "not 0.1 + 0.2 > 0.3",
        "not 0.1 + 0.2 != 0.3",
        "x <= 0 or log(x) < 1",
        "x\n + y\t< 0",
    ],
)
def test_these_hold(text):
    """At x = 2, y = -3, n = 4, act = gelu, flag = true, drop = None, size = 32; and their negations do not."""
    assert holds(text)
    assert not holds(f"not ({text})")


@pytest.mark.parametrize(
    "text", ["log(y) < 1", "sqrt(y) >= 0", "1 / (x - 2) > 0", "y ** 0.5 == y ** 0.5", "exp(exp(n * 9)) > 1"]
)
def test_what_is_not_finite_is_violated(text):
    """So is its negation; another condition beside it may still hold."""
    assert not holds(text)
    assert not holds(f"not {text}")
    assert not holds(f"{text} and x == 2")
    assert holds(f"{text} or x == 2")
    assert holds(f"not ({text} and x == 3)")


@pytest.mark.parametrize(
    "text, words, at",
    [
        ("xx < 1", "no parameter 'xx'", 0),
        ("x < 1 and fla", "Did you mean 'flag'?", 10),
        ("x = 1", "write ==", 2),
        ("x && y", "write and", 2),
        ("x < $", "cannot read '$'", 4),
        ("x +", "text ends", 3),
        ("", "text ends", 0),
        ("(x < 1", "not closed", 0),
        ("max(x, 1 < 2", "expected )", 9),
        ("x < 1)", "did not expect ')'", 5),
        ("x < 1 2", "did not expect '2'", 6),
        ("x + 1", "not a condition", 0),
        ("act", "not a condition", 0),
        ("sin(x) < 1", "no function 'sin'", 0),
        ("sqr(x) < 1", "Did you mean 'sqrt'?", 0),
        ("log(x, y) < 1", "one number", 0),
        ("max(x) < 1", "two numbers", 0),
        ("x < 1e999", "too large", 4),
        ("act == 'relu", "not closed", 7),
        ("act == 'rleu'", "Did you mean 'relu'?", 7),
        ("drop == 0.2", "no value of drop", 8),
        ("act < 1", "needs a number", 0),
        ("act == 1 + 1", "compares a choice with a number", 4),
        ("x == 'relu'", "compares a number with a choice", 2),
        ("x + flag < 1", "needs a number", 4),
        ("x and flag", "needs true or false", 0),
        ("not x", "needs true or false", 4),
        ("-act < 1", "needs a number", 1),
        ("x ** act < 1", "needs a number", 5),
        ("exp(flag) < 1", "needs a number", 4),
        ("(" * 30 + "x" + ")" * 30 + " < 1", "20 deep", 21),
        ("-" * 30 + "x < 1", "20 deep", 21),
        ("2 ** " * 30 + "x < 1", "20 deep", None),
    ],
)
def test_a_fault_is_shown_where_it_is(text, words, at):
    """The message has the expression, and a caret under the fault."""
    with pytest.raises(SpaceError) as caught:
        parse(text, PARAMETERS)
    message, shown, caret = str(caught.value).split("\n")

    assert words in message
    assert f"  {text}" == shown
    if at is not None:
        assert " " * (2 + at) + "^" == caret


def test_a_long_text_is_refused_and_a_long_sum_is_not():
    """Length has a limit; within it a flat expression may be as long as it likes."""
    assert holds(" + ".join(["n"] * 249) + f" == {4 * 249}")
    with pytest.raises(SpaceError, match="split it"):
        parse("x < 1" + " " * LONGEST, PARAMETERS)


words = st.sampled_from(
    [*"+-*/^()<>,=!&|\"'`.$", "**", "<=", "==", "!=", "and", "or", "not", "1", "2e3", *PARAMETERS, "log", "max"]
)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(
    st.one_of(
        st.text(max_size=60), st.lists(words, max_size=40).map(" ".join), st.lists(words, max_size=90).map("".join)
    )
)
def test_any_text_is_a_constraint_or_a_space_error(text):
    """Nothing else is raised, in reading or in evaluation."""
    codes = {name: np.zeros(3) for name in PARAMETERS}
    try:
        constraint = parse(text, PARAMETERS)
    except SpaceError:
        return

    assert (3,) == constraint(codes, 3).shape


def numbers():
    """Arithmetic that is valid both here and in Python."""
    leaves = st.one_of(st.sampled_from(["x", "y", "n"]), st.floats(0, 100).map(repr), st.integers(0, 100).map(str))
    return st.recursive(
        leaves,
        lambda part: st.one_of(
            st.tuples(part, st.sampled_from([" + ", "-", "*", " / "]), part).map("".join),
            part.map("({})".format),
            part.map("-{}".format),
            part.map("abs({})".format),
            part.map("({})**2".format),
            st.tuples(part, part).map(lambda pair: "min({}, {}, 3)".format(*pair)),
            st.tuples(part, part).map(lambda pair: "max({}, {})".format(*pair)),
        ),
        max_leaves=8,
    )


@settings(max_examples=120, deadline=None, derandomize=True)
@given(numbers(), st.floats(-10, 10), st.floats(-10, 10), st.integers(0, 9))
def test_arithmetic_agrees_with_python(text, x, y, n):
    """Precedence and values are Python's, where Python has a finite value."""
    try:
        expected = float(eval(text, {"x": x, "y": y, "n": n}))  # noqa: S307
    except (ZeroDivisionError, OverflowError):
        expected = math.nan
    codes = {name: np.array([value], dtype=float) for name, value in [("x", x), ("y", y), ("n", n)]}
    with np.errstate(all="ignore"):
        found = Parser(text, PARAMETERS).condition().run(codes)

    if math.isfinite(expected):
        np.testing.assert_allclose(found, expected, rtol=1e-13)


truths = st.recursive(
    st.sampled_from(["x < y", "x <= 1", "n > 4", "n == 3", "y != 2", "flag", "0 <= x < 5"]),
    lambda part: st.one_of(
        st.tuples(part, st.sampled_from([" and ", " or "]), part).map("".join),
        part.map("not ({})".format),
        part.map("({})".format),
    ),
    max_leaves=6,
)


@settings(max_examples=70, deadline=None, derandomize=True)
@given(truths)
def test_logic_agrees_with_python_on_every_row(text):
    """One evaluation over columns gives what Python gives row by row; the gap is zero exactly there."""
    rng = np.random.default_rng(0)
    x, y, n, flag = rng.integers(-3, 6, 16), rng.integers(-3, 6, 16), rng.integers(0, 9, 16), rng.integers(0, 2, 16)
    codes = {name: column.astype(float) for name, column in [("x", x), ("y", y), ("n", n), ("flag", flag)]}
    rows = [{"x": a, "y": b, "n": c, "flag": not d} for a, b, c, d in zip(x, y, n, flag, strict=True)]
    expected = [bool(eval(text, row)) for row in rows]  # noqa: S307

    np.testing.assert_array_equal(expected, parse(text, PARAMETERS)(codes, 16))
    np.testing.assert_array_equal(expected, parse(text, PARAMETERS).gap(codes, 16) == 0)
