"""Whether the model knows what it knows: each trial predicted from the others."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float

from poolwise.belief.gaussian_process import Posterior, precision
from poolwise.plot import look
from poolwise.plot.canvas import new_figure
from poolwise.plot.record import Belief, belief_of
from poolwise.study.study import Study

MANY = 60  # trials, beyond which bars are thin
WIDE = 1.959963984540054  # deviations on each side that hold 95 % of a Gaussian


def calibration(study: Study) -> Any:
    """Leave-one-out predictions, with the deviations that hold 95 %, against what was told.

    Hyperparameters stay those of all trials. Values so far out that the model has them compressed are drawn where the
    model has them.
    """
    belief = belief_of(study, "calibration")
    scale = belief.model.scale
    mean, deviation = leave_one_out(belief.model.posterior)
    observed, predicted = scale.values(belief.model.outcomes), scale.values(mean)
    bounds = np.sort([scale.values(mean + side * WIDE * deviation) for side in (-1.0, 1.0)], axis=0)
    off = np.abs(belief.model.outcomes - mean) / deviation
    inside, n = off <= WIDE, len(off)
    figure, axes = new_figure(size=(4.8, 4.9))
    ends = look.padded_limits(float(min(observed.min(), predicted.min())), float(max(observed.max(), predicted.max())))
    axes.plot(ends, ends, color=look.GREY, lw=1, ls="--", zorder=1, label="equal")
    bars: dict[str, Any] = {"lw": 1.0, "alpha": 0.9} if n <= MANY else {"lw": 0.5, "alpha": 0.4}
    for some, colour, marker, label in (
        (inside, look.INK, "o", "within 95 %"),
        (~inside, look.RED, "s", "outside 95 %"),
    ):
        if some.any():
            style = {"color": colour, "mec": "white", "mew": 0.5, "label": label, "zorder": 3}
            axes.vlines(observed[some], *bounds[:, some], colour, **bars)
            axes.plot(observed[some], predicted[some], marker, ms=5 if n <= MANY else 3.5, **style)
    objective = look.cut(belief.record.definition.objective, look.NAME)
    axes.set(xlim=ends, ylim=_tall(ends, bounds))
    axes.set_xlabel(look.lines(f"{objective}, told{_compressed(belief)}", 56))
    axes.set_ylabel(look.lines(f"{objective}, predicted from the other trials", 48))
    counts = [int((off <= width).sum()) for width in (1.0, WIDE)]
    axes.set_title(
        f"{counts[0]} of {n} trials ({100 * counts[0] / n:.0f} %) within one deviation, expected 68 %\n"
        f"{counts[1]} of {n} trials ({100 * counts[1] / n:.0f} %) within 95 % intervals",
        fontsize=9,
        loc="left",
    )
    axes.tick_params(labelsize=8)
    look.clean(axes)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False, fontsize=8)
    return figure


def _compressed(belief: Belief) -> str:
    """Words for told values that are drawn where the model has them, and not where they were told."""
    told = np.array([trial.value for trial in belief.model.trials], dtype=float)
    count = int((~np.isclose(belief.model.scale.values(belief.model.outcomes), told)).sum())
    return f" ({count} far out, drawn where the model has them)" if count else ""


def leave_one_out(posterior: Posterior) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """Mean and standard deviation of each observation, noise included, given all others.

    With K the covariance of the observations, a doubtful trend included, and r = y - mean,

        mean_i = y_i - [K^-1 r]_i / [K^-1]_ii,        variance_i = 1 / [K^-1]_ii.
    """
    live = np.asarray(posterior.data.live)
    own = np.diagonal(precision(posterior))
    return posterior.y - np.asarray(posterior.weights)[live] / own, 1 / np.sqrt(own)


def _tall(ends: tuple[float, float], bounds: Float[np.ndarray, "2 n"]) -> tuple[float, float]:
    """The range of predictions: the told values' and most of the error bars, but no bar may crush the rest."""
    width = ends[1] - ends[0]
    low, high = float(bounds[0].min()) - 0.03 * width, float(bounds[1].max()) + 0.03 * width
    return max(min(ends[0], low), ends[0] - 0.6 * width), min(max(ends[1], high), ends[1] + 0.6 * width)
