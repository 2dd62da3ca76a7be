"""Improvement in log space: its gradient lives where plain improvement is zero on every sample [A23, q].

A sample that does not improve has no slope in max(0, y - threshold); far from the data no sample improves, and a search
has nothing to climb. Here the plus and the maximum have fat tails, which fall like a power and not like a Gaussian, and
the mean over samples is taken of logarithms:

    log E[improvement] = log mean_k exp fat_max_i(log fat_plus(y_ki - threshold)),
    fat_plus(x) = t (log(1 + exp(x / t)) + 0.1 / (1 + (x / t)^2)),        t = 1e-6 spread,
    fat_max(x)  = M + u log sum_i p((M - x_i) / u),        M = max(x),  p(v) = 2 / (2 + 2 v + v^2),  u = 0.01.
"""

from __future__ import annotations

from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from poolwise.acquisition.integrand import MaxType, store_number
from poolwise.acquisition.tail import quick_log_h
from poolwise.checks import Numbers
from poolwise.pytree import pytree

PLUS = 1e-6  # the plus departs from max(0, x) within this many spreads of zero
MAXIMUM = 1e-2  # the maximum departs from the largest of logarithms by at most this times log(q)


def log_fat_plus(x: Float[Array, "..."], scale: Float[Array, ""]) -> Float[Array, "..."]:
    """log of a smooth max(0, x) that falls like 0.1 scale^3 / x^2 below zero."""
    u = x / scale
    return jnp.log(jax.nn.softplus(u) + 0.1 / (1.0 + u * u)) + jnp.log(scale)


def fat_max(x: Float[Array, "r q m"]) -> Float[Array, "r m"]:
    """A smooth maximum over q in which every entry keeps a share of the slope, the farther the smaller."""
    top = jnp.max(x, axis=1)
    v = (top[:, None, :] - x) / MAXIMUM
    return top + MAXIMUM * jnp.log(jnp.sum(2.0 / (2.0 + v * (2.0 + v)), axis=1))


def log_improvement(
    best: Float[Array, "1 m"], given: Float[Array, "p m"], deviation: Float[Array, "p 1"], least: Float[Array, ""]
) -> Float[Array, "p m"]:
    """log(b + E max(0, y - b)) of a normal y, where b = exp(best) is the improvement that is there already.

    A best below `least` is only the fat tail of a sample that does not improve: there is nothing yet.
    """
    there = jnp.where(best > least, best, -jnp.inf)
    return jnp.logaddexp(there, jnp.log(deviation) + quick_log_h((given - jnp.exp(there)) / deviation))


class LogMaxType(MaxType):
    """A max-type integrand of logarithms: the maximum is the fat one, the mean is taken of exponentials."""

    spread: Numbers
    logarithmic: ClassVar[bool] = True
    as_outcomes: ClassVar[bool | None] = False

    def unseen(self, value: float) -> bool:
        """Whether so small a value is that of fat tails: no sample improves, and a search had better not climb them."""
        return value < float(self.least())

    def least(self) -> Float[Array, ""]:
        """The logarithm of the smallest improvement that is one."""
        return jnp.log(PLUS * jnp.asarray(self.spread))

    def pooled(self, scores: Float[Array, "r q m"]) -> Float[Array, "r m"]:
        return fat_max(scores)

    def __call__(self, y: Float[Array, " q"], mean: Float[Array, " q"]) -> Float[Array, ""]:
        return fat_max(self.score(y, mean)[None, :, None])[0, 0]


@pytree
class LogExpectedImprovement(LogMaxType):
    """The logarithm of expected improvement, with a slope everywhere: log E[max(0, max(y) - threshold)].

    `spread` is the spread of the outcomes (their standard deviation, say): what counts as a small improvement. The
    exponential of its expectation is `ExpectedImprovement`'s up to a share of 0.01 log(q) and 1e-6 spread.
    """

    threshold: Numbers
    spread: Numbers = 1.0

    def __post_init__(self) -> None:
        store_number(self, "threshold")
        store_number(self, "spread", positive=True)

    def score(self, y: Float[Array, "..."], mean: Float[Array, "..."]) -> Float[Array, "..."]:
        return log_fat_plus(y - self.threshold, PLUS * jnp.asarray(self.spread))

    def integrated(
        self, best: Float[Array, "1 m"], given: Float[Array, "p m"], deviation: Float[Array, "p 1"], mean: Array
    ) -> Float[Array, "p m"]:
        return log_improvement(best, given - self.threshold, deviation, self.least())


@pytree
class LogProbabilityOfImprovement(MaxType):
    """The logarithm of the probability of improvement, soft as in `ProbabilityOfImprovement`, with a slope everywhere.

    A sample far below the threshold counts (y - threshold) / (temperature spread), not zero.
    """

    threshold: Numbers
    temperature: Numbers = 0.01
    spread: Numbers = 1.0

    logarithmic: ClassVar[bool] = True
    as_outcomes: ClassVar[bool | None] = False

    def __post_init__(self) -> None:
        store_number(self, "threshold")
        store_number(self, "temperature", positive=True)
        store_number(self, "spread", positive=True)

    def value(self, best: Float[Array, "*m"]) -> Float[Array, "*m"]:
        return jax.nn.log_sigmoid((best - self.threshold) / (jnp.asarray(self.temperature) * self.spread))
