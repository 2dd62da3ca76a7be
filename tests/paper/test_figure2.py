"""Commands that run many jobs: what they reach, what they leave behind, and that nothing is computed twice.

They are in one file because they share one run of figure 2.
"""

import csv
import dataclasses
import subprocess
import time

import pytest

import poolwise as pw
from poolwise.paper.claims import claims
from poolwise.paper.figure2 import figure2
from poolwise.paper.settings import QUICK
from poolwise.paper.table2 import markdown, table2

COMMAND = ("figure2", "--quick", "--tasks", 1, "--only", "ei")
ONE_TASK = dataclasses.replace(QUICK, tasks=1)


def rows(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_gradients_reach_higher_values_than_random_search(improvement):
    """On every belief, in the order of the paper: gradient-based above gradient-free; the default above random."""
    by_belief = {}
    for row in rows(improvement / "values.csv"):
        by_belief.setdefault((row["task"], row["observations"]), {})[row["optimizer"]] = float(row["value"])

    assert len(by_belief) == 2
    for values in by_belief.values():
        assert values["gradient"] > values["random"] > 0
        assert values["gradient"] > values["direct"]
        assert values["default"] > values["random"]


def test_every_run_has_a_row_for_every_pool_and_no_negative_regret(improvement):
    """One row for the random points and one for each pool; the optimum is above all that runs saw."""
    table = rows(improvement / "figure2.csv")

    assert len(table) == 5 * 3
    assert all(float(row["optimum"]) >= max(float(row["recommended"]), float(row["observed"])) for row in table)
    assert {"3", "6", "9"} == {row["observations"] for row in table}


def test_pictures_and_provenance_are_beside_the_results(improvement):
    """PNG and PDF of the figure, and what it was made with."""
    names = {path.name for path in improvement.iterdir()}

    assert {"figure2.png", "figure2.pdf", "values.png", "settings.csv", "timing.csv", "optima.csv"} <= names
    assert {"seed", "jax", "poolwise", "noise"} <= {row["name"] for row in rows(improvement / "settings.csv")}


def test_a_killed_run_goes_on_and_ends_with_the_same_table(command, improvement, tmp_path):
    """Killed after a run: the next start keeps what is on disk; one process ends with the table that two made."""
    first = tmp_path / "units" / "ei-random-00.csv"
    running = command(*COMMAND, "--processes", 1, "--out", tmp_path, start=subprocess.Popen, stderr=subprocess.DEVNULL)
    until = time.monotonic() + 120
    while len(rows(first) if first.exists() else ()) < 3 and time.monotonic() < until and running.poll() is None:
        time.sleep(0.01)
    running.kill()
    running.wait()
    kept = {path.name: rows(path) for path in (tmp_path / "units").glob("*.csv")}
    command(*COMMAND, "--processes", 1, "--out", tmp_path)

    assert "ei-random-00.csv" in kept
    for name, before in kept.items():  # with the seconds they took: a clock never says the same twice
        assert before == rows(tmp_path / "units" / name)[: len(before)]
    assert (improvement / "figure2.csv").read_bytes() == (tmp_path / "figure2.csv").read_bytes()
    assert (improvement / "values.csv").read_bytes() == (tmp_path / "values.csv").read_bytes()


def test_a_finished_run_computes_nothing(improvement, capsys):
    """A second start leaves the runs as they are, and starts no worker."""
    before = {path: path.stat().st_mtime_ns for path in (improvement / "units").iterdir()}
    figure2(ONE_TASK, improvement, only=("ei",), count=1)

    assert before == {path: path.stat().st_mtime_ns for path in (improvement / "units").iterdir()}
    assert "" == capsys.readouterr().err


def test_other_settings_are_not_mixed(improvement):
    """A folder with results of one seed refuses another, and says which folder to take."""
    with pytest.raises(pw.InputError, match=r"seed=0, not 1; give another folder with --out"):
        figure2(dataclasses.replace(ONE_TASK, seed=1), improvement, only=("ei",), count=1)


def test_table2_has_ours_beside_the_papers(improvement):
    """Mean seconds of all optimizers; first calls, which compile, stand apart."""
    table = {row["optimizer"]: row for row in table2(improvement)}

    assert "23.9 ± 2.3" in markdown(list(table.values()))
    assert {"random", "direct", "gradient", "stochastic", "default"} == set(table)
    assert all(row["first_call_mean"] > 0 and row["mean"] > 0 for row in table.values())


def test_asynchronous_workers_do_not_wait(command, improvement, tmp_path):
    """When as many experiments are done, asynchronous workers have needed less time."""
    only = ("--only", "synchronous", "--only", "pending")
    command("asynchronous", "--quick", "--tasks", 1, *only, "--processes", 1, "--out", tmp_path)
    ends = {}
    for row in rows(tmp_path / "asynchronous.csv"):
        ends.setdefault(row["mode"], {})[int(row["observations"])] = float(row["time"])

    assert {"synchronous", "pending"} == set(ends)
    assert ends["pending"][6] < ends["synchronous"].get(6, float("inf"))


def test_ablation_and_claims(command, improvement):
    """The ablation uses the runs of figure 2; claims then say something about each of them."""
    command("ablation", "--quick", "--tasks", 1, "--only", "ei", "--processes", 1, "--out", improvement)
    settings = {row["setting"] for row in rows(improvement / "ablation.csv")}
    verdicts = {row["claim"]: row["verdict"] for row in claims(improvement)}

    assert {"adam, rate 0.001", "adam, rate 0.025", "fixed, sobol", "fixed, iid", "fresh, iid"} <= settings
    assert verdicts["gradients reach higher acquisition values in the same time"] == "agrees"
    assert verdicts["equation 3 is an unbiased estimate of the gradient"] == "agrees"
    assert verdicts["marginal UCB simplifies further"] == "disagrees"
