"""submitit's local executor: jobs that fail, are killed or cancelled cost what they should, and no more."""

import fcntl
import os
import signal
import subprocess
import sys
from concurrent.futures import CancelledError
from pathlib import Path
from types import SimpleNamespace

import cloudpickle
import pytest
import submitit

from poolwise.adapters import submitit as adapter
from poolwise.adapters.submitit import SubmititExecutor
from poolwise.space.parameters import Float
from poolwise.study.definition import Settings
from poolwise.study.study import Study

EXAMPLE = Path(__file__).parents[2] / "examples" / "submitit" / "tune.py"
FILL = Settings(acquisition="fill")


@pytest.fixture
def local(tmp_path, monkeypatch):
    """Jobs as processes of this machine; a result that is not there is not waited for."""
    monkeypatch.setattr(submitit.local.local.LocalJob, "_results_timeout_s", 0)
    here = sys.modules[__name__]
    cloudpickle.register_pickle_by_value(here)  # jobs do not find the modules of tests by name
    jobs = submitit.LocalExecutor(folder=tmp_path / "jobs")
    jobs.update_parameters(timeout_min=5)
    jobs._throttling = 0.0
    with SubmititExecutor(jobs, poll=0.05) as executor:
        yield executor
    cloudpickle.unregister_pickle_by_value(here)


class Eventful:
    """An objective of which every fifth call fails, and two calls kill their job."""

    def __init__(self, folder):
        self.folder = str(folder)

    def __call__(self, x):
        log = os.open(f"{self.folder}/calls", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        fcntl.flock(log, fcntl.LOCK_EX)
        os.write(log, b".")
        count = os.fstat(log).st_size
        os.close(log)
        if count == 2:
            os.kill(os.getppid(), signal.SIGKILL)  # with its controller, as if the machine was lost
        if count in (2, 3):
            os.kill(os.getpid(), signal.SIGKILL)
        if count % 5 == 0:
            raise ArithmeticError("no convergence")
        return x + ("jax" in sys.modules)


def check_jobs(study, executor, folder, trials, q):
    """Run a study whose jobs fail and die; every trial is told or failed, and nothing is lost."""
    study.run(Eventful(folder), trials=trials, q=q, executor=executor)
    found = study.trials
    failed = [trial.reason for trial in found if trial.state == "failed"]

    assert trials == len(found) == study.counts["told"] + study.counts["failed"]
    assert trials + 2 == (folder / "calls").stat().st_size
    assert (trials + 2) // 5 == len(failed) and all("ArithmeticError: no convergence" in reason for reason in failed)
    assert all(trial.value == trial.params["x"] for trial in found if trial.state == "told")


def test_killed_jobs_are_run_again(local, tmp_path, caplog):
    """6 trials with two jobs that are killed; 64 in the long run."""
    study = Study(space={"x": Float(0, 1)}, minimize="loss", settings=FILL)
    check_jobs(study, local, tmp_path, 6, 3)

    assert 2 == sum("is run again" in record.getMessage() for record in caplog.records)


@pytest.mark.slow
def test_64_trials_by_jobs_that_are_killed(local, tmp_path):
    """Pools of eight, chosen by the model, in a file."""
    with Study(f"sqlite:///{tmp_path / 'study.db'}", space={"x": Float(0, 1)}, minimize="loss") as study:
        check_jobs(study, local, tmp_path, 64, 8)


@pytest.mark.parametrize(("minutes", "again"), [(5, 1), (60, 0)], ids=["time is up", "preempted"])
def test_a_job_whose_machine_is_taken_away_is_run_again(local, tmp_path, study, caplog, minutes, again):
    """submitit puts a preempted job back itself; in the last minutes of its time it does not, and the run does."""

    def preempted_once(x):
        try:
            (tmp_path / "called").touch(exist_ok=False)
        except FileExistsError:
            return x
        os.kill(os.getpid(), signal.SIGUSR2)

    local.executor.update_parameters(timeout_min=minutes)
    study.run(preempted_once, trials=1, executor=local)

    assert {"pending": 0, "told": 1, "failed": 0} == study.counts
    assert again == sum("is run again" in record.getMessage() for record in caplog.records)


def test_an_objective_that_ends_well_nevertheless_is_told(local, tmp_path, study):
    """With what it has when its machine is taken away."""

    def finishes(x):
        with (tmp_path / "calls").open("a") as file:
            file.write(".")
        try:
            os.kill(os.getpid(), signal.SIGUSR2)
        except BaseException:
            return x

    study.run(finishes, trials=1, executor=local)

    assert {"pending": 0, "told": 1, "failed": 0} == study.counts
    assert "." == (tmp_path / "calls").read_text()


class Preempted:
    """A job that is not done for submitit, as it may come back from its preemption."""

    job_id, cancelled = "7", False

    def __init__(self):
        self.states = iter(["RUNNING", "PREEMPTED", "PENDING"])

    def done(self, force_check=False):
        return False

    @property
    def state(self):
        return next(self.states, "PREEMPTED")

    def cancel(self, check):
        self.cancelled = True


def test_a_preempted_job_that_does_not_come_back_is_given_up(monkeypatch):
    """After a while; it is cancelled, lest it should be there twice."""
    monkeypatch.setattr(adapter, "PREEMPTED", 0.2)
    job = Preempted()
    with SubmititExecutor(SimpleNamespace(submit=lambda *_: job), poll=0.01) as executor:
        error = executor.submit(sleeps).exception(timeout=30)

    assert "job 7 was preempted and did not come back" == str(error)
    assert job.cancelled


def test_a_preempted_job_that_is_cancelled_is_not_waited_for():
    """Neither by Ctrl-C nor by a timeout."""
    job = Preempted()
    with SubmititExecutor(SimpleNamespace(submit=lambda *_: job), poll=0.01) as executor:
        assert executor.submit(sleeps).cancel()

    assert job.cancelled


def sleeps():
    import time

    time.sleep(600)


def test_cancelling_ends_a_job(local):
    """Also one that runs; the executor waits until it is gone."""
    future = local.submit(sleeps)
    while not future.running():
        assert not future.done()

    assert future.cancel()
    assert isinstance(future.exception(), CancelledError)
    local.shutdown()
    assert future.job.done()
    with pytest.raises(RuntimeError, match="shut down"):
        local.submit(sleeps)


def test_the_example(tmp_path):
    """It ends with its trials told."""
    command = [sys.executable, str(EXAMPLE), "--cluster", "local", "--trials", "2", "-q", "2"]
    environment = {**os.environ, "POOLWISE_PROGRAMS": "off"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)

    assert 0 == done.returncode, done.stderr
    assert "'told': 2, 'failed': 0" in done.stdout
