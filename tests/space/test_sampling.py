"""Points of a space: different, feasible, evenly spread, near; and what happens when there are no more."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poolwise.space.errors import SpaceError
from poolwise.space.parameters import Choice, Float, Int
from poolwise.space.space import Space

MIXED = Space(
    {"x": Float(0, 1), "rate": Float(1e-4, 1, log=True), "n": Int(1, 6), "c": Choice(list("abcd")), "k": 2},
    ["x * n <= 3", "c != 'd' or n > 2"],
)
FINITE = Space({"n": Int(1, 4), "s": Float(0, 1, step=0.25), "c": Choice(list("abc"))}, ["n * s <= 2"])


def simplex(count, limit="<= 1", **options):
    """Mixtures: shares whose sum has a limit."""
    total = " + ".join(f"x{i}" for i in range(count))
    return Space({f"x{i}": Float(0, 1, **options) for i in range(count)}, [f"{total} {limit}"])


def rows(points):
    return {row.tobytes() for row in points}


def check(space, points):
    """Different experiments that the space accepts, at their exact places."""
    assert len(points) == len(rows(points))
    assert space.feasible(points).all()
    np.testing.assert_array_equal(points, space.snap(points))
    for params in space.decode_many(points):
        assert params == space.validate(params)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(st.integers(0, 99), st.integers(0, 80), st.sampled_from(["mixed", "finite"]))
def test_samples_are_different_feasible_and_repeatable(seed, n, kind):
    """As many as asked for, or all that there are; the same seed gives the same ones."""
    space = {"mixed": MIXED, "finite": FINITE}[kind]
    points = space.sample(n, seed)

    check(space, points)
    assert min(n, len(space.grid()) if space is FINITE else math.inf) == len(points)
    np.testing.assert_array_equal(points, space.sample(n, seed))


def test_seeds_give_different_samples():
    """Scrambled, not one fixed sequence."""
    assert not rows(MIXED.sample(8, 0)) & rows(MIXED.sample(8, 1))


def test_samples_fill_the_cube_more_evenly_than_chance():
    """Scrambled Sobol' points: each half of each column has half of 64 points."""
    space = Space({f"x{i}": Float(0, 1) for i in range(6)})
    points = space.sample(64, 3)

    assert [32] * 6 == (points < 0.5).sum(axis=0).tolist()


def test_grid_has_every_feasible_point_once():
    """Against a plain triple loop."""
    expected = {(n, s / 4, c) for n in range(1, 5) for s in range(5) for c in "abc" if n * s / 4 <= 2}
    points = FINITE.grid(100)

    check(FINITE, points)
    assert expected == {tuple(params.values()) for params in FINITE.decode_many(points)}


def test_grid_has_a_limit():
    """Too many points, and infinitely many, are refused."""
    with pytest.raises(SpaceError, match="60 points, more than the limit of 59"):
        FINITE.grid(59)
    with pytest.raises(SpaceError, match="inf points"):
        MIXED.grid(10**9)


def test_a_space_runs_out():
    """With points excluded the rest comes, then nothing."""
    everything = FINITE.grid()
    first = FINITE.sample(20, 0)
    rest = FINITE.sample(1000, 1, exclude=first)

    check(FINITE, rest)
    assert rows(everything) == rows(first) | rows(rest)
    assert not rows(first) & rows(rest)
    assert (0, FINITE.dimension) == FINITE.sample(5, 0, exclude=everything).shape


def test_only_fixed_parameters():
    """One experiment, of no columns."""
    space = Space({"a": 1, "b": Choice(["only"])}, ["a < 2"])

    assert (1, 0) == space.sample(3, 0).shape
    assert {"a": 1, "b": "only"} == space.decode(space.sample(3, 0)[0])
    assert (0, 0) == space.neighbours(np.empty(0), 0, 4).shape
    with pytest.raises(SpaceError, match="no experiment satisfies"):
        Space({"a": 3}, ["a < 2"]).sample(1, 0)


@pytest.mark.parametrize(
    "space",
    [
        simplex(12),
        simplex(6, "== 1", step=0.05),
        simplex(5, ">= 4.99"),
        Space({"x": Float(0, 1), "y": Float(0, 1)}, ["abs(x - y ** 2) <= 1e-4", "x > 0.2"]),
        Space({"x": Float(-1, 1), "n": Int(1, 10**6)}, ["log(x) * n >= -1e-3", "n > 999000"]),
    ],
    ids=["mixture of 12", "exact mixture", "a corner", "a curve", "mixed"],
)
def test_thin_regions_are_found(space):
    """Regions that random points hardly meet still give all that were asked for."""
    points = space.sample(24, 0)

    check(space, points)
    assert 24 == len(points)


def test_points_of_a_thin_region_spread_over_it():
    """On the mixture of 12 every ingredient varies, with no two mixtures close to each other."""
    points = simplex(12).sample(16, 0)
    distances = np.linalg.norm(points[:, None, :] - points[None, :, :], axis=2) + 9 * np.eye(16)

    assert (np.ptp(points, axis=0) > 0.1).all()
    assert distances.min() > 0.1


@pytest.mark.parametrize(
    "space, words",
    [
        (Space({"x": Float(0, 1)}, ["x > 0", "x > 2"]), "x > 0; x > 2"),
        (Space({"x": Float(0, 1)}, ["log(x - 3) < 1"]), "log\\(x - 3\\) < 1"),
        (Space({"n": Int(0, 9)}, ["n < 0"]), "no experiment satisfies all constraints \\(n < 0\\)"),
    ],
)
def test_nothing_feasible_names_the_constraints(space, words):
    """An error, not an endless search; with nothing asked for it is no error."""
    with pytest.raises(SpaceError, match=words):
        space.sample(1, 0)

    assert 0 == len(space.sample(0, 0))


@settings(max_examples=25, deadline=None, derandomize=True)
@given(st.integers(0, 99), st.sampled_from(["mixed", "finite"]))
def test_neighbours_are_other_feasible_experiments(seed, kind):
    """Different from each other and from the point; as many as asked for where there are so many."""
    space = {"mixed": MIXED, "finite": FINITE}[kind]
    [here] = space.sample(1, seed)
    points = space.neighbours(here, seed, 12)

    check(space, points)
    assert not rows(points) & rows(here[None, :])
    assert 12 == len(points)
    np.testing.assert_array_equal(points, space.neighbours(here, seed, 12))


def test_neighbours_of_a_discrete_point_begin_with_single_steps():
    """Next integers, next steps, every other choice, before anything that changes more."""
    here = FINITE.encode({"n": 2, "s": 0.5, "c": "a"})
    first = {tuple(params.values()) for params in FINITE.decode_many(FINITE.neighbours(here, 0, 6))}

    assert {(1, 0.5, "a"), (3, 0.5, "a"), (2, 0.25, "a"), (2, 0.75, "a"), (2, 0.5, "b"), (2, 0.5, "c")} == first


def test_neighbours_are_near_at_several_scales():
    """In a continuous space: some within a hundredth, some beyond a tenth, and all in the cube."""
    space = Space({f"x{i}": Float(0, 1) for i in range(4)})
    distances = np.linalg.norm(space.neighbours(np.full(4, 0.5), 0, 200) - 0.5, axis=1)

    assert (distances < 0.01).sum() > 10
    assert (distances > 0.1).sum() > 10
    assert np.median(distances) < 0.25


def test_neighbours_of_a_small_space_are_all_there_is():
    """Asking for more than there is gives every other point, not an endless search."""
    space = Space({"a": Choice([True, False]), "n": Int(0, 1)})
    points = space.neighbours(space.encode({"a": True, "n": 0}), 0, 50)

    assert 3 == len(points)


@pytest.mark.parametrize("call", [lambda s: s.sample(1, -1), lambda s: s.neighbours(np.full(s.dimension, 0.5), -1, 2)])
def test_a_negative_seed_is_refused(call):
    """By name."""
    with pytest.raises(SpaceError, match="seed"):
        call(MIXED)
