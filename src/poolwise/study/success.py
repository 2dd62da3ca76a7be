"""How likely trials are to succeed: Gaussian processes on what became of them, +1 for a value and -1 for a failure.

Their mean is +1, so that what nobody has tried is expected to succeed. They differ in lengthscales and noise, found by
evidence one axis after the other, and the best few are averaged: failures that follow one parameter are learned as
such, which one of two it is stays open while both explain them, and failures that follow none become noise. All this is
small and needs no JAX, because pools that fill the space avoid failures too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float

LONG = 3.0  # the lengthscale of a parameter that does not matter, times the root of the number of axes
SHORT = {1.0: 1.0, 0.5: 2.0, 0.25: 3.0}  # those of one that does, and the evidence each must bring, in nats
NOISES = (0.04, 0.2, 1.0)  # variances, where the process has variance 1
CHANGES = 16  # of lengthscales and noise, at most
MEMBERS = 4  # that are averaged, at most
LEARN, KEEP = 96, 256  # trials that lengthscales are learned from and predictions made by; with more, neighbours merge


@dataclass(frozen=True, eq=False)
class Merged:
    """Trials, those close together as one: where, what became of them on average, and how many."""

    points: Float[np.ndarray, "n d"]
    outcomes: Float[np.ndarray, " n"]
    counts: Float[np.ndarray, " n"]


@dataclass(frozen=True, eq=False)
class Member:
    """One explanation: lengthscales and noise, and how well they explain the trials."""

    lengths: Float[np.ndarray, " d"]
    noise: float
    evidence: float


@dataclass(frozen=True, eq=False)
class Success:
    """What told and failed trials say about others: explanations, and the weight of each."""

    merged: Merged
    members: list[Member]
    shares: Float[np.ndarray, " k"]
    _solutions: list[tuple[Float[np.ndarray, "n n"], Float[np.ndarray, " n"]]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_solutions", [_solved(self.merged, member) for member in self.members])

    def score(self, U: Float[np.ndarray, "p d"], doubt: float) -> Float[np.ndarray, " p"]:
        """1 where a point is sure to succeed, 0 where it may as well fail, less by so many standard deviations."""
        total = np.zeros(len(U))
        for member, share, (root, weights) in zip(self.members, self.shares, self._solutions, strict=True):
            k = correlation(U, self.merged.points, member.lengths)
            deviation = np.sqrt(np.maximum(1.0 - ((k @ root.T) ** 2).sum(axis=1), 0.0)) if doubt else 0.0
            total += share * (1.0 + k @ weights - doubt * deviation)
        return total


def success_of(told: Float[np.ndarray, "m d"], failed: Float[np.ndarray, "f d"]) -> Success | None:
    """What is learned from trials; None without a failure."""
    if len(failed) == 0 or failed.shape[1] == 0:
        return None
    points = np.concatenate([told, failed])
    outcomes = np.concatenate([np.ones(len(told)), -np.ones(len(failed))])
    members = _learned(merge(points, outcomes, LEARN))
    shares = np.exp([member.evidence - members[0].evidence for member in members])
    return Success(merge(points, outcomes, KEEP), members, shares / shares.sum())


def merge(points: Float[np.ndarray, "n d"], outcomes: Float[np.ndarray, " n"], most: int) -> Merged:
    """At most so many trials: each is joined to the nearest of some that are far apart."""
    if len(points) <= most:
        return Merged(points, outcomes, np.ones(len(points)))
    centre, nearest = 0, np.zeros(len(points), dtype=int)
    distance = np.full(len(points), np.inf)
    for i in range(most):
        other = ((points - points[centre]) ** 2).sum(axis=1)
        nearest = np.where(other < distance, i, nearest)
        distance = np.minimum(distance, other)
        centre = int(np.argmax(distance))
    counts = np.bincount(nearest, minlength=most).astype(float)
    held = counts > 0
    sums = [np.bincount(nearest, weights=column, minlength=most) for column in (*points.T, outcomes)]
    means = np.stack(sums, axis=1)[held] / counts[held, None]
    return Merged(means[:, :-1], means[:, -1], counts[held])


def _learned(merged: Merged) -> list[Member]:
    """The best explanations: none of the parameters matters at first, then the change that gains most, and so on."""
    d = merged.points.shape[1]
    long = LONG * math.sqrt(d)
    best = _member(merged, np.full(d, long), NOISES[0])
    seen = {_key(best): best}
    for _ in range(CHANGES):
        options = [(best.lengths, noise) for noise in NOISES]
        options += [(_with(best.lengths, axis, length), best.noise) for axis in range(d) for length in (*SHORT, long)]
        for lengths, noise in options:
            if (key := (noise, *lengths)) not in seen:
                seen[key] = _member(merged, lengths, noise)
        ranked = sorted(seen.values(), key=lambda member: -member.evidence)
        if ranked[0] is best:
            break
        best = ranked[0]
    return ranked[:MEMBERS]


def _key(member: Member) -> tuple[float, ...]:
    return (member.noise, *member.lengths)


def _with(lengths: Float[np.ndarray, " d"], axis: int, length: float) -> Float[np.ndarray, " d"]:
    changed = lengths.copy()
    changed[axis] = length
    return changed


def _member(merged: Merged, lengths: Float[np.ndarray, " d"], noise: float) -> Member:
    price = sum(SHORT.get(float(length), 0.0) for length in lengths)
    factor = _factor(merged, lengths, noise)
    residual = np.linalg.solve(factor, merged.outcomes - 1.0)
    return Member(lengths, noise, float(-0.5 * residual @ residual - np.log(np.diagonal(factor)).sum()) - price)


def _solved(merged: Merged, member: Member) -> tuple[Float[np.ndarray, "n n"], Float[np.ndarray, " n"]]:
    """The inverse of the factor of the covariance, and what each trial weighs."""
    root = np.linalg.inv(_factor(merged, member.lengths, member.noise))
    return root, root.T @ (root @ (merged.outcomes - 1.0))


def _factor(merged: Merged, lengths: Float[np.ndarray, " d"], noise: float) -> Float[np.ndarray, "n n"]:
    K = correlation(merged.points, merged.points, lengths) + np.diag(noise / merged.counts + 1e-6)
    return np.linalg.cholesky(K)


def correlation(
    A: Float[np.ndarray, "n d"], B: Float[np.ndarray, "m d"], lengths: Float[np.ndarray, " d"]
) -> Float[np.ndarray, "n m"]:
    """Matern 5/2."""
    A, B = A / lengths[None, :], B / lengths[None, :]
    squares = (A**2).sum(axis=1)[:, None] + (B**2).sum(axis=1)[None, :] - 2 * A @ B.T
    s = np.sqrt(5.0 * np.maximum(squares, 0.0))
    return (1.0 + s + s**2 / 3.0) * np.exp(-s)
