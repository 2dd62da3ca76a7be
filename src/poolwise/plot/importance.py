"""The importance of parameters, as bars."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from poolwise.errors import InputError
from poolwise.plot import look
from poolwise.plot.canvas import new_figure
from poolwise.plot.record import belief_of
from poolwise.plot.sensitivity import of_lengthscale, of_variance
from poolwise.study.study import Study

Method = Literal["variance", "lengthscale"]


def importance(study: Study, *, method: Method = "variance") -> Any:
    """A bar for each parameter, the most important on top.

    "variance" is the share of the posterior mean's variance over the space that a parameter explains: alone, and with
    all others (first-order and total Sobol' indices, constraints aside). "lengthscale" is how many lengthscales of the
    model its range is long, as a share of their sum.
    """
    if method not in ("variance", "lengthscale"):
        raise InputError(f"method: unknown option {method!r}; choose one of 'variance', 'lengthscale'.")
    belief = belief_of(study, "importance")
    names = list(belief.record.definition.space.axes)
    figure, axes = new_figure(size=(5.6, 0.42 * len(names) + 1.9))
    if method == "variance":
        shares = of_variance(belief)
        ranked = sorted(names, key=lambda name: shares[name].total)
        heights = np.array([[shares[name].first, shares[name].total] for name in ranked])
        at = np.arange(len(ranked))
        axes.barh(at + 0.19, heights[:, 1], 0.36, color=look.BAND, label="with all others (total)")
        axes.barh(at - 0.19, heights[:, 0], 0.36, color=look.INK, label="alone (first order)")
        labelled = zip([*(at + 0.19), *(at - 0.19)], [*heights[:, 1], *heights[:, 0]], strict=True)
        words = f"share of the variance of the posterior mean of {look.cut(study.objective, look.NAME)}"
        figure.legend(frameon=False, fontsize=8, loc="outside lower center", ncols=2)
    else:
        share = of_lengthscale(belief)
        ranked = sorted(names, key=lambda name: share[name])
        axes.barh(ranked_at := np.arange(len(ranked)), lengths := [share[name] for name in ranked], 0.6, color=look.INK)
        labelled = zip(ranked_at, lengths, strict=True)
        words = "range of the parameter in lengthscales of the model, as a share"
    for height, length in labelled:
        axes.text(length + 0.01, height, f"{100 * length:.0f} %", va="center", fontsize=7, color=look.GREY)
    axes.set_yticks(range(len(ranked)), [look.full(look.cut(name, look.NAME)) for name in ranked])
    axes.set(xlim=(0, 1.08), xlabel=look.lines(words, 60))
    axes.xaxis.label.set_size(8)
    axes.set_xticks(np.linspace(0, 1, 6), [f"{p} %" for p in range(0, 101, 20)])
    axes.tick_params(labelsize=8)
    axes.set_title(f"Importance by {method}", fontsize=10, loc="left")
    look.clean(axes)
    return figure
