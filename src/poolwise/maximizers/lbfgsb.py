"""Bounded L-BFGS on the unit cube: every start side by side in one compiled loop.

Each start has its own memory, line search and stopping; one batched evaluation a round serves all of them, the starts
themselves in the first round. A pair is the move x' - x of an accepted step and the fall g - g' of the gradient: we
maximise, so move . fall > 0 where the function bends down. Pairs are kept newest first.

Byrd, Lu, Nocedal and Zhu (1995), doi:10.1137/0916069; active bounds after Bertsekas (1982), doi:10.1137/0320018; the
line search, which also brackets kinks, after Lewis and Overton (2013), doi:10.1007/s10107-012-0514-2.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int
from numpy.typing import ArrayLike

from poolwise import checks
from poolwise.maximizers.climb import UNLIMITED, Budget, Climb, Log, Objective, as_pytree, as_starts, value_and_gradient
from poolwise.precision import AnyArray, double
from poolwise.pytree import pytree, static

ValueAndGradient = Callable[[Float[Array, "r p"]], tuple[Float[Array, " r"], Float[Array, "r p"]]]

FIRST = 0.1  # length of the first step and of a steepest ascent step, in edges of the cube
ARMIJO = 1e-4  # share of the promised gain that a step must bring
WOLFE = 0.9  # share of the slope that may be left after a step, where a longer one is known to fail
NEAR = 1e-3  # a coordinate this close to a bound, and pushed outward, goes to the bound
FLAT = 1e-10  # relative curvature below which a pair says nothing
SHORTEST = 1e-10  # a line search ends when its step is shorter than this


@pytree
class State:
    """Where r starts stand in p dimensions, and the trial step of each: `direction` times `length`."""

    points: Float[AnyArray, "r p"]
    values: Float[AnyArray, " r"]
    gradients: Float[AnyArray, "r p"]
    pairs: Float[AnyArray, "r 2 m p"]  # moves, then falls
    direction: Float[AnyArray, "r p"]
    length: Float[AnyArray, " r"]
    floor: Float[AnyArray, " r"]  # a length along `direction` that still climbs steeply
    ceiling: Float[AnyArray, " r"]  # a length that fails, where one is known
    done: Bool[AnyArray, " r"]
    evaluations: Int[AnyArray, " r"]
    rounds: Int[AnyArray, ""]
    unit: Float[AnyArray, ""]  # of values: what is small or near counts in it
    gtol: float = static(1e-5)
    ftol: float = static(1e-9)


def ascend(  # noqa: PLR0913
    value_and_gradient: ValueAndGradient,
    starts: Float[Array, "r p"],
    *,
    rounds: int | Int[Array, ""],
    memory: int = 10,
    gtol: float = 1e-5,
    ftol: float = 1e-9,
    unit: float | Float[Array, ""] = 1.0,
) -> State:
    """Climb from every start for at most `rounds` rounds; traceable, so it can be a part of a larger program.

    A start is done when its projected gradient, in units of values, is below `gtol` everywhere, when a step gains less
    than `ftol` of max(unit, |value|), or when neither its memory nor steepest ascent finds a step uphill.
    """
    return advance(value_and_gradient, init(starts, memory=memory, gtol=gtol, ftol=ftol, unit=unit), rounds)


def init(
    starts: Float[Array | np.ndarray, "r p"],
    *,
    memory: int = 10,
    gtol: float = 1e-5,
    ftol: float = 1e-9,
    unit: float | Float[AnyArray, ""] = 1.0,
) -> State:
    """Before the first round: nothing is evaluated yet, so the function is compiled once, in the loop.

    From NumPy's starts it is made on the host, where JAX would compile a program for each of its shapes.
    """
    xp: Any = np if isinstance(starts, np.ndarray) else jnp
    r, p = starts.shape
    return State(
        points=xp.asarray(starts),
        values=xp.full(r, -xp.inf, starts.dtype),
        gradients=xp.zeros_like(starts),
        pairs=xp.zeros((r, 2, memory, p), starts.dtype),
        direction=xp.zeros_like(starts),
        length=xp.full(r, 0.5, starts.dtype),
        floor=xp.zeros(r, starts.dtype),
        ceiling=xp.full(r, xp.inf, starts.dtype),
        done=xp.zeros(r, bool),
        evaluations=xp.zeros(r, int),
        rounds=xp.zeros((), int),
        unit=xp.asarray(unit, starts.dtype),
        gtol=gtol,
        ftol=ftol,
    )


def advance(value_and_gradient: ValueAndGradient, state: State, rounds: int | Int[Array, ""]) -> State:
    """At most `rounds` more rounds; fewer once every start is done."""
    last = state.rounds + rounds
    return jax.lax.while_loop(
        lambda now: (now.rounds < last) & ~now.done.all(),
        lambda now: _round(value_and_gradient, now),
        state,
    )


def _round(value_and_gradient: ValueAndGradient, now: State) -> State:
    """One trial step of every start, then its line search's verdict."""
    trials = jnp.clip(now.points + now.length[:, None] * now.direction, 0.0, 1.0)
    values, gradients = value_and_gradient(trials)
    smooth = jnp.isfinite(gradients).all(-1)
    gradients = jnp.where(smooth[:, None], gradients, 0.0)
    usable = jnp.isfinite(values) & (smooth | (now.values == -jnp.inf)) & ~now.done
    values = jnp.where(usable, values, -jnp.inf)
    move, fall = trials - now.points, now.gradients - gradients
    search = _judge(now, values - jnp.where(usable, now.values, 0.0), move, fall)

    up = search.up
    points, gradients = jnp.where(up[:, None], trials, now.points), jnp.where(up[:, None], gradients, now.gradients)
    pairs = _remember(now.pairs, jnp.stack([move, fall], axis=1), search)
    turn = up | search.spent
    small = values - now.values <= now.ftol * jnp.maximum(now.unit, jnp.abs(values))
    stuck = search.spent & (now.pairs[:, 0, 0] == 0).all(-1)
    return State(
        points=points,
        values=jnp.where(up, values, now.values),
        gradients=gradients,
        pairs=pairs,
        direction=jnp.where(turn[:, None], _direction(points, gradients, pairs, now.unit), now.direction),
        length=search.length,
        floor=jnp.where(turn, 0.0, search.floor),
        ceiling=jnp.where(turn, jnp.inf, search.ceiling),
        done=now.done | (up & (small | (_projected(points, gradients / now.unit) < now.gtol))) | stuck,
        evaluations=now.evaluations + (~now.done).astype(int),
        rounds=now.rounds + 1,
        unit=now.unit,
        gtol=now.gtol,
        ftol=now.ftol,
    )


class _Search(NamedTuple):
    """The verdict on a trial: accept it, give the direction up, remember its pair; the next length, and its bracket."""

    up: Bool[Array, " r"]
    spent: Bool[Array, " r"]
    bent: Bool[Array, " r"]
    length: Float[Array, " r"]
    floor: Float[Array, " r"]
    ceiling: Float[Array, " r"]


def _judge(now: State, gain: Float[Array, " r"], move: Float[Array, "r p"], fall: Float[Array, "r p"]) -> _Search:
    """Accept a step that gains enough; once one has failed, also ask that its end is less steep, and bisect for that.

    Without the second demand, steps on the near side of a kink would teach nothing and shrink to nothing.
    """
    promised, bend = (move * now.gradients).sum(-1), (move * fall).sum(-1)
    enough = gain >= ARMIJO * promised
    steep = enough & (promised - bend > WOLFE * promised) & (now.ceiling < jnp.inf)
    floor, ceiling = jnp.where(steep, now.length, now.floor), jnp.where(enough, now.ceiling, now.length)
    narrow = (ceiling - floor) * jnp.abs(now.direction).max(-1) < SHORTEST
    up = enough & (~steep | narrow)
    noise = np.finfo(gain.dtype).eps * jnp.maximum(now.unit, jnp.abs(now.values))
    spent = ~enough & ((promised <= noise) | (narrow & ((floor == 0) | (now.length <= floor))))
    bent = up & (bend > FLAT * promised)
    inside = jnp.where(floor > 0, 0.5 * (floor + ceiling), now.length * _shrink(gain, promised))
    onward = jnp.where(bent | spent, 1.0, 2.0 * now.length)
    length = jnp.where(up | spent, onward, jnp.where(narrow & ~enough, floor, inside))
    return _Search(up, spent, bent, length, floor, ceiling)


def _shrink(gain: Float[Array, " r"], promised: Float[Array, " r"]) -> Float[Array, " r"]:
    """The top of the parabola through the value, its slope and the failed trial; at least a tenth, at most a half."""
    short = 2.0 * (promised - gain)
    return jnp.clip(promised / jnp.where(short > 0, short, 1.0), 0.1, 0.5)


def _remember(
    pairs: Float[Array, "r 2 m p"], newest: Float[Array, "r 2 p"], search: _Search
) -> Float[Array, "r 2 m p"]:
    """Put the newest pair in front where the function bends down; forget all where the line search failed."""
    pushed = jnp.concatenate([newest[:, :, None], pairs[:, :, :-1]], axis=2)
    keep, clear = search.bent[:, None, None, None], search.spent[:, None, None, None]
    return jnp.where(keep, pushed, jnp.where(clear, 0.0, pairs))


def _projected(point: Float[Array, "r p"], gradient: Float[Array, "r p"]) -> Float[Array, " r"]:
    """How far a step along the gradient, cut at the bounds, goes in any coordinate."""
    return jnp.abs(jnp.clip(point + gradient, 0.0, 1.0) - point).max(-1)


def _direction(
    point: Float[Array, "r p"], gradient: Float[Array, "r p"], pairs: Float[Array, "r 2 m p"], unit: Float[Array, ""]
) -> Float[Array, "r p"]:
    """Quasi-Newton ascent in the free coordinates; those pushed outward at or near a bound go to it."""
    way = jnp.where(gradient < 0, -point, 1.0 - point)
    pinned = (jnp.abs(way) <= jnp.minimum(NEAR, _projected(point, gradient / unit))[:, None]) & (gradient != 0)
    ascent = jnp.where(pinned, 0.0, gradient)
    newton, scale = _two_loops(ascent, ~pinned, pairs)
    uphill = (newton * ascent).sum(-1, keepdims=True) > 0
    return jnp.where(pinned, way, jnp.where(uphill, newton, scale[:, None] * ascent))


def _two_loops(
    ascent: Float[Array, "r p"], free: Bool[Array, "r p"], pairs: Float[Array, "r 2 m p"]
) -> tuple[Float[Array, "r p"], Float[Array, " r"]]:
    """The two-loop recursion of L-BFGS in the free coordinates, as two triangular solves with Gram matrices.

    With S the moves and Y the falls in the free coordinates, newest first, and L the lower triangle of S'Y,

        L a = S'g,        L' b = D a - c (Y'g - Y'Y a),        direction = c (g - Y a) + S b,

    where D is the diagonal of L and c = s.y / y.y of the newest pair. Also returns c, the scale of a gradient step.
    """
    r, _, m, p = pairs.shape
    both = pairs.reshape(r, 2 * m, p)
    onto = jnp.concatenate([jnp.where(free[:, None], pairs[:, 1], 0.0), ascent[:, None]], axis=1)
    grams = jnp.einsum("rkp,rjp->rkj", both, onto)
    SY, YY, Sg, Yg = grams[:, :m, :m], grams[:, m:, :m], grams[:, :m, m], grams[:, m:, m]
    eye = np.eye(m, dtype=ascent.dtype)[None]
    sy, yy = (SY * eye).sum(-1), (YY * eye).sum(-1)
    inverse = jnp.where(sy > 0, sy / jnp.where(yy > 0, yy, 1.0), 0.0)
    live = inverse > FLAT * inverse.max(-1, keepdims=True)
    newest = live & (jnp.cumsum(live, -1) == 1)
    size = jnp.sqrt((ascent * ascent).sum(-1))
    scale = jnp.where(live.any(-1), jnp.where(newest, inverse, 0.0).sum(-1), FIRST / jnp.where(size > 0, size, 1.0))

    lower = jnp.where(live[:, :, None] & live[:, None, :], SY, eye)
    a = _solve(lower, jnp.where(live, Sg, 0.0), transpose=False)
    right = sy * a - scale[:, None] * (Yg - jnp.einsum("rij,rj->ri", YY, a))
    b = _solve(lower, jnp.where(live, right, 0.0), transpose=True)
    mix = jnp.einsum("rk,rkp->rp", jnp.concatenate([b, -scale[:, None] * a], axis=1), both)
    return jnp.where(free, scale[:, None] * ascent + mix, 0.0), scale


def _solve(lower: Float[Array, "r m m"], right: Float[Array, "r m"], *, transpose: bool) -> Float[Array, "r m"]:
    """Solve with the lower triangle of each matrix, or with its transpose."""
    solved = jax.lax.linalg.triangular_solve(lower, right[..., None], left_side=True, lower=True, transpose_a=transpose)
    return solved[..., 0]


CHUNK = 16  # rounds between two rows of the history


@dataclass(frozen=True)
class Lbfgsb:
    """Bounded L-BFGS from every start at once; each start ends at a local maximum of its own.

    With no budget at most `rounds` rounds are made. An evaluation is one point with its gradient; a start that is done
    is still evaluated along with the others, and counted.
    """

    rounds: int = 200
    memory: int = 10
    gtol: float = 1e-5
    ftol: float = 1e-9

    def __post_init__(self) -> None:
        checks.store_counts(self, "rounds", "memory")

    @double
    def __call__(self, objective: Objective, starts: ArrayLike, budget: Budget = UNLIMITED, *, seed: int = 0) -> Climb:
        """Climb; nothing here is random, so the seed changes nothing."""
        log, objective, points = Log(budget), as_pytree(objective), jnp.asarray(as_starts(starts))
        r = len(points)
        state = init(points, memory=self.memory, gtol=self.gtol, ftol=self.ftol)
        most, done = max(1, budget.allowed(r * self.rounds) // r), 0
        while done < most and not (state.done.all() or (done and log.late())):
            state = _chunk(objective, state, min(log.share(done, CHUNK) if done else 1, most - done))
            done = int(state.rounds)
            log.note(done * r, float(state.values.max()))
        return log.climb(state.points, state.values)


@partial(jax.jit, donate_argnames="state")
def _chunk(objective: Objective, state: State, rounds: Int[Array, ""]) -> State:
    """A few rounds as one compiled program; their number is an argument, so that it is compiled once."""
    return advance(partial(value_and_gradient, objective), state, rounds)
