"""A pool of two in one dimension: the belief, and the surface on which the pool was found."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float

from poolwise.belief.gaussian_process import Posterior
from poolwise.plot.canvas import new_figure

INK, BAND, DATA, STAR = "#1f4e79", "#9ec1e0", "#e07b00", "#f2c200"


def pair(
    posterior: Posterior,
    surface: Float[np.ndarray, "g g"],
    pool: Float[np.ndarray, "2 1"],
    *,
    name: str,
    path: Any = None,
) -> Any:
    """Left, the posterior with its data and the pool; right, the acquisition value of every pair of points.

    `surface[i, j]` is the value of the pool (x_j, x_i) on an even grid; `path`, where given, holds the pools that an
    ascent went through, a row each.
    """
    figure, (left, right) = new_figure(1, 2, size=(10.5, 4.4))
    grid = np.linspace(0, 1, 400)
    normal = posterior(grid[:, None])
    sd = np.sqrt(np.maximum(np.diagonal(normal.covariance), 0))
    low, high = normal.mean - 2 * sd, normal.mean + 2 * sd
    left.fill_between(grid, low, high, color=BAND, alpha=0.5, lw=0, label="two deviations")
    left.plot(grid, normal.mean, color=INK, lw=1.8, label="posterior mean")
    left.plot(posterior.X[:, 0], posterior.y, "o", color=DATA, ms=7, label="observed", zorder=3)
    star = {"marker": "*", "ls": "", "color": STAR, "ms": 17, "mec": "black", "mew": 0.8, "clip_on": False, "zorder": 5}
    left.plot(pool[:, 0], posterior(pool).mean, label="the pool", **star)
    left.set(xlabel="x", ylabel="outcome", title="What is believed", xlim=(0, 1))
    left.legend(frameon=False, fontsize=8, loc="lower right", markerscale=0.6)

    shown = right.imshow(surface, origin="lower", extent=(0, 1, 0, 1), cmap="viridis", aspect="equal")
    figure.colorbar(shown, ax=right, label="acquisition value", fraction=0.046)
    right.plot([0, 1], [0, 1], "--", color="white", lw=1, alpha=0.8)
    if path is not None:
        right.plot(path[:, 0], path[:, 1], "-", color="white", lw=1.5)
        right.plot(*path[0], "x", color="white", ms=8, mew=2)
    for a, b in (pool[:, 0], pool[::-1, 0]):
        right.plot(a, b, **star)
    right.set(xlabel="first point", ylabel="second point", title=f"{name} of every pair")
    figure.suptitle("Poolwise: the two experiments to run next", fontsize=12)
    return figure
