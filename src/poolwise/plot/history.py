"""The history of a study: every value, and the best so far."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from jaxtyping import Float

from poolwise.errors import InputError
from poolwise.plot import look
from poolwise.plot.canvas import new_figure
from poolwise.plot.record import Record, record_of
from poolwise.study.study import Study
from poolwise.study.trial import Trial

MOST_BANDS = 60
MOST_NUMBERS = 24

ValueScale = Literal["auto", "linear", "log"]


def history(study: Study, *, scale: ValueScale = "auto") -> Any:
    """Each trial's value by number, the best so far as a step line, pools as bands, failed trials on the axis.

    `scale` of the values: "log", "linear", or "auto" for "log" where all values are above zero and span a decade.
    """
    record = record_of(study)
    told, values = record.told
    figure, axes = new_figure(size=(6.8, 3.9))
    if not record.trials:
        look.say(axes, "No trials yet: ask for a pool and tell its values.")
        return figure
    axes.set_xlim(-0.6, record.trials[-1].number + 0.6)
    _bands(axes, record.trials)
    if told:
        _values(axes, record, _is_log(values, scale))
    else:
        axes.set_yticks([])
    _on_the_axis(axes, record.of("failed"), "failed", marker="x", color=look.RED, ms=5.5, mew=1.6)
    _on_the_axis(axes, record.of("pending"), "pending", marker="D", color=look.INK, mfc="white", ms=4.5, mew=1.1)
    words = f"{look.cut(record.definition.objective, look.NAME)} ({look.wish(study.direction)})"
    axes.set(xlabel="trial", ylabel=look.lines(words, 40))
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_title(look.full(_title(record)), fontsize=10, loc="left", pad=18)
    look.clean(axes)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=5, frameon=False, fontsize=8)
    return figure


def running_best(values: Float[np.ndarray, " n"], direction: str) -> Float[np.ndarray, " n"]:
    """The best of the values up to each."""
    return (np.minimum if direction == "minimize" else np.maximum).accumulate(values)


def _is_log(values: Float[np.ndarray, " n"], scale: str) -> bool:
    if scale not in ("auto", "linear", "log"):
        raise InputError(f"scale: unknown option {scale!r}; choose one of 'auto', 'linear', 'log'.")
    if scale == "log" and values.min() <= 0:
        raise InputError(f"scale: 'log' needs values above zero, and the smallest is {values.min():g}.")
    return scale == "log" or (scale == "auto" and look.logarithmic(values, 1))


def _title(record: Record) -> str:
    told, values = record.told
    if not told:
        return "No trial has been told yet"
    best = int(np.argmax(record.sign * values))
    objective = look.cut(record.definition.objective, look.NAME)
    return f"Best {objective} so far: {values[best]:.5g} in trial {told[best].number}"


def _values(axes: Any, record: Record, log: bool) -> None:
    told, values = record.told
    numbers = np.array([trial.number for trial in told], dtype=float)
    best = running_best(values, record.definition.direction)
    low, high = (values.min(), values.max()) if log else look.visible(values)
    low, high = min(low, float(best[-1])), max(high, float(best[-1]))
    if log:
        axes.set_yscale("log")
    limits = look.padded_limits(float(low), float(high), log=log, share=0.1)
    axes.set_ylim(*limits)
    if log:
        look.mark_decades(axes.yaxis, *limits)
    last = float(record.trials[-1].number) + 0.6
    axes.step([*numbers, last], [*best, best[-1]], where="post", color=look.INK, lw=1.8, label="best so far", zorder=3)
    style = {"ls": "", "color": look.DATA, "mec": "white", "mew": 0.5, "zorder": 4}
    size = 5.5 if len(told) <= 200 else 3.0
    axes.plot(numbers, values, marker="o", ms=size, label="told", **style)
    known = np.array([trial.sem is not None for trial in told])
    if known.any():
        sems = np.array([trial.sem or 0.0 for trial in told])
        axes.errorbar(numbers[known], values[known], sems[known], fmt="none", ecolor=look.DATA, elinewidth=1, zorder=3)
    top = int(np.argmax(record.sign * values))
    axes.plot(numbers[top], values[top], "*", color=look.STAR, mec="black", mew=0.7, ms=13, label="best", zorder=6)
    for beyond, edge, marker in ((values > limits[1], limits[1], "^"), (values < limits[0], limits[0], "v")):
        if beyond.any():
            axes.plot(
                numbers[beyond], np.full(beyond.sum(), edge), marker, color=look.DATA, ms=6, clip_on=False, zorder=5
            )
            side = "above" if marker == "^" else "below"
            axes.lines[-1].set_label(f"{side} the axis")


def _bands(axes: Any, trials: Sequence[Trial]) -> None:
    """Every second pool shaded, and the pools' numbers above them where there is room."""
    runs = [list(group) for _, group in itertools.groupby(trials, key=lambda trial: trial.pool)]
    pools = [run for run in runs if run[0].pool is not None]
    if len(pools) > MOST_BANDS or all(len(run) == 1 for run in pools):
        return
    for index, run in enumerate(pools):
        if index % 2 == 0:
            axes.axvspan(run[0].number - 0.5, run[-1].number + 0.5, color=look.GROUND, lw=0, zorder=0)
    if len(pools) <= MOST_NUMBERS:
        words = {"transform": axes.get_xaxis_transform(), "va": "bottom", "fontsize": 7, "color": look.GREY}
        for index, run in enumerate(pools):
            word = f"pool {run[0].pool}" if index == 0 else str(run[0].pool)
            axes.text((run[0].number + run[-1].number) / 2, 1.01, word, ha="center", **words)


def _on_the_axis(axes: Any, trials: Sequence[Trial], label: str, **style: Any) -> None:
    if trials:
        numbers = [trial.number for trial in trials]
        place = {"transform": axes.get_xaxis_transform(), "clip_on": False, "zorder": 5, "ls": ""}
        axes.plot(numbers, np.zeros(len(numbers)), label=label, **place, **style)
