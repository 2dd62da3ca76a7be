"""The look that the pictures of a study share: colours, axes of parameters, limits that one odd value cannot spoil."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from jaxtyping import Float

from poolwise.space.axes import Axis, Corners
from poolwise.space.parameters import Choice, Parameter
from poolwise.space.parameters import Float as Real

INK, BAND, DATA, STAR, GREY, GROUND = "#1f4e79", "#9ec1e0", "#e07b00", "#ffd400", "#6b6b6b", "#f0f0f0"
RED = "#b22222"
FEW = 12  # values that are drawn one by one
LONGEST, NAME = 16, 36  # characters of a label, and of an objective's name in a sentence
FEW_WORDS, MOST_WORDS = 8, 15  # labels of choices: those that fit slanted, and upright
FAR = 10.0  # quartile ranges beyond the quartiles: values farther out do not widen an axis

Side = Literal["x", "y"]
Positions = Float[np.ndarray, " n"]


def plain(text: Any) -> str:
    """Text that is drawn as it is, dollar signs too, and cut where it is long."""
    return full(cut(text))


def cut(text: Any, most: int = LONGEST) -> str:
    """Text of a label's length, without its middle where it is longer: long names often differ at one end."""
    written = str(text)
    return written if len(written) <= most else f"{written[: most // 2]}…{written[len(written) - (most - 1) // 2 :]}"


def full(text: str) -> str:
    """Text that is drawn as it is, at its whole length."""
    return text.replace("$", r"\$")


def apart(names: Sequence[str]) -> list[str]:
    """Names cut to a label's length; without what all begin with, where they would look alike."""
    shared = next((i for i, letters in enumerate(zip(*names, strict=False)) if len({*letters}) > 1), 0)
    alike = len({cut(name) for name in names}) < len(names)
    return [full(cut(f"…{name[shared:]}" if alike else name)) for name in names]


def lines(text: str, width: int) -> str:
    """Text that is drawn as it is, broken into lines of a width."""
    return full(textwrap.fill(text, width))


def short(value: Any) -> str:
    """A value in a few characters."""
    return f"{value:.3g}" if isinstance(value, float) else cut(value)


def wish(direction: str) -> str:
    """The direction in words."""
    return "smaller is better" if direction == "minimize" else "larger is better"


def few(parameter: Parameter, axis: Axis) -> bool:
    """Whether a parameter's values are drawn one by one, not as a line."""
    return isinstance(parameter, Choice) or (axis.count <= FEW and not parameter.log)  # type: ignore[union-attr]


def codes_along(axis: Axis, most: int) -> Positions:
    """Codes from one end of a parameter to the other: all values where there are at most that many, else a spread."""
    if axis.count <= most or isinstance(axis, Corners):
        return np.arange(float(axis.count))
    return np.unique(axis.read(np.linspace(0.0, 1.0, most)[:, None]))


def positions(parameter: Parameter, codes: Positions) -> Positions:
    """Where values are drawn: a number at itself, a choice at its place in the list."""
    return codes if isinstance(parameter, Choice) else np.asarray(parameter.numbers(codes), dtype=float)  # type: ignore[union-attr]


def spacing(parameter: Parameter) -> float:
    """The distance between two values that are drawn one by one."""
    return float(parameter.step) if isinstance(parameter, Real) and parameter.step is not None else 1.0


def dress(axes: Any, side: Side, name: str, parameter: Parameter, axis: Axis) -> None:
    """The label, scale, limits and ticks of a parameter on one side of a panel."""
    from matplotlib.ticker import MaxNLocator

    label, limit, ticks = (getattr(axes, f"set_{side}{what}") for what in ("label", "lim", "ticks"))
    line = getattr(axes, f"{side}axis")
    label(full(cut(name, NAME)), fontsize=10 if len(name) <= 24 else 8)
    ends = positions(parameter, codes_along(axis, 2) if axis.count > FEW else np.arange(float(axis.count)))
    if isinstance(parameter, Choice):
        at, words = words_of(parameter)
        style: dict[str, Any] = {}
        if side == "x" and sum(map(len, words)) > 24:
            style = {"rotation": 30, "ha": "right", "rotation_mode": "anchor"}
            if len(words) > FEW_WORDS:
                style |= {"rotation": 90, "va": "center", "fontsize": 6}
        ticks(at, words, **style)
        limit(-0.5, axis.count - 0.5)
    elif parameter.log:  # type: ignore[union-attr]
        getattr(axes, f"set_{side}scale")("log")
        limit(ends[0], ends[-1])
        if not isinstance(parameter, Real):
            mark_decades(line, ends[0], ends[-1])
    else:
        margin = 0.5 * spacing(parameter) if axis.count <= FEW else 0.0
        limit(ends[0] - margin, ends[-1] + margin)
        line.set_major_locator(MaxNLocator(6, integer=not isinstance(parameter, Real)))


def words_of(parameter: Choice) -> tuple[Positions, list[str]]:
    """Places and words of a choice's values, or of every n-th where they are many."""
    every = math.ceil(len(parameter.values) / MOST_WORDS)
    return np.arange(0.0, len(parameter.values), every), [plain(value) for value in parameter.values[::every]]


def round_ticks(low: float, high: float, *, whole: bool = False) -> Positions:
    """A few round numbers within a range."""
    from matplotlib.ticker import MaxNLocator

    found = np.asarray(MaxNLocator(5, integer=whole).tick_values(low, high), dtype=float)
    return found[(found >= low) & (found <= high)]


def log_ticks(low: float, high: float) -> Positions:
    """1, 2, 5, 10, 20, ... within a range, powers of ten over many decades; the two ends if that leaves one."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    every = max(1, len(decades) // 6)
    leads = (1, 2, 5) if high / low < 1e3 else (1,)
    marks = [float(f"{lead}e{k}") for k in decades if k % every == 0 for lead in leads]
    found = [mark for mark in marks if low <= mark <= high]
    return np.array(found if len(found) > 1 else [low, high])


def mark_decades(line: Any, low: float, high: float) -> None:
    """Round numbers, written out, along a logarithmic axis."""
    from matplotlib.ticker import FixedLocator, NullLocator

    line.set_major_locator(FixedLocator(log_ticks(low, high).tolist()))
    line.set_minor_locator(NullLocator())
    line.set_major_formatter(lambda value, _: f"{value:.6g}")


def logarithmic(values: Positions, decades: int) -> bool:
    """Whether values are easier to read by their logarithms: all above zero, and over so many decades or more."""
    return len(values) > 1 and bool(values.min() > 0 and values.max() / values.min() >= 10.0**decades)


def visible(values: Positions) -> tuple[float, float]:
    """The range that an axis should show: all values but those far beyond the quartiles."""
    low, high = np.quantile(values, 0.25), np.quantile(values, 0.75)
    reach = FAR * (high - low)
    near = values[(values >= low - reach) & (values <= high + reach)] if reach > 0 else values
    return float(near.min()), float(near.max())


def padded_limits(low: float, high: float, *, log: bool = False, share: float = 0.06) -> tuple[float, float]:
    """A range with some air around it, also where it is a single value."""
    if log:
        lower, upper = padded_limits(float(np.log10(low)), float(np.log10(high)), share=share)
        return 10.0**lower, 10.0**upper
    air = share * (high - low) or 0.1 * abs(high) or 0.1
    return low - air, high + air


def clean(axes: Any) -> None:
    """No frame where there is no scale."""
    axes.spines[["top", "right"]].set_visible(False)


def dot() -> Any:
    """What stands for a trial in a legend: opaque, however faint the first one is."""
    from matplotlib.lines import Line2D

    return Line2D([], [], marker="o", ls="", color=DATA, mec="white", ms=5.5)


def say(axes: Any, text: str) -> None:
    """A message in place of a picture."""
    axes.text(0.5, 0.5, text, ha="center", va="center", transform=axes.transAxes, color=GREY, fontsize=11)
    axes.set_axis_off()
