"""Regret at equal evaluations, beside BoTorch, Optuna and random search: `make bench-regret`.

Tasks of the paper's prior with known hyperparameters, and BBOB functions with learned ones; pools of eight. Runs are
kept in out/regret, one file each: started again it goes on where it was. The table, summary and pictures are made of
all runs that are there, and of what an earlier table has of others. Peers play in an environment of their own, see
peers.py; all of it takes hours.
"""

import argparse
import fnmatch
import importlib.util
import os
import subprocess
from pathlib import Path

import peers
import regret_ours
import regret_picture
import regret_prior
import regret_table
from regret_tasks import NOT_ON, PEERS, PRIORS, every_task, prior_path, read_run, run_path
from rich.console import Console

from poolwise.paper.processes import Job, workers

HERE = Path(__file__).resolve().parent
OURS = tuple(regret_ours.METHODS)


def cells(options: argparse.Namespace) -> list[tuple[str, str, str]]:
    """Suite, task and method of the runs that were asked for."""
    return [
        (suite, name, method)
        for suite, name in every_task()
        if suite in options.suites and any(fnmatch.fnmatch(name, pattern) for pattern in options.tasks)
        for method in options.methods
        if (suite, method) not in NOT_ON
    ]


def play_peers(folder: Path, suite: str, name: str, methods: list[str]) -> None:
    """Peers on one task, in their own interpreter."""
    command = [str(peers.interpreter()), str(HERE / "regret_peers.py"), str(folder)]
    command += ["--tasks", f"{suite}/{name}", "--methods", *methods]
    with (folder / "peers.log").open("a") as log:
        subprocess.run(command, check=True, stdout=log, stderr=log, env=os.environ | {"OMP_NUM_THREADS": "1"})


def jobs(folder: Path, wanted: list[tuple[str, str, str]]) -> list[Job]:
    """What is still to be played: one of our methods at a time, and a task's peers together."""
    missing = [cell for cell in wanted if not run_path(folder, *cell).exists()]
    found: list[Job] = []
    for suite, name in dict.fromkeys(cell[:2] for cell in missing):
        methods = [method for *task, method in missing if task == [suite, name]]
        found += [(regret_ours.play_one, (folder, suite, name, method)) for method in methods if method in OURS]
        if theirs := [method for method in methods if method in PEERS]:
            found.append((play_peers, (folder, suite, name, theirs)))
    return found


def play(options: argparse.Namespace) -> None:
    """All runs that were asked for and are not there."""
    if "bbob" in options.suites and importlib.util.find_spec("ioh") is None:
        raise SystemExit("BBOB's functions come with ioh, which is not installed: pip install ioh, or --suites prior")
    wanted, folder = cells(options), options.folder
    folder.mkdir(parents=True, exist_ok=True)
    if options.again:
        for cell in wanted:
            run_path(folder, *cell).unlink(missing_ok=True)
    if any(job[0] is play_peers for job in jobs(folder, wanted)):
        peers.interpreter()
    with workers(options.processes) as crew:
        if "prior" in options.suites:
            absent = [k for k in range(PRIORS) if not prior_path(folder, f"{k:02d}").exists()]
            crew.run([(regret_prior.write_task, (folder, k)) for k in absent], "tasks")
        crew.run(jobs(folder, wanted), "regret")


def recommend(options: argparse.Namespace) -> None:
    """Recommendations of runs on the prior that have none."""
    runs = sorted((options.folder / "runs" / "prior").glob("*/*.json"))
    names = [(path.parent.name, path.stem) for path in runs]
    stale = [name for name in names if not regret_prior.are_fresh(options.folder, *name)]
    if stale:
        with workers(options.processes) as crew:
            crew.run([(regret_prior.write_recommendations, (options.folder, *name)) for name in stale], "recommending")


def tell_of_others(folder: Path) -> None:
    """Say how many runs of ours were made by other source than today's."""
    runs = [
        read_run(path) for path in (folder / "runs").glob("*/*/*.json") if path.stem in OURS and path.stem != "random"
    ]
    if old := sum(run.versions.get("source") != regret_ours.source() for run in runs):
        Console(stderr=True).print(f"{old} of {len(runs)} runs of ours were made by other source; --again replays them")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", nargs="+", choices=OURS + PEERS, default=OURS + PEERS, metavar="METHOD")
    parser.add_argument("--suites", nargs="+", choices=("prior", "bbob"), default=("prior", "bbob"))
    parser.add_argument("--tasks", nargs="+", default=["*"], help="names or patterns, such as 03 or 'f09-d10-*'")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--again", action="store_true", help="play anew what was asked for")
    parser.add_argument("--summary", action="store_true", help="play nothing; show what --methods names")
    parser.add_argument("--folder", type=Path, default=HERE.parent / "out" / "regret", help="of the runs")
    parser.add_argument("--results", type=Path, default=HERE / "results", help="of the table and pictures")
    options = parser.parse_args()
    if not options.summary:
        play(options)
    recommend(options)
    tell_of_others(options.folder)
    options.results.mkdir(parents=True, exist_ok=True)
    rows = regret_table.with_earlier(regret_table.rows(options.folder), options.results / "regret.csv")
    regret_table.write_csv(rows, options.results / "regret.csv")
    shown = [row for row in rows if not options.summary or row["method"] in options.methods]
    summary = regret_table.summary(shown)
    (options.results / "regret.md").write_text(summary)
    regret_picture.draw(shown, options.results)
    print(summary)


if __name__ == "__main__":
    main()
