"""Figure 2: log regret of every acquisition function with every optimizer, at equal runtime.

Stages, each of which finds what is on disk and computes the rest: calibration, the runs, values that the optimizers
reach on the same beliefs, the optima of the tasks; then one table for all, and the picture.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from poolwise.belief.padding import bucket
from poolwise.errors import InputError
from poolwise.paper import choosing, tables, tasks
from poolwise.paper.calibration import calibrate, fixed
from poolwise.paper.drawing import draw_regret, draw_values
from poolwise.paper.playing import Budgets, leave_if_orphaned, observed, play, unit_file
from poolwise.paper.processes import Workers, workers
from poolwise.paper.provenance import check_folder
from poolwise.paper.settings import ACQUISITIONS, OPTIMIZERS, Setup, Unit
from poolwise.paper.together import compared_rounds, play_together

SMALLEST_REGRET = 1e-6  # below, regrets are shown as this


def selection(only: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The acquisition functions and the optimizers that names select; none of a kind selects all of it."""
    unknown = sorted(set(only) - {*ACQUISITIONS, *OPTIMIZERS})
    if unknown:
        raise InputError(f"only: unknown name {unknown[0]!r}; choose from {', '.join((*ACQUISITIONS, *OPTIMIZERS))}.")
    acquisitions = tuple(name for name in ACQUISITIONS if name in only) or ACQUISITIONS
    return acquisitions, tuple(name for name in OPTIMIZERS if name in only) or OPTIMIZERS


def figure2(setup: Setup, out: Path, *, only: tuple[str, ...] = (), count: int = 2) -> Path:
    """Run what is missing, and write figure2.csv, timing.csv, values.csv and the picture."""
    acquisitions, optimizers = selection(only)
    check_folder(out, setup)
    units = [Unit(t, a, o) for t in range(setup.tasks) for a in acquisitions for o in optimizers]
    if setup.together:
        play_together(setup, units, out)
    with workers(count) as crew:
        if not setup.together:
            budgets = _budgets(setup, acquisitions, out, crew)
            play_missing(setup, units, budgets, out, crew)
            if "default" in optimizers:
                _compare(setup, budgets, units, out, crew)
        if "default" in optimizers:
            tables.write(out / "values.csv", [row for unit in units for row in tables.read(_reached_file(out, unit))])
        best = optima(setup, units, out, crew)
    tables.write(out / "figure2.csv", [row for unit in units for row in results(setup, unit, best[unit.task], out)])
    tables.write(out / "timing.csv", [row for unit in units for row in timings(setup, unit, out)])
    draw_regret(tables.read(out / "figure2.csv"), out)
    if (out / "values.csv").exists():
        draw_values(tables.read(out / "values.csv"), out)
    return out / "figure2.csv"


def _budgets(setup: Setup, acquisitions: tuple[str, ...], out: Path, crew: Workers) -> Budgets:
    if setup.quick:
        return fixed(setup, acquisitions)
    return calibrate(setup, acquisitions, out, crew)


def play_missing(setup: Setup, units: list[Unit], budgets: Budgets, out: Path, crew: Workers) -> None:
    """Play the runs whose rounds are not all on disk."""
    missing = [unit for unit in units if len(tables.read(_file(out, unit))) <= setup.rounds]
    crew.run([(play, (unit, setup, budgets, out / "units")) for unit in missing], "runs")


def _file(out: Path, unit: Unit) -> Path:
    return unit_file(out / "units", unit)


def optima(setup: Setup, units: list[Unit], out: Path, crew: Workers) -> dict[int, float]:
    """The best value of each task, given every point that its runs went through."""
    indices = sorted({unit.task for unit in units})
    known = {index: _known(setup, [unit for unit in units if unit.task == index], out) for index in indices}
    return optima_of(setup, known, out, crew)


def optima_of(setup: Setup, known: dict[int, Float[np.ndarray, "k d"]], out: Path, crew: Workers) -> dict[int, float]:
    """The best value of each task; searched for again whenever there are new points to search from."""
    path = out / "optima.csv"
    kept: dict[int, Any] = {int(row["task"]): row for row in tables.read(path)}
    stale = [i for i, points in known.items() if i not in kept or int(kept[i]["known"]) != len(points)]
    for row in crew.run([(_optimum, (setup, index, known[index])) for index in stale], "optima"):
        kept[row["task"]] = row
    tables.write(path, [kept[index] for index in sorted(kept)])
    return {index: float(kept[index]["optimum"]) for index in known}


def _optimum(setup: Setup, index: int, known: Float[np.ndarray, "k d"]) -> dict[str, Any]:
    leave_if_orphaned()
    point, value = tasks.optimum(setup, index, known)
    return {"task": index, "optimum": tables.cell(value), "known": len(known), "point": tables.cell(point)}


def _known(setup: Setup, units: list[Unit], out: Path) -> Float[np.ndarray, "k d"]:
    """Every point that runs have observed or recommended."""
    rows = [row for unit in units for row in tables.read(_file(out, unit))]
    found = [tables.numbers(row[key], setup.d) for row in rows for key in ("point", "points")]
    return np.concatenate(found)


def results(setup: Setup, unit: Unit, best: float, out: Path) -> list[dict[str, Any]]:
    """What a run reached after each round."""
    rows = tables.read(_file(out, unit))[: setup.rounds + 1]
    names = {"task": unit.task, "acquisition": unit.acquisition, "optimizer": unit.optimizer}
    kept = ("round", "observations", "evaluations", "value", "recommended", "observed")
    table = [names | {key: row[key] for key in kept} | {"optimum": best} for row in rows]
    for kind in ("recommended", "observed"):
        regrets = tasks.regret(best, np.array([float(row[kind]) for row in rows]))
        for row, regret in zip(table, regrets, strict=True):
            row[f"log10_regret_{kind}"] = float(np.log10(max(regret, SMALLEST_REGRET)))
    return table


def timings(setup: Setup, unit: Unit, out: Path) -> list[dict[str, Any]]:
    """What each choice of a pool took; the first call, with its compilation, apart."""
    names = {"task": unit.task, "acquisition": unit.acquisition, "optimizer": unit.optimizer}
    kept = ("round", "seconds", "cpu_seconds", "first_call")
    return [names | {key: row[key] for key in kept} for row in tables.read(_file(out, unit))[1 : setup.rounds + 1]]


def _compare(setup: Setup, budgets: Budgets, units: list[Unit], out: Path, crew: Workers) -> None:
    """The value that each optimizer reaches on the same beliefs: those that the default's run went through."""
    missing = [unit for unit in units if not _reached_file(out, unit).exists()]
    crew.run([(_reached, (setup, budgets, unit, out)) for unit in missing], "values")


def _reached_file(out: Path, unit: Unit) -> Path:
    return unit_file(out / "values", unit)


def _reached(setup: Setup, budgets: Budgets, unit: Unit, out: Path) -> None:
    rows = tables.read(_file(out, Unit(unit.task, unit.acquisition, "default")))
    found = []
    for round in compared_rounds(setup):
        leave_if_orphaned()
        X, y = observed(rows[:round], setup)
        posterior = tasks.prior(setup).condition(X, y)
        seed = tasks.stream(setup, unit.task, 5, round)
        worth = choosing.integrand(unit.acquisition, posterior, setup, seed)
        evaluations = budgets.get((unit.acquisition, unit.optimizer, bucket(len(y))))
        choice = choosing.choose(unit.optimizer, posterior, worth, setup, evaluations=evaluations, seed=seed)
        names = {"task": unit.task, "acquisition": unit.acquisition, "optimizer": unit.optimizer}
        found.append(names | {"observations": len(y), "value": choosing.judged(posterior, worth, choice.pool)})
    tables.write(_reached_file(out, unit), found)
