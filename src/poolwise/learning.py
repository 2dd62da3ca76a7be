"""Hyperparameters by maximum a posteriori: `fit` climbs log evidence plus log prior.

Inside, outcomes have mean zero and variance one; the result is in the user's units.
"""

from __future__ import annotations

import dataclasses
import functools
import logging
import math
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from poolwise import checks
from poolwise.belief.gaussian_process import Data, GaussianProcess, Posterior, padded_data, prepare
from poolwise.belief.kernel import Kernel, Matern52
from poolwise.belief.learned_trend import trend_variance, with_learned_trend
from poolwise.belief.padding import SMALLEST, bucket
from poolwise.belief.warp import Warp
from poolwise.checks import Numbers
from poolwise.errors import InputError
from poolwise.evidence import bounds, has_warp, log_posterior, logs_of
from poolwise.maximizers.lbfgsb import State, ValueAndGradient, advance, init
from poolwise.programs import quickly
from poolwise.slices import slice_of, with_slice
from poolwise.sobol import sobol

log = logging.getLogger(__name__)

LARGEST = 1e150  # outcomes whose square is no number cannot be modelled
ROUNDS = 60
STARTS = 4
RACE = 4  # rounds that each start has before the better half goes on
MIDDLE = 96  # rows of a fit that are enough for some more observations than the smallest bucket holds
SCOUTS = 256  # with more observations, the starts race on this many of them and the winner goes on with all
CLOSE = 1e-4  # a step that gains less than this share of the log posterior ends a climb
GENTLE = 1e-2  # and so does a gradient below this, in the cube of logarithms

# Whose turn it is in the race of the starts, by rank, for how many rounds, and whether ranks are counted anew after it.
TURNS = np.array([(i, RACE, i == n - 1) for n in (STARTS, STARTS // 2) for i in range(n)] + [(0, ROUNDS, False)])


def fit(  # noqa: PLR0913
    X: Numbers,
    y: Numbers,
    *,
    kernel: type[Kernel] = Matern52,
    noise: Numbers | None = None,
    warp: bool = False,
    start: Posterior | None = None,
    seed: int = 0,
) -> Posterior:
    """The posterior with learned hyperparameters: a lengthscale for each dimension, amplitude, noise and a `Trend`.

    The trend is a parabola along each axis, and the belief doubts it as far as the data leave it open. Points lie in
    the unit cube, a row each. `noise`, where it is known, is the variance of the observations: one number, or one for
    each. With `warp`, a monotone warping of each axis is learned as well (see `Warp`). `start` is an
    earlier result for the same kind of data, such as the round before; it makes the fit faster. The same arguments give
    the same result.

    >>> X = np.linspace(0, 1, 12)[:, None]
    >>> posterior = fit(X, 100 + 5 * np.sin(6 * X[:, 0]))
    >>> bool(abs(posterior([[0.25]]).mean[0] - (100 + 5 * np.sin(1.5))) < 0.1)
    True
    """
    if not (isinstance(kernel, type) and issubclass(kernel, Kernel)):
        raise InputError("kernel: give the kernel's class, for instance kernel=poolwise.Matern52, without lengthscale.")
    seed = checks.count("seed", seed, least=0)
    with jax.enable_x64(True):
        problem = problem_of(X, y, kernel, noise)
        starts = starts_of(problem, start, seed, warp)
        if len(starts) > 1 and len(problem.outcomes) > SCOUTS:
            starts = [cube_of(race(problem, problem.data(scouts(problem, seed)), starts))]
        data = problem.data()
        problem.prepare(warp)
        end = race(problem, data, starts) if len(starts) > 1 else alone(problem, data, starts[0], ROUNDS)
        cube = cube_of(end)
        if not math.isfinite(height_of(end)):
            log.warning("fit: no start had finite evidence; going on with the prior's hyperparameters")
            box = bounds(problem.dimension, warp=warp)
            cube = (box.centre - box.low) / (box.high - box.low)
        return problem.posterior(cube)


@functools.cache
def climb_ahead(count: int, size: int, d: int, rounds: int, known_noise: bool) -> None:
    """Start to make the program of a climb of so many hyperparameters, where it is made for the first time."""
    with jax.enable_x64(True):
        rows = rows_of(count)
        data = padded_data(np.zeros((rows, d)), np.zeros(rows), np.zeros(rows if known_noise else ()), rows)
        _climb.ahead(data, begun(np.zeros(size)), rounds, kernel=Matern52, learn_noise=not known_noise)


@dataclass(frozen=True, eq=False)
class Problem:
    """Checked observations whose hyperparameters are wanted, and the standardisation of the outcomes."""

    points: Float[np.ndarray, "n d"]
    outcomes: Float[np.ndarray, " n"]
    noise: Float[np.ndarray, "*k"] | None
    kernel: type[Kernel]
    shift: float
    scale: float

    @property
    def dimension(self) -> int:
        return self.points.shape[1]

    def data(self, rows: Any = slice(None)) -> Data:
        """Standardised observations, all or some of them, padded."""
        known = np.zeros(()) if self.noise is None else np.asarray(self.noise / self.scale**2)
        standard = (self.outcomes - self.shift) / self.scale
        some = standard[rows]
        return padded_data(self.points[rows], some, known[rows] if known.ndim else known, rows_of(len(some)))

    def climb(self, data: Data, state: State, rounds: int) -> State:
        """A climb in the cube of logarithms, some rounds later; the first round only looks."""
        found: State = _climb(data, state, rounds, kernel=self.kernel, learn_noise=self.noise is None)
        return found

    def prepare(self, warp: bool) -> None:
        """Start to make the program that `posterior` needs."""
        axes = np.ones(self.dimension)
        kernel = self.kernel(axes, warp=Warp(axes, axes) if warp else None)
        noise = np.zeros(()) if self.noise is None else self.noise
        data = padded_data(self.points, self.outcomes, noise)
        prepare(GaussianProcess(kernel, data.noise if noise.ndim else 0.0), data)

    def posterior(self, cube: Float[np.ndarray, " t"]) -> Posterior:
        """The posterior with the hyperparameters at a point of the cube of logarithms."""
        d = self.dimension
        box = bounds(d, warp=has_warp(len(cube), d))
        logs = logs_of(box.low + (box.high - box.low) * cube, d)
        warp = None if logs.warp is None else Warp(*np.exp(logs.warp))
        learned = self.kernel(np.exp(logs.lengthscale), self.scale * math.exp(0.5 * logs.amplitude), warp)
        variance = self.scale**2 * math.exp(logs.noise) if self.noise is None else self.noise
        process = GaussianProcess(learned, variance, self.shift)
        plain = process.condition(self.points, self.outcomes)
        return with_learned_trend(plain, self.scale, math.exp(logs.trend))


def rows_of(count: int) -> int:
    """The rows of a fit: those of a belief, and a bucket more, as every round of a fit costs the cube of them."""
    return MIDDLE if SMALLEST < count <= MIDDLE else bucket(count)


def problem_of(X: Numbers, y: Numbers, kernel: type[Kernel], noise: Numbers | None) -> Problem:
    points, outcomes = np.asarray(checks.matrix("X", X)), np.asarray(checks.vector("y", y))
    if len(points) != len(outcomes):
        raise InputError(f"y: has {len(outcomes)} values for the {len(points)} rows of X; give one for each row.")
    if np.abs(outcomes).max() > LARGEST:
        raise InputError(f"y: has values beyond {LARGEST:g}; rescale the outcomes or leave those out.")
    variances = None if noise is None else _variances(noise)
    return Problem(points, outcomes, variances, kernel, *_standardisation(outcomes))


def scouts(problem: Problem, seed: int) -> Int[np.ndarray, " s"]:
    """Some of many observations, at random."""
    return np.sort(np.random.default_rng([seed, 1]).permutation(len(problem.outcomes))[:SCOUTS])


def race(problem: Problem, data: Data, starts: list[Float[np.ndarray, " t"]]) -> State:
    """Where the best of the usual starts leads."""
    return _turns(problem, data, starts, TURNS)


def alone(problem: Problem, data: Data, start: Float[np.ndarray, " t"], rounds: int) -> State:
    """Where one start leads in so many rounds, of which the first only looks: a race of one, by the same program."""
    return _turns(problem, data, [start] * STARTS, np.array([(0, 0, 0)] * (len(TURNS) - 1) + [(0, rounds, 0)]))


def _turns(problem: Problem, data: Data, starts: list[Float[np.ndarray, " t"]], turns: Int[np.ndarray, "r 3"]) -> State:
    rows = jax.device_put(np.stack(starts))
    end: State = _race(data, rows, turns, kernel=problem.kernel, learn_noise=problem.noise is None)
    return end


def begun(start: Float[np.ndarray, " t"]) -> State:
    """A climb that has not looked yet."""
    return dataclasses.replace(_blank(len(start)), points=jax.device_put(start[None]))


@functools.cache
def _blank(size: int) -> State:
    return jax.device_put(init(np.zeros((1, size)), gtol=GENTLE, ftol=CLOSE))


def cube_of(state: State) -> Float[np.ndarray, " t"]:
    """Where a climb is, in the cube of logarithms."""
    return np.asarray(state.points)[0]


def height_of(state: State) -> float:
    """The log posterior there."""
    return float(np.asarray(state.values)[0])


def _variances(noise: Numbers) -> Float[np.ndarray, "*n"]:
    return np.asarray(checks.positive("noise", checks.array("noise", noise), zero=True))


def _standardisation(y: Float[np.ndarray, " n"]) -> tuple[float, float]:
    """Mean and standard deviation, by way of the largest value so that nothing overflows; it stands for a zero one."""
    size = float(np.abs(y).max()) or 1.0
    scale = size * float(np.std(y / size))
    return size * float(np.mean(y / size)), scale if scale > 1e-12 * size else size


def starts_of(problem: Problem, start: Posterior | None, seed: int, warp: bool) -> list[Float[np.ndarray, " t"]]:
    """Starts in the unit cube of logarithms: the earlier result alone, or the usual one and a spread around it."""
    d = problem.dimension
    box, straight = bounds(d, warp=warp), [0.0] * (2 * d if warp else 0)
    if start is None:
        rows = [np.array([*[math.log(0.5 * math.sqrt(d))] * d, *straight, 0.0, *np.log([1e-3, 1 / d])])]
        spread = sobol(STARTS - 1, 3, np.random.default_rng(seed))
        low = np.array([math.log(0.1 * math.sqrt(d)), -1.0, math.log(1e-5)])
        high = np.array([math.log(4.0 * math.sqrt(d)), 1.0, math.log(1e-1)])
        rows += [np.array([*[a] * d, *straight, b, c, math.log(0.1 / d)]) for a, b, c in low + spread * (high - low)]
    else:
        checks.kind("start", start, Posterior, "give what an earlier fit returned.")
        rows = [start_from(start, d, problem.scale, warp)]
    return [np.clip((row - box.low) / (box.high - box.low), 0.0, 1.0) for row in rows]


def start_from(posterior: Posterior, d: int, scale: float, warp: bool) -> Float[np.ndarray, " t"]:
    """An earlier result's hyperparameters, in the units of the new standardisation."""
    if posterior.dimension != d:
        raise InputError(f"start: is in {posterior.dimension} dimensions where X has {d} columns.")
    kernel = posterior.process.kernel
    lengths = np.log(kernel.along(d))
    noise = float(np.mean(posterior.noise))
    bends = np.zeros((2, d)) if kernel.warp is None else kernel.warp.bends
    bent = bends.ravel() if warp else ()
    variances = np.maximum([float(kernel.amplitude) ** 2, noise, trend_variance(posterior)], 1e-300)
    return np.array([*lengths, *bent, *(np.log(variances) - 2 * math.log(scale))])


@quickly("kernel", "learn_noise")
def _race(
    data: Data, starts: Float[Array, "k t"], turns: Int[Array, "r 3"], *, kernel: type[Kernel], learn_noise: bool
) -> State:
    """Climbs from several starts, one after the other: each has a few rounds, the better half a few more, the best all.

    `turns` says whose turn it is, by rank, for how many rounds, and whether ranks are counted anew after it.
    """
    value_and_gradient = _log_posterior_in_cube(data, starts.shape[1], kernel, learn_noise)
    waiting = jax.vmap(lambda start: init(start[None], gtol=GENTLE, ftol=CLOSE))(starts)
    places, rounds, last = (turns[:, i] for i in range(3))

    def turn(i: Int[Array, ""], now: tuple[State, Int[Array, " k"]]) -> tuple[State, Int[Array, " k"]]:
        states, order = now
        mine = slice_of(order, slice_of(places, i))
        own = jax.tree.map(lambda leaf: slice_of(leaf, mine), states)
        moved = advance(value_and_gradient, own, slice_of(rounds, i))
        states = jax.tree.map(lambda leaf, new: with_slice(leaf, new, mine), states, moved)
        return states, jnp.where(slice_of(last, i) > 0, jnp.argsort(-states.values[:, 0]), order)

    states, order = jax.lax.fori_loop(0, turns.shape[0], turn, (waiting, jnp.arange(starts.shape[0])))
    return jax.tree.map(lambda leaf: slice_of(leaf, order[0]), states)


@quickly("kernel", "learn_noise")
def _climb(data: Data, state: State, rounds: int | Int[Array, ""], *, kernel: type[Kernel], learn_noise: bool) -> State:
    """A climb of the log posterior in the cube of logarithms, some rounds later."""
    return advance(_log_posterior_in_cube(data, state.points.shape[1], kernel, learn_noise), state, rounds)


def _log_posterior_in_cube(data: Data, size: int, kernel: type[Kernel], learn_noise: bool) -> ValueAndGradient:
    """The log posterior of that many hyperparameters as a function on the cube of logarithms, with its gradient."""
    box = bounds(data.X.shape[1], warp=has_warp(size, data.X.shape[1]))
    low, width = jnp.asarray(box.low), jnp.asarray(box.high - box.low)

    def value_and_gradient(cubes: Float[Array, "1 t"]) -> tuple[Float[Array, " 1"], Float[Array, "1 t"]]:
        value, gradient = log_posterior(low + width * cubes[0], data, kernel, learn_noise)
        return value[None], (gradient * width)[None]

    return value_and_gradient
