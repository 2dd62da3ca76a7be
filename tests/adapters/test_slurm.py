"""A real Slurm, where there is one: jobs that fail, are cancelled or killed cost what they should, and no more.

The folder of the tests must be seen by the jobs, and SQLite be safe in it: a Slurm of one node, or `--basetemp`.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import cloudpickle
import pytest
import submitit
from tests.adapters.trouble import FILL, check_interrupted, reasons, wait_for

from poolwise.adapters.submitit import SubmititExecutor
from poolwise.space.parameters import Float
from poolwise.study.definition import Settings
from poolwise.study.study import Study

EXAMPLES = Path(__file__).parents[2] / "examples"


def missing():
    """Why there is no Slurm to test on; None if there is one."""
    if shutil.which("sbatch") is None:
        return "needs Slurm: sbatch is not on the PATH"
    answer = subprocess.run(["scontrol", "ping"], capture_output=True)
    return "needs Slurm: its controller does not answer" if answer.returncode else None


pytestmark = [pytest.mark.slow, pytest.mark.skipif(missing() is not None, reason=str(missing()))]


def slurm(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


@pytest.fixture
def name():
    """A name for the jobs of a test; those that it leaves behind are cancelled."""
    name = f"poolwise-{os.getpid()}-{time.time_ns()}"
    yield name
    slurm("scancel", f"--name={name}")


@pytest.fixture
def jobs(tmp_path, name):
    """Jobs of one core."""
    here = sys.modules[__name__]
    cloudpickle.register_pickle_by_value(here)  # jobs do not find the modules of tests by name
    made = submitit.AutoExecutor(folder=tmp_path / "jobs", cluster="slurm")
    made.update_parameters(name=name, timeout_min=5, cpus_per_task=1, slurm_mem="200M")
    yield made
    cloudpickle.unregister_pickle_by_value(here)


class Eventful:
    """An objective of which every fifth call fails; one call waits until its job is cancelled, one kills its job."""

    def __init__(self, folder):
        self.folder = folder

    def __call__(self, x):
        call = len(os.listdir(self.folder))
        while True:  # a number of its own for each call
            try:
                os.close(os.open(self.folder / str(call), os.O_CREAT | os.O_EXCL))
                break
            except FileExistsError:
                call += 1
        if call == 10:
            (self.folder / str(call)).write_text(os.environ["SLURM_JOB_ID"])
            time.sleep(250)
        if call == 31:
            os.kill(os.getpid(), signal.SIGKILL)
        if call % 5 == 4:
            raise ArithmeticError(f"no convergence in call {call}")
        return x + ("jax" in sys.modules)


def job_of(path):
    """The job that writes its number to a file."""
    wait_for(lambda: path.exists() and path.read_text(), seconds=400)
    return path.read_text()


@pytest.mark.parametrize("settings", [FILL, Settings()], ids=["fill", "model"])
def test_64_trials_of_which_two_jobs_are_ended(jobs, tmp_path, caplog, settings):
    """Pools of eight; one job is cancelled, one is killed: both are run again, and nothing is lost."""
    calls = tmp_path / "calls"
    calls.mkdir()
    threading.Thread(target=lambda: slurm("scancel", job_of(calls / "10")), daemon=True).start()

    with Study(f"sqlite:///{tmp_path / 'a.db'}", space={"x": Float(0, 1)}, minimize="loss", settings=settings) as study:
        study.run(Eventful(calls), trials=64, q=8, executor=jobs)

        assert 64 == len(study.trials) == study.counts["told"] + study.counts["failed"]
        assert 66 == len(os.listdir(calls))
        assert [f"ArithmeticError: no convergence in call {call}" for call in range(4, 66, 5)] == sorted(
            (reason.splitlines()[0] for reason in reasons(study)), key=lambda line: int(line.split()[-1])
        )
        assert all(trial.value == trial.params["x"] for trial in study.trials if trial.state == "told")
    assert 2 == sum("is run again" in record.getMessage() for record in caplog.records)


def test_a_preempted_job_is_run_again_by_slurm(jobs, tmp_path, study, caplog):
    """It is the same job, and its trial neither fails nor is submitted once more."""

    def first_waits(x):
        restarts = os.environ.get("SLURM_RESTART_COUNT", "0")
        (tmp_path / restarts).write_text(os.environ["SLURM_JOB_ID"])
        time.sleep(250 * (restarts == "0"))
        return x

    def preempt():
        job = job_of(tmp_path / "0")
        slurm("scancel", "--signal=USR2", job)  # what submitit has Slurm send
        wait_for(lambda: "PENDING" in slurm("squeue", "--noheader", "--format=%T", f"--jobs={job}"))
        slurm("scontrol", "update", f"JobId={job}", "StartTime=now+5")  # not the two minutes that Slurm would wait

    threading.Thread(target=preempt, daemon=True).start()
    jobs.update_parameters(timeout_min=60)  # in the last minutes of its time a job is not put back
    study.run(first_waits, trials=1, executor=SubmititExecutor(jobs, poll=0.2))

    assert {"pending": 0, "told": 1, "failed": 0} == study.counts
    assert (tmp_path / "0").read_text() == (tmp_path / "1").read_text()
    assert [] == caplog.records


def test_a_timeout_cancels_the_job(jobs, name, study):
    """The clock runs from when submitit sees that the job does."""
    study.run(lambda x: time.sleep(250), trials=1, executor=SubmititExecutor(jobs, poll=0.2), timeout=2)

    assert ["timed out after 2 seconds; it was cancelled"] == reasons(study)
    wait_for(lambda: "" == slurm("squeue", "--noheader", f"--name={name}"))


def test_ctrl_c_cancels_the_jobs(name, tmp_path):
    """And leaves a study that can be resumed."""
    check_interrupted(
        tmp_path,
        "import submitit\nfrom poolwise.adapters.submitit import SubmititExecutor\n"
        f"jobs = submitit.AutoExecutor(folder={str(tmp_path / 'jobs')!r}, cluster='slurm')\n"
        f"jobs.update_parameters(name={name!r}, timeout_min=5, slurm_mem='200M')\n"
        "run(SubmititExecutor(jobs, poll=0.2))\n",
    )

    assert "CANCELLED" in slurm("sacct", "--allocations", "--noheader", "--format=State", f"--name={name}")


TRAIN = """
import os, signal, sys, time
from pathlib import Path

calls = Path("calls")
call = len(os.listdir(calls))
while True:
    try:
        os.close(os.open(calls / str(call), os.O_CREAT | os.O_EXCL))
        break
    except FileExistsError:
        call += 1
if call in (6, 11):
    (calls / str(call)).write_text(os.environ["SLURM_ARRAY_JOB_ID"] + "_" + os.environ["SLURM_ARRAY_TASK_ID"])
    if call == 11:
        os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(250)
if call % 5 == 4:
    sys.exit("no convergence")
print(call)
"""


def test_workers_that_are_cancelled_and_killed(name, tmp_path):
    """The job script of the page: four workers; one is cancelled and one killed in mid-trial, and nothing is lost."""
    shutil.copytree(EXAMPLES / "work", tmp_path, dirs_exist_ok=True)
    text = (tmp_path / "study.toml").read_text().replace("trials = 256", "trials = 24").replace("q = 16", "q = 4")
    (tmp_path / "study.toml").write_text(re.sub("^url = .*", 'url = "sqlite:///tune.db"', text, flags=re.MULTILINE))
    script = (tmp_path / "workers.sbatch").read_text().replace("--idle 600", "--idle 60 --lease 5")
    (tmp_path / "workers.sbatch").write_text(script)
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "poolwise").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m poolwise "$@"\n')
    (tmp_path / "poolwise").chmod(0o755)
    calls = tmp_path / "calls"
    calls.mkdir()
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "POOLWISE_PROGRAMS": "off"}
    options = [f"--job-name={name}", "--array=1-4", "--cpus-per-task=1", "--mem=1G", f"--chdir={tmp_path}"]
    subprocess.run(["sbatch", *options, "workers.sbatch"], cwd=tmp_path, env=environment, check=True)

    cancelled = job_of(calls / "6")
    slurm("scancel", cancelled)
    wait_for(lambda: "" == slurm("squeue", "--noheader", f"--name={name}"), seconds=400)

    with Study(f"sqlite:///{tmp_path / 'tune.db'}", name="tune") as study:
        assert 24 == len(study.trials) == study.counts["told"] + study.counts["failed"]
        assert {"exit code 1: no convergence"} == {reason.splitlines()[0] for reason in reasons(study)}
        assert sorted(trial.value for trial in study.trials if trial.state == "told") == [
            call for call in range(26) if call % 5 != 4 and call not in (6, 11)
        ]
    assert "is given back" in (tmp_path / f"slurm-{cancelled}.out").read_text()
