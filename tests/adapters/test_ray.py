"""A study on a real local Ray: workers that die, calls that fail, and nothing is lost; and Tune's trials in pools."""

import importlib
import json
import logging
import os
import secrets
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from tests.adapters.trouble import check_interrupted, is_alive, reasons, troubled, wait_for

from poolwise.errors import InputError
from poolwise.space.parameters import Float
from poolwise.space.space import Space
from poolwise.study.definition import Settings
from poolwise.study.interrupt import Inbox
from poolwise.study.study import Study

# No word to anybody, and no token in the user's home; Ray reads these when it is imported.
QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AUTH_MODE": "token",
    "RAY_AUTH_TOKEN": secrets.token_hex(32),
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "RAY_AIR_NEW_OUTPUT": "0",
}
os.environ.update(QUIET)

import ray  # noqa: E402
from ray import tune  # noqa: E402
from ray.tune.search import ConcurrencyLimiter  # noqa: E402

from poolwise.adapters.ray import RayExecutor  # noqa: E402
from poolwise.adapters.ray_tune import PoolSearcher  # noqa: E402

ROOT = Path(__file__).parents[2]
FILL = Settings(acquisition="fill")
HEAD = """
import sys, ray
node = ray.init(num_cpus=2, num_gpus=2, resources={"slot": 8}, include_dashboard=False, object_store_memory=100 * 2**20)
print(node.address_info["address"], flush=True)
sys.stdin.read()
"""

# What Ray and Tune do themselves: sockets and files that are left to the collector, their own deprecations.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:ray"),
    pytest.mark.filterwarnings("ignore::FutureWarning:ray"),
]


@pytest.fixture(scope="module")
def cluster():
    """Ray, started by a process without JAX, because it forks; this one only connects."""
    head = subprocess.Popen(
        [sys.executable, "-c", HEAD],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        address = head.stdout.readline().strip()
        ray.init(address=address, log_to_driver=False, logging_level="error")
        yield ray
    finally:
        ray.shutdown()
        head.communicate("", timeout=30)


@pytest.mark.parametrize("settings", [FILL, pytest.param(Settings(), marks=pytest.mark.slow)], ids=["fill", "model"])
def test_no_trial_is_lost(cluster, tmp_path, settings):
    """64 trials by eight, a fifth fails and two workers are killed: all are told or failed, with their reasons."""
    study = Study(space={"x": Float(0, 1)}, minimize="loss", settings=settings)
    executor = RayExecutor(num_cpus=0, resources={"slot": 2})

    study.run(troubled(tmp_path, 0.02), trials=64, q=8, executor=executor)

    assert 64 == len(study.trials) == study.counts["told"] + study.counts["failed"]
    lost = [reason for reason in reasons(study) if "the worker was lost during the call (WorkerCrashedError" in reason]
    raised = [reason for reason in reasons(study) if "ArithmeticError: no convergence in call" in reason]
    assert (2, 12, 14) == (len(lost), len(raised), study.counts["failed"])
    assert all(trial.value < 1 for trial in study.trials if trial.value is not None)  # JAX was in no worker


def test_a_call_has_the_gpu_that_it_needs(cluster, study, tmp_path):
    """Ray counts GPUs and says to each call which is its own: two calls at a time here, never on the same one."""

    def holds_one(x):
        mine = tmp_path / os.environ["CUDA_VISIBLE_DEVICES"]
        mine.touch(exist_ok=False)
        time.sleep(0.05)
        mine.unlink()
        return float(mine.name)

    study.run(holds_one, trials=6, q=3, executor=RayExecutor(num_cpus=0, num_gpus=1))

    assert {0.0, 1.0} == {trial.value for trial in study.trials}


def test_a_lost_worker_may_be_replaced(cluster, study, tmp_path):
    """With `retries` Ray runs a call again whose worker died."""

    def kills_once(x):
        try:
            (tmp_path / "killed").touch(exist_ok=False)
        except FileExistsError:
            return x
        os.kill(os.getpid(), signal.SIGKILL)

    study.run(kills_once, trials=1, executor=RayExecutor(retries=1))

    assert {"pending": 0, "told": 1, "failed": 0} == study.counts


def test_a_timeout_ends_the_worker(cluster, study, tmp_path):
    """The clock runs from when a worker begins; a call that waits for resources is not late."""

    def hangs(x):
        (tmp_path / str(os.getpid())).touch()
        time.sleep(100 * (x > 0.5))
        return x

    executor = RayExecutor(num_cpus=0, resources={"slot": 8})  # one at a time
    study.run(hangs, trials=3, q=3, executor=executor, timeout=1.0)

    late = [trial.params["x"] > 0.5 for trial in study.trials]
    assert late == [trial.state == "failed" for trial in study.trials]
    assert {"timed out after 1 seconds; its worker was ended"} == set(reasons(study))


def test_ctrl_c_leaves_the_cluster_and_a_study_that_can_be_resumed(cluster, tmp_path):
    """Here the cluster does not belong to the script that is interrupted, and goes on without its calls."""
    address = cluster.get_runtime_context().gcs_address
    callers = check_interrupted(
        tmp_path,
        "import ray\nfrom poolwise.adapters.ray import RayExecutor\n"
        f"ray.init({address!r}, log_to_driver=False, logging_level='error')\n"
        "run(RayExecutor(num_cpus=0, resources={'slot': 2}))\n",
        lambda study: study.run(lambda x: x, trials=8, q=4, executor=RayExecutor(num_cpus=0.5), lease=60),
    )

    wait_for(lambda: not any(is_alive(pid) for pid in callers))


@pytest.mark.slow
def test_ctrl_c_on_a_cluster_of_the_script_s_own(tmp_path):
    """Ray ends with the script, and so does everything that ran in it."""
    callers = check_interrupted(
        tmp_path,
        "import ray\nfrom poolwise.adapters.ray import RayExecutor\n"
        "ray.init(num_cpus=2, include_dashboard=False, object_store_memory=100 * 2**20, logging_level='error')\n"
        "run(RayExecutor(num_cpus=0.5))\n",
    )

    wait_for(lambda: not any(is_alive(pid) for pid in callers))


def test_a_call_that_cannot_reach_the_objective_is_told_as_that(cluster, study, monkeypatch, tmp_path):
    """An objective that a worker cannot load fails the trial with the worker's words."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "nowhere_else.py").write_text("def objective(x):\n    return x\n")
    study.run(importlib.import_module("nowhere_else").objective, trials=1, executor=RayExecutor())

    [reason] = reasons(study)
    assert "the call did not come to the objective" in reason
    assert "No module named 'nowhere_else'" in reason


def test_an_objective_that_cannot_be_sent_is_refused(cluster, study):
    """Before the first trial is asked for."""
    lock = threading.Lock()
    with pytest.raises(InputError, match="cannot be sent to Ray's workers"):
        study.run(lambda x: lock, trials=1, executor=RayExecutor())

    assert [] == study.trials


def test_what_the_cluster_does_not_have_is_said(cluster, caplog):
    """Ray would wait for it without end."""
    with caplog.at_level(logging.WARNING):
        RayExecutor(num_gpus=3).make_workers(abs, Inbox())

    assert ["run: a call needs 3 GPU, of which the Ray cluster has 2"] == [r.getMessage() for r in caplog.records]


def test_needs_are_numbers():
    with pytest.raises(InputError, match="num_gpus: expected a number, zero or more"):
        RayExecutor(num_gpus=-1)


def test_without_a_cluster_the_run_does_not_begin():
    """Poolwise starts no cluster by itself."""
    code = (
        "import poolwise as pw\nfrom poolwise.adapters.ray import RayExecutor\n"
        "study = pw.Study(space={'x': pw.Float(0, 1)}, minimize='loss')\n"
        "study.run(lambda x: x, trials=1, executor=RayExecutor())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    assert "call ray.init() first" in done.stderr.splitlines()[-1]


SPACE = {
    "lr": tune.loguniform(1e-4, 1.0),
    "layers": tune.randint(1, 5),
    "net": {"act": tune.choice(["relu", "gelu"]), "drop": tune.quniform(0.0, 0.5, 0.1)},
    "epochs": 3,
}


def searcher(space=SPACE, **options):
    options = {"q": 4, "metric": "loss", "mode": "min", "seed": 7, "settings": FILL} | options
    return PoolSearcher(space, **options)


def test_trials_come_in_joint_pools():
    """q at once, then as many as are free, with what is running as pending."""
    search = searcher()
    configs = [search.suggest(name) for name in "abcd"]
    assert search.suggest("e") is None
    for name, config in zip("abcd", configs, strict=True):
        search.on_trial_complete(name, {"loss": config["lr"]})
    assert all(search.suggest(name) for name in "efgh")
    search.on_trial_complete("f", {"loss": 0.5})

    assert search.suggest("i")["net"].keys() == {"act", "drop"}
    assert [0, 0, 0, 0, 1, 1, 1, 1, 2] == [trial.pool for trial in search.trials]
    assert ["told"] * 4 + ["pending", "told", "pending", "pending", "pending"] == [t.state for t in search.trials]


@pytest.mark.parametrize(
    "domain, holds",
    [
        (tune.uniform(2.0, 3.0), lambda v: isinstance(v, float) and 2 <= v <= 3),
        (tune.loguniform(1e-4, 1e-2), lambda v: 1e-4 <= v <= 1e-2),
        (tune.quniform(0.0, 1.0, 0.25), lambda v: v in (0, 0.25, 0.5, 0.75, 1.0)),
        (tune.qloguniform(0.1, 1.6, 0.1), lambda v: v in [float(f"{n / 10:.1f}") for n in range(1, 17)]),
        (tune.randint(1, 4), lambda v: isinstance(v, int) and 1 <= v <= 3),
        (tune.lograndint(1, 9), lambda v: isinstance(v, int) and 1 <= v <= 8),
        (tune.qrandint(2, 11, 4), lambda v: isinstance(v, int) and v in (4, 8)),
        (tune.qrandint(2, 5, 1), lambda v: v in (2, 3, 4)),
        (tune.qlograndint(4, 64, 4), lambda v: v % 4 == 0 and 4 <= v <= 64),
        (tune.choice([None, True, "a", 1.5]), lambda v: v in (None, True, "a", 1.5)),
        (tune.choice([(1, 2), {"deep": 3}]), lambda v: v in [(1, 2), {"deep": 3}]),
    ],
    ids=lambda value: value.domain_str if hasattr(value, "domain_str") else "",
)
def test_every_bounded_parameter_of_tune(domain, holds):
    """Suggestions are values that Tune itself could have drawn, and go back in as points that were evaluated."""
    search = searcher({"p": domain, "x": tune.uniform(0, 1)}, q=6)
    values = [search.suggest(str(i))["p"] for i in range(6)]
    search.add_evaluated_point({"p": values[0], "x": 0.5}, 1.0)

    assert all(holds(value) for value in values)
    assert search.trials[0].params["p"] == search.trials[6].params["p"]
    assert ("told", 1.0, None) == (search.trials[6].state, search.trials[6].value, search.trials[6].pool)


@pytest.mark.parametrize(
    "space, words",
    [
        ({"x": tune.grid_search([1, 2])}, "x is a grid_search"),
        ({"a": {"x": tune.sample_from(lambda: 1)}}, "a/x is drawn by a function"),
        ({"x": tune.randn(0, 1)}, "x is drawn by a function or has no bounds"),
        ({"x": [tune.uniform(0, 1)]}, "x/0 is in a list"),
        ({"x": tune.choice([tune.uniform(0, 1), 2])}, "x has choices that vary themselves"),
        ({"x": 1}, "nothing in it varies"),
    ],
)
def test_what_cannot_be_searched_is_refused(space, words):
    """With the name of the parameter, and what to use instead."""
    with pytest.raises(InputError, match=words):
        searcher(space)


@pytest.mark.parametrize(
    "options, words",
    [
        (
            {"space": Space({"x": Float(0, 1)}), "constraints": ["x < 0.1"]},
            "constraints: give them to the Space itself",
        ),
        ({"metric": ["a", "b"], "mode": ["min", "max"]}, "metric: a pool is chosen for one metric only"),
        ({"mode": ["min"]}, "mode: expected"),
        ({"seed": 1.5}, "seed: expected a whole number"),
    ],
)
def test_wrong_arguments_are_told(options, words):
    """Before anything is searched, and nothing that was given is passed over."""
    with pytest.raises(InputError, match=words):
        searcher(**options)


def test_several_metrics_of_tune_are_refused():
    with pytest.raises(InputError, match="one metric only"):
        searcher(None, metric=None, mode=None).set_search_properties(["a", "b"], None, SPACE)


def test_one_constraint_may_be_text():
    """It is one constraint, not one for each letter."""
    space = {"x": Float(0, 1)}

    assert searcher(space, constraints=["x < 0.1"]).suggest("a") == searcher(space, constraints="x < 0.1").suggest("a")


def test_a_seed_may_be_a_number_of_numpy():
    assert searcher(seed=np.int64(7)).suggest("a") == searcher(seed=7).suggest("a")


def test_bad_results_are_failures():
    """An error, no result, no metric, NaN, and what is no number; each with its reason."""
    search = searcher(q=5)
    for name in "abcde":
        search.suggest(name)
    search.on_trial_complete("a", error=True)
    search.on_trial_complete("b")
    search.on_trial_complete("c", {"accuracy": 1.0})
    search.on_trial_complete("d", {"loss": float("nan")})
    search.on_trial_complete("e", {"loss": "low"})

    assert ["failed"] * 5 == [trial.state for trial in search.trials]
    assert ["error.txt", "no 'loss'", "no 'loss'", "nan", "'low'"] == [
        next(word for word in ("error.txt", "no 'loss'", "nan", "'low'") if word in t.reason) for t in search.trials
    ]


def test_a_second_completion_is_ignored(caplog):
    """With a warning; so is that of a trial that is unknown."""
    search = searcher()
    search.suggest("a")
    search.on_trial_complete("a", {"loss": 1.0})
    with caplog.at_level(logging.WARNING):
        search.on_trial_complete("a", {"loss": 2.0})
        search.on_trial_complete("b", {"loss": 2.0})

    assert 1.0 == search.trials[0].value
    assert ["is told already", "was never suggested"] == [record.args[1] for record in caplog.records]


def test_a_trial_that_is_stopped_while_paused_has_its_latest_value():
    search = searcher()
    search.suggest("a")
    search.on_trial_result("a", {"loss": 3.0})
    search.on_trial_complete("a")

    assert 3.0 == search.trials[0].value


def test_the_state_survives_as_json(tmp_path):
    """A restored searcher knows what runs and what waits, and goes on as the other would have."""
    search = searcher()
    first, second = search.suggest("a"), search.suggest("b")
    search.on_trial_complete("a", {"loss": 0.25})
    search.save(str(tmp_path / "searcher-state-x.pkl"))
    again = searcher(seed=None)
    again.restore(str(tmp_path / "searcher-state-x.pkl"))
    again.on_trial_complete("b", error=True)
    search.on_trial_complete("b", error=True)

    assert 1 == json.loads((tmp_path / "searcher-state-x.pkl").read_text())["poolwise_searcher"]
    assert first != second == again.suggest("b")
    assert ["told", "failed", "pending", "pending"] == [trial.state for trial in again.trials]
    assert [search.suggest(name) for name in "cd"] == [again.suggest(name) for name in "cd"]
    with pytest.raises(InputError, match="saved with another one"):
        searcher({"x": tune.uniform(0, 1)}).restore(str(tmp_path / "searcher-state-x.pkl"))


def test_a_finite_space_ends_the_search():
    search = searcher({"n": tune.randint(0, 3)})

    assert {0, 1, 2} == {search.suggest(name)["n"] for name in "abc"}
    assert "FINISHED" == search.suggest("d")


def tuner(search, trials, folder, trainable):
    return tune.Tuner(
        tune.with_resources(trainable, {"cpu": 0, "slot": 2}),
        param_space=SPACE,
        tune_config=tune.TuneConfig(
            search_alg=search, num_samples=trials, metric="loss", mode="min", reuse_actors=True
        ),
        run_config=tune.RunConfig(name="pools", storage_path=str(folder), verbose=0),
    )


@pytest.mark.parametrize("q", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_tune_runs_in_pools(cluster, tmp_path, q):
    """A real experiment in two rounds, some trials with an error or without a number; its state is restored."""

    def trainable(config):
        if config["layers"] == 2:
            raise ArithmeticError("no convergence")
        tune.report({"loss": float("nan") if config["layers"] == 3 else config["lr"] + config["net"]["drop"]})

    search = PoolSearcher(q=1, seed=3, settings=FILL)
    limited = ConcurrencyLimiter(search, max_concurrent=q, batch=True)
    results = tuner(limited, 2 * q, tmp_path, trainable).fit()
    again = PoolSearcher(q=1)
    again.restore_from_dir(str(tmp_path / "pools"))

    failed = [trial.params["layers"] in (2, 3) for trial in search.trials]
    assert 2 * q == len(results) == len(search.trials)
    assert [0] * q + [1] * q == [trial.pool for trial in search.trials]
    assert failed == [trial.state == "failed" for trial in search.trials]
    assert True in failed
    assert {config["epochs"] for config in (result.config for result in results)} == {3}
    assert search.trials == again.trials


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tune", "searcher"])
def test_the_examples_run(cluster, name):
    """As a user would start them, in a process of their own; the page shows them as they are."""
    path = ROOT / "examples" / "ray" / f"{name}.py"
    here = os.environ | {"RAY_ADDRESS": cluster.get_runtime_context().gcs_address}
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, timeout=120, env=here)

    assert {"tune": "16 trials, 0 pending", "searcher": "8 trials, best"}[name] in done.stdout
    assert f"```py\n{path.read_text()}```" in (ROOT / "docs" / "ray.md").read_text()
