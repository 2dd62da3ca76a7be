"""What the experiments are made with: the paper's settings, and those of its authors' later code where it is silent."""

from __future__ import annotations

import math
from dataclasses import dataclass

ACQUISITIONS = ("ei", "ucb", "pi", "sr", "es")
PAPER_ACQUISITIONS = ("ei", "ucb", "pi", "sr")
OPTIMIZERS = ("random", "direct", "gradient", "stochastic", "default")
PAPER_OPTIMIZERS = ("random", "direct", "gradient", "stochastic")

NAMES = {
    "ei": "q-EI",
    "ucb": "q-UCB",
    "pi": "q-PI",
    "sr": "q-SR",
    "es": "q-ES",
    "random": "random search",
    "direct": "DIRECT",
    "gradient": "gradient ascent (L-BFGS-B)",
    "stochastic": "stochastic ascent (Adam)",
    "default": "Poolwise's default",
    "q-ei": "q-EI (Poolwise)",
    "exact": "exact q-EI",
    "fantasies": "EI over fantasies",
    "believer": "kriging believer",
    "liar-min": "constant liar, min",
    "liar-mean": "constant liar, mean",
    "liar-max": "constant liar, max",
    "q-ucb": "q-UCB (Poolwise)",
    "bucb": "GP-BUCB",
    "ucb-pe": "GP-UCB-PE",
    "synchronous": "synchronous",
    "pending": "asynchronous, pending inside the integral",
    "ignoring": "asynchronous, pending ignored",
}


@dataclass(frozen=True)
class Setup:
    """One experiment: tasks from a Gaussian process prior, a pool size, and what each choice of a pool may cost."""

    tasks: int = 16
    rounds: int = 31
    seed: int = 0
    d: int = 8
    q: int = 8
    features: int = 2**13  # pairs of a cosine and a sine
    noise: float = 1e-3
    samples: int = 1024  # base samples of random search, DIRECT and gradient ascent, and of the last choice
    batch_size: int = 64  # base samples of a stochastic step
    learning_rate: float = 25e-3
    starts: int = 32
    pools: int = 2**15  # of random search
    entropy_pools: int = 2**11  # of random search on entropy search, whose every evaluation is a hundred times dearer
    entropy_starts: int = 8
    screening: int = 2**16  # points among which the search for a task's optimum begins
    together: bool = False  # all tasks in one program on JAX's device, instead of each in a process of its own

    @property
    def lengthscale(self) -> float:
        """sqrt(d) / 4, as in the authors' code."""
        return math.sqrt(self.d) / 4

    @property
    def quick(self) -> bool:
        """Whether this is a small run that only shows that everything works: budgets are then fixed, not measured."""
        return self.pools < 2**12

    def pools_of(self, acquisition: str) -> int:
        """How many pools random search looks at."""
        return self.entropy_pools if acquisition == "es" else self.pools

    def starts_of(self, acquisition: str) -> int:
        """How many pools gradients climb from."""
        return self.entropy_starts if acquisition == "es" else self.starts


QUICK = Setup(
    tasks=2,
    rounds=2,
    d=3,
    q=3,
    features=64,
    samples=128,
    starts=8,
    pools=512,
    entropy_pools=64,
    entropy_starts=4,
    screening=2**10,
)


@dataclass(frozen=True, order=True)
class Unit:
    """One run: a task, an acquisition function and the optimizer that climbs it."""

    task: int
    acquisition: str
    optimizer: str

    @property
    def name(self) -> str:
        """What its file is called."""
        return f"{self.acquisition}-{self.optimizer}-{self.task:02d}"
