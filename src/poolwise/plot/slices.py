"""Slices of the posterior: one panel for each parameter, all through one point."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from poolwise.plot import look
from poolwise.plot.canvas import new_figure
from poolwise.plot.record import Belief, belief_of, point_of
from poolwise.space.parameters import Parameter
from poolwise.study.study import Study

MOST = 121  # points of a slice
COLUMNS = 3
FAINTEST = 0.15
MANY = 100  # trials, beyond which points are small
MEAN, BANDS, BARRED, POINT = "posterior mean", "one and two deviations", "not allowed", "the point"
TOLD, BEYOND, PENDING = "told", "told, beyond the axis", "pending pool"
LEGEND = (MEAN, BANDS, BARRED, POINT, TOLD, BEYOND, PENDING)


@dataclass(frozen=True, eq=False)
class Slice:
    """The belief along one parameter, and which of its points the constraints allow."""

    name: str
    x: Float[np.ndarray, " m"]
    mean: Float[np.ndarray, " m"]
    deviation: Float[np.ndarray, " m"]
    allowed: Bool[np.ndarray, " m"]


def slices(study: Study, *, at: Mapping[str, Any] | None = None) -> Any:
    """For each parameter the posterior mean, with two deviations, along it; the others stay at one point.

    That is the recommended point, or `at`. Trials are fainter the farther the others of their parameters are from it;
    stars are pending trials, at their posterior means.
    """
    belief = belief_of(study, "slices")
    centre, called = point_of(belief, at)
    space = belief.record.definition.space
    cut = [slice_along(belief, name, centre) for name in space.axes]
    columns = columns_for(len(cut))
    rows = -(-len(cut) // columns)
    figure, grid = new_figure(rows, columns, size=(max(2.9 * columns, 4.6), 2.5 * rows + 0.6))
    panels = np.atleast_1d(grid).ravel()
    limits = _limits(belief, cut)
    for number, (axes, one) in enumerate(zip(panels, cut, strict=False)):
        axes.set_ylim(*limits)
        _panel(axes, belief, one, centre)
        if number % columns:
            axes.tick_params(labelleft=False)
    for axes in panels[len(cut) :]:
        axes.set_visible(False)
    words = f"{look.cut(belief.record.definition.objective, look.NAME)} ({look.wish(study.direction)})"
    figure.supylabel(look.lines(words, 22 * rows + 16), fontsize=9)
    figure.suptitle(look.full(_title(space.decode(centre), called, 36 * columns)), fontsize=9)
    found = {label: handle for axes in panels for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    order = [label for label in LEGEND if label in found]
    below = {"loc": "outside lower center", "ncols": 1 + columns, "frameon": False, "fontsize": 8}
    found[TOLD] = look.dot()
    figure.legend([found[label] for label in order], order, **below)
    return figure


def columns_for(panels: int) -> int:
    """How many panels stand side by side: three at most, and two of four."""
    return 2 if panels == 4 else min(COLUMNS, panels)


def slice_along(belief: Belief, name: str, centre: Float[np.ndarray, " d"]) -> Slice:
    """The belief along a parameter through a point of the cube."""
    space = belief.record.definition.space
    axis, parameter = space.axes[name], space.parameters[name]
    codes = look.codes_along(axis, MOST)
    U = np.repeat(centre[None, :], len(codes), axis=0)
    U[:, space.columns[name]] = axis.place(codes)
    return Slice(name, look.positions(parameter, codes), *belief.predict(U), space.feasible(U))


def _title(params: Mapping[str, Any], called: str, width: int) -> str:
    """The point in words, broken between parameters only."""
    parts = [f"{name} = {look.short(value)}".replace(" ", "\N{NO-BREAK SPACE}") for name, value in params.items()]
    return textwrap.fill(f"Slices through {called}: {', '.join(parts)}", width)


def _limits(belief: Belief, cut: list[Slice]) -> tuple[float, float]:
    """One range of values for all panels: the bands, pending means, and the trials that are not far out."""
    ends = [one.mean + k * one.deviation for one in cut for k in (-2, 2)]
    low, high = look.visible(np.concatenate([*ends, np.clip(belief.values, *look.visible(belief.values))]))
    waiting = belief.predict(belief.pending)[0] if len(belief.pending) else np.array([low])
    return look.padded_limits(min(low, float(waiting.min())), max(high, float(waiting.max())))


def _panel(axes: Any, belief: Belief, one: Slice, centre: Float[np.ndarray, " d"]) -> None:
    space = belief.record.definition.space
    parameter, axis = space.parameters[one.name], space.axes[one.name]
    if look.few(parameter, axis):
        _boxes(axes, one, parameter)
    else:
        _line(axes, one)
    where = look.positions(parameter, axis.read(centre[None, space.columns[one.name]]))
    axes.axvline(where[0], color=look.INK, lw=0.9, ls=":", zorder=1, label=POINT)
    _trials(axes, belief, one.name, centre)
    axes.tick_params(labelsize=8)
    look.dress(axes, "x", one.name, parameter, axis)
    look.clean(axes)


def _line(axes: Any, one: Slice) -> None:
    mean = np.where(one.allowed, one.mean, np.nan)
    for width, alpha in ((2, 0.35), (1, 0.45)):
        low, high = mean - width * one.deviation, mean + width * one.deviation
        label = BANDS if width == 1 else None
        axes.fill_between(one.x, low, high, color=look.BAND, alpha=alpha, lw=0, label=label)
    axes.plot(one.x, mean, color=look.INK, lw=1.7, label=MEAN, zorder=3)
    if not one.allowed.all():
        axes.plot(one.x, np.where(one.allowed, np.nan, one.mean), color=look.GREY, lw=1, ls="--", label=BARRED)


def _boxes(axes: Any, one: Slice, parameter: Parameter) -> None:
    """A box for each value where a line would join what is not joined."""
    step = look.spacing(parameter)
    for width, alpha in ((2, 0.35), (1, 0.45)):
        heights = 2 * width * np.where(one.allowed, one.deviation, 0.0)
        box = {"color": look.BAND, "alpha": alpha, "lw": 0, "label": BANDS if width == 1 else None}
        axes.bar(one.x, heights, 0.64 * step, one.mean - heights / 2, **box)
    left, right = one.x - 0.32 * step, one.x + 0.32 * step
    for some, colour, style, label in ((one.allowed, look.INK, "-", MEAN), (~one.allowed, look.GREY, "--", BARRED)):
        if some.any():
            axes.hlines(one.mean[some], left[some], right[some], colour, style, label=label, lw=1.7, zorder=3)


def _trials(axes: Any, belief: Belief, name: str, centre: Float[np.ndarray, " d"]) -> None:
    space = belief.record.definition.space

    def across(U: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
        return look.positions(space.parameters[name], space.axes[name].read(U[:, space.columns[name]]))

    low, high = axes.get_ylim()
    near = belief.nearness(belief.X, centre, [name])
    order = np.argsort(near)
    x, y, alpha = across(belief.X)[order], belief.values[order], FAINTEST + (1 - FAINTEST) * near[order]
    style: dict[str, Any] = {"s": 20 if len(y) <= MANY else 9, "c": look.DATA, "lw": 0, "zorder": 4, "clip_on": False}
    inside = (y >= low) & (y <= high)
    axes.scatter(x[inside], y[inside], alpha=alpha[inside], label=TOLD, **style)
    for beyond, edge, marker in ((y > high, high, "^"), (y < low, low, "v")):
        if beyond.any():
            edges = np.full(beyond.sum(), edge)
            axes.scatter(x[beyond], edges, alpha=alpha[beyond], marker=marker, label=BEYOND, **style)
    if len(belief.pending):
        means, _ = belief.predict(belief.pending)
        star = {"ls": "", "marker": "*", "color": look.STAR, "ms": 10, "mec": "black", "mew": 0.7, "zorder": 5}
        axes.plot(across(belief.pending), means, label=PENDING, clip_on=False, **star)
