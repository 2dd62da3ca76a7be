"""Pictures of the regret benchmark: curves on the prior, ranks and curves on BBOB, and both against seconds."""

from pathlib import Path
from typing import Any

import numpy as np
from regret_table import Curves, Row, common, curves, mean_and_error, pool_seconds, ranks
from regret_tasks import DIMENSIONS, FUNCTIONS, NAMES, PEERS, POOL, bbob_parts

from poolwise.plot.canvas import new_figure
from poolwise.plot.look import GREY, INK

OURS = ("#2a9d8f", "#7b5ea7", "#c8553d", "#8a9a2b", "#3d85c6", "#b5838d", "#5f0f40", "#9a7b4f", "#d4a017", "#4d4d4d")
THEIRS = {"optuna-gp": "#e07b00", "botorch-qlognei": "#b22222", "botorch-qucb": "#d46a6a", "botorch-qlogei": "#e0a0a0"}


def draw(rows: list[Row], folder: Path) -> None:
    """regret_prior.png, regret_bbob.png and regret_bbob_curves.png, of what there is."""
    looks = _looks(sorted({row["method"] for row in rows}))
    if prior := curves(rows, "prior"):
        _prior(prior, pool_seconds(rows, "prior"), looks).savefig(folder / "regret_prior.png", dpi=130)
    bbob = curves(rows, "bbob")
    if mean := ranks(bbob):
        _ranks(mean, pool_seconds(rows, "bbob"), looks).savefig(folder / "regret_bbob.png", dpi=130)
        _functions(bbob, looks).savefig(folder / "regret_bbob_curves.png", dpi=130)


def _looks(methods: list[str]) -> dict[str, dict[str, Any]]:
    """Peers are dashed; work at several strengths has one colour."""
    found: dict[str, dict[str, Any]] = {}
    mine = [name for name in dict.fromkeys(map(_base, methods)) if name not in {*THEIRS, "default", "random"}]
    colours = dict(zip(mine, OURS * (1 + len(mine) // len(OURS)), strict=False))
    for method in methods:
        if method in PEERS:
            found[method] = {"color": THEIRS[method], "ls": "--", "lw": 1.5}
        elif method == "random":
            found[method] = {"color": GREY, "ls": ":", "lw": 1.5}
        elif _base(method) == "default":
            found[method] = {"color": INK, "ls": "-", "lw": 2.6 if method == "default" else 1.2}
        else:
            again = mine.index(_base(method)) >= len(OURS)
            found[method] = {"color": colours[_base(method)], "ls": "-." if again else "-", "lw": 1.2}
    return found


def _base(method: str) -> str:
    return method.partition("@")[0]


def _prior(held: Curves, seconds: dict[str, float], looks: dict[str, dict[str, Any]]) -> Any:
    figure, (left, right) = new_figure(1, 2, size=(11.5, 4.8))
    for method, tasks in held.items():
        values = np.array(list(tasks.values()))
        mean, error = values.mean(axis=0), values.std(axis=0) / np.sqrt(max(len(values) - 1, 1))
        at = POOL * np.arange(1, len(mean) + 1)
        left.plot(at, mean, label=f"{method} ({len(values)})", **looks[method])
        if method == "default":
            left.fill_between(at, mean - error, mean + error, color=looks[method]["color"], alpha=0.15, lw=0)
    left.set(xlabel="observations", ylabel="mean log10 regret of the recommended point")
    left.set_title("Tasks of the prior, 8 dimensions (number of tasks)", fontsize=10)
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncol=8, frameon=False, fontsize=8)
    ends = {method: mean_and_error([curve[-1] for curve in tasks.values()]) for method, tasks in held.items()}
    _scatter(right, ends, seconds, looks)
    right.set_title("After the last pool, with standard errors", fontsize=10)
    right.set(ylabel="mean log10 regret of the recommended point")
    for axes in (left, right):
        axes.grid(alpha=0.25)
    return figure


def _ranks(mean: dict[str, float], seconds: dict[str, float], looks: dict[str, dict[str, Any]]) -> Any:
    figure, (left, right) = new_figure(1, 2, size=(11.5, 4.8))
    order = sorted(mean, key=lambda method: -mean[method])
    left.barh(order, [mean[m] for m in order], color=[looks[m]["color"] for m in order], height=0.7)
    for place, method in enumerate(order):
        left.text(mean[method], place, f" {mean[method]:.2f}", va="center", fontsize=8)
    left.set(xlabel="mean rank (1 is best)")
    left.set_title("BBOB, 5 and 10 dimensions, 104 observations", fontsize=10)
    left.margins(x=0.1)
    _scatter(right, {method: (rank, np.nan) for method, rank in mean.items()}, seconds, looks)
    right.set_title("Rank and time", fontsize=10)
    right.set(ylabel="mean rank")
    right.grid(alpha=0.25)
    return figure


def _scatter(
    axes: Any, ends: dict[str, tuple[float, float]], seconds: dict[str, float], looks: dict[str, dict[str, Any]]
) -> None:
    """Where each method ends, against the seconds of its pools; names that differ after an @ are joined."""
    ends = {method: end for method, end in ends.items() if method != "random"}
    middle = np.sqrt(min(seconds[m] for m in ends) * max(seconds[m] for m in ends)) if ends else 0.0
    for base in dict.fromkeys(map(_base, ends)):
        mine = sorted((m for m in ends if _base(m) == base), key=lambda m: seconds[m])
        at, values = [seconds[m] for m in mine], [ends[m][0] for m in mine]
        errors = [ends[m][1] for m in mine]
        axes.errorbar(at, values, None if np.isnan(errors).all() else errors, marker="o", ms=6, **looks[mine[0]])
    axes.set(xscale="log", xlabel="median processor seconds of a pool, fit included, one thread")
    axes.margins(x=0.1)
    _name(axes, {method: (seconds[method], ends[method][0]) for method in ends}, middle)


def _name(axes: Any, places: dict[str, tuple[float, float]], middle: float) -> None:
    """Names beside their points, from the top down; one that would cover another moves down."""
    axes.figure.draw_without_rendering()
    taken: list[tuple[float, float, float]] = []
    for method, (x, y) in sorted(places.items(), key=lambda item: -item[1][1]):
        across, height = axes.transData.transform((x, y)) * 72 / axes.figure.dpi  # in points, as fonts are
        width, left = 4.2 * len(method), x > middle
        start, up = across - 6 - width if left else across + 6, 4.0
        while any(a < start + width and start < b and abs(height + up - other) < 8 for a, b, other in taken):
            up -= 1.0
        taken.append((start, start + width, height + up))
        side = {"xytext": (-6, up), "ha": "right"} if left else {"xytext": (6, up), "ha": "left"}
        axes.annotate(method, (x, y), textcoords="offset points", fontsize=7.5, **side)


def _functions(held: Curves, looks: dict[str, dict[str, Any]]) -> Any:
    figure, grid = new_figure(len(DIMENSIONS), len(FUNCTIONS), size=(16.0, 6.0))
    shared = common(held)
    for line, dimension in zip(grid, DIMENSIONS, strict=True):
        for axes, function in zip(line, FUNCTIONS, strict=True):
            for method, tasks in held.items():
                mine = [tasks[name] for name in shared if bbob_parts(name)[:2] == (function, dimension)]
                if mine:
                    mean = np.mean(mine, axis=0)
                    axes.plot(POOL * np.arange(1, len(mean) + 1), mean, label=method, **looks[method])
            axes.set_title(f"f{function} {NAMES[function]}, d = {dimension}", fontsize=9)
            axes.grid(alpha=0.25)
            axes.tick_params(labelsize=7)
        line[0].set_ylabel("mean log10 regret")
    handles, labels = grid[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncol=8, frameon=False, fontsize=8)
    return figure
