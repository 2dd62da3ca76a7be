"""The bounded L-BFGS against SciPy's, and what its loop promises."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize

from poolwise.maximizers.lbfgsb import Lbfgsb, advance, ascend, init

RNG = np.random.default_rng(0)
TURN = np.linalg.qr(RNG.standard_normal((8, 8)))[0]
PLANES, HEIGHTS = RNG.standard_normal((12, 8)), RNG.standard_normal(12)
SLOPE = RNG.standard_normal(8)
WIDE = RNG.standard_normal((64, 64))
OUTSIDE = np.array([0.5, 1.2, -0.2, 0.3, 1.4, 0.6, -0.1, 0.2])


def quadratic(x, top, matrix):
    return -((x - top) @ matrix @ (x - top))


def stretched(condition):
    return TURN @ np.diag(np.logspace(0, np.log10(condition), 8)) @ TURN.T


def valley(x):
    z = 3 * x - 1
    return -(100 * (z[1:] - z[:-1] ** 2) ** 2 + (1 - z[:-1]) ** 2).sum()


def plateau(x):
    return -(jnp.maximum(((x - 0.5) ** 2).sum() - 0.3, 0.0) ** 2)


def flat_outside(x):
    return jax.nn.relu(0.2 - ((x - 0.3) ** 2).sum())


def nan_behind_a_wall(x):
    return jnp.where(x[0] < 0.25, jnp.nan, -((x - 0.3) ** 2).sum())


def logarithm(x):
    return (jnp.log(x - 0.2) - 3 * x).sum()


def kinks(x):
    return -jnp.abs(x - jnp.linspace(0.2, 0.7, len(x))).sum()


def roof(x):
    return -(PLANES @ (x - 0.5) + HEIGHTS).max()


def tail(x):
    return jnp.exp(-30 * ((x - 0.8) ** 2).sum())


def quartic(x):
    return -((x - 0.3) ** 4).sum()


def ackley(x):
    z = 2 * x - 1
    return 20 * jnp.exp(-0.2 * jnp.sqrt((z**2).mean() + 1e-12)) + jnp.exp(jnp.cos(2 * jnp.pi * z).mean())


def styblinski(x):
    z = 10 * x - 5
    return -0.5 * (z**4 - 16 * z**2 + 5 * z).sum()


def levy(x):
    w = 1 + (20 * x - 11) / 4
    middle = ((w[:-1] - 1) ** 2 * (1 + 10 * jnp.sin(jnp.pi * w[:-1] + 1) ** 2)).sum()
    end = (w[-1] - 1) ** 2 * (1 + jnp.sin(2 * jnp.pi * w[-1]) ** 2)
    return -(jnp.sin(jnp.pi * w[0]) ** 2 + middle + end)


# Each with its number of dimensions. With one top, starts lie anywhere in the cube.
ONE_TOP = {
    "interior": (8, partial(quadratic, top=0.37, matrix=np.eye(8))),
    "active bounds": (8, partial(quadratic, top=OUTSIDE, matrix=np.eye(8))),
    "active bounds, condition 1e4": (8, partial(quadratic, top=OUTSIDE, matrix=stretched(1e4))),
    "active bounds, 64 dimensions": (64, partial(quadratic, top=WIDE[0], matrix=WIDE @ WIDE.T / 64)),
    "condition 1e4": (8, partial(quadratic, top=0.45, matrix=stretched(1e4))),
    "condition 1e6": (8, partial(quadratic, top=0.45, matrix=stretched(1e6))),
    "valley, 2 dimensions": (2, valley),
    "plateau": (8, plateau),
    "flat outside": (4, flat_outside),
    "not a number": (4, nan_behind_a_wall),
    "logarithm": (4, logarithm),
    "kinks": (6, kinks),
    "tail": (3, tail),
    "quartic": (8, quartic),
    "linear": (8, lambda x: x @ SLOPE),
}
# With many tops, which one a first step of another length finds is chance: starts lie around a top, as given. The
# valley in 8 dimensions has two.
MANY_TOPS = {
    "ackley": (3, ackley, 0.5, 0.1),
    "styblinski": (4, styblinski, 0.21, 0.1),
    "levy": (4, levy, 0.55, 0.02),
    "valley, 8 dimensions": (8, valley, 0.6, 0.1),
}


def scattered(p, centre=0.5, width=0.5):
    """Six starts in a cube around a point."""
    return centre + width * (2 * np.random.default_rng(11).random((6, p)) - 1)


def climbed(function, starts, **options):
    """The end of every start, by one compiled program."""
    with jax.enable_x64(True):
        each = jax.vmap(jax.value_and_grad(function))
        run = jax.jit(lambda points: ascend(each, points, rounds=1000, **options))
        return jax.tree.map(np.asarray, run(jnp.asarray(starts)))


def scipy_values(function, starts):
    """Where SciPy ends from each start; it is told a large number where there is none."""
    with jax.enable_x64(True):
        both = jax.jit(jax.value_and_grad(function))

        def down(x):
            value, slope = both(x)
            return (-float(value), -np.asarray(slope)) if np.isfinite(value) else (1e10, np.zeros_like(x))

        def end(start):
            if not np.isfinite(both(start)[0]):
                return -np.inf
            options = {"ftol": 1e-9, "gtol": 1e-5, "maxiter": 1000, "maxfun": 3000}
            return -minimize(
                down, start, jac=True, method="L-BFGS-B", bounds=[(0, 1)] * len(start), options=options
            ).fun

        return np.array([end(start) for start in starts])


def assert_as_high(expected, values):
    """No start ends lower, but for what stopping at a relative gain of 1e-9 leaves undone: 1e-6 of the value."""
    scale = np.maximum(1, np.abs(np.where(np.isfinite(expected), expected, 0)))

    assert (values >= expected - 1e-6 * scale).all(), (values - expected) / scale


@pytest.mark.parametrize("name", ONE_TOP)
def test_ends_where_scipy_ends_or_higher(name):
    """From anywhere in the cube, each start for itself."""
    p, function = ONE_TOP[name]
    starts = scattered(p)
    state = climbed(function, starts)

    assert state.done.all()
    assert_as_high(scipy_values(function, starts), state.values)


@pytest.mark.parametrize("name", MANY_TOPS)
def test_ends_at_the_top_of_its_basin_as_scipy_does(name):
    """From starts around one of many tops, each start for itself."""
    p, function, centre, width = MANY_TOPS[name]
    starts = scattered(p, centre, width)
    state = climbed(function, starts)

    assert_as_high(scipy_values(function, starts), state.values)


def test_roof_of_planes_is_climbed_higher_than_by_scipy():
    """Where the gradient jumps neither method has a theory: on average we end higher, and nowhere much lower."""
    starts = scattered(8)
    gap = climbed(roof, starts).values - scipy_values(roof, starts)

    assert gap.mean() > 0
    assert gap.min() > -0.02


@pytest.mark.parametrize("unit", [2.0**-40, 2.0**40])
@pytest.mark.parametrize("name", ["active bounds, condition 1e4", "condition 1e4"])
def test_the_unit_of_values_changes_no_climb(name, unit):
    """Where values are said to be in another unit, what is small, near a bound or nothing but rounding is the same."""
    p, function = ONE_TOP[name]
    starts = scattered(p)
    usual, other = climbed(function, starts), climbed(lambda x: unit * function(x), starts, unit=unit)

    np.testing.assert_allclose(usual.points, other.points, atol=1e-9)
    np.testing.assert_allclose(unit * usual.values, other.values)
    np.testing.assert_array_equal(usual.evaluations, other.evaluations)


def test_never_below_the_start():
    """Every accepted step climbs."""
    starts = scattered(4)
    with jax.enable_x64(True):
        before = np.asarray(jax.vmap(levy)(jnp.asarray(starts)))

    assert (before <= climbed(levy, starts).values).all()


def test_a_start_without_a_value_ends_alone():
    """It stays at -inf after one evaluation, and the others end where they end without it."""
    starts = np.array([[0.1, 0.5], [0.9, 0.5], [0.6, 0.1]])
    state, alone = climbed(nan_behind_a_wall, starts), climbed(nan_behind_a_wall, starts[1:])

    assert state.values[0] == -np.inf
    assert starts[0].tolist() == state.points[0].tolist()
    assert alone.points.tolist() == state.points[1:].tolist()
    assert [1, *alone.evaluations] == state.evaluations.tolist()


def test_a_start_without_a_gradient_keeps_its_value():
    """A value whose gradient is not a number is a value still."""
    state = climbed(lambda x: jnp.sqrt(x).sum() + x.sum(), np.zeros((1, 2)))

    assert state.values.tolist() == [0.0]
    assert state.done.all()


def test_a_climb_begins_alike_on_the_host():
    """From NumPy's starts nothing is compiled, and the program that follows is the same."""
    with jax.enable_x64(True):
        here, there = init(scattered(3)), init(jnp.asarray(scattered(3)))

    assert all(isinstance(leaf, np.ndarray) for leaf in jax.tree.leaves(here))
    jax.tree.map(np.testing.assert_array_equal, here, there)
    assert [leaf.dtype for leaf in jax.tree.leaves(here)] == [leaf.dtype for leaf in jax.tree.leaves(there)]


def test_chunks_end_where_one_run_ends():
    """Stopping and going on changes nothing."""
    with jax.enable_x64(True):
        each, starts = jax.vmap(jax.value_and_grad(valley)), jnp.asarray(scattered(3))
        more = jax.jit(lambda state: advance(each, state, 7))
        state = init(starts)
        for _ in range(4):
            state = more(state)
        whole = jax.jit(lambda points: ascend(each, points, rounds=28))(starts)

    assert int(state.rounds) == 28
    np.testing.assert_allclose(whole.points, state.points, atol=1e-9)


def test_runs_inside_a_scan():
    """A traced part of a larger program, as the greedy pool needs it."""
    with jax.enable_x64(True):

        def pick(top, _):
            def each(points):
                return -((points - top) ** 2).sum(-1), -2 * (points - top)

            state = ascend(each, jnp.full((2, 3), 0.5), rounds=20)
            return top + 0.2, state.points[0, 0]

        _, tops = jax.jit(lambda: jax.lax.scan(pick, 0.1, None, length=3))()

    np.testing.assert_allclose([0.1, 0.3, 0.5], tops, atol=1e-6)


def test_gains_are_spent_on_rounds_not_on_finished_starts():
    """The loop ends with its last start, well before the rounds run out."""
    climb = Lbfgsb()(lambda points: -((points - 0.3) ** 2).sum(-1), scattered(5))

    assert climb.evaluations < 6 * 10


def test_objective_is_traced_once_by_a_climb():
    """The starts are evaluated inside the loop, so that the objective is compiled a single time."""
    traces = []

    def objective(points):
        traces.append("traced")
        return -((points - 0.3) ** 2).sum(-1)

    Lbfgsb()(objective, scattered(5))

    assert len(traces) == 1
