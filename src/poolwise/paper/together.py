"""Play all tasks of an acquisition function and an optimizer in lockstep, in this process, on JAX's default device.

In each round the beliefs about all tasks are stacked, and one program chooses all their pools (`crowd`); points,
outcomes and files are those of single runs. Data of all rounds are padded to one size, so that every program is
compiled once, before the clock counts; on an accelerator many of them at a time.

Equal runtime is that of all tasks together, on the clock: random search's seconds for all pools of a round. Both
columns of seconds in the files are a task's share of that time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from poolwise.belief.padding import bucket
from poolwise.paper import crowd, crowd_choosing, tables, tasks
from poolwise.paper.calibration import MATCHED, calibrate, fixed, matched
from poolwise.paper.playing import Budgets, observed, unit_file
from poolwise.paper.processes import Job, progress
from poolwise.paper.recommending import recommended_to_all
from poolwise.paper.settings import Setup, Unit

REPEATS = 5  # of each timed search
LONGEST = 128  # evaluations of DIRECT in a timed search

Pair = tuple[str, str]  # an acquisition function and an optimizer
Rows = dict[int, list[dict[str, Any]]]  # by task


def compared_rounds(setup: Setup) -> list[int]:
    """The rounds of the default's run on whose beliefs all optimizers are compared."""
    return sorted({max(1, setup.rounds // share) for share in (4, 2, 1)})


def play_together(setup: Setup, units: Sequence[Unit], out: Path) -> None:
    """Play the rounds that are not on disk, then find the values that optimizers reach on the same beliefs."""
    pairs = list(dict.fromkeys((unit.acquisition, unit.optimizer) for unit in units))
    compare = any(optimizer == "default" for _, optimizer in pairs)
    unplayed = [pair for pair in pairs if _left(setup, pair, out)]
    unknown = [pair for pair in pairs if compare and _without_values(setup, pair, out)]
    needed = [pair for pair in pairs if pair in {*unplayed, *unknown}]
    if not needed:
        return
    size = bucket(setup.q * (setup.rounds + 1))
    first_calls = _rehearsed(setup, needed, size)
    budgets = _budgets(setup, needed, out, size)
    with progress("rounds", sum(_left(setup, pair, out) for pair in unplayed) or 1) as tick:
        for pair in unplayed:
            _Run(setup, pair, budgets.get((*pair, size)), size, out / "units").play(first_calls[pair], tick)
    _in_turn([(_compare, (setup, pair, budgets.get((*pair, size)), size, out)) for pair in unknown], "values")


def _left(setup: Setup, pair: Pair, out: Path) -> int:
    """How many rounds of all tasks are to be played."""
    paths = [unit_file(out / "units", Unit(task, *pair)) for task in range(setup.tasks)]
    return max(0, setup.rounds + 1 - min(len(tables.read(path)) for path in paths))


def _without_values(setup: Setup, pair: Pair, out: Path) -> bool:
    return not all(unit_file(out / "values", Unit(task, *pair)).exists() for task in range(setup.tasks))


def _in_turn(jobs: Sequence[Job], title: str) -> list[Any]:
    """The results of jobs, one after another in this process."""
    if not jobs:
        return []
    results = []
    with progress(title, len(jobs)) as tick:
        for function, arguments in jobs:
            results.append(function(*arguments))
            tick(1)
    return results


class _Alone:
    """A crew of this process."""

    def run(self, jobs: Sequence[Job], title: str) -> list[Any]:
        """The results of jobs, in their order."""
        return _in_turn(jobs, title)


def _stand_in(setup: Setup, acquisition: str, size: int) -> Callable[[int], crowd.Ask]:
    """Asks about random data of full size, by a seed: what programs are compiled and timed with."""
    rng = np.random.default_rng(setup.seed)
    X = rng.random((setup.tasks, size, setup.d))
    y = _heights([tasks.task(setup, index) for index in range(setup.tasks)], X)
    known = crowd.beliefs(setup, X, y, size)
    return lambda seed: crowd.ask(acquisition, known, setup, [seed + i for i in range(setup.tasks)])


def _rehearsed(setup: Setup, pairs: Sequence[Pair], size: int) -> dict[Pair, float]:
    """Compile all programs, many at a time; the seconds of each optimizer's first call."""
    acquisitions = list(dict.fromkeys(acquisition for acquisition, _ in pairs))

    def ready(acquisition: str) -> crowd.Ask:
        asked = _stand_in(setup, acquisition, size)(0)
        crowd.judged(asked, asked.beliefs.X[:, : setup.q])
        recommended_to_all(asked.beliefs.posteriors)
        return asked

    def first_call(pair: Pair) -> float:
        few = setup.pools_of(pair[0]) if pair[1] == "random" else setup.starts_of(pair[0])
        seconds = crowd_choosing.rehearse(pair[1], asks[pair[0]], setup, few)
        tick(1)
        return seconds

    with progress("compiling", len(pairs)) as tick, ThreadPoolExecutor(crowd_choosing.compilers()) as threads:
        first, *others = acquisitions
        asks = {first: ready(first)}  # what all share is compiled once
        asks |= zip(others, threads.map(ready, others), strict=True)
        return dict(zip(pairs, threads.map(first_call, pairs), strict=True))


def _budgets(setup: Setup, pairs: Sequence[Pair], out: Path, size: int) -> Budgets:
    acquisitions = tuple(dict.fromkeys(acquisition for acquisition, _ in pairs))
    if setup.quick:
        return fixed(setup, acquisitions, (size,))
    return calibrate(setup, acquisitions, out, _Alone(), optimizers=MATCHED, sizes=(size,), by=_measure)


def _measure(setup: Setup, acquisition: str, size: int, optimizers: tuple[str, ...], path: Path) -> None:
    """Random search's seconds for all tasks, and the evaluations that the others make of each task in them."""
    asked = _stand_in(setup, acquisition, size)

    def timed(name: str, count: int, seed: int) -> tuple[float, int]:
        choices = crowd_choosing.choose(name, asked(seed), setup, count)
        return choices.seconds, int(choices.evaluations.max())

    rows = matched(setup, acquisition, optimizers, timed, repeats=REPEATS, longest=LONGEST)
    tables.write(path, [row | {"bucket": size} for row in rows])


@dataclass(frozen=True)
class _Run:
    """All tasks of one acquisition function and optimizer."""

    setup: Setup
    pair: Pair
    evaluations: int | None
    size: int
    folder: Path

    def play(self, first_call: float, tick: Callable[[int], None]) -> None:
        """Play the rounds that are not on disk.

        After a stop in the middle of writing a round, all tasks make that round, so that the programs stay the same;
        those that have it keep what they have.
        """
        rows: Rows = {task: list(tables.read(self._file(task))) for task in range(self.setup.tasks)}
        rows = {task: mine for task, mine in rows.items() if len(mine) <= self.setup.rounds}
        while (round := min(map(len, rows.values()))) <= self.setup.rounds:
            made = self._round({task: mine[:round] for task, mine in rows.items()}, first_call)
            for task, row in made.items():
                if len(rows[task]) == round:
                    rows[task].append(row)
                    tables.write(self._file(task), rows[task])
            tick(1)

    def _file(self, task: int) -> Path:
        return unit_file(self.folder, Unit(task, *self.pair))

    def _round(self, rows: Rows, first_call: float) -> dict[int, dict[str, Any]]:
        """One round of each task; the first only observes random points."""
        setup, indices = self.setup, list(rows)
        number = len(rows[indices[0]])
        functions = [tasks.task(setup, index) for index in indices]
        pools = np.stack([tasks.first_points(setup, index) for index in indices])
        X, y = pools[:, :0], np.zeros((len(indices), 0))
        found: list[dict[str, Any]] = [{"value": "", "evaluations": 0} for _ in indices]
        seconds = 0.0
        if number:
            X, y = _observed(rows, setup)
            known = crowd.beliefs(setup, X, y, self.size)
            asked = crowd.ask(self.pair[0], known, setup, [tasks.stream(setup, i, 4, number) for i in indices])
            choices = crowd_choosing.choose(self.pair[1], asked, setup, self.evaluations)
            pools, seconds = choices.pools, choices.seconds / len(indices)
            values = crowd.judged(asked, pools)
            found = [
                {"value": float(v), "evaluations": int(e)} for v, e in zip(values, choices.evaluations, strict=True)
            ]
        noises = np.stack([tasks.noises(setup, index, number) for index in indices])
        outcomes = _heights(functions, pools) + noises
        X, y = np.concatenate([X, pools], axis=1), np.concatenate([y, outcomes], axis=1)
        points = recommended_to_all(crowd.beliefs(setup, X, y, self.size).posteriors)
        shown = np.stack([points, X[np.arange(len(X)), y.argmax(axis=1)]], axis=1)
        heights = _heights(functions, shown)
        times = {"seconds": seconds, "cpu_seconds": seconds, "first_call": first_call if number == 1 else 0.0}
        made = {}
        for i, index in enumerate(indices):
            row = {"round": number} | found[i] | {"observations": y.shape[1]}
            row |= {"recommended": float(heights[i, 0]), "observed": float(heights[i, 1])}
            row |= {"point": points[i], "points": pools[i], "outcomes": outcomes[i]}
            made[index] = {key: tables.cell(value) for key, value in (row | times).items()}
        return made


def _heights(functions: Sequence[tasks.Task], points: Float[np.ndarray, "t p d"]) -> Float[np.ndarray, "t p"]:
    """What each task is worth at points of its own."""
    return np.stack(crowd.each(lambda function, own: function(own), functions, points))


def _observed(rows: Rows, setup: Setup) -> tuple[Float[np.ndarray, "t n d"], Float[np.ndarray, "t n"]]:
    both = [observed(mine, setup) for mine in rows.values()]
    return np.stack([X for X, _ in both]), np.stack([y for _, y in both])


def _compare(setup: Setup, pair: Pair, evaluations: int | None, size: int, out: Path) -> None:
    """The values that an optimizer reaches on the beliefs that the default's runs went through."""
    defaults = [unit_file(out / "units", Unit(task, pair[0], "default")) for task in range(setup.tasks)]
    rows: Rows = {task: list(tables.read(path)) for task, path in enumerate(defaults)}
    found: Rows = {task: [] for task in rows}
    for round in compared_rounds(setup):
        X, y = _observed({task: mine[:round] for task, mine in rows.items()}, setup)
        known = crowd.beliefs(setup, X, y, size)
        asked = crowd.ask(pair[0], known, setup, [tasks.stream(setup, task, 5, round) for task in rows])
        values = crowd.judged(asked, crowd_choosing.choose(pair[1], asked, setup, evaluations).pools)
        for task, value in enumerate(values):
            names = {"task": task, "acquisition": pair[0], "optimizer": pair[1]}
            found[task].append(names | {"observations": y.shape[1], "value": float(value)})
    for task, mine in found.items():
        tables.write(unit_file(out / "values", Unit(task, *pair)), mine)
