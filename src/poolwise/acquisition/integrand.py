"""Integrands: what a pool's outcomes are worth. An acquisition function is the expectation of one [W17, Table 1].

A max-type integrand is two expressions: the score of one outcome, and the value of the pool's best score. The maximum
over the pool and the mean over samples are written here once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from poolwise import checks
from poolwise.acquisition.reading import read_by
from poolwise.acquisition.region import Box
from poolwise.acquisition.tail import upside
from poolwise.belief.gaussian_process import Posterior
from poolwise.belief.normal import Normal
from poolwise.checks import Numbers
from poolwise.precision import concrete, to_numpy
from poolwise.pytree import pytree


@runtime_checkable
class Integrand(Protocol):
    """h(y; mean): the worth of one joint outcome of a pool whose outcomes have that mean."""

    def __call__(self, y: Float[Array, " q"], mean: Float[Array, " q"]) -> Float[Array, "..."]: ...


@runtime_checkable
class Lookahead(Protocol):
    """An integrand that is itself an expectation, under the belief after the pool is observed [W17, recursion]."""

    def after(self, posterior: Posterior, pool: Float[Array, "q d"]) -> tuple[Normal, Integrand]:
        """The Gaussian of what will be observed at the pool, and the worth of each observation."""


@dataclass(frozen=True, eq=False)
class MaxType:
    """A score for each outcome and a value of the best score: h(y; mean) = value(max_i score(y_i, mean_i)).

    Where values are logarithms (`logarithmic`), their mean over samples is log mean exp. `as_outcomes` says whether
    they are in the unit of outcomes, as a search's tolerances then are.
    """

    logarithmic: ClassVar[bool] = False
    as_outcomes: ClassVar[bool | None] = None

    def __init_subclass__(cls) -> None:
        """A formula for the last outcome holds for the score and the value it was made for."""
        super().__init_subclass__()
        if {"score", "value"} & vars(cls).keys() and "integrated" not in vars(cls):
            cls.integrated = MaxType.integrated  # type: ignore[method-assign]

    def score(self, y: Float[Array, "..."], mean: Float[Array, "..."]) -> Float[Array, "..."]:
        """What one outcome counts."""
        return y

    def value(self, best: Float[Array, "*m"]) -> Float[Array, "*m"]:
        """What the best score is worth."""
        return best

    def unseen(self, value: float) -> bool:
        """Whether a value says that base samples show nothing: the pool of greedy picks is then the best there is."""
        return False

    def pooled(self, scores: Float[Array, "r q m"]) -> Float[Array, "r m"]:
        """The best score of each sample's pool."""
        return highest(scores)

    def integrated(
        self, best: Float[Array, "1 m"], given: Float[Array, "p m"], deviation: Float[Array, "p 1"], mean: Array
    ) -> Float[Array, "p m"] | None:
        """The expected value with one more outcome, N(given, deviation^2), beside a best score; None: no formula.

        Greedy picks take it instead of samples of that outcome: exact for a first pick, smooth in the point for all.
        """
        return None

    def __call__(self, y: Float[Array, " q"], mean: Float[Array, " q"]) -> Float[Array, ""]:
        return self.value(jnp.max(self.score(y, mean)))


@jax.custom_jvp
def highest(scores: Float[Array, "r q m"]) -> Float[Array, "r m"]:
    """The best score of each sample; points that tie each have its whole slope, which saves counting them."""
    return jnp.max(scores, axis=1)


@highest.defjvp
def _highest_jvp(primals: Any, tangents: Any) -> Any:
    best = highest(*primals)
    return best, jnp.sum(jnp.where(primals[0] == best[:, None, :], tangents[0], 0.0), axis=1)


def unit_of(integrand: Any, amplitude: Float[Array, ""]) -> float | Float[Array, ""]:
    """What an integrand's values count in: the amplitude of outcomes, or one.

    The smaller where it does not say so: a search then climbs too long rather than not at all.
    """
    as_outcomes = getattr(integrand, "as_outcomes", None)
    if as_outcomes is None:
        return jnp.minimum(amplitude, 1.0)
    return amplitude if as_outcomes else 1.0


def has_formula(integrand: MaxType) -> bool:
    """Whether a last outcome is integrated by formula."""
    return type(integrand).integrated is not MaxType.integrated


def baseline_slots(integrand: Any) -> int:
    """How many outcomes an integrand looks at beside the pool's own."""
    return getattr(integrand, "slots", 0)


def averaged(integrand: Any, values: Float[Array, "... m"]) -> Float[Array, "..."]:
    """The mean over samples, along the last axis; of exponentials where values are logarithms."""
    if not getattr(integrand, "logarithmic", False):
        return jnp.mean(values, axis=-1)
    return jax.scipy.special.logsumexp(values, axis=-1) - math.log(values.shape[-1])


@pytree
class ExpectedImprovement(MaxType):
    """By how much the best outcome exceeds a threshold: max(0, max(y) - threshold) [W17, EI].

    Its derivative in the threshold is minus the probability of improvement.
    """

    as_outcomes: ClassVar[bool | None] = True
    threshold: Numbers

    def __post_init__(self) -> None:
        store_number(self, "threshold")

    def value(self, best: Float[Array, "*m"]) -> Float[Array, "*m"]:
        return jax.nn.relu(best - self.threshold)

    def integrated(
        self, best: Float[Array, "1 m"], given: Float[Array, "p m"], deviation: Float[Array, "p 1"], mean: Array
    ) -> Float[Array, "p m"]:
        """c - threshold + E max(0, y - c), c the larger of best and threshold."""
        floor = jnp.maximum(best, self.threshold)
        return floor - self.threshold + upside(given, deviation, floor)


@pytree
class ProbabilityOfImprovement(MaxType):
    """Whether the best outcome exceeds a threshold [W17, PI].

        soft: sigmoid((max(y) - threshold) / (temperature spread))        hard (temperature=None): 1[max(y) > threshold]

    `temperature` counts in units of `spread`, the spread of the outcomes (their standard deviation, say): scale
    outcomes, threshold and spread together and the value stays. The soft form is the probability of improvement under
    extra logistic noise, and tends to the hard one as temperature^2. A step has no gradient, so `expectation` takes the
    hard form by its complement, one minus the probability of the box below the threshold: that is smooth [W17, 2].
    """

    as_outcomes: ClassVar[bool | None] = False
    threshold: Numbers
    temperature: Numbers | None = 0.01
    spread: Numbers = 1.0

    def __post_init__(self) -> None:
        store_number(self, "threshold")
        store_number(self, "spread", positive=True)
        if self.temperature is not None:
            store_number(self, "temperature", positive=True)

    def value(self, best: Float[Array, "*m"]) -> Float[Array, "*m"]:
        excess = best - self.threshold
        if self.temperature is None:
            return jnp.where(excess > 0, 1.0, 0.0)  # left-continuous: equalling the threshold is no improvement
        return jax.nn.sigmoid(excess * (1 / (self.temperature * self.spread)))  # one division, not one a sample

    def missed(self) -> Box | None:
        """The region whose probability is one minus the expectation, for the hard form."""
        return Box(upper=self.threshold) if self.temperature is None else None


@pytree
class UpperConfidenceBound(MaxType):
    """The parallel upper confidence bound: max(mean + sqrt(beta pi / 2) |y - mean|) [W17, UCB].

    E|y - mean| = sigma sqrt(2 / pi) makes it mean + sqrt(beta) sigma at q = 1: the multiplier is the square root of
    beta, and the paper's beta = sqrt(3) stands for 1.316 standard deviations. It grows with q, and it does not see the
    sign of a correlation.
    """

    as_outcomes: ClassVar[bool | None] = True
    beta: Numbers = math.sqrt(3)

    def __post_init__(self) -> None:
        store_number(self, "beta", positive=True)

    def score(self, y: Float[Array, "..."], mean: Float[Array, "..."]) -> Float[Array, "..."]:
        return mean + self._stretch() * jnp.abs(y - mean)

    def integrated(
        self, best: Float[Array, "1 m"], given: Float[Array, "p m"], deviation: Float[Array, "p 1"], mean: Array
    ) -> Float[Array, "p m"]:
        """c + E max(0, mean + g - c) + E max(0, mean - g - c), c the larger of best and mean, g the stretched gap."""
        floor, gap, spread = jnp.maximum(best, mean), self._stretch() * (given - mean), self._stretch() * deviation
        return floor + upside(mean + gap, spread, floor) + upside(mean - gap, spread, floor)

    def _stretch(self) -> Float[Array, ""]:
        return jnp.sqrt(jnp.asarray(self.beta) * (math.pi / 2))


@pytree
class SimpleRegret(MaxType):
    """The best outcome: max(y) [W17, SR]. Its expectation is maximised; at q = 1 it is the posterior mean."""

    as_outcomes: ClassVar[bool | None] = True

    def integrated(
        self, best: Float[Array, "1 m"], given: Float[Array, "p m"], deviation: Float[Array, "p 1"], mean: Array
    ) -> Float[Array, "p m"]:
        """best + E max(0, y - best); without a best, the outcome's own mean."""
        floor = jnp.where(best > -jnp.inf, best, 0.0)
        return jnp.where(best > -jnp.inf, floor + upside(given, deviation, floor), given)


@pytree
class Probability:
    """One: its expectation over a region is the region's probability."""

    def __call__(self, y: Float[Array, " q"], mean: Float[Array, " q"]) -> Float[Array, ""]:
        return jnp.ones((), dtype=y.dtype)


@dataclass(frozen=True, eq=False)
class Custom:
    """An integrand made from a function of `(y, mean)` by the decorator `integrand`.

    A part of the program is the function, and with it what it reads, which may change from call to call.
    """

    function: Callable[[Any, Any], Any] = field(metadata={"static": True})

    def __call__(self, y: Float[Array, " q"], mean: Float[Array, " q"]) -> Any:
        return self.function(y, mean)


jax.tree_util.register_pytree_node(
    Custom, lambda own: ((), (own.function, read_by(own.function))), lambda fixed, _: Custom(fixed[0])
)


def integrand(function: Callable[[Any, Any], Any]) -> Custom:
    """Make an acquisition function of your own from h(y, mean): gradients, pools and pending points come with it.

    `y` holds one joint outcome of the pool, `mean` its posterior mean, both of length q; write it with `jax.numpy`.
    It may read numbers, words and arrays around it, by name, or tuples of them; when they change it is compiled anew.
    What it reads from lists or from inside other objects is seen once: for that make a class with `poolwise.pytree`,
    whose fields are arguments.

    >>> @integrand
    ... def second_best(y, mean):
    ...     return jnp.sort(y)[-2]
    >>> float(second_best(jnp.array([3.0, 1.0, 2.0]), jnp.zeros(3)))
    2.0
    """
    return Custom(function)


def store_number(owner: Any, name: str, *, positive: bool = False) -> None:
    """Store a checked 64-bit number in a frozen integrand."""
    with jax.enable_x64(True):
        number = checks.scalar(name, getattr(owner, name))
        if positive:
            checks.positive(name, number)
        object.__setattr__(owner, name, to_numpy(number) if concrete(number) else number)
