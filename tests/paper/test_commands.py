"""Quick runs of the other commands: what they compute, in order."""

import csv

from poolwise.paper.figure1 import QUICK, figure1


def rows(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_figure1_ascends_from_the_start(tmp_path):
    """Both ascents end above their start, and not above the maximum; the picture is there in both formats."""
    figure1(tmp_path, QUICK, only=("ei",))
    value = {row["way"]: float(row["value"]) for row in rows(tmp_path / "figure1.csv")}

    assert value["start"] < value["stochastic"] <= value["maximum"] + 1e-3
    assert value["start"] < value["gradient"] <= value["maximum"] + 1e-3
    assert (tmp_path / "figure1.png").exists() and (tmp_path / "figure1.pdf").exists()


def test_rivals_play_on_the_same_tasks(command, tmp_path):
    """Both begin with the same random points, and the table has a row for each pool."""
    only = ("--only", "believer", "--only", "liar-min")
    command("rivals", "--quick", "--tasks", 1, "--rounds", 1, *only, "--processes", 1, "--out", tmp_path)
    table = rows(tmp_path / "rivals.csv")
    first = {row["recommended"] for row in table if row["round"] == "0"}

    assert {"believer", "liar-min"} == {row["optimizer"] for row in table}
    assert len(table) == 4 and len(first) == 1
    assert (tmp_path / "rivals_ei.png").exists()
