"""A study on a real Dask cluster of processes: workers that die, calls that fail, and nothing is lost."""

import importlib
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import dask
import pytest
from distributed import Client, Future, LocalCluster
from tests.adapters.trouble import check_interrupted, reasons, troubled

from poolwise.adapters.dask import DaskExecutor
from poolwise.errors import InputError
from poolwise.space.parameters import Float
from poolwise.study.definition import Settings
from poolwise.study.interrupt import Inbox
from poolwise.study.stops import RunStopped
from poolwise.study.study import Study

ROOT = Path(__file__).parents[2]
FILL = Settings(acquisition="fill")


def cluster(workers, threads, resources=None):
    options = {"processes": True, "dashboard_address": ":0", "resources": resources}
    return LocalCluster(n_workers=workers, threads_per_worker=threads, **options)


@pytest.fixture(scope="module")
def client():
    """Two worker processes with four threads each; workers that die are replaced by Dask itself."""
    with cluster(2, 4) as engine, Client(engine) as client:
        yield client


@pytest.mark.parametrize("settings", [FILL, pytest.param(Settings(), marks=pytest.mark.slow)], ids=["fill", "model"])
def test_no_trial_is_lost(client, tmp_path, settings):
    """64 trials by eight, a fifth fails and two workers are killed: all are told or failed, with their reasons."""
    study = Study(space={"x": Float(0, 1)}, minimize="loss", settings=settings)

    study.run(troubled(tmp_path, 0.02), trials=64, q=8, executor=client)

    assert 64 == len(study.trials) == study.counts["told"] + study.counts["failed"]
    assert 8 <= study.counts["failed"] <= 18  # calls that were lost with a worker are counted twice
    assert all("ArithmeticError: no convergence in call" in reason for reason in reasons(study))
    assert 66 <= len(os.listdir(tmp_path))  # what the killed workers had begun was run again
    assert all(trial.value < 1 for trial in study.trials if trial.value is not None)  # and JAX was in no worker


def test_calls_are_never_taken_from_a_cache(client, study):
    """Two trials at one point are two calls, though Dask would take them for one."""
    workers = DaskExecutor(client).make_workers(lambda x: time.time_ns(), inbox := Inbox())
    first, second = [workers.submit({"x": 0.5}) for _ in range(2)]
    while not (first.done() and second.done()):
        inbox.wait(1.0)

    assert workers.report(first).value != workers.report(second).value
    workers.close(now=False)


def test_an_objective_that_kills_its_workers_costs_its_trial(study):
    """Dask gives up a call when too many workers died of it; the run goes on."""

    def kills(x):
        if x > 0.5:
            os.kill(os.getpid(), signal.SIGKILL)
        return x

    one_death = dask.config.set({"distributed.scheduler.allowed-failures": 0})
    with one_death, cluster(1, 1, {"GPU": 1}) as one, Client(one) as client:
        study.run(kills, trials=3, executor=DaskExecutor(client, resources={"GPU": 1}))

    assert 3 == len(study.trials) == study.counts["told"] + study.counts["failed"]
    assert [trial.params["x"] > 0.5 for trial in study.trials] == [t.state == "failed" for t in study.trials]
    assert all("every worker that had the call died, 1 of them" in reason for reason in reasons(study))
    assert len(reasons(study)) > 0


def test_a_cancelled_call_is_repeated_once_and_then_costs_its_trial(client, study):
    """Whoever cancels a task of the cluster ends neither the run nor, the first time, the trial."""

    class Canceller:
        def on_ask(self, study, pool):
            threading.Thread(target=self.cancel, daemon=True).start()

        def cancel(self):
            cancelled = set()
            while len(cancelled) < 2:
                for key in {key for key in list(client.futures) if key.startswith("poolwise-")} - cancelled:
                    time.sleep(0.2)
                    client.cancel([Future(key, client)])
                    cancelled.add(key)

    study.run(lambda x: time.sleep(2), trials=1, executor=client, callbacks=[Canceller()])

    assert ["the call did not come through, twice"] == [reason.split(" (")[0] for reason in reasons(study)]
    assert "cancelled" in reasons(study)[0]


def test_a_timeout_fails_the_trial(client, study):
    """The clock of a trial runs from when a worker begins with it."""
    study.run(lambda x: time.sleep(1.5 * (x > 0.5)), trials=4, q=4, executor=client, timeout=0.5)

    late = [trial for trial in study.trials if "timed out after 0.5 seconds" in trial.reason]
    assert [trial for trial in study.trials if trial.params["x"] > 0.5] == late


def test_a_call_that_cannot_reach_the_objective_is_told_as_that(client, study, monkeypatch, tmp_path):
    """An objective that a worker cannot load fails the trial with the worker's words, and the worker lives on."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "only_here.py").write_text("def objective(x):\n    return x\n")
    study.run(importlib.import_module("only_here").objective, trials=1, executor=client)

    assert ["the call did not come to the objective (ModuleNotFoundError: No module named 'only_here')"] == reasons(
        study
    )


def test_a_closed_client_stops_the_run(study):
    """Without a scheduler nothing can be run; the trials stay pending."""
    with cluster(1, 1) as one:
        client = Client(one)

        def close(*_):
            threading.Timer(0.3, client.close).start()

        closing = type("Closing", (), {"on_ask": close})()
        with pytest.raises(RunStopped, match="no connection to its scheduler"):
            study.run(lambda x: time.sleep(1), trials=2, q=2, executor=client, callbacks=[closing])

    assert {"pending": 2, "told": 0, "failed": 0} == study.counts


def test_ctrl_c_leaves_the_cluster_and_a_study_that_can_be_resumed(client, tmp_path):
    """Here the cluster does not belong to the script that is interrupted, and goes on."""
    address = client.scheduler.address
    check_interrupted(
        tmp_path,
        f"from distributed import Client\nwith Client({address!r}) as client:\n    run(client)\n",
        lambda study: study.run(lambda x: x, trials=8, q=4, executor=client, lease=60),
    )


@pytest.mark.parametrize("deaths", [0, pytest.param(3, marks=pytest.mark.slow)])
def test_ctrl_c_on_a_cluster_of_the_script_s_own(tmp_path, deaths):
    """Its workers get Ctrl-C too, and end of it: the run has left before Dask tells of that, and no trial is failed."""
    check_interrupted(
        tmp_path,
        "if __name__ == '__main__':\n    import dask\n    from distributed import Client\n"
        f"    dask.config.set({{'distributed.scheduler.allowed-failures': {deaths}}})\n"
        "    with Client(n_workers=2, threads_per_worker=2, dashboard_address=':0') as client:\n        run(client)\n",
    )


def test_an_objective_that_cannot_be_sent_is_refused(client, study):
    """Before the first trial is asked for."""
    lock = threading.Lock()
    with pytest.raises(InputError, match="cannot be sent to Dask's workers"):
        study.run(lambda x: lock, trials=1, executor=client)

    assert [] == study.trials


def test_only_a_client_makes_an_executor():
    with pytest.raises(InputError, match="that is not asynchronous"):
        DaskExecutor("tcp://127.0.0.1:8786")


def test_neither_dask_nor_ray_is_imported_unless_used():
    """The run knows its engines by name only."""
    code = (
        "import sys\nimport poolwise.adapters.dask, poolwise.adapters.ray, poolwise.study.run\n"
        "print({'jax', 'dask', 'distributed', 'ray'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert "set()" == done.stdout.strip()


@pytest.mark.parametrize("host, extra", [("distributed", "dask"), ("ray", "ray")])
def test_a_missing_extra_says_what_to_install(host, extra):
    """The exact pip line."""
    make = {"dask": "dask.DaskExecutor(None)", "ray": "ray.RayExecutor().make_workers(None, None)"}[extra]
    code = f"import sys\nsys.modules[{host!r}] = None\nimport poolwise.adapters.{extra}\npoolwise.adapters.{make}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    assert f"pip install 'poolwise[{extra}]'" in done.stderr.splitlines()[-1]


def test_the_example_runs():
    """As a user would start it, in a process of its own."""
    done = subprocess.run([sys.executable, ROOT / "examples/dask/tune.py"], capture_output=True, text=True, timeout=120)

    assert "16 trials, 0 pending" == done.stdout.splitlines()[0]
