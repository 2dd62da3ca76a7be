"""Outcomes as a model can take them: larger is better, a robust unit, and no value that drowns the others.

With z = (y - median) / spread, values within a few spreads stay as they are and farther ones grow like a logarithm, so
that their order is kept; then z may be warped by a power. Stored values are never changed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from poolwise.study.warping import log_slope, unwarp, warp

BAD, GOOD = 5.0, 20.0  # in spreads: where the logarithm begins, below and above
MOST = 12.0  # by how much the logarithm may exceed these
LEAST_VARIANCE, MOST_VARIANCE = 1e-6, 1e6  # of the noise, in squared spreads


@dataclass(frozen=True)
class Scale:
    """How values become the model's outcomes, and back: y = sign unit (centre + spread z), the outcome is warp(z)."""

    sign: float
    unit: float
    centre: float
    spread: float
    power: float = 1.0

    def outcomes(self, values: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """The model's outcomes of values."""
        return warp(self._drawn_in(values), self.power)

    def log_slopes(self, values: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """The logarithm of the warping's slope at values: how much wider an outcome's unit is there."""
        return log_slope(self._drawn_in(values), self.power)

    def _drawn_in(self, values: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        z = (self.sign * values / self.unit - self.centre) / self.spread
        high = GOOD + np.minimum(np.log1p(np.maximum(z - GOOD, 0.0)), MOST)
        low = -BAD - np.minimum(np.log1p(np.maximum(-BAD - z, 0.0)), MOST)
        return np.where(z > GOOD, high, np.where(z < -BAD, low, z))

    def values(self, outcomes: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """The values of outcomes that are no farther out than where the logarithm begins."""
        return self.sign * self.unit * (self.centre + self.spread * self._unwarped(outcomes))

    def deviations(
        self, outcomes: Float[np.ndarray, " n"], deviations: Float[np.ndarray, " n"]
    ) -> Float[np.ndarray, " n"]:
        """Standard deviations in the values' unit, of outcomes that have those: half of what lies between both ends."""
        ends = [self._unwarped(outcomes + side * deviations) for side in (-1.0, 1.0)]
        return self.unit * self.spread * (ends[1] - ends[0]) / 2

    def _unwarped(self, outcomes: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """z of outcomes, no farther out than that of any value: a power may turn a deviation into a million spreads."""
        return np.clip(unwarp(outcomes, self.power), -BAD - MOST, GOOD + MOST)

    def variances(self, values: Float[np.ndarray, " n"], sems: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """Noise variances of the model's outcomes; NaN where no standard error is known."""
        with np.errstate(over="ignore"):
            slopes = np.exp(2 * self.log_slopes(values))
            return np.clip(slopes * (sems / self.unit / self.spread) ** 2, LEAST_VARIANCE, MOST_VARIANCE)


def scale_of(values: Float[np.ndarray, " n"], *, maximize: bool) -> Scale:
    """The scale of some values: median and quartiles, by way of the largest value so that nothing overflows."""
    sign = 1.0 if maximize else -1.0
    unit = float(np.abs(values).max(initial=0.0)) or 1.0
    y = sign * values / unit
    centre = float(np.median(y))
    near = np.abs(y - centre)
    spread = float(np.quantile(y, 0.75) - np.quantile(y, 0.25)) / 1.35
    if not spread > 1e-12 and (near > 1e-12).any():
        spread = float(np.median(near[near > 1e-12]))  # most values are equal: the unit is how the others differ
    return Scale(sign, unit, centre, spread if spread > 1e-12 else 1.0)
