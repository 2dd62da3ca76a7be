"""Pictures of a study, the functions behind `study.plot`: each takes a study and gives a matplotlib figure.

Nothing is shown or saved: `study.plot.history().savefig("history.png", dpi=200)`. The model is the one that the next
pool would come from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from poolwise.plot.calibration import calibration as calibration
from poolwise.plot.contours import contours as contours
from poolwise.plot.history import history as history
from poolwise.plot.importance import importance as importance
from poolwise.plot.parallel import parallel as parallel
from poolwise.plot.slices import slices as slices

PICTURES: Mapping[str, Callable[..., Any]] = {
    "history": history,
    "slices": slices,
    "contours": contours,
    "calibration": calibration,
    "parallel": parallel,
    "importance": importance,
}
