"""What a study hands out: its pictures, and what is left of its store after `close`."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from poolwise.study.errors import StorageError

if TYPE_CHECKING:
    from poolwise.study.study import Study

PICTURES = ("history", "slices", "contours", "calibration", "parallel", "importance")  # of poolwise.plot.study


class Closed:
    """What is left of a store after `close`: whoever uses it is told."""

    def __init__(self, study: str) -> None:
        self._study = study

    def close(self) -> None:
        """Nothing is left to let go of."""

    def __getattr__(self, name: str) -> Any:
        raise StorageError(f"{self._study} is closed; open it again with the same address and name.")


class Plots:
    """The pictures of `poolwise.plot.study`, with the study as their first argument."""

    def __init__(self, study: Study) -> None:
        self._study = study

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name not in PICTURES:
            near = difflib.get_close_matches(name, PICTURES, n=1)
            meant = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(PICTURES)}."
            raise AttributeError(f"study.plot has no picture {name!r}; {meant}")

        def picture(*arguments: Any, **options: Any) -> Any:
            drawn = importlib.import_module("poolwise.plot.study").PICTURES[name]
            return drawn(self._study, *arguments, **options)

        return picture

    def __dir__(self) -> list[str]:
        return list(PICTURES)
