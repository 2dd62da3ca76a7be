"""`PoolSampler` beside Optuna's `GPSampler`: regret and seconds per suggestion on BBOB functions, eight workers.

Eight trials are asked for before the eight are told, twelve times, so both samplers know what is running. Each run is a
fresh process; GPSampler's is in the peers' environment (optuna, torch and ioh there; optuna and ioh here). Runs go to
bench/results/optuna.csv and are kept: a stopped benchmark goes on, --again measures anew.

    python bench/optuna_sampler.py [--functions 1 8 21] [--instances 10] [--seeds 2] [--rounds 12]
"""

import argparse
import csv
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import quiet

HERE = Path(__file__).resolve().parent
METHODS = ("PoolSampler", "GPSampler")
WORKERS, DIMENSION, HALF_WIDTH = 8, 5, 5.0
KEYS = ("method", "function", "instance", "seed", "rounds")
COLUMNS = (*KEYS, "regret", "seconds", "total", "quiet")
WARM = 2  # rounds before the first that both choose by a model: GPSampler starts with ten random trials


def play(method: str, function: int, instance: int, seed: int, rounds: int) -> dict:
    """One run: the regret at its end, seconds per suggestion (median over rounds by a model), and seconds in all."""
    import ioh
    import optuna

    warnings.simplefilter("ignore")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    problem = ioh.get_problem(function, instance, DIMENSION, ioh.ProblemClass.BBOB)
    names = [f"x{i}" for i in range(DIMENSION)]
    space = {name: optuna.distributions.FloatDistribution(-HALF_WIDTH, HALF_WIDTH) for name in names}
    if method == "PoolSampler":
        from poolwise.adapters.optuna import PoolSampler

        sampler = PoolSampler(WORKERS, seed, space)
    else:
        sampler = optuna.samplers.GPSampler(seed=seed)
    study, seconds, since = optuna.create_study(sampler=sampler), [], quiet.now()
    for _ in range(rounds):
        began = time.perf_counter()
        trials = [study.ask(space) for _ in range(WORKERS)]
        seconds.append((time.perf_counter() - began) / WORKERS)
        for trial in trials:
            study.tell(trial, problem([trial.params[name] for name in names]))
    return {
        "regret": study.best_value - problem.optimum.y,
        "seconds": statistics.median(seconds[WARM:] or seconds),
        "total": sum(seconds) * WORKERS,
        "quiet": quiet.elsewhere(since) < quiet.LIMIT,
    }


def alone(run: dict) -> dict:
    """A run in a fresh process of the environment that has its sampler."""
    import peers

    python = sys.executable if run["method"] == "PoolSampler" else str(peers.interpreter())
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run.json"
        command = [python, str(Path(__file__).resolve()), "--play", json.dumps(run), "--json", str(out)]
        threads = {} if run["method"] == "PoolSampler" else {"OMP_NUM_THREADS": "1"}  # as GPSampler's page advises
        subprocess.run(command, check=True, env=os.environ | threads)
        return run | json.loads(out.read_text())


def known(path: Path) -> list[dict]:
    """Rows of an earlier benchmark."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    numbers = {"regret": float, "seconds": float, "total": float, "quiet": "True".__eq__, "method": str}
    return [{key: numbers.get(key, int)(value) for key, value in row.items()} for row in rows]


def save(rows: list[dict], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(rows)


def summary(rows: list[dict]) -> list[list[str]]:
    """A line for each function: medians over its runs, how many of them are lower, and the ratio of seconds."""
    lines = []
    for function in sorted({row["function"] for row in rows}):
        ours, theirs = ([r for r in rows if (r["function"], r["method"]) == (function, name)] for name in METHODS)
        if not ours or not theirs:
            continue
        at = {(r["instance"], r["seed"]): r["regret"] for r in theirs}
        pairs = [(r["regret"], at[key]) for r in ours if (key := (r["instance"], r["seed"])) in at]
        regret = [statistics.median(r["regret"] for r in part) for part in (ours, theirs)]
        seconds = [statistics.median(r["seconds"] for r in part) for part in (ours, theirs)]
        won = f"{sum(a < b for a, b in pairs)} of {len(pairs)}"
        still = "yes" if all(r["quiet"] for r in (*ours, *theirs)) else "**no**"
        shown = [f"{value:.3g}" for value in (*regret, *seconds)]
        lines.append([f"f{function}", *shown[:2], won, *shown[2:], f"{seconds[1] / seconds[0]:.0f}x", still])
    return lines


def table(rows: list[dict]) -> str:
    heads = ["function", "regret", "GPSampler's", "lower in", "s per trial", "GPSampler's", "ratio", "quiet machine"]
    lines = [heads, ["---"] * len(heads), *summary(rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--functions", type=int, nargs="+", default=[1, 8, 21], help="sphere, Rosenbrock, Gallagher")
    parser.add_argument("--instances", type=int, default=10)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--again", action="store_true", help="measure known runs anew")
    parser.add_argument("--results", type=Path, default=HERE / "results")
    parser.add_argument("--play", type=json.loads, help=argparse.SUPPRESS)
    parser.add_argument("--json", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.play is not None:
        given.json.write_text(json.dumps(play(**given.play)))
        return
    path = given.results / "optuna.csv"
    rows = [] if given.again else known(path)
    have = {tuple(row[key] for key in KEYS) for row in rows}
    wanted = [
        dict(zip(KEYS, (method, function, instance, seed, given.rounds), strict=True))
        for function in given.functions
        for instance in range(1, given.instances + 1)
        for seed in range(given.seeds)
        for method in METHODS
    ]
    for run in wanted:
        if tuple(run.values()) not in have:
            rows.append(alone(run))
            save(rows, path)
            print({key: rows[-1][key] for key in COLUMNS}, file=sys.stderr, flush=True)
    text = table([row for row in rows if row["rounds"] == given.rounds])
    (given.results / "optuna.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
