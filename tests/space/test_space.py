"""`Space`: experiments in, points of the unit cube out, and back without loss."""

import copy
import json
import math
import pickle
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poolwise.space.errors import SpaceError
from poolwise.space.parameters import Choice, Fixed, Float, Int
from poolwise.space.space import Space

SPACE = Space(
    {
        "lr": Float(1e-5, 1, log=True),
        "layers": Int(1, 8),
        "act": Choice(["relu", "gelu", "tanh"]),
        "bias": Choice([True, False]),
        "drop": Float(0, 0.5, step=0.1),
        "width": Int(16, 1024, log=True),
        "grade": Choice(["low", "mid", "high"], ordered=True),
        "momentum": 0.9,
    },
    ["lr * layers <= 2", "act == 'relu' or width < 900"],
)


@st.composite
def floats(draw):
    """A Float of any kind and size."""
    kind = draw(st.sampled_from(["linear", "log", "step"]))
    if kind == "log":
        low = draw(st.floats(1e-150, 1e100))
        return Float(low, low * draw(st.floats(1.01, 1e80)), log=True)
    low = draw(st.floats(-1e12, 1e12))
    width = draw(st.floats(1e-6, 1e15))
    if not low < low + width:
        return Float(0, 1)
    return Float(low, low + width) if kind == "linear" else Float(low, low + 1e4, step=draw(st.floats(0.01, 5e3)))


@st.composite
def ints(draw):
    """An Int of any size."""
    log = draw(st.booleans())
    low = draw(st.integers(1, 2**39) if log else st.integers(-(2**40), 2**39))
    return Int(low, draw(st.integers(low, 2**40)), log=log)


scalars = st.one_of(st.none(), st.booleans(), st.integers(-99, 99), st.floats(-9, 9), st.text(max_size=3))
choices = st.builds(
    lambda values, ordered: Choice(values, ordered=ordered),
    st.lists(scalars, min_size=1, max_size=6, unique_by=lambda v: (isinstance(v, bool), isinstance(v, str), v)),
    st.booleans(),
)
parameters = st.lists(st.one_of(floats(), ints(), choices, scalars), min_size=1, max_size=6)
seeds = st.integers(0, 2**32)


def named(found):
    """A space of these parameters."""
    return Space({f"p{i}": parameter for i, parameter in enumerate(found)})


def exactly(params):
    """Values with their types, so that True is not 1."""
    return {name: (type(value), value) for name, value in params.items()}


@settings(max_examples=120, deadline=None, derandomize=True)
@given(parameters, seeds)
def test_encode_and_decode_lose_nothing(found, seed):
    """Every experiment that a space can suggest comes back as it was, bit by bit and type by type."""
    space = named(found)
    rng = np.random.default_rng(seed)
    U = np.concatenate([rng.random((6, space.dimension)), rng.integers(0, 2, (3, space.dimension)).astype(float)])
    trials = space.decode_many(U)

    assert [exactly(t) for t in trials] == [exactly(t) for t in space.decode_many(space.encode_many(trials))]
    assert [exactly(t) for t in trials] == [exactly(space.validate(t)) for t in trials]
    assert exactly(trials[0]) == exactly(space.decode(space.encode(trials[0])))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(parameters, seeds)
def test_snap_is_where_the_experiment_lies(found, seed):
    """Snap is encode after decode; twice is once; it stays in the cube, and next to a continuous point."""
    space = named(found)
    U = np.random.default_rng(seed).random((8, space.dimension))
    snapped = space.snap(U)

    np.testing.assert_array_equal(space.encode_many(space.decode_many(U)), snapped)
    np.testing.assert_array_equal(snapped, space.snap(snapped))
    assert ((snapped >= 0) & (snapped <= 1)).all()


@settings(max_examples=60, deadline=None, derandomize=True)
@given(parameters)
def test_layout_loses_nothing(found):
    """Through JSON text and back: the same space, the same text."""
    space = named(found)
    text = json.dumps(space.to_dict())
    back = Space.from_dict(json.loads(text))

    assert space == back
    assert text == json.dumps(back.to_dict())


@pytest.mark.parametrize("value", [0.1, 0.3, 1e-3, 1 / 8, 0.123456789, 0.99999, 1e-9])
@pytest.mark.parametrize(
    "parameter",
    [Float(0, 1), Float(-1, 3), Float(1e-12, 1, log=True), Float(0, 1, step=1e-9), Float(-1, 1e2)],
    ids=repr,
)
def test_typed_numbers_come_back_exactly(parameter, value):
    """Numbers of a few digits, as people write them, survive the cube."""
    space = Space({"x": parameter})

    assert {"x": value} == space.decode(space.encode({"x": value}))


def test_bounds_are_included():
    """The corners of the cube are the bounds, whatever their digits."""
    low, high = 1 / 3, math.pi
    space = Space({"x": Float(low, high), "y": Float(low, high, log=True), "z": Int(3, 9)})

    assert {"x": low, "y": low, "z": 3} == space.decode(np.zeros(3))
    assert {"x": high, "y": high, "z": 9} == space.decode(np.ones(3))
    assert [1.0, 1.0] == space.encode({"x": high, "y": high, "z": 9})[:2].tolist()


def test_points_outside_the_cube_are_clipped():
    """A search that oversteps gets the nearest experiment."""
    space = Space({"x": Float(0, 1), "n": Int(1, 3)})

    assert {"x": 1.0, "n": 1} == space.decode(np.array([1.5, -0.5]))


def test_columns_of_each_kind():
    """One each; three for three unordered values; none for a fixed one."""
    assert 9 == SPACE.dimension
    assert {"lr": 0, "layers": 1, "act": 2, "bias": 5, "drop": 6, "width": 7, "grade": 8} == {
        name: columns.start for name, columns in SPACE.columns.items()
    }
    assert slice(2, 5) == SPACE.columns["act"]
    assert [True] + [False] * 8 == SPACE.moving.tolist()
    assert math.inf == SPACE.size
    assert not SPACE.continuous


def test_two_choices_are_at_distance_one():
    """As far apart as the ends of a range, for two values and for more."""
    for count in (2, 3, 5):
        space = Space({"c": Choice(list(range(count)))})
        U = space.grid(10)
        distances = np.linalg.norm(U[:, None, :] - U[None, :, :], axis=2)

        np.testing.assert_allclose(1 - np.eye(count), distances, atol=1e-15)


def test_size_counts_and_continuous_means_no_snapping():
    """Sizes multiply; fixed values count once; a constraint ends continuity."""
    assert 24 == Space({"a": Int(1, 3), "b": Choice(["x", "y"]), "c": Float(0, 1, step=0.3), "d": 1}).size
    assert Space({"x": Float(0, 1), "y": 3}).continuous
    assert not Space({"x": Float(0, 1), "y": Float(0, 1)}, ["x < y"]).continuous
    assert not Space({"x": 3}).continuous


def test_uniform_points_give_uniform_values():
    """Each of the discrete values has its share of the cube: chi-squared below its 0.999 quantile."""
    space = Space({"n": Int(0, 4), "c": Choice(list("abcde")), "s": Float(0, 4, step=1)})
    trials = space.decode_many(np.random.default_rng(0).random((5000, space.dimension)))
    for name, parameter in (("n", range(5)), ("c", "abcde"), ("s", range(5))):
        counts = np.array([sum(t[name] == value for t in trials) for value in parameter])

        assert ((counts - 1000) ** 2 / 1000).sum() < 18.47  # four degrees of freedom


def test_feasible_is_the_constraints_on_decoded_values():
    """Row by row as `validate` sees it."""
    U = np.random.default_rng(1).random((200, SPACE.dimension))
    expected = [t["lr"] * t["layers"] <= 2 and (t["act"] == "relu" or t["width"] < 900) for t in SPACE.decode_many(U)]

    assert 0 < sum(expected) < 200
    np.testing.assert_array_equal(expected, SPACE.feasible(U))


GOOD = {"lr": 0.1, "layers": 3, "act": "relu", "bias": True, "drop": 0.3, "width": 64, "grade": "mid", "momentum": 0.9}


def test_validate_casts_and_completes():
    """3.0 for an Int, NumPy scalars, 0.30000000000000004 for a step, fixed values left out; order of the space."""
    given_ = {"width": np.int64(64), "layers": 3.0, "drop": 0.1 + 0.2, "grade": "mid", "bias": np.True_, "act": "relu"}
    valid = SPACE.validate({**given_, "lr": np.float32(0.5)})

    assert exactly({**GOOD, "lr": 0.5}) == exactly(valid)
    assert list(SPACE.names) == list(valid)


def test_validate_keeps_all_digits():
    """What was run is what is stored, also where suggestions have fewer digits."""
    space = Space({"x": Float(0, 1)})

    assert {"x": math.pi / 4} == space.validate({"x": math.pi / 4})
    assert abs(math.pi / 4 - space.decode(space.encode({"x": math.pi / 4}))["x"]) < 1e-11


@pytest.mark.parametrize(
    "change, words",
    [
        ({"lr": 2}, "lr: 2 is outside its range, 1e-05 to 1"),
        ({"lr": "0.1"}, "lr: expected a number, got '0.1'"),
        ({"lr": math.nan}, "lr: expected a finite number"),
        ({"lr": True}, "lr: expected a number"),
        ({"layers": 2.5}, "layers: expected a whole number, got 2.5"),
        ({"layers": 0}, "layers: 0 is outside"),
        ({"layers": 10**400}, "layers: expected a finite number"),
        ({"drop": 0.25}, "the nearest value is 0.2"),
        ({"act": "rleu"}, "Did you mean 'relu'?"),
        ({"act": None}, "act: None is none of 'relu'"),
        ({"act": ["relu"]}, "act: expected text"),
        ({"bias": 1}, "bias: 1 is none of True, False"),
        ({"momentum": 0.8}, "momentum: is fixed at 0.9"),
        ({"layer": 3}, "layer: no parameter of the space"),
        ({"layer": 3}, "Did you mean 'layers'?"),
        ({"lr": 0.5, "layers": 8}, "constraint 'lr * layers <= 2' is violated by lr = 0.5, layers = 8"),
    ],
)
def test_validate_names_what_is_wrong(change, words):
    """The parameter or constraint, the value, and what to change."""
    with pytest.raises(SpaceError) as caught:
        SPACE.validate({**GOOD, **change})

    assert words in str(caught.value)


def test_missing_parameters_are_named():
    """All of them; those with one value need not be there."""
    with pytest.raises(SpaceError, match=r"^act, grade: missing"):
        SPACE.encode({name: GOOD[name] for name in ("lr", "layers", "bias", "drop", "width")})


def test_a_bad_value_among_many_is_named():
    """The fast way for many trials refuses what the slow one does."""
    trials = [GOOD] * 5 + [{**GOOD, "layers": 9}]

    with pytest.raises(SpaceError, match="layers: 9 is outside"):
        SPACE.encode_many(trials)


@pytest.mark.parametrize(
    "data, words",
    [
        ({}, "'parameters' is missing"),
        ({"parameters": {}}, "no parameters"),
        ({"parameters": {"x": 1}, "constraint": []}, "Did you mean 'constraints'?"),
        ({"parameters": {"x": 1}, "constraints": "x < 1"}, "list of texts"),
        ({"parameters": {"x": {"low": 0, "high": 1}}}, "x: has no type"),
        ({"parameters": {"x": {"type": "flaot", "low": 0, "high": 1}}}, "Did you mean 'float'?"),
        ({"parameters": {"x": {"type": "float", "low": 0, "hihg": 1}}}, "Did you mean 'high'?"),
        ({"parameters": {"x": {"type": "float", "low": 0}}}, "x: key 'high' is missing"),
        ({"parameters": {"x": {"type": "float", "low": 1, "high": 0}}}, "x: Float: low, 1"),
        ({"parameters": {"x": {"type": "choice", "values": "ab"}}}, "x: Choice: expected a list"),
        ({"parameters": {"x": [1, 2]}}, "x: Fixed: expected text"),
    ],
)
def test_a_wrong_layout_says_what_to_change(data, words):
    """Unknown keys, missing keys, wrong values: each by its name."""
    with pytest.raises(SpaceError) as caught:
        Space.from_dict(data)

    assert words in str(caught.value)


def test_layout_is_this():
    """What study files hold does not change by accident; a plain value may stand for a fixed one."""
    layout = {
        "parameters": {
            "lr": {"type": "float", "low": 1e-5, "high": 1.0, "log": True},
            "drop": {"type": "float", "low": 0.0, "high": 0.5, "step": 0.1},
            "n": {"type": "int", "low": 1, "high": 8},
            "act": {"type": "choice", "values": ["relu", None, 1], "ordered": True},
            "seed": {"type": "fixed", "value": 3},
        },
        "constraints": ["lr * n <= 1"],
    }
    plain = {**layout, "parameters": {**layout["parameters"], "seed": 3}}

    assert layout == Space.from_dict(layout).to_dict()
    assert layout == Space.from_dict(plain).to_dict()


@pytest.mark.parametrize(
    "parameters, words",
    [
        ({}, "no parameters"),
        ({"": 1}, "cannot be a parameter's name"),
        ({" x": 1}, "cannot be a parameter's name"),
        ({"a`b": 1}, "cannot be a parameter's name"),
        ({"x": [1, 2]}, "Choice"),
        ({"x": (0, 1)}, "Float(low, high)"),
        ({"x": object()}, "x: expected Float, Int, Choice"),
    ],
)
def test_a_wrong_space_says_what_to_change(parameters, words):
    """Names and values that cannot be used."""
    with pytest.raises(SpaceError) as caught:
        Space(parameters)

    assert words in str(caught.value)


def test_one_text_is_no_list_of_constraints():
    """A forgotten bracket is not read letter by letter."""
    with pytest.raises(SpaceError, match=r"write \[...\] around it"):
        Space({"x": Float(0, 1)}, "x < 1")


@pytest.mark.parametrize("U", [np.zeros((2, 3)), np.array([[np.nan] * 9])])
def test_points_of_a_wrong_kind_are_refused(U):
    """The wrong number of columns, or no numbers."""
    with pytest.raises(SpaceError, match="points"):
        SPACE.snap(U)


def test_spaces_are_compared_and_copied():
    """By what they say, order and types included; copies work as well as the original."""
    assert Space({"x": 1, "y": 2}) != Space({"y": 2, "x": 1})
    assert Space({"x": 1}) == Space({"x": Fixed(1)})
    assert Space({"x": 1}) != Space({"x": True})
    for twin in (pickle.loads(pickle.dumps(SPACE)), copy.deepcopy(SPACE)):  # noqa: S301
        assert SPACE == twin
        assert hash(SPACE) == hash(twin)
        np.testing.assert_array_equal(SPACE.sample(4, 0), twin.sample(4, 0))


def test_a_space_prints_line_by_line():
    """Parameters, then constraints."""
    expected = "Space(\n  x: Float(0, 1)\n  mode: Fixed('fast')\n  where x > 0.5\n)"

    assert expected == repr(Space({"x": Float(0, 1), "mode": "fast"}, ["x > 0.5"]))


def test_no_jax_and_no_scipy_to_encode():
    """What tells and validates starts quickly."""
    code = """
import sys
from poolwise.space.space import Space
from poolwise.space.parameters import Float
space = Space({"x": Float(0, 1)}, ["x < 0.5"])
space.decode(space.encode(space.validate({"x": 0.25})))
sys.exit(bool({"jax", "scipy", "pandas"} & set(sys.modules)))
"""
    assert 0 == subprocess.run([sys.executable, "-c", code], timeout=120).returncode
