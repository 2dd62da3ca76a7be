"""Figures without a screen, and the message for those who have no matplotlib."""

from __future__ import annotations

from typing import Any

from poolwise.errors import MissingExtra


def check_drawing() -> None:
    """An error where nothing can be drawn: before long work that ends in a picture."""
    new_figure()


def new_figure(rows: int = 1, columns: int = 1, *, size: tuple[float, float] = (6.4, 4.4)) -> tuple[Any, Any]:
    """A figure and its axes, outside pyplot: nothing pops up and no global state is left behind."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtra("Pictures need matplotlib: pip install 'poolwise[plot]'") from error
    figure = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots(rows, columns)
