"""A method on tasks that are not the benchmark's, so that choices are not made on those.

`play` it, then `compare` two or see the `ranks` of many.

All 24 BBOB functions with other instances, those of half of the axes, or functions drawn from a prior whose
hyperparameters must be learned. Each task is a file in a folder, so a stopped play goes on; to compare two versions of
Poolwise, play each in its checkout.

    python bench/regret_elsewhere.py play out/new --instances 41 42 43
    python bench/regret_elsewhere.py play out/new --instances 41 --dimensions 10 --idle
    python bench/regret_elsewhere.py play out/new --drawn 40 --dimensions 4 --lengthscale 0.15
    python bench/regret_elsewhere.py compare out/old out/new
    python bench/regret_elsewhere.py ranks out/default out/ei out/sr
"""

import argparse
import json
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import regret_ours
from regret_play import play
from regret_table import FLOOR
from regret_tasks import POOL, Task, bbob_name, bbob_parts, bbob_task, seed_of
from scipy.stats import rankdata, wilcoxon

from poolwise.paper import tasks
from poolwise.paper.processes import workers
from poolwise.paper.settings import Setup

SEED = 77  # of drawn functions; the benchmark's is another
IDLE = "-idle"  # at the end of a task's name: half of its axes have no effect


@dataclass(frozen=True)
class Drawn(Setup):
    """The paper's tasks in any dimension, with a lengthscale in diagonals of the cube."""

    diagonals: float = 0.25

    @property
    def lengthscale(self) -> float:
        return self.diagonals * math.sqrt(self.d)


def task_of(name: str) -> Task:
    """The task of a name: f09-d10-i41, f09-d10-i41-idle, or drawn-d04-0.15-007."""
    if name.endswith(IDLE):
        return idle_task(name)
    if not name.startswith("drawn"):
        return bbob_task(name)
    _, d, diagonals, index = name.split("-")
    setup, k = Drawn(rounds=15, seed=SEED, q=POOL, d=int(d[1:]), diagonals=float(diagonals)), int(index)
    start = tasks.first_points(setup, k)
    noises = np.array([tasks.noises(setup, k, round) for round in range(setup.rounds + 1)])
    return Task("drawn", name, tasks.task(setup, k), start, noises, tasks.optimum(setup, k, start)[1])


def idle_task(name: str) -> Task:
    """A BBOB function of half of the axes, which are drawn; the others have no effect."""
    function, d, instance = bbob_parts(name.removesuffix(IDLE))
    inner, rng = bbob_task(bbob_name(function, d // 2, instance)), np.random.default_rng(seed_of(function, d, instance))
    start, axes = rng.random((POOL, d)), rng.permutation(d)[: d // 2]
    return Task("bbob", name, lambda points: inner.function(points[:, axes]), start, inner.noises, inner.optimum)


def play_one(folder: Path, name: str, method: str) -> None:
    """One run; its file has the regret of the best observation after each round."""
    task = task_of(name)
    run = play(task, method, regret_ours.METHODS[method], regret_ours.PACKAGES)
    X, y = np.array(run.points), np.array(run.outcomes)
    best = [int(np.argmax(y[:n])) for n in range(POOL, len(y) + 1, POOL)]
    regrets = task.optimum - task.function(X[best])
    half = folder / f"{name}.half"
    half.write_text(json.dumps({"regrets": regrets.tolist(), "cpu_seconds": run.cpu_seconds}))
    half.rename(folder / f"{name}.json")


def names(options: argparse.Namespace) -> list[str]:
    if options.drawn:
        return [
            f"drawn-d{d:02d}-{options.lengthscale}-{k:03d}" for k in range(options.drawn) for d in options.dimensions
        ]
    end = IDLE if options.idle else ""
    return [bbob_name(f, d, i) + end for i in options.instances for f in options.functions for d in options.dimensions]


def play_all(options: argparse.Namespace) -> None:
    options.folder.mkdir(parents=True, exist_ok=True)
    missing = [name for name in names(options) if not (options.folder / f"{name}.json").exists()]
    with workers(options.processes) as crew:
        crew.run([(play_one, (options.folder, name, options.method)) for name in missing], "elsewhere")


def held_in(folders: list[Path]) -> tuple[list[dict], list[str]]:
    """The runs of each folder, and the tasks that all of them hold."""
    held = [{path.stem: json.loads(path.read_text()) for path in sorted(f.glob("*.json"))} for f in folders]
    common = sorted(set.intersection(*(set(runs) for runs in held)))
    if not common:
        names = ", ".join(map(str, folders))
        raise SystemExit(f"{names} have no task in common: play the same tasks into all of them, then compare.")
    return held, common


def ranks(folders: list[Path]) -> str:
    """Mean ranks among all folders in the end, after a half and a quarter of the rounds, with standard errors."""
    held, common = held_in(folders)
    lines = [f"{len(common)} tasks", "", "| folder | end | halfway | quarter |", "|" + " --- |" * 4]
    places = np.array(
        [[rankdata([_log(runs, name, share) for runs in held]) for name in common] for share in (1.0, 0.5, 0.25)]
    )
    for folder, own in zip(folders, np.moveaxis(places, 2, 0), strict=True):
        errors = own.std(axis=1) / math.sqrt(len(common))
        cells = [f"{mean:.2f} ({error:.2f})" for mean, error in zip(own.mean(axis=1), errors, strict=True)]
        lines.append(f"| {folder.name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def compare(first: Path, second: Path) -> str:
    """Mean log10 regret of the second less that of the first, over the tasks of both, after half of the rounds too."""
    held, common = held_in([first, second])
    kinds = {
        name: f"f{bbob_parts(name.removesuffix(IDLE))[0]}" if name[0] == "f" else name.rpartition("-")[0]
        for name in common
    }
    lines = ["| tasks | number | difference | error | p | halfway | error |", "|" + " --- |" * 7]
    for kind in ["all", *sorted(set(kinds.values()), key=lambda kind: (len(kind), kind))]:
        chosen = [name for name in common if kind in ("all", kinds[name])]
        last, middle = (np.array([_gain(held, name, share) for name in chosen]) for share in (1.0, 0.5))
        p = wilcoxon(last).pvalue if last.any() else 1.0
        lines.append(f"| {kind} | {len(chosen)} | {_mean(last)} | {p:.2g} | {_mean(middle)} |")
    return "\n".join(lines)


def _gain(held: list[dict], name: str, share: float) -> float:
    """By how much log10 regret differs on a task after that share of its rounds."""
    first, second = (_log(runs, name, share) for runs in held)
    return second - first


def _log(runs: dict, name: str, share: float) -> float:
    """log10 regret on a task after that share of its rounds."""
    regrets = runs[name]["regrets"]
    return math.log10(max(regrets[round(share * (len(regrets) - 1))], FLOOR))


def _mean(values: np.ndarray) -> str:
    """The mean and its standard error, as two cells of the table."""
    error = f"{values.std(ddof=1) / math.sqrt(len(values)):.3f}" if len(values) > 1 else "-"
    return f"{values.mean():+.3f} | {error}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    playing = commands.add_parser("play")
    playing.add_argument("folder", type=Path, help="one for each method and version: a task that is there is kept")
    playing.add_argument("--method", choices=regret_ours.METHODS, default="default")
    playing.add_argument("--functions", type=int, nargs="+", default=range(1, 25))
    playing.add_argument("--instances", type=int, nargs="+", default=[41, 42, 43])
    playing.add_argument("--dimensions", type=int, nargs="+", default=[5, 10])
    playing.add_argument("--idle", action="store_true", help="functions of half of the axes; the others do nothing")
    playing.add_argument("--drawn", type=int, default=0, help="so many functions of a prior instead")
    playing.add_argument("--lengthscale", type=float, default=0.25, help="theirs, in diagonals of the cube")
    playing.add_argument("--processes", type=int, default=2)
    playing.set_defaults(do=play_all)
    comparing = commands.add_parser("compare")
    comparing.add_argument("first", type=Path)
    comparing.add_argument("second", type=Path)
    comparing.set_defaults(do=lambda options: print(compare(options.first, options.second)))
    ranking = commands.add_parser("ranks")
    ranking.add_argument("folders", type=Path, nargs="+")
    ranking.set_defaults(do=lambda options: print(ranks(options.folders)))
    options = parser.parse_args()
    options.do(options)


if __name__ == "__main__":
    main()
