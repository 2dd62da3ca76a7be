"""The example of tracking: every trial is a nested run of MLflow, once."""

import sqlite3
import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "mlflow"
CODE = """
import sys
sys.path.insert(0, sys.argv[1])
import track
for trials in (2, 3):  # a run, and one that goes on
    track.main("sqlite:///mlflow.db", trials)
"""


def test_trials_are_nested_runs(tmp_path):
    """Parameters, values and reasons are there, under one run of the study, also after a second run."""
    done = subprocess.run(
        [sys.executable, "-c", CODE, str(EXAMPLE)], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert 0 == done.returncode, done.stderr
    with sqlite3.connect(tmp_path / "mlflow.db") as base:
        [[parent]] = base.execute("select run_uuid from runs where name = 'training'")
        nested = base.execute("select count(*) from tags where key = 'mlflow.parentRunId' and value = ?", (parent,))
        [[children]] = nested
        states = [state for [state] in base.execute("select status from runs where run_uuid != ?", (parent,))]
        params = base.execute("select count(*) from params").fetchone()[0]
        losses = base.execute("select count(*) from metrics where key = 'loss'").fetchone()[0]
        reasons = [reason for [reason] in base.execute("select value from tags where key = 'poolwise.reason'")]
    base.close()

    assert (3, 3, 6) == (children, len(states), params)
    assert states.count("FINISHED") == losses
    assert states.count("FAILED") == len(reasons)
    assert all("the training diverged" in reason for reason in reasons)


NAMES = """
import sys
sys.path.insert(0, sys.argv[1])
import track, poolwise as pw
for name in ("loss (%)", "../loss"):  # MLflow takes the first once it is cleaned, the second not at all
    study = pw.Study(name=f"s{len(name)}", space={"x": pw.Float(0, 1)}, minimize=name)
    study.run(lambda x: x, trials=1, executor="here", callbacks=[track.MlflowCallback("sqlite:///mlflow.db")])
"""


def test_names_that_mlflow_does_not_take(tmp_path):
    """They are written with what it takes, and a run ends whatever could not be written."""
    done = subprocess.run(
        [sys.executable, "-c", NAMES, str(EXAMPLE)], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert 0 == done.returncode, done.stderr
    with sqlite3.connect(tmp_path / "mlflow.db") as base:
        states = [state for [state] in base.execute("select status from runs")]
        metrics = {name for [name] in base.execute("select key from metrics")}
    base.close()

    assert ["FINISHED"] * 4 == states
    assert {"loss ___", "best loss ___"} <= metrics
