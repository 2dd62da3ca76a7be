"""A study whose trials are runs of MLflow: one parent run for the study, a nested run for each trial.

    pip install poolwise mlflow-skinny alembic
    python track.py [sqlite:///mlflow.db]

`mlflow ui --backend-store-uri sqlite:///mlflow.db` (of the full mlflow) shows them.
"""

from __future__ import annotations

import re
import sys

from mlflow import MlflowClient
from mlflow.entities import Param

import poolwise as pw

EXPERIMENT = "poolwise"


def allowed(name: str) -> str:
    """A name as MLflow takes it for a metric or a parameter."""
    return re.sub(r"[^\w/. -]", "_", name)


class MlflowCallback(pw.Callback):
    """Writes each trial to MLflow as it is asked for, told or failed; a run that goes on finds its runs again."""

    def __init__(self, store: str) -> None:
        self.client = MlflowClient(tracking_uri=store)
        found = self.client.get_experiment_by_name(EXPERIMENT)
        self.experiment = self.client.create_experiment(EXPERIMENT) if found is None else found.experiment_id

    def run_of(self, study: pw.Study, trial: pw.Trial | None = None) -> str:
        """The run of a trial, or of the study itself; a new one where there is none."""
        number = "all" if trial is None else str(trial.number)
        tags = {"poolwise.study": f"{study.url} {study.name}", "poolwise.trial": number}
        query = " and ".join(f"tags.`{key}` = '{value}'" for key, value in tags.items())
        for run in self.client.search_runs([self.experiment], query):
            return run.info.run_id
        if trial is None:
            return self.client.create_run(self.experiment, tags=tags, run_name=study.name).info.run_id
        tags["mlflow.parentRunId"] = self.run_of(study)
        run = self.client.create_run(self.experiment, tags=tags, run_name=f"trial {trial.number}")
        params = [Param(allowed(name), str(value)) for name, value in trial.params.items()]
        self.client.log_batch(run.info.run_id, params=params)
        return run.info.run_id

    def on_ask(self, study: pw.Study, pool: list[pw.Trial]) -> None:
        for trial in pool:
            self.run_of(study, trial)

    def on_tell(self, study: pw.Study, trial: pw.Trial) -> None:
        run, name = self.run_of(study, trial), allowed(study.objective)
        try:
            self.client.log_metric(run, name, trial.value)
            if trial.sem is not None:
                self.client.log_metric(run, "sem", trial.sem)
        finally:  # a run that is over is shown as that, whatever could not be written
            self.client.set_terminated(run, "FINISHED")
        self.client.log_metric(self.run_of(study), f"best {name}", study.best.value, step=trial.number)

    def on_fail(self, study: pw.Study, trial: pw.Trial) -> None:
        run = self.run_of(study, trial)
        try:
            self.client.set_tag(run, "poolwise.reason", trial.reason)
        finally:
            self.client.set_terminated(run, "FAILED")

    def on_end(self, study: pw.Study) -> None:
        self.client.set_terminated(self.run_of(study), "FINISHED")


def loss(rate: float, layers: int) -> float:
    """Stands for a training that diverges at high rates."""
    if rate > 0.5:
        raise ValueError("the training diverged")
    return abs(rate - 0.01) + 0.1 * abs(layers - 3)


def main(store: str, trials: int = 8) -> None:
    space = {"rate": pw.Float(1e-4, 1, log=True), "layers": pw.Int(1, 6)}
    with pw.Study("sqlite:///study.db", name="training", space=space, minimize="loss") as study:
        study.run(loss, trials=trials, q=4, executor="threads", callbacks=[MlflowCallback(store)])
        print(study.best)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "sqlite:///mlflow.db")
