"""Where values lie in the unit cube: each axis reads cube positions as codes and places codes in the cube.

The code of a continuous value is the value; every other value has its index as code. A discrete value lies in the
middle of a cell, and cells fill the axis, so that positions drawn uniformly give each value its share.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import numpy as np
from jaxtyping import Float as Floats

DIGITS = 12  # of the range, kept of a continuous value: few enough to go into the cube and back exactly
LOG_DIGITS = 11  # of the value, on a logarithmic scale
CORNER = math.sqrt(0.5)  # one-hot corners at distance one from each other
EXACT_POWER = 22  # the largest power of ten that is a float without rounding
POWERS = np.array([float(f"1e{k}") for k in range(-300, 301)])

Positions: TypeAlias = Floats[np.ndarray, "n w"]
Codes: TypeAlias = Floats[np.ndarray, " n"]


@dataclass(frozen=True)
class Line:
    """A continuous range, linear or logarithmic; values are its two ends and decimals of limited length."""

    low: float
    high: float
    log: bool

    width: ClassVar[int] = 1
    count: ClassVar[float] = math.inf
    moving: ClassVar[bool] = True

    def read(self, U: Positions) -> Codes:
        u = np.clip(U[:, 0], 0.0, 1.0)
        x = np.exp(self._start + u * self._length) if self.log else self.low + u * (self.high - self.low)
        x = np.clip(self._rounded(x), self.low, self.high)
        return np.where(u <= 0.0, self.low, np.where(u >= 1.0, self.high, x))

    def place(self, codes: Codes) -> Positions:
        shift = np.log(codes) - self._start if self.log else codes - self.low
        u = np.clip(shift / self._length, 0.0, 1.0)
        return np.where(codes >= self.high, 1.0, np.where(codes <= self.low, 0.0, u))[:, None]

    @functools.cached_property
    def _start(self) -> float:
        return float(np.log(self.low))

    @functools.cached_property
    def _length(self) -> float:
        return float(np.log(self.high)) - self._start if self.log else self.high - self.low

    def _rounded(self, x: Codes) -> Codes:
        if self.log:
            return decimal(x, LOG_DIGITS - 1 - np.floor(np.log10(x)).astype(int))
        places = DIGITS - math.floor(math.log10(self.high - self.low))
        if max(abs(self.low), abs(self.high)) * POWERS[places + 300] >= 2.0**52:
            return x  # so far from zero that floats themselves are the coarser grid
        return decimal(x, np.full(len(x), places))


@dataclass(frozen=True)
class Cells:
    """`count` values in order, in cells of equal width; value k lies at (k + 1/2) / count."""

    count: int

    width: ClassVar[int] = 1
    moving: ClassVar[bool] = False

    def read(self, U: Positions) -> Codes:
        return np.clip(np.floor(U[:, 0] * self.count), 0.0, self.count - 1.0)

    def place(self, codes: Codes) -> Positions:
        return ((codes + 0.5) / self.count)[:, None]


@dataclass(frozen=True)
class LogCells:
    """The integers from low to high; the cell of v reaches from log(v - 1/2) to log(v + 1/2)."""

    low: int
    high: int

    width: ClassVar[int] = 1
    moving: ClassVar[bool] = False

    @property
    def count(self) -> int:
        return self.high - self.low + 1

    def read(self, U: Positions) -> Codes:
        x = np.exp(self._start + np.clip(U[:, 0], 0.0, 1.0) * self._length)
        return np.clip(np.rint(x), self.low, self.high) - self.low

    def place(self, codes: Codes) -> Positions:
        v = codes + self.low
        middle = 0.5 * (np.log(v - 0.5) + np.log(v + 0.5))
        return np.clip((middle - self._start) / self._length, 0.0, 1.0)[:, None]

    @functools.cached_property
    def _start(self) -> float:
        return float(np.log(self.low - 0.5))

    @functools.cached_property
    def _length(self) -> float:
        return float(np.log(self.high + 0.5)) - self._start


@dataclass(frozen=True)
class Corners:
    """Values without order: two lie at 0 and 1 of one column, more at one-hot corners; any two at distance one."""

    count: int

    moving: ClassVar[bool] = False

    @property
    def width(self) -> int:
        return 1 if self.count == 2 else self.count

    def read(self, U: Positions) -> Codes:
        return (U[:, 0] >= 0.5).astype(float) if self.count == 2 else np.argmax(U, axis=1).astype(float)

    def place(self, codes: Codes) -> Positions:
        return codes[:, None] if self.count == 2 else CORNER * (codes[:, None] == np.arange(self.count)[None, :])


Axis: TypeAlias = Line | Cells | LogCells | Corners


def decimal(x: Codes, places: np.ndarray) -> Codes:
    """Each number rounded to its own count of decimal places (negative ones too): the float nearest to that decimal."""
    whole = np.rint(x * POWERS[300 + places])
    far = np.abs(places) > EXACT_POWER
    near = np.where(far, 0, places)
    result = np.where(near >= 0, whole / POWERS[300 + np.abs(near)], whole * POWERS[300 + np.abs(near)])
    if far.any():  # beyond exact powers of ten only the decimal text names the nearest float
        result[far] = [float(f"{w:.0f}e{-p}") for w, p in zip(whole[far], places[far], strict=True)]
    return result
