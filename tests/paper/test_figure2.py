"""Commands that run many jobs: what they reach, what they leave behind, and that nothing is computed twice.

They are in one file because they share one run of figure 2.
"""

import csv
import dataclasses
import shutil
import subprocess
import time

import pytest

import poolwise as pw
from poolwise.paper import tables
from poolwise.paper.figure2 import figure2
from poolwise.paper.settings import QUICK
from poolwise.paper.table2 import markdown, table2

COMMAND = "figure2 --quick --tasks 1 --only ei"
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


def test_a_run_goes_on_where_it_was_stopped(command, improvement, tmp_path):
    """With the last round of a run missing, it ends with the table that was made without a stop."""
    shutil.copytree(improvement, tmp_path, dirs_exist_ok=True)
    cut = tmp_path / "units" / "ei-random-00.csv"
    before = rows(cut)
    tables.write(cut, before[:-1])
    command(f"{COMMAND} --processes 1 --out {tmp_path}")

    assert before[:-1] == rows(cut)[:-1]  # with the seconds they took: a clock never says the same twice
    assert before[-1]["cpu_seconds"] != rows(cut)[-1]["cpu_seconds"]
    assert (improvement / "figure2.csv").read_bytes() == (tmp_path / "figure2.csv").read_bytes()


@pytest.mark.slow
def test_a_killed_run_goes_on_and_ends_with_the_same_table(command, improvement, tmp_path):
    """Killed after a run: the next start keeps what is on disk; two processes end with the table that one made."""
    first = tmp_path / "units" / "ei-random-00.csv"
    running = command(
        f"{COMMAND} --processes 2 --out {tmp_path}",
        start=subprocess.Popen,
        stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    until = time.monotonic() + 120
    while len(rows(first) if first.exists() else ()) < 3 and time.monotonic() < until and running.poll() is None:
        time.sleep(0.01)
    running.kill()
    running.wait()
    kept = {path.name: rows(path) for path in (tmp_path / "units").glob("*.csv")}
    command(f"{COMMAND} --processes 2 --out {tmp_path}")

    assert "ei-random-00.csv" in kept
    for name, before in kept.items():  # with the seconds they took: a clock never says the same twice
        assert before == rows(tmp_path / "units" / name)[: len(before)]
    assert (improvement / "figure2.csv").read_bytes() == (tmp_path / "figure2.csv").read_bytes()
    assert (improvement / "values.csv").read_bytes() == (tmp_path / "values.csv").read_bytes()


def test_all_tasks_together_have_the_files_that_each_has_alone(command, improvement, tmp_path):
    """Random search to the last digit, in one program for two tasks; a share of the seconds for each."""
    command(f"figure2 --quick --together --only ei --only random --processes 1 --out {tmp_path}")
    alone, beside = (rows(folder / "units" / "ei-random-00.csv") for folder in (improvement, tmp_path))

    assert [row["points"] for row in alone] == [row["points"] for row in beside]
    assert 2 * 3 == len(rows(tmp_path / "figure2.csv"))
    assert all(float(row["seconds"]) > 0 for row in rows(tmp_path / "timing.csv"))


@pytest.mark.slow
def test_all_optimizers_together_reach_values_in_the_same_order(command, tmp_path):
    """On every belief of two tasks: the default above random search, and on EI gradients as well."""
    command(f"figure2 --quick --together --only ei --only es --processes 1 --out {tmp_path}")
    by_belief = {}
    for row in rows(tmp_path / "values.csv"):
        key = (row["acquisition"], row["task"], row["observations"])
        by_belief.setdefault(key, {})[row["optimizer"]] = float(row["value"])

    assert len(by_belief) == 8
    for (acquisition, _, _), values in by_belief.items():
        climbing = ("gradient", "stochastic", "default") if acquisition == "ei" else ("default",)
        assert min(values[name] for name in climbing) > values["random"] > 0


def test_a_finished_run_computes_nothing(improvement, capsys, monkeypatch):
    """A second start leaves the runs as they are, and starts no worker; it draws again, which need not be seen here."""
    for name in ("draw_regret", "draw_values"):
        monkeypatch.setattr(f"poolwise.paper.figure2.{name}", lambda rows, out: None)
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


@pytest.mark.slow
def test_asynchronous_workers_do_not_wait(command, tmp_path):
    """When as many experiments are done, asynchronous workers have needed less time."""
    only = "--only synchronous --only pending --only ignoring"
    command(f"asynchronous --quick --tasks 1 {only} --processes 1 --out {tmp_path}")
    ends = {}
    for row in rows(tmp_path / "asynchronous.csv"):
        ends.setdefault(row["mode"], {})[int(row["observations"])] = float(row["time"])

    assert {"synchronous", "pending", "ignoring"} == set(ends)
    assert ends["pending"][6] < ends["synchronous"].get(6, float("inf"))


def test_figure1_ascends_from_the_start(improvement):
    """Both ascents end above their start, and not above the maximum; the picture is there in both formats."""
    value = {row["way"]: float(row["value"]) for row in rows(improvement / "figure1.csv")}

    assert value["start"] < value["stochastic"] <= value["maximum"] + 1e-3
    assert value["start"] < value["gradient"] <= value["maximum"] + 1e-3
    assert (improvement / "figure1.png").exists() and (improvement / "figure1.pdf").exists()


def test_rivals_and_simulation_have_their_rows(improvement):
    """A row for the random points and one for the pool, from the same task; and the pictures."""
    contest, clock = rows(improvement / "rivals.csv"), rows(improvement / "asynchronous.csv")

    assert [("believer", "0"), ("believer", "1")] == [(row["optimizer"], row["round"]) for row in contest]
    assert float(contest[1]["log10_regret_recommended"]) < float(contest[0]["log10_regret_recommended"])
    assert ["3"] == [row["observations"] for row in clock][:1] and float(clock[0]["time"]) > 0
    assert (improvement / "rivals_ei.png").exists() and (improvement / "asynchronous.png").exists()


def test_ablation_and_claims(improvement):
    """The ablation uses the runs of figure 2; claims then say something about each of them."""
    settings = {row["setting"] for row in rows(improvement / "ablation.csv")}
    verdicts = {row["claim"]: row["verdict"] for row in rows(improvement / "claims.csv")}

    assert {"adam, rate 0.001", "adam, rate 0.025", "fixed, sobol", "fixed, iid", "fresh, iid"} <= settings
    assert verdicts["gradients reach higher acquisition values in the same time"] == "agrees"
    assert verdicts["equation 3 is an unbiased estimate of the gradient"] == "agrees"
    assert verdicts["marginal UCB simplifies further"] == "disagrees"


def test_claims_can_be_read_on_a_narrow_terminal(everything):
    """80 columns: each claim once, as a heading, and verdicts in a column that is never broken."""
    shown = everything[1].split("# claims")[1]
    lines = [line.rstrip() for line in shown.splitlines()]

    assert max(map(len, lines)) <= 80
    assert lines.count("gradients reach higher acquisition values in the same time") == 1
    assert any(line.startswith("  not decided  q-EI, after the last pool") for line in lines)
