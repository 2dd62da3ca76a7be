"""Figure 1 as a picture: six panels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from poolwise.belief.gaussian_process import Posterior
from poolwise.plot.canvas import new_figure

INK, BAND, DATA, STAR, GRADIENT, STOCHASTIC = "#1f4e79", "#9ec1e0", "#e07b00", "#ffd400", "#39d353", "#ff5fb0"


@dataclass(frozen=True, eq=False)
class Panel:
    """A surface over pairs of points, the paths of two ascents from one start, and the highest pair."""

    surface: Float[np.ndarray, "g g"]
    gradient: Float[np.ndarray, "s 2"]
    stochastic: Float[np.ndarray, "t 2"]
    top: Float[np.ndarray, " 2"]


def draw(
    posterior: Posterior,
    truth: Callable[[Float[np.ndarray, " n"]], Float[np.ndarray, " n"]],
    panels: Mapping[str, Panel],
) -> Any:
    """The belief, and a surface for each acquisition function."""
    figure, grid = new_figure(2, 3, size=(10.2, 6.9))
    axes = grid.ravel()
    _belief(axes[0], posterior, truth)
    for axis, (name, panel) in zip(axes[1:], panels.items(), strict=False):
        _surface(axis, name, panel)
    for axis in axes[1 + len(panels) :]:
        axis.set_visible(False)
    axes[1].legend(frameon=True, framealpha=0.85, fontsize=7, loc="lower right", handlelength=1.4)
    return figure


def _belief(axis: Any, posterior: Posterior, truth: Callable[[Any], Any]) -> None:
    x = np.linspace(0, 1, 400)
    normal = posterior(x[:, None])
    deviation = np.sqrt(np.maximum(np.diagonal(normal.covariance), 0))
    for width, alpha in ((2, 0.30), (1, 0.45)):
        low, high = normal.mean - width * deviation, normal.mean + width * deviation
        axis.fill_between(x, low, high, color=BAND, alpha=alpha, lw=0)
    axis.plot(x, truth(x), color="#555555", lw=1.0, ls=":", label="black box")
    axis.plot(x, normal.mean, color=INK, lw=1.8, label="posterior mean, 1 and 2 deviations")
    axis.plot(posterior.X[:, 0], posterior.y, "o", color=DATA, ms=7.5, mec="white", mew=0.8, label="observed", zorder=3)
    axis.set(title="Belief", xlabel="$x$", xlim=(0, 1))
    axis.set_ylabel("outcome", labelpad=0)
    axis.set_box_aspect(1)
    axis.legend(frameon=False, fontsize=7, loc="lower left")
    axis.spines[["top", "right"]].set_visible(False)


def _surface(axis: Any, name: str, panel: Panel) -> None:
    g = np.linspace(0, 1, panel.surface.shape[0])
    axis.contourf(g, g, panel.surface.T, levels=36, cmap="viridis", rasterized=True)
    axis.contour(g, g, panel.surface.T, levels=12, colors="white", linewidths=0.3, alpha=0.45)
    axis.plot([0, 1], [0, 1], "--", color="white", lw=1.0, alpha=0.9)
    ways = (("stochastic ascent", panel.stochastic, STOCHASTIC), ("gradient ascent", panel.gradient, GRADIENT))
    for label, path, colour in ways:
        axis.plot(*path.T, color="black", lw=2.8, alpha=0.55)
        axis.plot(*path.T, color=colour, lw=1.5, label=label)
    for _, path, colour in ways:
        axis.plot(*path[-1], "*", color=colour, ms=11, mec="black", mew=0.7, zorder=5, clip_on=False)
    axis.plot(*panel.gradient[0], "x", color="white", ms=8, mew=2.2, zorder=5)
    for pair in (panel.top, panel.top[::-1]):
        axis.plot(*pair, "*", color=STAR, ms=17, mec="black", mew=0.8, zorder=4, clip_on=False)
    axis.set(title=name, xlabel="$x_1$", xlim=(0, 1), ylim=(0, 1), aspect="equal")
    axis.set_ylabel("$x_2$", labelpad=-1)
