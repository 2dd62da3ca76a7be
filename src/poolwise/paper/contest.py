"""Parallel acquisition functions against the classical ways to a pool: two figures."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np

from poolwise.paper import tables
from poolwise.paper.figure2 import optima, play_missing, results
from poolwise.paper.processes import workers
from poolwise.paper.provenance import check_folder
from poolwise.paper.rivals import BOUND, IMPROVEMENT
from poolwise.paper.settings import NAMES, Setup, Unit
from poolwise.paper.summary import curves, mean_and_error
from poolwise.plot.paper import Line, panels, save

SMALL = 4  # points in a pool where the exact expected improvement takes part

CONTESTS = {"rivals-ei": tuple(IMPROVEMENT), "rivals-ucb": tuple(BOUND)}


def rivals(setup: Setup, out: Path, *, only: tuple[str, ...] = (), count: int = 2) -> Path:
    """Play both contests, and write rivals.csv and the pictures."""
    check_folder(out, setup)
    rows = []
    with workers(count) as crew:
        for contest, strategies in CONTESTS.items():
            names = [name for name in strategies if not only or name in only]
            small = dataclasses.replace(setup, q=min(setup.q, SMALL)) if contest == "rivals-ei" else setup
            units = [Unit(task, contest, name) for task in range(setup.tasks) for name in names]
            folder = out / contest
            play_missing(small, units, {}, folder, crew)
            best = optima(small, units, folder, crew) if units else {}
            rows += [row for unit in units for row in results(small, unit, best[unit.task], folder)]
    tables.write(out / "rivals.csv", rows)
    draw(tables.read(out / "rivals.csv"), out)
    return out / "rivals.csv"


def draw(rows: list[dict[str, str]], out: Path) -> None:
    """One figure for each contest: regret of the recommended point, and of the best observation."""
    for contest in CONTESTS:
        mine = [row for row in rows if row["acquisition"] == contest]
        if not mine:
            continue
        q = int(mine[0]["observations"])
        lines: dict[str, dict[str, Line]] = {}
        for kind in ("recommended", "observed"):
            found = curves(mine, f"log10_regret_{kind}")
            each = {NAMES[name]: mean_and_error(matrix) for (_, name), matrix in found.items()}
            title = f"{kind} point" if kind == "recommended" else "best observation"
            lines[title] = {n: Line(q * (1.0 + np.arange(len(mean))), mean, error) for n, (mean, error) in each.items()}
        save(
            panels(lines, columns=2, x="evaluations", y="log10 regret", size=(4.4, 3.6)),
            out / contest.replace("-", "_"),
        )
