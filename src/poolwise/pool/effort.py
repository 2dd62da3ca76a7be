"""How much a search does: the settings of ascent, when it must end, and what it ended with."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from poolwise import checks

CHUNK = 8  # rounds of joint ascent between two looks at the clock
FEWER = 4  # greedy picks and the race need a fourth of the base samples; the last climb uses all


@dataclass(frozen=True)
class Ascent:
    """Greedy, then joint: the default of `propose`.

    Each greedy pick scores `candidates` points and climbs from the best `starts` of them for `rounds` rounds. The pool
    that results, and the best `lanes - 1` of a few pools sampled from the acquisition function, then climb as wholes
    for `polish` rounds; with none, the picks are the pool. Base samples are fixed: `samples` for the last climb, a
    fourth of them for what comes before. A probability near one rests on the few samples that miss, so it takes twice
    as many, and all of them throughout.
    """

    samples: int = 1024
    candidates: int = 128
    starts: int = 8
    rounds: int = 8
    lanes: int = 2
    polish: int = 60

    def __post_init__(self) -> None:
        checks.store_counts(self, "candidates", "starts", "rounds", "lanes")
        for name, least in (("samples", FEWER**2), ("polish", 0)):
            object.__setattr__(self, name, checks.count(name, getattr(self, name), least=least))


@dataclass(frozen=True)
class Limit:
    """When a search must end: a moment on the clock, a number of evaluations, both or neither."""

    until: float | None = None
    evaluations: int | None = None

    def late(self) -> bool:
        """Whether the moment has come."""
        return self.until is not None and time.perf_counter() >= self.until

    def chunks(self, rounds: int, spent: Any) -> Iterator[int]:
        """All rounds of a single lane at once; or, with a clock to watch, a few at a time until it is late."""
        if self.evaluations is not None:
            rounds = max(0, min(rounds, self.evaluations - int(spent)))
        for done in range(0, rounds, CHUNK if self.until is not None else max(rounds, 1)):
            if self.late():
                return
            yield min(CHUNK, rounds - done) if self.until is not None else rounds


@dataclass(frozen=True, eq=False)
class Found:
    """A pool that a search ended with, and what it cost."""

    pool: Float[np.ndarray, "q d"]
    evaluations: int
    value: float = math.nan  # on the base samples of the search
