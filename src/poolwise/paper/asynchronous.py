"""The extension that the paper left open: workers of unequal speed, and regret against the clock.

Synchronous, a pool is chosen when all workers are free, and the fast ones wait. Asynchronous, each worker gets a new
point as soon as it is free, while the others' points are pending: inside the integral, or ignored.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

import poolwise as pw
from poolwise.paper import tables, tasks
from poolwise.paper.figure2 import SMALLEST_REGRET, optima_of
from poolwise.paper.playing import leave_if_orphaned
from poolwise.paper.processes import workers
from poolwise.paper.provenance import check_folder
from poolwise.paper.recommending import recommended
from poolwise.paper.settings import NAMES, Setup
from poolwise.paper.summary import mean_and_error
from poolwise.plot.paper import Line, panels, save

MODES = ("synchronous", "pending", "ignoring")
GRID = 200  # moments at which regret is compared


def asynchronous(setup: Setup, out: Path, *, only: tuple[str, ...] = (), count: int = 2) -> Path:
    """Simulate, and write asynchronous.csv and the picture."""
    check_folder(out, setup)
    folder = out / "asynchronous"
    names = [(index, mode) for index in range(setup.tasks) for mode in MODES if not only or mode in only]
    missing = [(index, mode) for index, mode in names if len(tables.read(_file(folder, index, mode))) <= setup.rounds]
    with workers(count) as crew:
        crew.run(
            [(simulate, (setup, index, mode, _file(folder, index, mode))) for index, mode in missing], "simulation"
        )
        known = {
            index: np.concatenate(
                [_points(setup, _file(folder, index, mode)) for other, mode in names if other == index]
            )
            for index in range(setup.tasks)
        }
        best = optima_of(setup, known, folder, crew)
    rows = [row for index, mode in names for row in _results(_file(folder, index, mode), index, mode, best[index])]
    tables.write(out / "asynchronous.csv", rows)
    draw(tables.read(out / "asynchronous.csv"), out)
    return out / "asynchronous.csv"


def durations(setup: Setup, index: int) -> list[Iterator[float]]:
    """For each worker the time of each of its experiments: half to twice the usual, and random on top."""
    speeds = 2.0 ** np.linspace(-1, 1, setup.q)
    streams = [np.random.default_rng(tasks.stream(setup, index, 6, worker)) for worker in range(setup.q)]
    return [_times(speed, rng) for speed, rng in zip(speeds, streams, strict=True)]


def _times(speed: float, rng: np.random.Generator) -> Iterator[float]:
    while True:
        yield float(speed * (0.5 + 0.5 * rng.exponential()))


def horizon(setup: Setup, index: int) -> float:
    """When workers that never wait have finished as many experiments as the rounds of a run hold."""
    waits, left = durations(setup, index), setup.q * (setup.rounds + 1)
    queue = [(next(wait), worker) for worker, wait in enumerate(waits)]
    heapq.heapify(queue)
    for _ in range(left - 1):
        now, worker = heapq.heappop(queue)
        heapq.heappush(queue, (now + next(waits[worker]), worker))
    return queue[0][0]


def simulate(setup: Setup, index: int, mode: str, path: Path) -> None:
    """One run; a row for each q experiments that are finished, and the moment that they were."""
    events = _synchronous(setup, index) if mode == "synchronous" else _asynchronous(setup, index, mode == "pending")
    function, process, rows = tasks.task(setup, index), tasks.prior(setup), []
    for now, X, y in events:
        leave_if_orphaned()
        point = recommended(process.condition(X, y))
        row: dict[str, Any] = {"time": now, "observations": len(y), "recommended": float(function(point[None])[0])}
        row |= {"observed": float(function(X[[int(np.argmax(y))]])[0]), "point": point, "points": X[-setup.q :]}
        rows.append(row)
    tables.write(path, rows + [rows[-1]] * (setup.rounds + 1 - len(rows)))


Event = tuple[float, Float[np.ndarray, "n d"], Float[np.ndarray, " n"]]


def _synchronous(setup: Setup, index: int) -> Iterator[Event]:
    waits, end, now = durations(setup, index), horizon(setup, index), 0.0
    function, process = tasks.task(setup, index), tasks.prior(setup)
    X, y = np.zeros((0, setup.d)), np.zeros(0)
    pool = tasks.first_points(setup, index)
    for round in range(setup.rounds + 1):
        now += max(next(wait) for wait in waits)
        if now > end and round:
            return
        X, y = np.concatenate([X, pool]), np.concatenate([y, function(pool) + tasks.noises(setup, index, round)])
        yield now, X, y
        goal = pw.ExpectedImprovement(float(y.max()))
        pool = pw.propose(process.condition(X, y), goal, setup.q, seed=tasks.stream(setup, index, 7, len(y))).pool


def _asynchronous(setup: Setup, index: int, aware: bool) -> Iterator[Event]:
    waits, function, process = durations(setup, index), tasks.task(setup, index), tasks.prior(setup)
    running: dict[int, Any] = dict(enumerate(tasks.first_points(setup, index)))
    queue = [(next(wait), worker) for worker, wait in enumerate(waits)]
    heapq.heapify(queue)
    X, y = np.zeros((0, setup.d)), np.zeros(0)
    noise = np.concatenate([tasks.noises(setup, index, round) for round in range(setup.rounds + 1)])
    for finished in range(setup.q * (setup.rounds + 1)):
        now, worker = heapq.heappop(queue)
        point = running.pop(worker)[None]
        X, y = np.concatenate([X, point]), np.append(y, function(point) + noise[finished])
        if len(y) % setup.q == 0:
            yield now, X, y
        pending = np.stack(list(running.values())) if aware and running else None
        goal, seed = pw.ExpectedImprovement(float(y.max())), tasks.stream(setup, index, 7, len(y))
        running[worker] = pw.propose(process.condition(X, y), goal, 1, pending=pending, seed=seed).pool[0]
        heapq.heappush(queue, (now + next(waits[worker]), worker))


def _file(folder: Path, index: int, mode: str) -> Path:
    return folder / f"{mode}-{index:02d}.csv"


def _points(setup: Setup, path: Path) -> Float[np.ndarray, "k d"]:
    rows = tables.read(path)
    return np.concatenate([tables.numbers(row[key], setup.d) for row in rows for key in ("point", "points")])


def _results(path: Path, index: int, mode: str, best: float) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for row in tables.read(path):
        values = np.array([float(row["recommended"]), float(row["observed"])])
        regrets = np.log10(np.maximum(tasks.regret(best, values), SMALLEST_REGRET))
        cells = {"task": index, "mode": mode, "time": row["time"], "observations": row["observations"]}
        cells |= {"log10_regret_recommended": float(regrets[0]), "log10_regret_observed": float(regrets[1])}
        if not rows or rows[-1]["time"] != row["time"]:
            rows.append(cells)
    return rows


def on_clock(rows: list[dict[str, str]], column: str) -> tuple[Float[np.ndarray, " g"], dict[str, Any]]:
    """Moments, and for each mode a matrix: a row for each task, the latest regret at each moment."""
    by_run: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for row in rows:
        by_run.setdefault((row["mode"], row["task"]), []).append((float(row["time"]), float(row[column])))
    begin = max(run[0][0] for run in by_run.values())
    ends: dict[str, float] = {}
    for (_, task), run in by_run.items():
        ends[task] = max(run[-1][0], ends.get(task, begin))
    moments = np.linspace(begin, min(ends.values()), GRID)
    found: dict[str, Any] = {}
    for (mode, _), run in by_run.items():
        times, values = np.array(run).T
        found.setdefault(mode, []).append(values[np.searchsorted(times, moments, side="right") - 1])
    return moments, {mode: np.stack(each) for mode, each in found.items()}


def draw(rows: list[dict[str, str]], out: Path) -> None:
    """Regret against the clock."""
    lines: dict[str, dict[str, Line]] = {}
    for kind, title in (("recommended", "recommended point"), ("observed", "best observation")):
        moments, found = on_clock(rows, f"log10_regret_{kind}")
        lines[title] = {NAMES[mode]: Line(moments, *mean_and_error(matrix)) for mode, matrix in found.items()}
    figure = panels(lines, columns=2, x="time, in experiments of usual length", y="log10 regret", size=(4.4, 3.6))
    save(figure, out / "asynchronous")
