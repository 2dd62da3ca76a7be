"""Stochastic gradient ascent with fresh base samples every step, by the update rules of optax."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, Key
from numpy.typing import ArrayLike

from poolwise import checks
from poolwise.errors import InputError
from poolwise.maximizers.climb import UNLIMITED, Budget, Climb, Log, Objective, as_pytree, as_starts, evaluate
from poolwise.precision import double

RULES = ("adam", "rmsprop", "momentum")
CHUNK = 64  # steps between two rows of the history


@dataclass(frozen=True)
class Stochastic:
    """Ascend by noisy gradients from every start at once, and return where each start ends.

    Every step draws `batch_size` fresh base samples if the objective has `redraw`, and climbs it as it is if not; each
    step ends inside the cube by cutting. The step of "momentum" falls as t^-0.7, as in Wilson's code.
    End points are judged by the objective itself, whose samples stay as they are; so is each row of the history. One
    that steps to where the objective is not finite goes back to where it was last judged.
    """

    rule: str = "adam"
    steps: int = 1024
    batch_size: int = 64
    learning_rate: float = 25e-3

    def __post_init__(self) -> None:
        checks.option("rule", self.rule, RULES)
        checks.store_counts(self, "steps", "batch_size")
        if not self.learning_rate > 0:
            raise InputError(f"learning_rate={self.learning_rate}: use a number above zero")

    @double
    def __call__(self, objective: Objective, starts: ArrayLike, budget: Budget = UNLIMITED, *, seed: int = 0) -> Climb:
        """Climb; an evaluation is one point, whatever the number of samples, and judging costs one for each start."""
        log, objective, points = Log(budget), as_pytree(objective), jnp.asarray(as_starts(starts))
        r, key = len(points), jax.random.key(seed)
        chunk = partial(_chunk, self.rule, self.batch_size, self.learning_rate)
        memory = _rule(self.rule, self.learning_rate).init(points)
        most = budget.allowed(r * (1 + self.steps + -(-self.steps // CHUNK))) // r  # batches of r evaluations
        used, taken, judged = 0, 0, (points, jnp.full(r, -jnp.inf, points.dtype))
        while used == 0 or (used + 1 < most and taken < self._steps(budget) and not log.late()):
            steps = min(log.share(used, CHUNK), most - used - 1, self._steps(budget) - taken) if used else 0
            memory, judged = chunk(objective, judged, memory, key, taken, steps)
            taken, used = taken + steps, used + steps + 1
            log.note(used * r, float(judged[1].max()))
        return log.climb(*judged)

    def _steps(self, budget: Budget) -> int:
        """A budget takes the place of the number of steps."""
        return self.steps if budget == UNLIMITED else 2**62


def _rule(name: str, learning_rate: float | Float[Array, ""]) -> optax.GradientTransformation:
    """The update rule, which descends."""
    if name == "momentum":
        return optax.sgd(lambda t: learning_rate * (t + 1.0) ** -0.7, momentum=0.9)
    return {"adam": optax.adam, "rmsprop": optax.rmsprop}[name](learning_rate)


@partial(jax.jit, static_argnames=("name", "samples"))
def _chunk(  # noqa: PLR0913
    name: str,
    samples: int,
    learning_rate: Float[Array, ""],
    objective: Objective,
    judged: tuple[Float[Array, "r p"], Float[Array, " r"]],
    memory: optax.OptState,
    key: Key[Array, ""],
    taken: Int[Array, ""],
    steps: Int[Array, ""],
) -> tuple[optax.OptState, tuple[Float[Array, "r p"], Float[Array, " r"]]]:
    """A few steps as one compiled program, then the value of each end point; `taken` steps came before."""
    rule = _rule(name, learning_rate)
    redraw = getattr(objective, "redraw", lambda key, samples: objective)

    def step(t: Int[Array, ""], carry: tuple[Any, Any]) -> tuple[Any, Any]:
        points, memory = carry
        noisy = redraw(jax.random.fold_in(key, t), samples)
        values, pull = jax.vjp(partial(evaluate, noisy), points)
        slopes = pull(jnp.ones_like(values))[0]
        down = jnp.where(jnp.isfinite(slopes), -slopes, 0.0)
        updates, memory = rule.update(down, memory, points)
        return jnp.where(jnp.isfinite(values)[:, None], jnp.clip(points + updates, 0.0, 1.0), judged[0]), memory

    points, memory = jax.lax.fori_loop(taken, taken + steps, step, (judged[0], memory))
    values = evaluate(objective, points)
    finite = jnp.isfinite(values)
    return memory, (jnp.where(finite[:, None], points, judged[0]), jnp.where(finite, values, judged[1]))
