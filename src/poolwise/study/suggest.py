"""The next pool: a pure function of the definition and the trials. Space-filling at first, then by the model.

It never raises because of what was told: where the model cannot be used the pool fills the space, and the log tells.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from poolwise.space.errors import SpaceError, SpaceExhausted
from poolwise.study.allowed import Allowed, Tried, tried_of
from poolwise.study.definition import Definition
from poolwise.study.placing import place
from poolwise.study.success import success_of
from poolwise.study.trial import Trial

log = logging.getLogger(__name__)

FEWEST = 4  # told trials before the first model


def suggest(definition: Definition, trials: Sequence[Trial], q: int, salt: int = 0) -> list[dict[str, Any]]:
    """q different experiments that have not been tried; fewer where no more are left, an error where none is.

    `salt` makes another choice of the same data, for those who keep choosing the same at the same time.
    """
    space, seed = definition.space, folded_seed(definition.seed, len(trials), salt)
    tried = tried_points(definition, trials)
    chosen = np.zeros((0, space.dimension))
    if definition.settings.acquisition != "fill" and ready(definition, trials):
        chosen = _by_model(definition, trials, tried, q, seed)
    if len(chosen) < q:
        rest = _filling(Allowed(space, tried.without(chosen), tried.sure), q - len(chosen), seed)
        chosen = np.concatenate([chosen, rest])
    if len(chosen) == 0:
        raise SpaceExhausted(
            f"All experiments of the space have been asked for ({len(tried.taken)} of them); "
            "widen the space in a new study, or tell and fail what is pending."
        )
    return space.decode_many(chosen)


def recommend(definition: Definition, trials: Sequence[Trial]) -> dict[str, Any] | None:
    """The experiment with the best expected value, a told one or one that is all but sure to succeed.

    Before there is a model, the best that was told.
    """
    if ready(definition, trials):
        from poolwise.study.model import best_mean

        try:
            return best_mean(definition, trials, known_to_fail(definition, trials))
        except Exception as error:  # a model that cannot be used is no reason to have no answer
            log.warning("study: no recommendation by the model (%s: %s)", type(error).__name__, error)
    told = [trial for trial in trials if trial.value is not None]
    sign = 1 if definition.direction == "maximize" else -1
    return max(told, key=lambda trial: sign * (trial.value or 0.0)).params if told else None


def ready(definition: Definition, trials: Sequence[Trial]) -> bool:
    """Whether there are enough told trials in the space for a model."""
    space, told = definition.space, [trial for trial in trials if trial.state == "told"]
    return space.dimension > 0 and any(len(place(space, some)[0]) >= FEWEST for some in (told[:FEWEST], told))


def tried_points(definition: Definition, trials: Sequence[Trial]) -> Tried:
    """All trials as points, and what those that ended say about success."""
    placed, U = place(definition.space, trials)
    states = np.array([trial.state for trial in placed], dtype=object)
    try:
        return tried_of(definition.space, U, success_of(U[states == "told"], U[states == "failed"]))
    except (np.linalg.LinAlgError, SpaceError) as error:
        log.warning("study: failures are not avoided (%s: %s)", type(error).__name__, error)
        return Tried(U)


def known_to_fail(definition: Definition, trials: Sequence[Trial]) -> Tried:
    """The points that failed and have no value, and what all trials say about success."""
    told, failed = (
        place(definition.space, [trial for trial in trials if trial.state == state])[1] for state in ("told", "failed")
    )
    without_value = Allowed(definition.space, Tried(told)).fresh(failed)
    return dataclasses.replace(tried_points(definition, trials), taken=failed[without_value])


def folded_seed(seed: int, count: int, salt: int = 0) -> int:
    """The seed of a pool: the study's, folded with the number of trials before it."""
    return int(np.random.SeedSequence([seed, count, salt]).generate_state(1)[0]) % 2**31


def _by_model(
    definition: Definition, trials: Sequence[Trial], tried: Tried, q: int, seed: int
) -> Float[np.ndarray, "p d"]:
    """Up to q fresh points of the model's choice."""
    from poolwise.study.model import choose

    try:
        return choose(definition, trials, tried, q, seed)
    except Exception as error:  # whatever the data did to the model, the study goes on
        log.warning(
            "study: the model could not be used (%s: %s); the pool fills the space", type(error).__name__, error
        )
        return np.zeros((0, definition.space.dimension))


def _filling(allowed: Allowed, q: int, seed: int) -> Float[np.ndarray, "p d"]:
    """Up to q points that fill the space; where failures leave too few of them, also some near failures."""
    points = allowed.sample(q, seed)
    if len(points) < q:
        taken = np.concatenate([allowed.tried.taken, points])
        points = np.concatenate([points, allowed.space.sample(q - len(points), seed, exclude=taken)])
    return points
