"""Numbers that figures, tables and claims share, from the stored rows of the runs."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from poolwise.errors import InputError
from poolwise.paper import tables
from poolwise.paper.settings import PAPER_OPTIMIZERS

WORTHLESS = 1e-3  # where no pool improves by more, optimizers are not compared: any pool will do

Curves = dict[tuple[str, str], Float[np.ndarray, "t r"]]


def stored(out: Path, name: str, command: str) -> list[dict[str, str]]:
    """The rows of a table that another command has made."""
    rows = tables.read(out / name)
    if not rows:
        raise InputError(f"out: {out / name} is not there; make it with `poolwise paper {command} --out {out}`.")
    return rows


def curves(rows: Iterable[dict[str, str]], column: str = "log10_regret_recommended") -> Curves:
    """For each acquisition function and optimizer a matrix: a row for each task, a column for each round."""
    found: dict[tuple[str, str], dict[int, dict[int, float]]] = {}
    for row in rows:
        by_task = found.setdefault((row["acquisition"], row["optimizer"]), {})
        by_task.setdefault(int(row["task"]), {})[int(row["round"])] = float(row[column])
    return {
        key: np.array([[by_round[r] for r in sorted(by_round)] for _, by_round in sorted(by_task.items())])
        for key, by_task in found.items()
    }


def mean_and_error(matrix: Float[np.ndarray, "t r"]) -> tuple[Float[np.ndarray, " r"], Float[np.ndarray, " r"]]:
    """Mean over tasks, and its standard error."""
    t = matrix.shape[0]
    return matrix.mean(axis=0), matrix.std(axis=0, ddof=1 if t > 1 else 0) / np.sqrt(t)


def best_optimizer(found: Curves, acquisition: str, optimizers: Iterable[str] = PAPER_OPTIMIZERS) -> str:
    """The optimizer with the lowest mean regret at the end."""
    names = [name for name in optimizers if (acquisition, name) in found]
    return min(names, key=lambda name: float(found[acquisition, name][:, -1].mean()))


def interval(differences: Float[np.ndarray, " t"]) -> tuple[float, float, float]:
    """The mean of paired differences, and the ends of its bootstrap interval of 95 percent."""
    rng = np.random.default_rng(0)
    means = differences[rng.integers(len(differences), size=(10_000, len(differences)))].mean(axis=1)
    low, high = np.quantile(means, [0.025, 0.975])
    return float(differences.mean()), float(low), float(high)


def signed_rank(differences: Float[np.ndarray, " t"]) -> float:
    """The probability, if neither were better, of differences at least as far below zero (Wilcoxon, one-sided)."""
    from scipy.stats import wilcoxon

    if not differences.any():
        return 1.0
    result: Any = wilcoxon(differences, alternative="less", method="exact" if len(differences) < 25 else "auto")
    return float(result.pvalue)
