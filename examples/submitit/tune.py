"""Tune a function by jobs of a cluster, eight at a time: `python tune.py --cluster slurm`.

Without Slurm, `--cluster local` runs the jobs as processes of this machine. The study is the file tune.db; the same
command goes on with it. Jobs write their logs and results into the folder `jobs`.
"""

import argparse

import submitit

from poolwise import Float, Study
from poolwise.adapters.submitit import SubmititExecutor


def loss(lr: float, width: float) -> float:
    """What a job does: train, and return what is to be minimized."""
    return (lr - 0.01) ** 2 + (width - 64) ** 2 / 64**2


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--cluster", default=None, help="slurm or local; found out by default")
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("-q", type=int, default=8)
    given = parser.parse_args()

    jobs = submitit.AutoExecutor(folder="jobs", cluster=given.cluster)
    jobs.update_parameters(name="tune", timeout_min=60, cpus_per_task=1, slurm_mem="1G")
    space = {"lr": Float(1e-4, 1, log=True), "width": Float(8, 512, log=True)}
    with Study("sqlite:///tune.db", name="tune", space=space, minimize="loss") as study:
        study.run(loss, trials=given.trials, q=given.q, executor=SubmititExecutor(jobs), progress=True)
        assert study.best is not None
        print(study.counts, study.best.params)


if __name__ == "__main__":
    main()
