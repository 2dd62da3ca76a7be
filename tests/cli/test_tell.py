"""`poolwise tell`: one value or a table; all of a table or nothing."""

import json
import math
import subprocess
import sys

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from poolwise.cli.study_file import load

TRUTH = """
minimize = "loss"
q = 2
[space.dropout]
type = "choice"
values = {values}
[settings]
acquisition = "fill"
"""


@pytest.fixture
def asked(bench):
    """A study with four pending trials."""
    bench("ask")
    return bench


def trials(bench):
    with load(bench.folder / "study.toml").open() as study:
        return study.trials


def test_one_value(asked):
    """Also a negative one, with its standard error."""
    assert "1 told; 3 pending" in asked("tell", 1, "-2.5e-1", "--sem", "0.1").stderr
    assert (-0.25, 0.1) == (trials(asked)[1].value, trials(asked)[1].sem)


def test_the_same_again_and_another(asked):
    """The same value changes nothing; another is a conflict, unless it replaces."""
    asked("tell", 0, 1)
    asked("tell", 0, 1)

    conflict = asked("tell", 0, 2, code=1).stderr
    assert "trial 0" in conflict and "add --replace" in conflict and "replace=True" not in conflict
    assert {"told": [0], "failed": [], "added": []}.items() <= asked.json("tell", 0, 2, "--replace").items()
    assert 2.0 == trials(asked)[0].value


def test_a_failure(asked):
    """A word instead of a value, with a reason."""
    asked("tell", 0, "failed", "--reason", "clogged")
    asked("tell", 1, "failed: dropped")
    asked("tell", 2, "nan")

    assert ["clogged", "dropped", "told as 'nan'"] == [trial.reason for trial in trials(asked)[:3]]


def test_another_reason_replaces_the_first_where_it_may(asked):
    """Of one value and in a table; without --replace a failure keeps its reason."""
    asked("tell", 0, "failed: clogged")
    asked.write("t.csv", "number,yield\n0,failed: power cut\n")

    assert 1 == asked.json("tell", "t.csv")["repeated"]
    assert "clogged" == trials(asked)[0].reason
    assert [0] == asked.json("tell", "t.csv", "--replace")["failed"]
    assert "power cut" == trials(asked)[0].reason
    assert [0] == asked.json("tell", 0, "failed: dropped", "--replace")["failed"]
    assert "dropped" == trials(asked)[0].reason


@pytest.mark.parametrize(
    "arguments, words",
    [
        (("0", "abc"), "'abc' is no number"),
        (("0", "0,5"), "write 0.5"),
        (("0", "1", "--sem", "0,5"), "--sem: '0,5' is no number; write 0.5"),
        ((".",), "is a folder"),
        (("x", "1"), "'x' is no number of a trial"),
        (("9" * 5000, "1"), "is no number of a trial"),
        (("0", "1", "--sem", "-1"), "no standard error"),
        (("0", "1", "--reason", "clogged"), "--reason: belongs to a failure"),
        (("0", "failed", "--sem", "1"), "--sem: belongs to a value"),
        (("0",), "poolwise tell 0 VALUE"),
        (("none.csv",), "there is no such file"),
        (("0", "1", "2"), "unexpected extra argument"),
    ],
)
def test_wrong_usage(asked, arguments, words):
    """It is an error of usage, and nothing is written."""
    assert words in asked("tell", *arguments, code=2).stderr
    assert {"pending"} == {trial.state for trial in trials(asked)}


def test_an_unknown_trial(asked):
    """It is a runtime error, which says what there is."""
    assert "no trial 9 in the study; it has 0 to 3" in asked("tell", 9, 1, code=1).stderr


def test_a_table_without_rows(asked):
    """There is nothing to do."""
    asked.write("t.csv", "number,yield\n")

    assert "no rows" in asked("tell", "t.csv", code=3).stderr


def test_a_table_of_a_pool(bench):
    """What `ask` wrote, filled in: values, failures, and rows that wait."""
    bench("ask", "--out", "pool.csv")
    lines = bench.read("pool.csv").splitlines()
    bench.write("pool.csv", "\n".join([lines[0], lines[1] + "0.5", lines[2] + "failed", lines[3] + "-1", lines[4]]))
    told = bench.json("tell", "pool.csv")

    assert ([0, 2], [1], [], 1) == (told["told"], told["failed"], told["added"], told["empty"])
    assert [0.5, None, -1.0, None] == [trial.value for trial in trials(bench)]
    assert {"told": [], "repeated": 3}.items() <= bench.json("tell", "pool.csv").items()


def test_choices_that_a_table_changes_or_confuses(terminal):
    """Blanks at the ends are lost, 1 and "1" look alike; beside a number a cell is what its trial is written like."""
    values = '[1, "1", " a", "a", "b ", "=c ", true, "true"]'
    space = f'[space.code]\ntype = "choice"\nvalues = {values}\n'
    terminal.write("study.toml", f'minimize = "y"\nq = 8\n{space}[settings]\nacquisition = "fill"\n')
    terminal("ask", "--out", "pool.csv")
    lines = terminal.read("pool.csv").splitlines()
    terminal.write("pool.csv", "\n".join([lines[0], *(line + "1" for line in lines[1:])]))

    assert 8 == len(terminal.json("tell", "pool.csv")["told"])
    assert {"told": [], "repeated": 8}.items() <= terminal.json("tell", "pool.csv").items()


def test_a_table_as_a_german_spreadsheet_saves_it(bench):
    """Semicolons, decimal commas, a mark, fewer digits, TRUE in capitals, a column of notes."""
    bench("ask", "--out", "pool.csv")
    rows = [line.split(",") for line in bench.read("pool.csv").splitlines()]
    rows = [
        [*rows[0], "Operator"],
        *([n, f"{float(t):.3f}", f"{float(d):.3g}", c, s.upper(), "1.5", "me"] for n, t, d, c, s, _ in rows[1:]),
    ]
    text = "\r\n".join(";".join(cell.replace(".", ",") for cell in row) for row in rows)
    result = bench("tell", bench.write("pool.csv", b"\xef\xbb\xbf" + text.encode()))

    assert "not used: Operator" in result.stderr
    assert [1.5] * 4 == [trial.value for trial in trials(bench)]


def test_earlier_data(bench):
    """Rows without a number are added, once however often the table is told; equal rows are replicates."""
    bench.write(
        "old.csv",
        "temperature,dose,cycles,solvent,yield,sem\n"
        "30,0.1,2,water,1,0.5\n30,0.1,2,water,1,0.5\n40,0.2,3,'-ethanol,2,\n40,0.2,3,true,failed,\n",
    )

    assert [0, 1, 2, 3] == bench.json("tell", "old.csv")["added"]
    assert {"added": [], "repeated": 4}.items() <= bench.json("tell", "old.csv").items()
    assert ["water", "water", "-ethanol", True] == [trial.params["solvent"] for trial in trials(bench)]
    assert ["told", "told", "told", "failed"] == [trial.state for trial in trials(bench)]


def test_an_experiment_of_ones_own_that_failed(bench):
    """The reason is kept, from the cell of the value or from its own."""
    bench.write(
        "own.csv",
        "temperature,dose,cycles,solvent,yield,reason\n"
        "30,0.1,2,water,failed: flask broke,\n40,0.2,3,true,nan,clogged\n",
    )
    bench("tell", "own.csv")

    assert ["flask broke", "clogged"] == [trial.reason for trial in trials(bench)]


def test_a_failure_outside_the_column_of_values(asked):
    """A reason, or the state as an export has it, says it as well; words may be behind any mark."""
    asked.write(
        "t.csv", "number,state,yield,reason\n0,pending,,flask broke\n1,failed,,\n2,,failed - lost,\n3,pending,,\n"
    )
    told = asked.json("tell", "t.csv")

    assert ([0, 1, 2], 1) == (told["failed"], told["empty"])
    assert ["flask broke", "told as 'failed'", "lost"] == [trial.reason for trial in trials(asked)[:3]]


def test_a_pool_whose_numbers_are_lost(bench):
    """A row that has the parameters of a pending trial, rounded perhaps, is that trial, not one more experiment."""
    bench("ask", "--out", "pool.csv")
    head, *rows = bench.read("pool.csv").splitlines()
    filled = "\n".join([head.replace("number", "Nr"), *(f"{row}1" for row in rows)])
    bench.write("pool.csv", filled)
    result = bench("tell", "pool.csv", code=2)

    assert "rename 'Nr' to 'number'" in result.stderr
    assert all(f"line {i + 2} is trial {i}, which is pending: give its number" in result.stderr for i in range(4))
    assert 4 == len(trials(bench))
    numbered = [head.replace("number", "Number"), *(f"{row}1" for row in rows), f",{rows[0].partition(',')[2]}2"]
    bench.write("pool.csv", "\n".join(numbered))
    told = bench.json("tell", "pool.csv")
    assert ([0, 1, 2, 3], [4]) == (told["told"], told["added"])  # the last one repeats the first


def test_a_table_without_a_fixed_parameter(terminal):
    """It need not be written, beside trials that are pending as well."""
    fixed = '[space.mode]\ntype = "fixed"\nvalue = "fast"\n'
    terminal.write("study.toml", TRUTH.format(values="[true, false]") + fixed)
    terminal("ask", "-q", 1)
    terminal.write("t.csv", "dropout,loss\ntrue,1\nfalse,2\n")

    assert "is trial 0, which is pending" in terminal("tell", "t.csv", code=2).stderr
    terminal("tell", 0, 1)
    assert [1, 2] == terminal.json("tell", "t.csv")["added"]


def test_a_row_that_was_corrected(bench):
    """Told again with another value it may as well be repeated: it is added, and what to do otherwise is said."""
    row = "temperature,dose,cycles,solvent,yield\n30,0.1,2,water,"
    bench.write("t.csv", f"{row}58\n")
    assert "0 told, 1 added (0); " in bench("tell", "t.csv").stderr
    bench.write("t.csv", f"{row}5.8\n")
    result = bench("tell", "t.csv")

    assert "line 2 has the parameters of trial 0, which has 58.0" in result.stderr
    assert "poolwise tell 0 VALUE --replace" in result.stderr and "1 added (1)" in result.stderr


@pytest.mark.parametrize("cells", [("1", "0"), ("TRUE", "False"), ("true", "false")])
def test_truth_values_of_spreadsheets(terminal, cells):
    """In any case, and as numbers."""
    terminal.write("study.toml", TRUTH.format(values="[true, false]"))
    terminal.write("t.csv", "dropout,loss\n" + "".join(f"{cell},2\n" for cell in cells))
    terminal("tell", "t.csv")

    assert [True, False] == [trial.params["dropout"] for trial in trials(terminal)]


def test_truth_values_beside_others(terminal):
    """1 is not true where there are other values."""
    terminal.write("study.toml", TRUTH.format(values="[true, 0, 2]"))
    terminal.write("t.csv", "dropout,loss\n1,2\n")

    assert "dropout: '1' is none of" in terminal("tell", "t.csv", code=2).stderr


@pytest.mark.parametrize(
    "table, words",
    [
        ("number,yield\n0,1\n1,abc\n9,1\n", ["line 3", "'abc' is no number"]),
        ("number,yield\n0,1\n9,1\n", ["line 3", "no trial 9", "it has 0 to 3"]),
        ("number,yield\n0,22,75\n", ["line 2", "decimal comma"]),
        ('number,yield\n0,"22,75"\n', ["line 2", "write 22.75"]),
        ("number,yield\n0,1\n0,2\n", ["line 3", "trial 0 has another value on line 2"]),
        ("number,yield\n0,1\n-1,2\n", ["line 3", "'-1' is no number of a trial"]),
        ("number,yield\n0.5,1\n", ["'0.5' is no number of a trial"]),
        ("number,yield,sem\n0,1,-2\n", ["sem: '-2'"]),
        ("number,yield,sem\n0,,2\n", ["line 2", "a standard error, but no value"]),
        ("number,yield,sem\n0,failed,2\n", ["line 2", "a standard error, but no value"]),
        ("number;yield\n0;1.234\n1;3,5\n", ["line 2", "'1.234' may be 1234", "write 1234, or 1.2340"]),
        ("number,temperature,yield\n0,hot,1\n", ["temperature", "'hot'", "number"]),
        ("number,solvent,yield\n0,WAHR,1\n", ["line 2", "solvent: 'WAHR' is none of"]),
        ("Results\nnumber,yield\n0,1\n", ["line 2 has more cells than line 1, which names the columns"]),
        ("0,1\n1,2\n", ["its columns are 0, 1, as its first line says"]),
        ("number,yeild\n0,1\n", ["no column 'yield'", "Rename 'yeild' to 'yield'."]),
        ("yield\n1\n", ["no column 'number'"]),
        ("number,yield\n,1\n", ["neither the number"]),
        ("number,cycles,yield\n0,1,1\n1,1,1\n2,1,1\n3,1,1\n", ["cycles is 1 here", "check the number"]),
        ("number,cycles,yield\n,1,1\n", ["temperature, dose, solvent: missing"]),
        ("temperature,dose,cycles,solvent,yield\n30,0.1,2,watre,1\n", ["solvent: 'watre'", "Did you mean 'water'?"]),
        ("temperature,dose,cycles,solvent,yield\nhot,0.1,2,water,1\n", ["temperature", "'hot'"]),
    ],
)
def test_a_wrong_table_writes_nothing(asked, table, words):
    """All problems are listed with their lines."""
    asked.write("t.csv", table)
    result = asked("tell", "t.csv", code=2)

    assert [] == [word for word in words if word not in result.stderr]
    assert ["pending"] * 4 == [trial.state for trial in trials(asked)]


NAMES = """
minimize = "{objective}"
[space.{first}]
type = "float"
low = 0
high = 9
[space.{second}]
type = "float"
low = 0
high = 9
"""


@pytest.mark.parametrize(
    "parameters, table, words",
    [
        (("value", "x"), "number,value,x,loss (mV)\n0,1,2,0.5\n", "has no column 'loss'; its columns are"),
        (("Value", "x"), "number,value,x,loss (mV)\n0,1,2,0.5\n", "has no column 'loss'"),
        (("x", "X"), "X,loss\n1,0.5\n", "x: missing"),
    ],
)
def test_a_parameter_is_no_measurement(terminal, parameters, table, words):
    """A column that a parameter is named like is that parameter's alone, whatever else its name may mean."""
    first, second = parameters
    terminal.write("study.toml", NAMES.format(objective="loss", first=first, second=second))
    terminal.write("t.csv", table)

    assert words in terminal("tell", "t.csv", code=2).stderr


@pytest.mark.parametrize(
    "objective, parameters, table",
    [
        ("loss", ("trial", "x"), "trial,x,loss\n1,2,0.5\n"),
        ("loss", ("Trial", "Value"), "trial,value,Loss\n1,2,0.5\n"),
        ("Sem", ("Number", "Reason"), "Number,Reason,Sem,sem\n1,2,0.5,\n"),
        ("trial", ("x", "y"), "x,y,trial\n1,2,0.5\n"),
    ],
)
def test_a_parameter_is_no_number_of_a_trial(terminal, objective, parameters, table):
    """Such a row is an experiment of the user's own."""
    first, second = parameters
    terminal.write("study.toml", NAMES.format(objective=objective, first=first, second=second))
    terminal.write("t.csv", table)

    assert [0] == terminal.json("tell", "t.csv")["added"]
    [trial] = trials(terminal)
    assert ([1, 2], 0.5, None) == ([trial.params[first], trial.params[second]], trial.value, trial.sem)


def test_conflicts_are_listed(asked):
    """A table that contradicts the study changes nothing, unless it replaces."""
    asked("tell", 0, 1)
    asked("tell", 1, "failed")
    asked.write("t.csv", "number,yield\n0,2\n1,3\n2,4\n")
    result = asked("tell", "t.csv", code=1)

    assert "trial 0 has 1.0, the table 2.0" in result.stderr and "trial 1 has failed, the table 3.0" in result.stderr
    assert "pending" == trials(asked)[2].state
    assert [0, 1, 2] == asked.json("tell", "t.csv", "--replace")["told"]


def test_a_table_is_told_by_two_at_once(bench):
    """It is one transaction: whoever is second finds every row there."""
    bench("ask")
    row = ",30,0.1,2,water,1"
    bench.write("t.csv", "\n".join(["number,temperature,dose,cycles,solvent,yield", "0,,,,,2", *[row] * 150]))
    command = [sys.executable, "-m", "poolwise", "tell", "t.csv", "--json"]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(2)]
    told = [json.loads(process.communicate()[0]) for process in running]

    assert [0, 151] == sorted(one["repeated"] for one in told)
    assert 154 == len(trials(bench))


def test_an_export_tells_nothing_new(asked):
    """Every trial with everything about it, told again."""
    asked("tell", 0, 1, "--sem", 0.25)
    asked("tell", 1, "failed")
    asked("export", "--out", "all.csv")

    assert {"told": [], "failed": [], "added": [], "repeated": 2, "empty": 2}.items() <= asked.json(
        "tell", "all.csv"
    ).items()


def test_standard_input(asked):
    """A dash is the standard input."""
    asked("tell", "-", typed="number,value\n0,7\n")

    assert 7.0 == trials(asked)[0].value


numbers = st.sampled_from(["", "0", "3", "7", "x", "-1", "1e400", "0.0"])
outcomes = st.sampled_from(["", "1", "nan", "inf", "failed: =x", "1e999", "-0", "1,5", "x", "=1+1"]) | st.floats().map(
    str
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(numbers, outcomes), min_size=1, max_size=5))
def test_any_table_is_told_whole_or_not_at_all(bench, rows):
    """Exit code 0, or another and nothing written; values that are stored are finite."""
    if not (bench.folder / "study.db").exists():
        bench("ask")
    bench.write("t.csv", "number,yield\n" + "\n".join(f'{number},"{value}"' for number, value in rows))
    before = trials(bench)
    from click.testing import CliRunner

    from poolwise.cli import main

    result = CliRunner().invoke(main, ["tell", "t.csv"])

    assert result.exit_code in (0, 1, 2, 3), result.output
    assert result.exit_code == 0 or before == trials(bench)
    assert all(trial.value is None or math.isfinite(trial.value) for trial in trials(bench))
