"""The tasks of the regret benchmark, and the record of a run on one. NumPy only (`ioh` for BBOB): all methods read it.

Everything is maximised on the unit cube. A task of the prior is a file, so that methods without Poolwise can play it.
"""

import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

SEED = 0
POOL = 8
ROUNDS = {"prior": 31, "bbob": 12}
PRIORS = 16
FUNCTIONS, DIMENSIONS, INSTANCES = (1, 3, 7, 9, 16, 22), (5, 10), (1, 2, 3, 4, 5)
HALF_WIDTH = 5.0  # of BBOB's box
PEERS = ("optuna-gp", "botorch-qlognei", "botorch-qucb", "botorch-qlogei")
NOT_ON = {("prior", "optuna-gp")}  # its hyperparameters cannot be given
NAMES = {1: "sphere", 3: "Rastrigin", 7: "step ellipsoid", 9: "Rosenbrock", 16: "Weierstrass", 22: "Gallagher 21"}


@dataclass(frozen=True)
class Task:
    """A function, the points that every method begins with, and the noise of each round's observations."""

    suite: str
    name: str
    function: Callable[[np.ndarray], np.ndarray]
    start: np.ndarray  # (q, d)
    noises: np.ndarray  # (rounds + 1, q)
    optimum: float
    lengthscale: float | None = None  # known hyperparameters: of a Matern-5/2 kernel of variance 1,
    noise: float | None = None  # and a variance; None where they must be learned

    @property
    def dimension(self) -> int:
        return self.start.shape[1]

    @property
    def rounds(self) -> int:
        return len(self.noises) - 1

    def observe(self, pool: np.ndarray, round: int) -> np.ndarray:
        return self.function(pool) + self.noises[round]


@dataclass(frozen=True)
class Run:
    """What one method did on one task: rows of `points` and `outcomes` are observations, in order of rounds."""

    suite: str
    task: str
    method: str
    seed: int
    points: list[list[float]]
    outcomes: list[float]
    seconds: list[float]  # of each pool, fit included; the start took none
    cpu_seconds: list[float]
    versions: dict[str, str]

    def save(self, folder: Path) -> None:
        path = run_path(folder, self.suite, self.task, self.method)
        path.parent.mkdir(parents=True, exist_ok=True)
        half = path.with_suffix(f".{os.getpid()}")
        half.write_text(json.dumps(asdict(self)))
        half.rename(path)


def run_path(folder: Path, suite: str, task: str, method: str) -> Path:
    return folder / "runs" / suite / task / f"{method}.json"


def read_run(path: Path) -> Run:
    return Run(**json.loads(path.read_text()))


def every_task() -> list[tuple[str, str]]:
    """Suite and name of all tasks, in an order of use if cut short: the first instance of each function comes first."""
    bbob = [("bbob", bbob_name(f, d, i)) for i in INSTANCES for f in FUNCTIONS for d in DIMENSIONS]
    prior = [("prior", f"{k:02d}") for k in range(PRIORS)]
    places = [(k / len(bbob), task) for k, task in enumerate(bbob)]
    places += [((k + 0.5) / len(prior), task) for k, task in enumerate(prior)]
    return [task for _, task in sorted(places)]


def bbob_name(function: int, dimension: int, instance: int) -> str:
    return f"f{function:02d}-d{dimension:02d}-i{instance}"


def bbob_parts(name: str) -> tuple[int, int, int]:
    """Function, dimension and instance."""
    function, dimension, instance = (int(word[1:]) for word in name.split("-"))
    return function, dimension, instance


def seed_of(*words: int) -> int:
    return int(np.random.SeedSequence([SEED, *words]).generate_state(1)[0] >> 1)


def load(folder: Path, suite: str, name: str) -> Task:
    return {"prior": prior_task, "bbob": lambda _, name: bbob_task(name)}[suite](folder, name)


def prior_path(folder: Path, name: str) -> Path:
    return folder / "tasks" / f"prior-{name}.npz"


def prior_task(folder: Path, name: str) -> Task:
    with np.load(prior_path(folder, name)) as file:
        held = dict(file)

    def function(points: np.ndarray) -> np.ndarray:
        angles = points @ held["frequencies"].T
        return np.cos(angles) @ held["weights"][0] + np.sin(angles) @ held["weights"][1]

    known = {key: float(held[key]) for key in ("optimum", "lengthscale", "noise")}
    return Task("prior", name, function, held["start"], held["noises"], **known)


def bbob_task(name: str) -> Task:
    import ioh

    function, dimension, instance = bbob_parts(name)
    problem = ioh.get_problem(function, instance, dimension, ioh.ProblemClass.BBOB)

    def value(points: np.ndarray) -> np.ndarray:
        return -np.array([problem(point) for point in HALF_WIDTH * (2 * np.asarray(points) - 1)])

    start = np.random.default_rng(seed_of(function, dimension, instance)).random((POOL, dimension))
    return Task("bbob", name, value, start, np.zeros((ROUNDS["bbob"] + 1, POOL)), -float(problem.optimum.y))
