"""The look of the paper's figures: curves with bands, one colour for each optimizer and acquisition function."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from poolwise.plot.canvas import new_figure

COLOURS = {
    "random": "#8c8c8c",
    "direct": "#b07aa1",
    "gradient": "#2e8b57",
    "stochastic": "#e0569b",
    "default": "#1f4e79",
    "ei": "#1f4e79",
    "ucb": "#e07b00",
    "pi": "#2e8b57",
    "sr": "#b22222",
    "es": "#7b5ea7",
}
CYCLE = ("#1f4e79", "#e07b00", "#2e8b57", "#b22222", "#7b5ea7", "#8c8c8c", "#c9a400", "#3aa6a6")


@dataclass(frozen=True, eq=False)
class Line:
    """A curve with its standard error."""

    x: Float[np.ndarray, " n"]
    mean: Float[np.ndarray, " n"]
    error: Float[np.ndarray, " n"]
    colour: str | None = None


def panels(
    lines: Mapping[str, Mapping[str, Line]], *, columns: int, x: str, y: str, size: tuple[float, float] = (3.7, 3.1)
) -> Any:
    """A panel for each title, each with named curves; one scale for all, and a legend where names are new."""
    rows = -(-len(lines) // columns)
    figure, grid = new_figure(rows, columns, size=(size[0] * columns, size[1] * rows))
    axes = np.atleast_1d(grid).ravel()
    low = min((float((line.mean - line.error).min()) for each in lines.values() for line in each.values()), default=0.0)
    high = max(
        (float((line.mean + line.error).max()) for each in lines.values() for line in each.values()), default=1.0
    )
    told: list[set[str]] = []
    for axis, (title, each) in zip(axes, lines.items(), strict=False):
        for number, (name, line) in enumerate(each.items()):
            colour = line.colour or CYCLE[number % len(CYCLE)]
            axis.fill_between(line.x, line.mean - line.error, line.mean + line.error, color=colour, alpha=0.18, lw=0)
            axis.plot(line.x, line.mean, color=colour, lw=1.7, label=name)
        axis.set(title=title, xlim=(min(v.x[0] for v in each.values()), max(v.x[-1] for v in each.values())))
        axis.set_ylim(low - 0.05 * (high - low), high + 0.05 * (high - low))
        axis.grid(alpha=0.25, lw=0.6)
        axis.spines[["top", "right"]].set_visible(False)
        if set(each) not in told:
            told.append(set(each))
            axis.legend(frameon=False, fontsize=7)
    for axis in axes[len(lines) :]:
        axis.set_visible(False)
    figure.supxlabel(x, fontsize=10)
    figure.supylabel(y, fontsize=10)
    return figure


def bars(
    groups: Mapping[str, Mapping[str, tuple[float, float]]], *, y: str, colours: Mapping[str, str] = COLOURS
) -> Any:
    """Groups of bars with errors: {group: {name: (height, error)}}."""
    figure, axis = new_figure(size=(8.0, 3.6))
    names = list(dict.fromkeys(name for each in groups.values() for name in each))
    width = 0.8 / len(names)
    for number, name in enumerate(names):
        at = [i + (number - (len(names) - 1) / 2) * width for i, each in enumerate(groups.values()) if name in each]
        shown = [each[name] for each in groups.values() if name in each]
        heights, errors = [s[0] for s in shown], [s[1] for s in shown]
        axis.bar(
            at, heights, 0.92 * width, yerr=errors, color=colours.get(name, CYCLE[number % len(CYCLE)]), label=name
        )
    axis.set_xticks(range(len(groups)), list(groups))
    axis.set_ylabel(y)
    axis.grid(alpha=0.25, lw=0.6, axis="y")
    axis.set_axisbelow(True)
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(frameon=False, fontsize=8, ncols=min(len(names), 5), loc="upper center", bbox_to_anchor=(0.5, 1.16))
    return figure


def save(figure: Any, path: Any) -> None:
    """As PNG and as PDF."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path.with_suffix(".png"), dpi=200)
    figure.savefig(path.with_suffix(".pdf"), dpi=200, metadata={"CreationDate": None})
