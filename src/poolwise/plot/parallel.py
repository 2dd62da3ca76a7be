"""Parallel coordinates: each trial is a line across all parameters, to its value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from poolwise.plot import look
from poolwise.plot.canvas import new_figure
from poolwise.plot.record import Record, record_of
from poolwise.space.axes import Axis, Corners
from poolwise.space.parameters import Choice, Parameter
from poolwise.space.parameters import Float as Real
from poolwise.space.space import Space
from poolwise.study.placing import place
from poolwise.study.study import Study
from poolwise.study.trial import Trial


def parallel(study: Study) -> Any:
    """A line for each told trial, coloured by its value, better ones on top; the best is drawn over all.

    Failed trials are dotted and end before the value. Trials that were added outside the space are left out.
    """
    record = record_of(study)
    space = record.definition.space
    told, U = place(space, record.of("told"))
    figure, axes = new_figure(size=(max(1.25 * (len(space.axes) + 1), 4.5), 3.8))
    if not told or not space.axes:
        look.say(axes, "No trial has been told yet." if space.axes else "No parameter varies.")
        return figure
    values = np.array([trial.value for trial in told], dtype=float)
    norm = _norm(values)
    heights = np.column_stack([_heights(space, U), np.asarray(norm(values))])
    colours = _colours(record, heights[:, -1])
    _lines(axes, heights, colours, record.sign * values)
    _failed(axes, space, record.of("failed"))
    best = int(np.argmax(record.sign * values))
    number, value = told[best].number, values[best]
    across = np.arange(heights.shape[1])
    axes.plot(across, heights[best], color="white", lw=4.4, zorder=8, solid_capstyle="round")
    axes.plot(across, heights[best], color=look.DATA, lw=2.6, zorder=9, label="best", marker="o", ms=5, mec="black")
    ticks = [_ticks(space.parameters[name], space.axes[name]) for name in space.axes]
    names = [*look.apart(list(space.axes)), look.plain(record.definition.objective)]
    _rulers(axes, names, [*ticks, _value_ticks(norm)])
    objective = look.cut(record.definition.objective, look.NAME)
    words = f"Trial {number} is best, with {objective} {value:.5g} ({look.wish(study.direction)})"
    axes.set_title(look.lines(words, int(11 * figure.get_figwidth())), fontsize=10, loc="left", pad=24)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False, fontsize=8)
    return figure


def _norm(values: Float[np.ndarray, " n"]) -> Any:
    """From values to 0 ... 1; what is far out is drawn at the end."""
    from matplotlib.colors import LogNorm, Normalize

    if values.min() > 0 and look.logarithmic(np.quantile(values, [0.1, 0.9]), 2):  # not for a few small ones
        return LogNorm(float(values.min()), float(values.max()), clip=True)
    low, high = look.visible(values)
    if low == high:
        low, high = look.padded_limits(low, high)
    return Normalize(low, high, clip=True)


def _heights(space: Space, U: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n p"]:
    """Where trials cross the parameters' rulers."""
    read = space.read(U)
    return np.stack([_height(space.axes[name], codes) for name, codes in read.items()], axis=1)


def _height(axis: Axis, codes: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """A parameter's ruler is its side of the cube, or cells of equal height for a choice."""
    return (codes + 0.5) / axis.count if isinstance(axis, Corners) else axis.place(codes)[:, 0]


def _colours(record: Record, heights: Float[np.ndarray, " n"]) -> Float[np.ndarray, "n 4"]:
    """Better is darker, in either direction."""
    from matplotlib import colormaps

    better = heights if record.sign > 0 else 1 - heights
    return np.asarray(colormaps["viridis_r"](better))


def _lines(
    axes: Any, heights: Float[np.ndarray, "n p"], colours: Float[np.ndarray, "n 4"], better: Float[np.ndarray, " n"]
) -> None:
    from matplotlib.collections import LineCollection

    order = np.argsort(better, kind="stable")
    across = np.arange(heights.shape[1])
    paths = [np.column_stack([across, row]) for row in heights[order]]
    thin = len(paths) > 200
    axes.add_collection(LineCollection(paths, colors=colours[order], lw=0.6 if thin else 1.2, alpha=0.8))
    axes.plot([], [], color=colours[order[-1]], lw=1.2, label="told, darker is better")


def _failed(axes: Any, space: Space, failed: Sequence[Trial]) -> None:
    placed, U = place(space, failed)
    if placed:
        heights = _heights(space, U)
        style = {"color": look.GREY, "lw": 0.8, "ls": ":", "zorder": 1.5}
        axes.plot(np.arange(heights.shape[1]), heights.T, **style)
        ends = np.full(len(heights), heights.shape[1] - 1)
        axes.plot(ends, heights[:, -1], "x", color=look.RED, ms=5, mew=1.4, zorder=9.5)
        axes.plot([], [], "x:", color=look.GREY, mec=look.RED, ms=5, mew=1.4, lw=0.8, label="failed")


def _ticks(parameter: Parameter, axis: Axis) -> list[tuple[float, str]]:
    """Heights and labels of some values of a parameter."""
    if isinstance(parameter, Choice):
        at, words = look.words_of(parameter)
        return list(zip(_height(axis, at).tolist(), words, strict=True))
    low, high = float(parameter.low), float(parameter.high)  # type: ignore[union-attr]
    if parameter.log:  # type: ignore[union-attr]
        marks = look.log_ticks(low, high)
    else:
        marks = look.round_ticks(low, high, whole=not isinstance(parameter, Real))
    stepped = isinstance(parameter, Real) and parameter.step is not None
    codes = marks if axis.moving else (marks - low) / (parameter.step if stepped else 1.0)  # type: ignore[union-attr]
    return list(zip(_height(axis, codes).tolist(), _words(marks), strict=True))


def _value_ticks(norm: Any) -> list[tuple[float, str]]:
    from matplotlib.colors import LogNorm

    low, high = float(norm.vmin), float(norm.vmax)
    marks = look.log_ticks(low, high) if isinstance(norm, LogNorm) else look.round_ticks(low, high)
    return [(float(norm(v)), word) for v, word in zip(marks.tolist(), _words(marks), strict=True)]


def _words(marks: Float[np.ndarray, " n"]) -> list[str]:
    """Numbers with as few digits as tell them apart, four or more."""
    words = ([f"{v:.{digits}g}" for v in marks.tolist()] for digits in range(4, 18))
    return next(found for found in words if len({*found}) == len(found))


def _rulers(axes: Any, names: Sequence[str], ticks: Sequence[list[tuple[float, str]]]) -> None:
    """The vertical axes with their labels, over the lines."""
    box = {"boxstyle": "round,pad=0.12", "fc": "white", "ec": "none"}
    for at, (name, marks) in enumerate(zip(names, ticks, strict=True)):
        last = at == len(names) - 1
        axes.plot([at, at], [0, 1], color="black", lw=2.0 if last else 1.0, zorder=6)
        for height, word in marks:
            axes.plot([at - 0.025, at + 0.025], [height, height], color="black", lw=0.8, zorder=6)
            side = {"ha": "left"} if last else {"ha": "right"}
            axes.text(
                at + (0.05 if last else -0.05), height, word, va="center", fontsize=7, bbox=box, zorder=10, **side
            )
        small = 8.5 if max(map(len, names)) <= 12 else 7
        axes.text(at, 1.05, name, ha="center", va="bottom", fontsize=small, weight="bold" if last else None)
    axes.set(xlim=(-0.35, len(names) - 0.6), ylim=(-0.03, 1.03))
    axes.set_axis_off()
