"""Play a task with a method: rounds of choosing a pool and observing it. NumPy only; both sides call it."""

import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version

import numpy as np
from regret_tasks import SEED, Run, Task

# From a task and a seed to a player: a function that, given all observations so far, chooses the next pool.
Player = Callable[[np.ndarray, np.ndarray], np.ndarray]
Method = Callable[[Task, int], Player]


def play(task: Task, name: str, method: Method, packages: tuple[str, ...]) -> Run:
    """One run; the clock counts what the player does, not the task."""
    player = method(task, SEED)
    X, y = task.start, task.observe(task.start, 0)
    seconds, cpu = [0.0], [0.0]
    for round in range(1, task.rounds + 1):
        began, work = time.perf_counter(), time.process_time()
        pool = np.clip(np.asarray(player(X, y), dtype=float), 0.0, 1.0)
        seconds.append(time.perf_counter() - began)
        cpu.append(time.process_time() - work)
        if pool.shape != task.start.shape:
            raise ValueError(f"{name} on {task.name}: a pool of shape {pool.shape}, not {task.start.shape}")
        X, y = np.concatenate([X, pool]), np.concatenate([y, task.observe(pool, round)])
    versions = {package: _version(package) for package in packages}
    return Run(task.suite, task.name, name, SEED, X.tolist(), y.tolist(), seconds, cpu, versions)


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "absent"
