"""A rotation of inputs: distances are measured along axes of their own, and not along those of the cube.

Where parameters matter together, a rate and a batch size of which only the ratio counts, say, an outcome is a narrow
valley across the axes, and no lengthscales of these axes describe it. Along the valley's own axes they do:

    z = 1/2 + (x - 1/2) R,        R' R = 1.

A lengthscale, and a parabola of a `Trend`, then belongs to a column of R.
"""

from __future__ import annotations

from typing import Any, ClassVar

import jax
import numpy as np
from jaxtyping import Array, Float

from poolwise import checks
from poolwise.checks import Numbers
from poolwise.errors import InputError
from poolwise.precision import AnyArray, double, to_numpy
from poolwise.pytree import pytree

MIDDLE = 0.5  # of the cube, which stays where it is
SLACK = 1e-6  # by how much columns may miss being orthonormal


@pytree
class Rotation:
    """Axes of a kernel that are not those of the cube: the orthonormal columns of a square matrix.

    >>> diagonal = Rotation(np.array([[1.0, 1.0], [1.0, -1.0]]) / np.sqrt(2))
    >>> np.asarray(diagonal([[0.5, 0.5], [0.6, 0.6]])).round(3).tolist()  # the move is one along the first axis
    [[0.5, 0.5], [0.641, 0.5]]
    """

    axes: Numbers

    keeps_cube: ClassVar[bool] = False  # whether points of the cube are moved onto the cube

    def __post_init__(self) -> None:
        with jax.enable_x64(True):
            axes = checks.matrix("axes", self.axes)
            square = axes.shape[0] == axes.shape[1]
            if not square or not np.abs(to_numpy(axes.T @ axes) - np.eye(len(axes))).max() < SLACK:
                raise InputError("axes: columns are not orthonormal; give for instance the Q of numpy.linalg.qr(...).")
            object.__setattr__(self, "axes", to_numpy(axes))

    @property
    def dimension(self) -> int:
        """How many coordinates a point has."""
        return int(self.axes.shape[0])

    @property
    def bends(self) -> Float[np.ndarray, "2 d"]:
        """What a `Warp` has: nothing is bent."""
        return np.zeros((2, self.dimension))

    @double
    def __call__(self, points: Numbers) -> Float[Array | np.ndarray, "n d"]:
        """Where points of the cube, a row each, are moved to; corners may leave it."""
        return self.moved(checks.matrix("points", points, columns=self.dimension))

    def moved(self, points: Float[AnyArray, "... d"]) -> Float[AnyArray, "... d"]:
        """The same of points that are known to be such."""
        return MIDDLE + (points - MIDDLE) @ self.axes

    def back(self, points: Float[np.ndarray, "... d"]) -> Float[np.ndarray, "... d"]:
        """The points that are moved to these points."""
        found: Any = MIDDLE + (points - MIDDLE) @ self.axes.T
        return np.asarray(found)

    def evenly(self, points: Float[np.ndarray, "... d"]) -> Float[np.ndarray, "... d"]:
        """Evenly spread points of the cube, as they are: turned, they are spread as evenly."""
        return points

    def along(self, lengths: Float[np.ndarray, " d"]) -> Float[np.ndarray, " d"]:
        """Lengthscales along the axes of the cube, from those along the columns: inverse squares add up."""
        found: Any = (self.axes**2 @ lengths**-2.0) ** -0.5
        return np.asarray(found)
