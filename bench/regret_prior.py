"""What the tasks of the prior need Poolwise for: their files, and the point that one would recommend after each round.

The recommendation is the highest posterior mean under the known process, found in the same way for all methods.
"""

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from regret_tasks import POOL, PRIORS, ROUNDS, SEED, prior_path, prior_task, read_run, run_path

import poolwise as pw
from poolwise.paper import tasks
from poolwise.paper.recommending import recommended
from poolwise.paper.settings import Setup

SETUP = Setup(tasks=PRIORS, rounds=ROUNDS["prior"], seed=SEED, q=POOL)
CLIMBS = 8


def write_task(folder: Path, index: int) -> None:
    """The file of one task."""
    path = prior_path(folder, f"{index:02d}")
    path.parent.mkdir(parents=True, exist_ok=True)
    function, start = tasks.task(SETUP, index), tasks.first_points(SETUP, index)
    held = {
        "frequencies": function.frequencies,
        "weights": function.weights,
        "start": start,
        "noises": np.array([tasks.noises(SETUP, index, round) for round in range(SETUP.rounds + 1)]),
        "optimum": tasks.optimum(SETUP, index, start)[1],
        "lengthscale": SETUP.lengthscale,
        "noise": SETUP.noise,
    }
    half = path.with_suffix(".half.npz")
    np.savez(half, **held)
    half.rename(path)


def recommendations_path(folder: Path, task: str, method: str) -> Path:
    return folder / "recommended" / task / f"{method}.json"


def are_fresh(folder: Path, task: str, method: str) -> bool:
    """Whether the recommendations of a run are there, and not those of an earlier one."""
    path, run = recommendations_path(folder, task, method), run_path(folder, "prior", task, method)
    return path.exists() and path.stat().st_mtime >= run.stat().st_mtime


def write_recommendations(folder: Path, name: str, method: str) -> None:
    """The true value of each round's recommended point, and the highest value that the run leads to."""
    task, run, process = prior_task(folder, name), read_run(run_path(folder, "prior", name, method)), tasks.prior(SETUP)
    X, y = np.array(run.points), np.array(run.outcomes)
    points = np.array([recommended(process.condition(X[:n], y[:n])) for n in range(POOL, len(X) + 1, POOL)])
    path = recommendations_path(folder, name, method)
    path.parent.mkdir(parents=True, exist_ok=True)
    found = {"values": task.function(points).tolist(), "highest": _highest(int(name), np.concatenate([points, X]))}
    path.write_text(json.dumps(found))


def _highest(index: int, points: np.ndarray) -> float:
    """The task's highest value near the best of some points: the search for the optimum may have missed it."""
    function = tasks.task(SETUP, index)
    best = points[np.argsort(-function(points), kind="stable")[:CLIMBS]]
    with jax.enable_x64(True):
        surface = tasks.Surface(jnp.asarray(function.frequencies), jnp.asarray(function.weights))
        climb = pw.Lbfgsb(rounds=200, gtol=1e-9, ftol=1e-15)(surface, best)
    return float(function(np.concatenate([climb.points, best])).max())
