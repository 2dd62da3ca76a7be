"""Poolwise inside Optuna: `PoolSampler` chooses joint pools there; `to_optuna` shows a study in Optuna's dashboard."""

from __future__ import annotations

import threading
import warnings
import zlib
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from numbers import Integral
from typing import Any

from poolwise.errors import InputError, MissingExtra
from poolwise.study.errors import ConflictError
from poolwise.study.study import Study
from poolwise.study.suggest import FEWEST
from poolwise.study.trial import Trial

try:
    import optuna
except ImportError:
    raise MissingExtra("This needs Optuna, which is not installed: pip install 'poolwise[optuna]'") from None

from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler, RandomSampler
from optuna.samplers._base import _process_constraints_after_trial
from optuna.search_space import intersection_search_space
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

from poolwise.adapters.optuna_seats import CROWD, PARAMS, POOL, first_waiting, handed, is_taken, point_of, seats, write
from poolwise.adapters.optuna_space import (
    Frame,
    Point,
    Way,
    choose,
    distribution_of,
    frame_of,
    observe,
    parameter_of,
    widened,
)

ENDED = (TrialState.COMPLETE, TrialState.PRUNED)
STATES = {"pending": TrialState.RUNNING, "told": TrialState.COMPLETE, "failed": TrialState.FAIL}


class PoolSampler(BaseSampler):
    """A sampler whose trials belong to pools: up to `q` run side by side, and are worth most together.

    `q` is how many trials run at the same time at most, over all threads and processes of a study. The trials that are
    running elsewhere are part of the choice. With `search_space`, a distribution for each name, the first pool fills
    the space evenly; without it the first trials are sampled independently, until one has shown its parameters. A model
    is asked once there are `n_startup_trials` values, and at least four.

    `constraints_func` is GPSampler's; constraints that trials set themselves count in the same way, and where one is
    above zero the neighbourhood is avoided, as is that of trials pruned without a value. With `avoid_failed` so is that
    of failed trials, which otherwise count as if they still ran. Parameters outside the relative search space are left
    to `independent_sampler`. The same trials and seed give the same pool, also in other processes; without a seed, it
    comes from the study's name and when it began.
    """

    def __init__(  # noqa: PLR0913
        self,
        q: Any = 8,
        seed: Any = None,
        search_space: Mapping[str, BaseDistribution] | None = None,
        *,
        n_startup_trials: Any = 0,
        independent_sampler: BaseSampler | None = None,
        constraints_func: Callable[[FrozenTrial], Sequence[float]] | None = None,
        avoid_failed: bool = False,
    ) -> None:
        self._q, self._startup = _count("q", q, 1), _count("n_startup_trials", n_startup_trials, 0)
        self._seed = None if seed is None else _count("seed", seed, 0) % 2**32
        self._search_space = None if search_space is None else _modelled(_checked(search_space))
        self._frame = None if self._search_space is None else frame_of(self._search_space)
        self._independent = RandomSampler(seed=self._seed) if independent_sampler is None else independent_sampler
        self._constraints_func, self._avoid_failed = constraints_func, avoid_failed
        self._warned = False
        self._lock = threading.Lock()

    def reseed_rng(self) -> None:
        """New randomness for independent parameters; pools need none, as no two trials have the same place in one."""
        self._independent.reseed_rng()

    def infer_relative_search_space(self, study: optuna.Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """What is chosen jointly: the search space given, or what all finished trials have in common."""
        if self._search_space is not None:
            return dict(self._search_space)  # a copy, from which wrappers such as PartialFixedSampler take names out
        return _modelled(intersection_search_space(study.get_trials(deepcopy=False)))

    def sample_relative(
        self, study: optuna.Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """The trial's place in a pool that is there already, or in a new one."""
        frame = self._frame if search_space == self._search_space else frame_of(search_space)
        if frame is None:
            return {}
        with self._lock:
            trials = study.get_trials(deepcopy=False)
            self._warn_of_strangers(trials)
            point = handed(trials, trial.number, self._q, frame, self._ended(trials))
            if point is None or is_taken(point, trials, trial.number, frame):
                point = self._chosen(study, trials, trial, frame)
            write(study, trial, PARAMS, {"space": frame.mark, "point": point})
        return frame.params(point)

    def sample_independent(
        self, study: optuna.Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """A value of a parameter that is not chosen jointly."""
        return self._independent.sample_independent(study, trial, param_name, param_distribution)

    def before_trial(self, study: optuna.Study, trial: FrozenTrial) -> None:
        """What the independent sampler does."""
        self._independent.before_trial(study, trial)

    def after_trial(
        self, study: optuna.Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None
    ) -> None:
        """Constraints are stored with the trial, as Optuna's own samplers do."""
        if self._constraints_func is not None:
            _process_constraints_after_trial(self._constraints_func, study, trial, state)
        self._independent.after_trial(study, trial, state, values)

    def _ended(self, trials: Sequence[FrozenTrial]) -> int:
        """How many trials have ended in a way that may count."""
        return sum(t.state in ENDED or (self._avoid_failed and t.state == TrialState.FAIL) for t in trials)

    def _warn_of_strangers(self, trials: Sequence[FrozenTrial]) -> None:
        """Warn once of names in the search space that no trial has: misspelt, or never suggested."""
        complete = [t for t in trials if t.state == TrialState.COMPLETE]
        if self._warned or self._search_space is None or len(complete) < FEWEST:
            return
        self._warned = True
        there = {name for t in trials for name in t.params}
        missing = [name for name in self._search_space if name not in there]
        if missing:
            warnings.warn(
                f"search_space: none of {len(complete)} complete trials has {missing}; they have {sorted(there)}. Give "
                "each parameter the name that the objective suggests, and leave out those that it never does.",
                UserWarning,
                stacklevel=2,
            )

    def _chosen(self, study: optuna.Study, trials: Sequence[FrozenTrial], trial: FrozenTrial, frame: Frame) -> Point:
        """The trial's place in a new pool, which is stored for the trials whose numbers follow."""
        others = [(other, point_of(other, frame)) for other in trials if other.number != trial.number]
        seen = observe(frame, others, study.directions, avoid_failed=self._avoid_failed)
        first = first_waiting(trials, trial.number)
        way = Way(self._seed_of(study, trials), first, fill=not seen.enough(self._startup))
        size = self._q if way.fill else seats(trials, trial.number, self._q, len(seen.running))
        place = trial.number - first
        size = max(size, min(place + 1, CROWD * self._q))
        pool = choose(seen, min(1 << (size - 1).bit_length(), max(size, self._q)), way)  # few sizes to compile
        known = None if way.fill and not seen.avoided else self._ended(trials)
        write(study, trial, POOL, {"space": frame.mark, "first": first, "known": known, "members": pool})
        now = study.get_trials(deepcopy=False)  # others may have chosen meanwhile
        others = [(other, point_of(other, frame)) for other in now if other.number != trial.number]
        ahead = [pool[(place + i) % len(pool)] for i in range(len(pool))]
        free = [point for point in ahead if point not in [taken for _, taken in others]]
        if not free:
            seen = observe(frame, others, study.directions, avoid_failed=self._avoid_failed)
            free = choose(seen, 1, Way(way.seed, len(now) + trial.number, way.fill))
        return free[0]

    def _seed_of(self, study: optuna.Study, trials: Sequence[FrozenTrial]) -> int:
        if self._seed is not None:
            return self._seed
        began = trials[0].datetime_start if trials else None
        return zlib.crc32(f"{study.study_name} {began and began.replace(microsecond=0)}".encode())

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ |= state | {"_lock": threading.Lock()}


def to_optuna(study: Study, storage: Any, *, name: str | None = None) -> optuna.Study:
    """A study's trials in an Optuna storage, for its dashboard; a second time it adds what is new.

    A told trial is complete, a pending one running, a failed one failed with the reason as user attribute. What Optuna
    takes for final stays: a trial that was replaced since is a `ConflictError`, and wants another `name`.
    """
    name, direction = study.name if name is None else name, StudyDirection[study.direction.upper()]
    copy = optuna.create_study(storage=storage, study_name=name, direction=direction, load_if_exists=True)
    source = {"poolwise": f"{study.name} in {study.url}", "constraints": list(study.space.constraints)}
    there = copy.get_trials(deepcopy=False)
    if there and copy.user_attrs.get("poolwise") != source["poolwise"]:
        raise ConflictError(f"study {name!r}: the storage has another one of that name; give name= for this one.")
    for key, value in source.items():
        copy.set_user_attr(key, value)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        copy.set_metric_names([study.objective])
    for trial in study.trials:
        if trial.number >= len(there):
            copy.add_trial(_frozen(trial, study))
        else:
            _update(copy, there[trial.number], _frozen(trial, study))
    return copy


def _frozen(trial: Trial, study: Study) -> FrozenTrial:
    """A trial as Optuna has it; a value that none of its distributions can hold becomes a user attribute."""
    distributions = {n: widened(distribution_of(p), trial.params[n]) for n, p in study.space.parameters.items()}
    held = {n: distribution for n, distribution in distributions.items() if distribution is not None}
    notes = {n: trial.params[n] for n in trial.params if n not in held}
    notes |= {key: getattr(trial, key) for key in ("pool", "sem", "reason") if getattr(trial, key) is not None}
    return FrozenTrial(
        trial.number,
        STATES[trial.state],
        trial.value,
        _local(trial.asked),
        _local(trial.finished),
        {n: trial.params[n] for n in held},
        held,
        notes,
        {},
        {},
        -1,
    )


def _update(copy: optuna.Study, there: FrozenTrial, now: FrozenTrial) -> None:
    """Finish a trial that was running when it was exported."""
    if there.params != now.params:
        raise ConflictError(
            f"trial {now.number}: was exported with {there.params}, and has {now.params} here; this is another study "
            "of the same name. Give name= for its export."
        )
    if there.state == now.state and there.values == now.values:
        return
    if there.state.is_finished():
        raise ConflictError(
            f"trial {now.number}: was exported as {there.state.name} with {there.values}, and is {now.state.name} with "
            f"{now.values} now; Optuna does not change finished trials. Give name= for another export."
        )
    for key, value in now.user_attrs.items():
        copy._storage.set_trial_user_attr(there._trial_id, key, value)
    copy._storage.set_trial_state_values(there._trial_id, now.state, now.values)


def _local(time: datetime | None) -> datetime | None:
    """A time as Optuna keeps it: local, and without saying so."""
    return None if time is None else time.astimezone().replace(tzinfo=None)


def _checked(search_space: Mapping[str, BaseDistribution]) -> dict[str, BaseDistribution]:
    for name, distribution in search_space.items():
        if not isinstance(distribution, BaseDistribution):
            raise InputError(
                f"search_space: {name!r} has no distribution but {distribution!r}; "
                "give one such as optuna.distributions.FloatDistribution(0, 1)."
            )
    return dict(search_space)


def _modelled(search_space: Mapping[str, BaseDistribution]) -> dict[str, BaseDistribution]:
    return {name: distribution for name, distribution in search_space.items() if parameter_of(distribution) is not None}


def _count(name: str, value: Any, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise InputError(f"{name}: expected a whole number, {least} or more, got {value!r}.")
    return int(value)
