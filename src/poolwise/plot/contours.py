"""The posterior over two parameters: its mean and its deviation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from poolwise.errors import InputError
from poolwise.plot import look
from poolwise.plot.canvas import new_figure
from poolwise.plot.record import Belief, belief_of, point_of
from poolwise.plot.sensitivity import of_variance
from poolwise.space.errors import did_you_mean
from poolwise.space.space import Space
from poolwise.study.study import Study

MOST, ALONE = 64, 160  # points along a side: of a surface, and of stripes
FAINTEST = 0.15


@dataclass(frozen=True, eq=False)
class Plane:
    """A plane through a point of the cube: two parameters, values along them, and the belief there, row by row."""

    names: tuple[str, str]
    centre: Float[np.ndarray, " d"]
    x: Float[np.ndarray, " a"]
    y: Float[np.ndarray, " b"]
    mean: Float[np.ndarray, "b a"]
    deviation: Float[np.ndarray, "b a"]
    allowed: Bool[np.ndarray, "b a"]


def contours(study: Study, pair: Sequence[str] = (), *, at: Mapping[str, Any] | None = None) -> Any:
    """Posterior mean and deviation over two parameters, with told trials and pending ones.

    `pair` names the two; without it they are the two most important by variance. The other parameters stay at the
    recommended point, or at `at`; trials are fainter the farther they are from it there.
    """
    belief = belief_of(study, "contours")
    names = _pair(belief, tuple(pair))
    centre, called = point_of(belief, at)
    plane = plane_through(belief, names, centre)
    figure, (left, right) = new_figure(1, 2, size=(9.0, 4.0))
    objective, wish = look.cut(belief.record.definition.objective, look.NAME), look.wish(study.direction)
    lighter = "viridis_r" if study.direction == "minimize" else "viridis"
    _panel(figure, left, belief, plane, (plane.mean, lighter, f"mean of {objective} ({wish})"))
    _panel(figure, right, belief, plane, (plane.deviation, "Greys", f"standard deviation of {objective}"))
    left.set_title("What is believed", fontsize=10)
    right.set_title("How uncertain it is", fontsize=10)
    handles, labels = left.get_legend_handles_labels()
    named = [called if label == "centre" else label for label in labels]
    handles[labels.index("told")] = look.dot()
    figure.legend(handles, named, loc="outside lower center", ncols=4, frameon=False, fontsize=8)
    return figure


def plane_through(belief: Belief, names: tuple[str, str], centre: Float[np.ndarray, " d"]) -> Plane:
    """The belief over two parameters, the others as at a point of the cube."""
    space = belief.record.definition.space
    most = MOST if _joined(space, names) else ALONE
    codes = [look.codes_along(space.axes[name], most) for name in names]
    grids = np.meshgrid(*codes)
    U = np.repeat(centre[None, :], grids[0].size, axis=0)
    for name, grid in zip(names, grids, strict=True):
        U[:, space.columns[name]] = space.axes[name].place(grid.ravel())
    x, y = (look.positions(space.parameters[name], c) for name, c in zip(names, codes, strict=True))
    parts = (part.reshape(grids[0].shape) for part in (*belief.predict(U), space.feasible(U)))
    return Plane(names, centre, x, y, *parts)


def _pair(belief: Belief, pair: tuple[str, ...]) -> tuple[str, str]:
    names = list(belief.record.definition.space.axes)
    if len(names) < 2:
        raise InputError(f"contours: needs two parameters that vary, the space has one, {names[0]}; draw slices.")
    if not pair:
        shares = of_variance(belief)
        ranked = sorted(names, key=lambda name: -shares[name].total)
        first, second = sorted(ranked[:2], key=names.index)
        return first, second
    for name in pair:
        if name not in names:
            raise InputError(f"pair: {name!r} is no parameter that varies.{did_you_mean(name, names)}")
    if len(set(pair)) != 2 or len(pair) != 2:
        raise InputError(f"pair: expected two different parameters, got {pair!r}.")
    return pair[0], pair[1]


def _joined(space: Space, names: tuple[str, str]) -> bool:
    """Whether a surface may be drawn smoothly."""
    return not any(look.few(space.parameters[name], space.axes[name]) for name in names)


def _panel(
    figure: Any, axes: Any, belief: Belief, plane: Plane, shown: tuple[Float[np.ndarray, "b a"], str, str]
) -> None:
    """A surface with its colours and their name, and the trials on it."""
    from matplotlib.ticker import MaxNLocator

    surface, colours, label = shown
    space = belief.record.definition.space
    drawn = _surface(axes, plane, surface, colours, joined=_joined(space, plane.names))
    bar = figure.colorbar(drawn, ax=axes, pad=0.02, ticks=MaxNLocator(7))
    bar.set_label(look.lines(label, 48), fontsize=8)
    bar.ax.tick_params(labelsize=7)
    _cover(axes, plane)
    _trials(axes, belief, plane)
    axes.tick_params(labelsize=8)
    first, second = plane.names
    look.dress(axes, "x", first, space.parameters[first], space.axes[first])
    look.dress(axes, "y", second, space.parameters[second], space.axes[second])


def _surface(axes: Any, plane: Plane, surface: Float[np.ndarray, "b a"], colours: str, *, joined: bool) -> Any:
    """Contours, or cells where a parameter has few values."""
    from matplotlib.ticker import MaxNLocator

    low, high = float(surface.min()), float(surface.max())
    low, high = (low, high) if high > low else look.padded_limits(low, high)
    if not joined:
        cells = {"shading": "nearest", "vmin": low, "vmax": high, "rasterized": True}
        return axes.pcolormesh(plane.x, plane.y, surface, cmap=colours, **cells)
    levels = MaxNLocator(22).tick_values(low, high)
    axes.contour(plane.x, plane.y, surface, levels=levels[::2], colors="white", linewidths=0.4, alpha=0.6)
    return axes.contourf(plane.x, plane.y, surface, levels=levels, cmap=colours, zorder=0)


def _cover(axes: Any, plane: Plane) -> None:
    """What the constraints do not allow is covered."""
    if not plane.allowed.all():
        from matplotlib.colors import ListedColormap

        cover = np.ma.masked_where(plane.allowed, np.ones(plane.allowed.shape))
        white = {"cmap": ListedColormap(["white"]), "shading": "nearest", "rasterized": True, "zorder": 1.5}
        axes.pcolormesh(plane.x, plane.y, cover, **white)
        axes.plot([], [], "s", color="white", mec=look.GREY, ms=8, label="not allowed")


def _trials(axes: Any, belief: Belief, plane: Plane) -> None:
    space = belief.record.definition.space

    def where(U: Float[np.ndarray, "n d"]) -> list[Float[np.ndarray, " n"]]:
        read = space.read(U, plane.names)
        return [look.positions(space.parameters[name], read[name]) for name in plane.names]

    near = belief.nearness(belief.X, plane.centre, plane.names)
    order = np.argsort(near)
    alpha = FAINTEST + (1 - FAINTEST) * near[order]
    dots = {"s": 26, "edgecolors": "white", "linewidths": 0.7, "zorder": 4, "clip_on": False}
    axes.scatter(*where(belief.X[order]), c=look.DATA, alpha=alpha, label="told", **dots)
    cross = {"marker": "P", "ls": "", "color": look.RED, "mec": "white", "ms": 8, "mew": 0.8, "zorder": 7}
    axes.plot(*where(plane.centre[None, :]), label="centre", clip_on=False, **cross)
    if len(belief.pending):
        star = {"ls": "", "marker": "*", "color": look.STAR, "ms": 12, "mec": "black", "mew": 0.7, "zorder": 6}
        axes.plot(*where(belief.pending), label="pending pool", clip_on=False, **star)
