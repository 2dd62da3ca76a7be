"""`PoolSearcher`: Ray Tune's trials, chosen as joint pools. It needs Ray; the part for Ray tasks is `adapters/ray.py`.

Its state is plain data, and is saved as JSON (also in the file that Tune names `.pkl`): the space, the trials that were
suggested with what became of them, and which of them Tune runs under which id.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import operator
import random
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from poolwise.adapters.ray_space import Knob, called, knobs_of
from poolwise.errors import InputError, MissingExtra
from poolwise.space.errors import SpaceExhausted
from poolwise.space.parameters import Choice, Fixed, Float, Int
from poolwise.space.space import Space
from poolwise.study.arguments import pool_size
from poolwise.study.calling import Report, read
from poolwise.study.definition import Definition, Settings, difference
from poolwise.study.placing import stored_params
from poolwise.study.suggest import suggest
from poolwise.study.trial import Trial

try:
    from ray.tune.search import Searcher
except ImportError:
    raise MissingExtra("This needs Ray Tune, which is not installed: pip install 'poolwise[ray]'") from None

log = logging.getLogger(__name__)

VERSION = 1  # of the saved state
DIRECTIONS = {"min": "minimize", "max": "maximize"}


class PoolSearcher(Searcher):
    """A searcher for `tune.TuneConfig(search_alg=...)` that hands out joint pools.

    `q` is how many trials run side by side: more are not handed out until one of them has ended. As many as are free
    are chosen together, and what is running is part of the integral. In a `ConcurrencyLimiter` its `max_concurrent` is
    q; with `batch=True` the next pool waits for all of the last one.

    The space is Tune's `param_space`, or given here: Tune's or Poolwise's parameters, with `constraints` on them (a
    nested parameter is called `outer/inner`).
    """

    def __init__(  # noqa: PLR0913
        self,
        space: Space | Mapping[str, Any] | None = None,
        *,
        q: Any,
        metric: Any = None,
        mode: Any = None,
        constraints: str | Iterable[str] = (),
        seed: Any = None,
        settings: Settings | None = None,
    ) -> None:
        _check_goal(metric, mode)
        if isinstance(space, Space) and constraints:
            raise InputError("constraints: give them to the Space itself, or give the space as a dictionary.")
        Searcher.__init__(self, metric=metric, mode=mode)
        self._q = pool_size(q)
        self._constraints = (constraints,) if isinstance(constraints, str) else tuple(constraints)
        self._seed = random.getrandbits(32) if seed is None else _whole(seed)
        self._settings = settings or Settings()
        self._knobs: dict[str, Knob] = {}
        self._space: Space | None = None
        self._stored_space: dict[str, Any] | None = None
        self.trials: list[Trial] = []  # by number, as in a study
        self._buffer: list[int] = []
        self._numbers: dict[str, int] = {}
        self._live: set[str] = set()
        self._latest: dict[str, Mapping[str, Any]] = {}
        if space is not None:
            self._set_space(space)

    def set_search_properties(self, metric: Any, mode: Any, config: dict[str, Any], **spec: Any) -> bool:
        """Take what `tune.TuneConfig` and `param_space` say; False if a space was given before."""
        _check_goal(metric, mode)
        self._metric, self._mode = metric or self._metric, mode or self._mode
        if self._space is not None:
            return False
        self._set_space(config)
        return True

    def set_max_concurrency(self, max_concurrent: int) -> bool:
        """Called by a `ConcurrencyLimiter`, which then does the limiting."""
        self._q = pool_size(max_concurrent)
        return False

    def suggest(self, trial_id: str) -> Any:
        """The config of a trial; None while q are running, "FINISHED" when the space has no more."""
        if trial_id not in self._numbers:
            if not self._buffer and len(self._live) < self._q:
                try:
                    self._fill(self._q - len(self._live))
                except SpaceExhausted as error:
                    log.warning("PoolSearcher: ends, because %s", error)
                    return Searcher.FINISHED
            if not self._buffer:
                return None
            self._numbers[trial_id] = self._buffer.pop(0)
            self._live.add(trial_id)
        return self._config(self.trials[self._numbers[trial_id]].params)

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        """Remember the latest result, for trials that are stopped while they are paused."""
        self._latest[trial_id] = {self._metric: result[self._metric]} if self._metric in result else {}

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """Tell what became of a trial; only the first word about it counts."""
        number = self._numbers.get(trial_id)
        if number is None or self.trials[number].state != "pending":
            known = "was never suggested" if number is None else f"is {self.trials[number].state} already"
            log.warning("PoolSearcher: the completion of trial %s is ignored, because it %s", trial_id, known)
            return
        self._live.discard(trial_id)
        latest = self._latest.pop(trial_id, {})
        report = self._read(latest if result is None else result)
        if error:
            report = Report(reason="Tune says that the trial ended with an error; error.txt in its folder tells more")
        self._tell(number, report)

    def add_evaluated_point(
        self,
        parameters: dict[str, Any],
        value: float,
        error: bool = False,
        pruned: bool = False,
        intermediate_values: list[float] | None = None,
    ) -> None:
        """Take a result from elsewhere; that of a pruned trial is not taken."""
        if pruned:
            log.warning("PoolSearcher: a pruned trial has no final value and is not added")
            return
        if self._space is None:
            raise _no_space()
        params = {name: knob.inward(_at(parameters, knob.path)) for name, knob in self._knobs.items()}
        self._append([stored_params(self._space, params)[0]])
        self._tell(len(self.trials) - 1, Report(reason="it was added as an error") if error else read(value))

    def get_state(self) -> dict[str, Any]:
        """The whole state, as plain data."""
        trials = [_timed(dataclasses.asdict(trial), datetime.isoformat) for trial in self.trials]
        return {
            "poolwise_searcher": VERSION,
            "space": self._stored_space if self._space is None else self._space.to_dict(),
            "metric": self._metric,
            "mode": self._mode,
            "seed": self._seed,
            "settings": dataclasses.asdict(self._settings),
            "trials": trials,
            "numbers": self._numbers,
            "buffer": self._buffer,
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Take a state over. Trials that were running are pending, but Tune may run as many new ones beside them."""
        if not isinstance(state, dict) or state.get("poolwise_searcher") != VERSION:
            raise InputError(f"state: this is no state of a PoolSearcher, or not of version {VERSION}.")
        self._stored_space = state["space"]
        self._check_space()
        self._metric, self._mode = state["metric"] or self._metric, state["mode"] or self._mode
        self._seed, self._settings = state["seed"], Settings(**state["settings"])
        self.trials = [Trial(**_timed(trial, datetime.fromisoformat)) for trial in state["trials"]]
        self._numbers, self._buffer = dict(state["numbers"]), list(state["buffer"])
        self._live, self._latest = set(), {}

    def save(self, checkpoint_path: str) -> None:
        """Write the state to a file, as JSON."""
        Path(checkpoint_path).write_text(json.dumps(self.get_state(), allow_nan=False), encoding="utf-8")

    def restore(self, checkpoint_path: str) -> None:
        """Read the state that `save` wrote."""
        try:
            state = json.loads(Path(checkpoint_path).read_text(encoding="utf-8"))
        except (ValueError, OSError) as error:
            raise InputError(f"checkpoint_path: {checkpoint_path} cannot be read as JSON ({error}).") from None
        self.set_state(state)

    def _set_space(self, space: Space | Mapping[str, Any]) -> None:
        given = space.parameters if isinstance(space, Space) else space
        if isinstance(space, Space) or any(isinstance(p, Float | Int | Choice | Fixed) for p in space.values()):
            own = space if isinstance(space, Space) else Space(space, self._constraints)
            self._knobs = {name: Knob(tuple(name.split("/")), p) for name, p in own.parameters.items()}
        else:
            self._knobs = {called(knob.path): knob for knob in knobs_of(given)}
            own = Space({name: knob.parameter for name, knob in self._knobs.items()}, self._constraints)
        self._space = own
        self._check_space()

    def _check_space(self) -> None:
        """A state that was restored belongs to the space that it was saved with."""
        if self._space is not None and self._stored_space not in (None, self._space.to_dict()):
            raise InputError(
                f"space: the state was saved with another one: {difference(self._stored_space, self._space.to_dict())}."
            )

    def _definition(self) -> Definition:
        if self._space is None:
            raise _no_space()
        if self._metric is None or self._mode is None:
            raise InputError("metric, mode: give them to PoolSearcher or to tune.TuneConfig.")
        direction: Any = DIRECTIONS[self._mode]
        return Definition(self._space, self._metric, direction, self._seed, self._settings)

    def _fill(self, size: int) -> None:
        """A joint pool into the buffer."""
        chosen = suggest(self._definition(), self.trials, size)
        self._buffer.extend(range(len(self.trials), len(self.trials) + len(chosen)))
        self._append(chosen, pool=1 + max((trial.pool for trial in self.trials if trial.pool is not None), default=-1))

    def _append(self, chosen: Iterable[dict[str, Any]], pool: int | None = None) -> None:
        now = datetime.now(UTC)
        for params in chosen:
            self.trials.append(Trial(len(self.trials), params, "pending", now, pool=pool))

    def _read(self, result: Mapping[str, Any]) -> Report:
        if self._metric is None or self._metric not in result:
            return Report(reason=f"the result has no {self._metric!r}")
        return read(result[self._metric])

    def _tell(self, number: int, report: Report) -> None:
        state = "failed" if report.value is None else "told"
        told = {"value": report.value, "sem": report.sem, "reason": report.reason}
        changes: dict[str, Any] = {**told, "state": state, "finished": datetime.now(UTC)}
        self.trials[number] = dataclasses.replace(self.trials[number], **changes)

    def _config(self, params: Mapping[str, Any]) -> dict[str, Any]:
        config: dict[str, Any] = {}
        for name, knob in self._knobs.items():
            inner = config
            for key in knob.path[:-1]:
                inner = inner.setdefault(key, {})
            inner[knob.path[-1]] = knob.outward(params[name])
        return config


def _check_goal(metric: Any, mode: Any) -> None:
    if not isinstance(metric, str | None):
        raise InputError(f"metric: a pool is chosen for one metric only, got {metric!r}; give one name.")
    if mode is not None and mode not in tuple(DIRECTIONS):
        raise InputError(f'mode: expected "min" or "max", got {mode!r}.')


def _whole(seed: Any) -> int:
    try:
        return operator.index(seed)
    except TypeError:
        raise InputError(f"seed: expected a whole number, got {seed!r}.") from None


def _no_space() -> InputError:
    return InputError("space: give it to PoolSearcher, or as param_space= to tune.Tuner.")


def _at(config: Any, path: tuple[str, ...]) -> Any:
    try:
        for key in path:
            config = config[key]
    except (KeyError, TypeError):
        raise InputError(f"parameters: {called(path)} is missing.") from None
    return config


def _timed(trial: dict[str, Any], change: Callable[[Any], Any]) -> dict[str, Any]:
    """The fields of a trial, with times as text or as times again."""
    return trial | {name: change(trial[name]) for name in ("asked", "finished") if trial[name] is not None}
