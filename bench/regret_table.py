"""From runs to rows, and from rows to the summary: mean regret on the prior, ranks and paired tests on BBOB.

A row's `regret` is what a task is judged by: on the prior that of the recommended point, on BBOB that of the best
observation, which is `observed` on both. Seconds are those of the round's pool, fit included.
"""

import csv
import json
from pathlib import Path

import numpy as np
from regret_prior import recommendations_path
from regret_tasks import FUNCTIONS, NAMES, PEERS, POOL, Run, bbob_parts, load, read_run

FLOOR = 1e-8
SURE = 0.05
COLUMNS = ["suite", "task", "method", "round", "regret", "observed", "seconds", "cpu_seconds", "seed", "versions"]

Row = dict
Curves = dict[str, dict[str, np.ndarray]]  # log10 regret of each round, by method and task


def rows(folder: Path) -> list[Row]:
    """All rounds of all runs that are there; on the prior, of those that have recommendations."""
    runs = [read_run(path) for path in sorted((folder / "runs").glob("*/*/*.json"))]
    found = {(run.task, run.method): _recommended(folder, run) for run in runs if run.suite == "prior"}
    highest: dict[str, float] = {}
    for (task, _), held in found.items():
        highest[task] = max(highest.get(task, -np.inf), held["highest"] if held else -np.inf)
    return [
        row
        for run in runs
        if run.suite == "bbob" or found[run.task, run.method]
        for row in _rounds(folder, run, found.get((run.task, run.method)), highest.get(run.task, -np.inf))
    ]


def _recommended(folder: Path, run: Run) -> dict | None:
    path = recommendations_path(folder, run.task, run.method)
    return json.loads(path.read_text()) if path.exists() else None


def _rounds(folder: Path, run: Run, recommended: dict | None, highest: float) -> list[Row]:
    task = load(folder, run.suite, run.task)
    optimum, outcomes = max(task.optimum, highest), np.array(run.outcomes)
    true = task.function(np.array(run.points)) if recommended else outcomes
    versions = " ".join(f"{name}-{number}" for name, number in run.versions.items() if number != "absent")
    found = []
    for round, seconds in enumerate(run.seconds):
        best = int(np.argmax(outcomes[: POOL * (round + 1)]))
        observed = optimum - float(true[best])
        regret = optimum - recommended["values"][round] if recommended else observed
        row = {"suite": run.suite, "task": run.task, "method": run.method, "round": round}
        row |= {"regret": max(regret, 0.0), "observed": max(observed, 0.0), "seconds": seconds}
        found.append(row | {"cpu_seconds": run.cpu_seconds[round], "seed": run.seed, "versions": versions})
    return found


def write_csv(rows: list[Row], path: Path) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        for row in rows:
            writer.writerow({key: f"{value:.5g}" if isinstance(value, float) else value for key, value in row.items()})


def with_earlier(rows: list[Row], path: Path) -> list[Row]:
    """The rows, and those of an earlier table whose runs are not here; all in the table's order."""
    here = {(row["suite"], row["task"], row["method"]) for row in rows}
    kept = [row for row in _read_csv(path) if (row["suite"], row["task"], row["method"]) not in here]
    return sorted(rows + kept, key=lambda row: (row["suite"], row["task"], row["method"], row["round"]))


def _read_csv(path: Path) -> list[Row]:
    if not path.exists():
        return []
    with path.open(newline="") as file:
        found = list(csv.DictReader(file))
    kinds = {"round": int, "seed": int} | dict.fromkeys(("regret", "observed", "seconds", "cpu_seconds"), float)
    return [{key: kinds.get(key, str)(value) for key, value in row.items()} for row in found]


def curves(rows: list[Row], suite: str, column: str = "regret") -> Curves:
    """log10 of the regret after each round."""
    held: dict[str, dict[str, list[float]]] = {}
    for row in rows:
        if row["suite"] == suite:
            held.setdefault(row["method"], {}).setdefault(row["task"], []).append(row[column])
    return {
        method: {task: np.log10(np.maximum(values, FLOOR)) for task, values in tasks.items()}
        for method, tasks in sorted(held.items(), key=lambda item: _place(item[0]))
    }


def _place(method: str) -> tuple[int, str]:
    """The default first, then ours, then peers, then random."""
    group = 0 if method.startswith("default") else 3 if method == "random" else 2 if method in PEERS else 1
    return group, method


def pool_seconds(rows: list[Row], suite: str, column: str = "cpu_seconds") -> dict[str, float]:
    """Median seconds of a pool, by method; the processor's, which do not count what else the machine did."""
    held: dict[str, list[float]] = {}
    for row in rows:
        if row["suite"] == suite and row["round"] > 0:
            held.setdefault(row["method"], []).append(row[column])
    return {method: float(np.median(seconds)) for method, seconds in held.items()}


def mean_and_error(values: list[float]) -> tuple[float, float]:
    """The mean, and its standard error."""
    return float(np.mean(values)), float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else np.nan


def common(held: Curves) -> list[str]:
    """The tasks that all methods have played."""
    return sorted(set.intersection(*(set(tasks) for tasks in held.values()))) if held else []


def ranks(held: Curves) -> dict[str, float]:
    """Mean rank of each method after the last round, over the tasks that all have played; ties share their ranks."""
    from scipy.stats import rankdata

    tasks = common(held)
    last = np.array([[played[task][-1] for task in tasks] for played in held.values()]).reshape(len(held), len(tasks))
    return dict(zip(held, rankdata(last, axis=0).mean(axis=1).tolist(), strict=True)) if tasks else {}


def compared(first: dict[str, np.ndarray], second: dict[str, np.ndarray]) -> tuple[float, float, int]:
    """On tasks that both played: mean difference of log10 regret, first less second, its p (Wilcoxon), and how many."""
    from scipy.stats import wilcoxon

    tasks = sorted(first.keys() & second.keys())
    gaps = np.array([first[task][-1] - second[task][-1] for task in tasks])
    if len(gaps) == 0:
        return np.nan, np.nan, 0
    return float(gaps.mean()), float(wilcoxon(gaps).pvalue) if gaps.any() else 1.0, len(gaps)


def summary(rows: list[Row], base: str = "default") -> str:
    """Both suites in Markdown."""
    parts = ["# Regret at equal evaluations\n"]
    if prior := curves(rows, "prior"):
        parts.append(_prior_table(prior, curves(rows, "prior", "observed"), rows, base))
    if bbob := curves(rows, "bbob"):
        parts += [_bbob_table(bbob, rows), _tests_table(bbob, base)]
    return "\n".join(parts)


def _prior_table(held: Curves, observed: Curves, rows: list[Row], base: str) -> str:
    seconds = pool_seconds(rows, "prior")
    head = ["method", "tasks", "log10 regret, recommended", "log10 regret, best observed", f"{base} less it (p)", "s"]
    body = []
    for method, tasks in held.items():
        line = [method, str(len(tasks))]
        line += [_pm([curve[-1] for curve in each[method].values()]) for each in (held, observed)]
        body.append([*line, _versus(held, base, method), f"{seconds[method]:.3g}"])
    text = (
        "## Tasks of the prior: 8 dimensions, known hyperparameters, 31 pools of 8\n\n"
        "Mean over tasks after the last pool, with its standard error. Differences are paired, over the tasks both "
        "have played; p by Wilcoxon's signed-rank test. s: median processor seconds of a pool, on one thread.\n\n"
    )
    return text + _markdown(head, body)


def _bbob_table(held: Curves, rows: list[Row]) -> str:
    seconds, mean, shared = pool_seconds(rows, "bbob"), ranks(held), common(held)
    body = [
        [
            method,
            str(len(tasks)),
            f"{mean[method]:.2f}" if mean else "-",
            _pm([tasks[task][-1] for task in shared or tasks]),
            f"{seconds[method]:.3g}",
        ]
        for method, tasks in sorted(held.items(), key=lambda item: mean.get(item[0], 0.0))
    ]
    text = (
        "## BBOB: learned hyperparameters, 8 starting points and 12 pools of 8\n\n"
        f"Ranks and means are over the {len(shared)} tasks (function, dimension, instance) that all have played.\n\n"
    )
    return text + _markdown(["method", "tasks", "mean rank", "mean log10 regret", "s"], body)


def _tests_table(held: Curves, base: str) -> str:
    """The base against each method, function by function."""
    if base not in held:
        return ""
    body = []
    for method in held:
        if method != base:
            cells = [_versus(_of_function(held, function), base, method) for function in FUNCTIONS]
            body.append([method, *cells, _versus(held, base, method)])
    text = (
        f"Mean log10 regret of `{base}` less that of each method, paired over instances and dimensions, and p. "
        f"Bold: `{base}` is worse with p < {SURE}, not corrected for the number of tests.\n\n"
    )
    return text + _markdown(["method", *(f"f{k} {NAMES[k]}" for k in FUNCTIONS), "all"], body)


def _of_function(held: Curves, function: int) -> Curves:
    return {
        method: {task: curve for task, curve in tasks.items() if bbob_parts(task)[0] == function}
        for method, tasks in held.items()
    }


def _versus(held: Curves, base: str, method: str) -> str:
    if base not in held or method == base:
        return ""
    gap, p, count = compared(held[base], held[method])
    text = f"{gap:+.2f} ({p:.2g})" if count else "-"
    return f"**{text}**" if gap > 0 and p < SURE else text


def _pm(values: list[float]) -> str:
    mean, error = mean_and_error(values)
    return f"{mean:.2f} ± {error:.2f}" if len(values) > 1 else f"{mean:.2f}"


def _markdown(head: list[str], body: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *body]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"
