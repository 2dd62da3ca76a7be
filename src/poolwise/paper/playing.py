"""Play one unit: rounds of choosing a pool, observing it and recommending a point; every round is kept on disk."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

import poolwise as pw
from poolwise.belief.padding import bucket
from poolwise.paper import choosing, tables, tasks
from poolwise.paper.recommending import recommended
from poolwise.paper.settings import Setup, Unit

Budgets = dict[tuple[str, str, int], int]  # evaluations by acquisition, optimizer and bucket of observations

_warm: set[tuple[str, str, int]] = set()


def play(unit: Unit, setup: Setup, budgets: Budgets, folder: Path) -> int:
    """Play the rounds that are not on disk yet; returns how many those were."""
    path = unit_file(folder, unit)
    rows: list[dict[str, Any]] = list(tables.read(path))
    before = len(rows)
    while len(rows) <= setup.rounds:
        leave_if_orphaned()
        rows.append(_round(unit, setup, budgets, rows))
        tables.write(path, rows)
    return len(rows) - before


def unit_file(folder: Path, unit: Unit) -> Path:
    """Where the rounds of a run are kept."""
    return folder / f"{unit.name}.csv"


def observed(rows: list[dict[str, Any]], setup: Setup) -> tuple[Float[np.ndarray, "n d"], Float[np.ndarray, " n"]]:
    """The points and noisy outcomes of all rounds so far."""
    points = [tables.numbers(str(row["points"]), setup.d) for row in rows]
    outcomes = [tables.numbers(str(row["outcomes"]), 1)[:, 0] for row in rows]
    return np.concatenate(points), np.concatenate(outcomes)


def _round(unit: Unit, setup: Setup, budgets: Budgets, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """One round; the first only observes random points."""
    function, process = tasks.task(setup, unit.task), tasks.prior(setup)
    row: dict[str, Any] = {"round": len(rows), "value": "", "evaluations": 0}
    times: dict[str, Any] = {"seconds": 0.0, "cpu_seconds": 0.0, "first_call": 0.0}
    pool = tasks.first_points(setup, unit.task)
    X, y = pool[:0], np.zeros(0)
    if rows:
        X, y = observed(rows, setup)
        posterior = process.condition(X, y)
        seed = tasks.stream(setup, unit.task, 4, len(rows))
        worth = choosing.integrand(unit.acquisition, posterior, setup, seed)
        evaluations = budgets.get((unit.acquisition, unit.optimizer, bucket(len(y))))
        times["first_call"] = _warm_up(unit, posterior, worth, setup, evaluations)
        choice = choosing.choose(unit.optimizer, posterior, worth, setup, evaluations=evaluations, seed=seed)
        pool = choice.pool
        row |= {"value": choosing.judged(posterior, worth, pool), "evaluations": choice.evaluations}
        times |= {"seconds": choice.seconds, "cpu_seconds": choice.cpu_seconds}
    outcomes = function(pool) + tasks.noises(setup, unit.task, len(rows))
    X, y = np.concatenate([X, pool]), np.concatenate([y, outcomes])
    point = recommended(process.condition(X, y))
    row |= {"observations": len(y), "recommended": float(function(point[None])[0])}
    row |= {"observed": float(function(X[[int(np.argmax(y))]])[0])}
    row |= {"point": point, "points": pool, "outcomes": outcomes}
    return {key: tables.cell(value) for key, value in (row | times).items()}


def _warm_up(unit: Unit, posterior: pw.Posterior, worth: Any, setup: Setup, evaluations: int | None) -> float:
    """Choose once before the clock counts, where programs must still be compiled; the seconds that took."""
    key = (unit.acquisition, unit.optimizer, bucket(len(posterior.y)))
    if key in _warm:
        return 0.0
    _warm.add(key)
    few = evaluations if unit.optimizer in ("random", "default") else setup.starts_of(unit.acquisition)
    seconds = choosing.choose(unit.optimizer, posterior, worth, setup, evaluations=few, seed=0).seconds
    if unit.optimizer == "default" and unit.acquisition in ("ei", "pi") and not setup.quick:  # as for idle points
        picks, logs = pw.Ascent(polish=0), pw.LogExpectedImprovement(worth.threshold)
        pw.propose(posterior, logs, setup.q, pending=posterior.X[:1], maximizer=picks)
    return seconds


def leave_if_orphaned() -> None:
    """A worker whose parent is gone leaves: what it had finished is on disk."""
    parent = os.environ.get("POOLWISE_PAPER_PARENT")
    if parent and os.getppid() != int(parent):
        os._exit(1)
