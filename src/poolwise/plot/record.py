"""What a picture shows: the trials of a study at one moment, and the model that the next pool would come from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from poolwise.errors import InputError
from poolwise.study.definition import Definition
from poolwise.study.placing import place
from poolwise.study.study import Study
from poolwise.study.suggest import FEWEST, recommend
from poolwise.study.trial import Trial

if TYPE_CHECKING:
    from poolwise.study.model import Model

SHORT = 0.3  # of the cube's side
LARGEST = 1e306  # of a value: axes hold no range that is much longer
ROWS = 256  # points that are predicted at once: one shape, one program


@dataclass(frozen=True, eq=False)
class Record:
    """A study's definition and its trials, read once."""

    definition: Definition
    trials: Sequence[Trial]

    def of(self, state: str) -> list[Trial]:
        """The trials in one state, by number."""
        return [trial for trial in self.trials if trial.state == state]

    @property
    def told(self) -> tuple[list[Trial], Float[np.ndarray, " n"]]:
        """The told trials and their values."""
        told = self.of("told")
        return told, np.array([trial.value for trial in told], dtype=float)

    @property
    def sign(self) -> float:
        """1 where larger is better, -1 where smaller is."""
        return 1.0 if self.definition.direction == "maximize" else -1.0


@dataclass(frozen=True, eq=False)
class Belief:
    """A record with its model; points are points of the unit cube."""

    record: Record
    model: Model
    pending: Float[np.ndarray, "p d"]

    @property
    def X(self) -> Float[np.ndarray, "n d"]:
        """The points that the model has seen."""
        return self.model.posterior.X

    @property
    def values(self) -> Float[np.ndarray, " n"]:
        """Their values, as they were told."""
        return np.array([trial.value for trial in self.model.trials], dtype=float)

    def predict(self, U: Float[np.ndarray, "m d"]) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
        """Mean and standard deviation of the objective, without noise, at any number of points."""
        parts = [self._predict(U[i : i + ROWS]) for i in range(0, len(U), ROWS)]
        return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])

    def _predict(self, U: Float[np.ndarray, "m d"]) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
        filled = np.concatenate([U, np.repeat(U[-1:], ROWS - len(U), axis=0)])
        mean, deviation = self.model.at(filled)
        return mean[: len(U)], deviation[: len(U)]

    def nearness(
        self, points: Float[np.ndarray, "n d"], centre: Float[np.ndarray, " d"], free: Sequence[str]
    ) -> Float[np.ndarray, " n"]:
        """1 for points that differ from a centre in the free parameters only, less the more others differ.

        exp(-r^2 / 2), where r is the distance in the other columns, in the model's lengthscales; these are shortened
        in proportion where all are long, so that far trials are faint even where the belief is smooth.
        """
        from poolwise.belief.warp import straightened

        space = self.record.definition.space
        kernel = self.model.posterior.process.kernel
        lengths = np.broadcast_to(np.asarray(kernel.lengthscale), (space.dimension,))
        others: Any = points.copy()
        for name in free:
            others[:, space.columns[name]] = centre[space.columns[name]]
        middle: Any = centre[None, :]
        moves: Any = straightened(others, kernel.warp) - straightened(middle, kernel.warp)
        off = moves / lengths[None, :] * max(1.0, float(lengths.min()) / SHORT)
        return np.exp(-0.5 * (off**2).sum(axis=1))


def record_of(study: Study) -> Record:
    """The study as it is now."""
    return Record(study.definition, study.trials)


def belief_of(study: Study, picture: str) -> Belief:
    """The study as it is now, with its model; an error that says how many trials are needed where there is none."""
    from poolwise.study.model import learn

    record = record_of(study)
    space = record.definition.space
    largest = float(np.abs(record.told[1]).max(initial=0.0))
    if largest > LARGEST:
        raise InputError(f"{picture}: values as large as {largest:g} cannot be drawn; tell them in another unit.")
    if not space.axes:
        raise InputError(f"{picture}: the space of study {study.name!r} has no parameter that varies.")
    model = learn(record.definition, record.trials)
    if model is None:
        there = len(place(space, record.of("told"))[0])
        raise InputError(
            f"{picture}: needs a model, and a model needs {FEWEST} told trials within the space; study "
            f"{study.name!r} has {there}. Tell more trials first; history and parallel draw what there is."
        )
    return Belief(record, model, place(space, record.of("pending"))[1])


def point_of(belief: Belief, at: Mapping[str, Any] | None) -> tuple[Float[np.ndarray, " d"], str]:
    """The point that a picture goes through, in the cube, and what to call it: the recommended one, or a given one."""
    space = belief.record.definition.space
    if at is not None:
        return space.encode(at), "the given point"
    best = recommend(belief.record.definition, belief.record.trials)
    assert best is not None
    return space.encode(best), "the recommended point"
