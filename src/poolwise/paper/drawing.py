"""Figure 2 as a picture: regret against evaluations, and the values that optimizers reach on the same beliefs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from poolwise.paper.settings import ACQUISITIONS, NAMES, OPTIMIZERS
from poolwise.paper.summary import WORTHLESS, Curves, best_optimizer, curves, mean_and_error
from poolwise.plot.paper import COLOURS, Line, bars, panels, save


def draw_regret(rows: list[dict[str, str]], out: Path) -> None:
    """Two figures: regret of the recommended point, and of the best observation."""
    pictures = (("recommended", "recommended point", "figure2"), ("observed", "best observation", "figure2_observed"))
    for kind, title, name in pictures:
        found = curves(rows, f"log10_regret_{kind}")
        q = int(rows[0]["observations"])
        lines = {"each with its best optimizer": _best(found, q)}
        for acquisition in ACQUISITIONS:
            each = {
                NAMES[optimizer]: _line(found, acquisition, optimizer, q, COLOURS[optimizer])
                for optimizer in OPTIMIZERS
                if (acquisition, optimizer) in found
            }
            if each:
                lines[NAMES[acquisition]] = each
        figure = panels(lines, columns=3, x="evaluations", y=f"log10 regret, {title}")
        save(figure, out / name)


def _best(found: Curves, q: int) -> dict[str, Line]:
    lines = {}
    for acquisition in ACQUISITIONS:
        if any(key[0] == acquisition for key in found):
            best = best_optimizer(found, acquisition, OPTIMIZERS)
            lines[f"{NAMES[acquisition]}, {NAMES[best]}"] = _line(found, acquisition, best, q, COLOURS[acquisition])
    return lines


def _line(found: Curves, acquisition: str, optimizer: str, q: int, colour: str) -> Line:
    mean, error = mean_and_error(found[acquisition, optimizer])
    return Line(q * (1.0 + np.arange(len(mean))), mean, error, colour)


def draw_values(rows: list[dict[str, str]], out: Path) -> None:
    """Bars: the value that each optimizer reaches, between the lowest and the highest on that belief."""
    groups: dict[str, dict[str, tuple[float, float]]] = {}
    for acquisition, shares in value_shares(rows).items():
        each = {name: np.array(values) for name, values in shares.items()}
        groups[NAMES[acquisition]] = {
            NAMES[name]: (float(v.mean()), float(v.std() / np.sqrt(len(v)))) for name, v in each.items()
        }
    colours = {NAMES[name]: colour for name, colour in COLOURS.items()}
    save(bars(groups, y="value reached: 0 lowest, 1 highest", colours=colours), out / "values")


def value_shares(rows: list[dict[str, str]]) -> dict[str, dict[str, Any]]:
    """Values between 0, the lowest on a belief, and 1, the highest; where no pool is worth much is left out."""
    beliefs: dict[tuple[str, str, str], dict[str, float]] = {}
    for row in rows:
        key = (row["acquisition"], row["task"], row["observations"])
        beliefs.setdefault(key, {})[row["optimizer"]] = float(row["value"])
    shares: dict[str, dict[str, Any]] = {}
    for (acquisition, _, _), each in beliefs.items():
        low, high = min(each.values()), max(each.values())
        if high <= WORTHLESS:
            continue
        for name, value in each.items():
            share = (value - low) / (high - low) if high > low else 1.0
            shares.setdefault(acquisition, {}).setdefault(name, []).append(share)
    return shares
