"""Thompson sampling: a pool is the maxima of q functions drawn from the belief, a function for each point.

A point is chosen as often as it is the best: P(x is chosen) = P(f(x) = max f), nothing else to tune. All paths are
climbed side by side in one compiled program. The same maxima, with their values, are what the information-theoretic
acquisition functions ask for.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from poolwise import checks
from poolwise.belief.gaussian_process import Posterior, cross_covariance
from poolwise.belief.paths import Paths, sample_paths
from poolwise.checks import Numbers
from poolwise.errors import InputError
from poolwise.maximizers import lbfgsb
from poolwise.maximizers.climb import value_and_gradient
from poolwise.pool.domain import APART, Domain, ground_of
from poolwise.pool.effort import Ascent
from poolwise.pool.proposal import Proposal, asked, chosen_otherwise
from poolwise.pool.starts import evenly, near_best, spread
from poolwise.precision import AnyArray
from poolwise.programs import quickly
from poolwise.pytree import pytree

CANDIDATES = 1024  # points at which every path is looked at before it is climbed
STARTS = 8  # of them, those that a path is climbed from
RACE = 8  # rounds that each of those has
FINALISTS = 2  # of them, those that climb on
ROUNDS = 60
TURNS = 6  # of moves to neighbours and ascent, over a domain
NEIGHBOURS = 32  # tried for each path in a turn
WHOLE = 4  # a domain of up to this many times the candidates is taken whole


class Maxima(NamedTuple):
    """Where functions drawn from a belief are highest, a row each, and how high they are there."""

    points: Float[np.ndarray, "c d"]
    values: Float[np.ndarray, " c"]


def path_maxima(
    posterior: Posterior, count: int = 16, *, domain: Domain | None = None, features: int = 1024, seed: int = 0
) -> Maxima:
    """Draw `count` functions from a belief, and find the maximum of each.

    The draws that `MaxValueEntropy` and `JointEntropySearch` need; several may be of the same place.
    """
    checks.kind("posterior", posterior, Posterior, "give what fit(X, y) or GaussianProcess(...).condition returns.")
    ground = ground_of(domain, posterior.dimension, Ascent())
    offers, _ = _offers(posterior, sample_paths(posterior, count, features=features, seed=seed), ground, seed)
    return Maxima(offers.points[:, 0], offers.values[:, 0])


def thompson(  # noqa: PLR0913
    posterior: Posterior,
    q: int,
    *,
    pending: Numbers | None = None,
    domain: Domain | None = None,
    features: int = 1024,
    seed: int = 0,
) -> Proposal:
    """Choose q points, each the maximum of a function of its own that is drawn from the belief.

    Functions are drawn as sums of `features` random waves, corrected to go through the data. `pending` points are
    avoided: what they will show is drawn along with the rest of each function. A path whose maximum is taken gives its
    next best point. `value` is the expected best outcome of the pool, and what its points contribute is in that unit.
    """
    began = time.perf_counter()
    q, waiting, seed = asked(posterior, q, pending, seed)
    ground = ground_of(domain, posterior.dimension, Ascent())
    with jax.enable_x64(True):
        offers, cost = _offers(posterior, sample_paths(posterior, q, features=features, seed=seed), ground, seed)
        pool = _different(offers, waiting, ground, seed)
    return chosen_otherwise(posterior, pool, waiting, domain=ground, evaluations=cost, began=began, seed=seed)


@pytree
class PathRows:
    """Each row of points under a path of its own."""

    paths: Paths
    owner: Int[AnyArray, " r"]

    def __call__(self, points: Float[Array, "r d"]) -> Float[Array, " r"]:
        waves, weights = self.paths.waves, self.paths.waves.weights[self.owner]
        cosines, sines = waves.turned(points)
        values = waves.means(points) + jnp.sum(weights[:, 0] * cosines + weights[:, 1] * sines, axis=1)
        if waves.bends is not None:
            values = values + jnp.sum(waves.bends[self.owner] * waves.bases(points), axis=1)
        if self.paths.posterior is None or self.paths.corrections is None:
            return values
        cross = cross_covariance(self.paths.posterior, points)
        return values + jnp.sum(self.paths.corrections[self.owner] * cross, axis=1)


@dataclass(frozen=True, eq=False)
class Offers:
    """Points that are good under each path, best first."""

    points: Float[np.ndarray, "c s d"]
    values: Float[np.ndarray, "c s"]

    def joined(self, points: Float[np.ndarray, "c t d"], values: Float[np.ndarray, "c t"]) -> Offers:
        """With other points; the number of offers stays."""
        points, values = np.concatenate([self.points, points], axis=1), np.concatenate([self.values, values], axis=1)
        order = np.argsort(-values, axis=1, kind="stable")[:, : self.values.shape[1]]
        return Offers(np.take_along_axis(points, order[:, :, None], axis=1), np.take_along_axis(values, order, axis=1))


def _offers(posterior: Posterior, paths: Paths, ground: Domain | None, seed: int) -> tuple[Offers, int]:
    """The best points of each path: of a set of candidates, then climbed from."""
    with jax.enable_x64(True):
        candidates, whole = _candidates(posterior, ground, seed)
        values = np.asarray(paths(candidates))
        order = np.argsort(-values, axis=1, kind="stable")[:, : max(4 * STARTS, 2 * len(values))]
        offers = Offers(candidates[order], np.take_along_axis(values, order, axis=1))
        cost = values.size
        if whole:
            return offers, cost
        moving = np.ones(posterior.dimension) if ground is None else np.asarray(ground.moving, float)
        for turn in range(1 if ground is None else TURNS):
            before = offers.values[:, 0]
            if moving.any():
                offers, spent = _climbed(paths, offers, moving, ground)
                cost += spent
            if ground is not None:
                offers, spent = _moved(paths, offers, ground, seed + turn)
                cost += spent
            if not (offers.values[:, 0] > before).any():
                break
        return offers, cost


def _candidates(posterior: Posterior, ground: Domain | None, seed: int) -> tuple[Float[np.ndarray, "p d"], bool]:
    """Points that fill the cube and surround the best observations; of a small domain all, and then True."""
    if ground is None:
        filling = evenly(posterior, spread(CANDIDATES, posterior.dimension, seed))
        return np.concatenate([filling, near_best(posterior, CANDIDATES // 8, seed)]), False
    whole = ground.size <= WHOLE * CANDIDATES
    points = ground.sample(int(ground.size) if whole else CANDIDATES, seed)
    if not whole:
        best = ground.snap(posterior.X[np.argsort(-posterior.y, kind="stable")[:8]])
        near = [ground.neighbours(u, seed + i, CANDIDATES // 64) for i, u in enumerate(best)]
        points = np.concatenate([points, *near])
    return np.unique(np.round(points, 12), axis=0), whole


def _climbed(
    paths: Paths, offers: Offers, moving: Float[np.ndarray, " d"], ground: Domain | None
) -> tuple[Offers, int]:
    """Ascent of the coordinates that move, of every path at once: a few rounds from its best offers, then from two.

    All climbs are of as many points, so one program serves them.
    """
    rows = _rows(paths, len(offers.points), FINALISTS)
    heats = [offers.points[:, i : i + FINALISTS] for i in range(0, STARTS, FINALISTS)]
    ends = [_climb(rows, _flat(starts), moving, RACE) for starts in heats]  # all are begun before one is waited for
    cost = 0
    for starts, end in zip(heats, ends, strict=True):
        points, values = _settled(rows, starts, end, ground)
        offers, cost = offers.joined(points, values), cost + int(np.asarray(end.evaluations).sum())
    starts = offers.points[:, :FINALISTS]
    end = _climb(rows, _flat(starts), moving, ROUNDS)
    return offers.joined(*_settled(rows, starts, end, ground)), cost + int(np.asarray(end.evaluations).sum())


def _settled(
    rows: PathRows, starts: Float[np.ndarray, "c s d"], end: lbfgsb.State, ground: Domain | None
) -> tuple[Float[np.ndarray, "c s d"], Float[np.ndarray, "c s"]]:
    """Where climbs end, and how high that is; over a domain at its nearest point, if that is allowed."""
    points, values = np.asarray(end.points), np.asarray(end.values)
    if ground is not None:
        points = ground.snap(points)
        points = np.where(ground.feasible(points)[:, None], points, _flat(starts))
        values = np.asarray(_values(rows, points))
    return points.reshape(starts.shape), values.reshape(starts.shape[:2])


def _flat(points: Float[np.ndarray, "c s d"]) -> Float[np.ndarray, "r d"]:
    return points.reshape(-1, points.shape[2])


def _rows(paths: Paths, count: int, each: int) -> PathRows:
    """Rows of points, so many for each path."""
    owner: Any = np.repeat(np.arange(count), each)
    return PathRows(paths, owner)


def _moved(paths: Paths, offers: Offers, ground: Domain, seed: int) -> tuple[Offers, int]:
    """The best point of every path, or a neighbour that is better."""
    near = []
    for i, u in enumerate(offers.points[:, 0]):
        found = ground.neighbours(u, seed + i, NEIGHBOURS)
        near.append(np.concatenate([found, np.repeat(u[None], NEIGHBOURS - len(found), axis=0)]))
    points = np.stack(near)
    values = np.asarray(_values(_rows(paths, len(points), NEIGHBOURS), _flat(points)))
    return offers.joined(points, values.reshape(points.shape[:2])), values.size


def _different(
    offers: Offers, pending: Float[np.ndarray, "w d"], ground: Domain | None, seed: int
) -> Float[np.ndarray, "q d"]:
    """The best offer of each path that is no other path's and not pending."""
    q, _, d = offers.points.shape
    spare = spread(4 * q + len(pending), d, seed) if ground is None else ground.sample(4 * (q + len(pending)), seed)
    taken = pending
    for own in offers.points:
        free = _free(np.concatenate([own, spare]), taken)
        if not free.any():
            raise InputError(
                f"q: {q} different points are asked for, but the domain has {len(taken) - len(pending)} left beside "
                "the pending ones; ask for fewer, or widen the domain."
            )
        taken = np.concatenate([taken, np.concatenate([own, spare])[[int(np.argmax(free))]]])
    return taken[len(pending) :]


def _free(points: Float[np.ndarray, "p d"], taken: Float[np.ndarray, "t d"]) -> Bool[np.ndarray, " p"]:
    return ~(np.abs(points[:, None] - taken[None]).max(axis=2, initial=0.0) < APART).any(axis=1)


@quickly()
def _values(rows: PathRows, points: Float[Array, "r d"]) -> Float[Array, " r"]:
    return rows(points)


@quickly()
def _climb(
    rows: PathRows, starts: Float[Array, "r d"], moving: Float[Array, " d"], rounds: int | Int[Array, ""]
) -> lbfgsb.State:
    unit = 1.0 if rows.paths.posterior is None else rows.paths.posterior.process.kernel.amplitude

    def climbs(x: Float[Array, "r d"]) -> Any:
        values, slopes = value_and_gradient(rows, x)
        return values, slopes * moving[None, :]

    return lbfgsb.ascend(climbs, starts, rounds=rounds, gtol=1e-4, ftol=1e-8, unit=unit)
