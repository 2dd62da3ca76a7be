"""Tables: what a study gives, a file keeps, and another study takes."""

import math
import runpy
from decimal import Decimal
from pathlib import Path

import openpyxl
import pandas as pd
import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st
from pandas.testing import assert_frame_equal

from poolwise import Choice, ConflictError, Float, InputError, Int, Study
from poolwise.adapters.frames import read_frame, write_frame

SPACE = {
    "rate": Float(1e-5, 1, log=True),
    "layers": Int(1, 8),
    "code": Choice(["1", "02", "1e3", "=A1", "-x", "@y", "+1", "a b"]),
    "warm": Choice([True, False]),
    "seed": Choice([None, 1, 2]),
}
PARAMS = {"rate": 0.1, "layers": 3, "code": "02", "warm": True, "seed": None}


def new(**options):
    return Study(space=SPACE, minimize="loss", **options)


@pytest.fixture
def study():
    """Two told trials, one failed, one pending and one added."""
    with new(seed=1) as study:
        pool = study.ask(4)
        study.tell(pool[0], 0.1 + 0.2, sem=0.05)
        study.tell(pool[1], -3)
        study.fail(pool[2], "=cmd|'/c calc'!A1\r\n\x1b[31mred, \"quoted\"")
        study.add({**PARAMS, "rate": 0.1234567890123456}, 1e-300)
        yield study


def outcomes(study):
    return [(trial.params, trial.state, trial.value, trial.sem, trial.reason) for trial in study.trials]


@pytest.mark.parametrize("name", ["t.csv", "t.xlsx"])
def test_a_file_keeps_types(study, tmp_path, name):
    """Integers, floats, truth values, None, texts that look like numbers and times come back as they were."""
    write_frame(study.to_frame(), tmp_path / name)

    assert_frame_equal(study.to_frame(), read_frame(tmp_path / name, study), check_exact=True)


@pytest.mark.parametrize("name", [None, "t.csv", "t.xlsx"])
def test_a_study_is_copied(study, tmp_path, name):
    """Everything but pending trials, with reasons; a second time changes nothing."""
    frame = study.to_frame()
    if name is not None:
        write_frame(frame, tmp_path / name)
        frame = read_frame(tmp_path / name, study)
    with new(seed=2) as other:
        stored = other.from_frame(frame)
        again = other.from_frame(frame)

        assert [o for o in outcomes(study) if o[1] != "pending"] == outcomes(other)
        assert all(trial.added for trial in stored)
        assert [trial.number for trial in stored] == [trial.number for trial in again] == [0, 1, 2, 3]


def test_own_rows_change_nothing(study):
    """A study knows its own table."""
    before = outcomes(study)
    study.from_frame(study.to_frame())

    assert before == outcomes(study)


def test_a_pool_is_told_by_its_table():
    """Rows with a trial's number and parameters are that trial's; those without a value stay pending."""
    with new() as study:
        frame = study.ask(3).to_frame()
        frame["loss"] = [1.5, math.nan, math.nan]
        frame["reason"] = [None, "broke", None]
        stored = study.from_frame(frame)

        assert ["told", "failed"] == [trial.state for trial in stored]
        assert {"pending": 1, "told": 1, "failed": 1} == study.counts


def test_a_contradiction_stores_nothing(study):
    """Another value for a trial that has one is an error, and the other rows are not stored either."""
    frame = pd.concat([pd.DataFrame([{**PARAMS, "loss": 5.0}]), study.to_frame().iloc[:1].assign(loss=7.0)])
    before = outcomes(study)
    with pytest.raises(ConflictError, match=r"row 0: trial 0: the store has value 0.3.*nothing was stored"):
        study.from_frame(frame)

    assert before == outcomes(study)


def test_repeated_measurements_count():
    """Equal rows of one table are two experiments, however often the table is given."""
    frame = pd.DataFrame([{**PARAMS, "loss": 1.0}] * 2)
    with new() as study:
        study.from_frame(frame)
        study.from_frame(frame)

        assert 2 == len(study.trials)


def test_a_measurement_beside_a_trials_own_row():
    """Of two equal rows one is the trial that it names, the other another experiment; also when given again."""
    with new() as study:
        [trial] = study.ask()
        study.tell(trial, 1.0)
        rows = pd.DataFrame([{**trial.params, "number": 0, "loss": 1.0}, {**trial.params, "loss": 1.0}])
        for frame in (rows, rows[::-1]):
            assert {0, 1} == {stored.number for stored in study.from_frame(frame)}

        assert 2 == len(study.trials)


def test_equal_rows_are_different_trials():
    """Each has its own number, at first and when the table is given again."""
    frame = pd.DataFrame([{**PARAMS, "loss": 1.0}] * 2)
    with new() as study:
        study.ask()

        assert [1, 2] == [trial.number for trial in study.from_frame(frame)]
        assert [1, 2] == [trial.number for trial in study.from_frame(frame)]


def test_decimals_are_numbers():
    """As databases give them."""
    row = {**PARAMS, "rate": Decimal("0.25"), "layers": Decimal(3), "seed": Decimal(2), "loss": Decimal("0.5")}
    with new() as study:
        [trial] = study.from_frame(pd.DataFrame([row]))

        assert (0.25, 3, 2, 0.5) == (*(trial.params[name] for name in ("rate", "layers", "seed")), trial.value)


def test_what_pandas_makes_of_a_plain_file():
    """Codes read as numbers, numbers read as text, and `value` for the objective."""
    frame = pd.DataFrame([{"rate": "1e-3", "layers": 2.0, "code": 1, "warm": "True", "seed": 2.0, "value": "-1.5"}])
    with new() as study:
        [trial] = study.from_frame(frame)

        assert {"rate": 1e-3, "layers": 2, "code": "1", "warm": True, "seed": 2} == trial.params
        assert -1.5 == trial.value
        assert isinstance(trial.params["seed"], int)


@pytest.mark.parametrize(
    "change, words",
    [
        ({"loss": "many"}, "row 'b', column loss: 'many' is no number"),
        ({"loss": None}, "row 'b', column loss: has no value; leave the row out"),
        ({"rate": "fast"}, "row 'b', column rate: expected a number, got 'fast'"),
        ({"layers": None}, "row 'b', column layers: has no value"),
        ({"layers": pd.Timestamp(0)}, "row 'b', column layers: expected text, a number or a truth value"),
        ({"code": "03"}, "row 'b', column code: '03' is none of"),
        ({"sem": -1.0}, "row 'b', column sem: -1.0 is no standard error"),
        ({"state": "done"}, "row 'b', column state: 'done' is none of 'pending'"),
        ({"state": "failed"}, "row 'b', column loss: has a value, 2.0, and the state 'failed'"),
        ({"number": 0.5}, "row 'b', column number: 0.5 is no number of a trial"),
    ],
    ids=str,
)
def test_every_row_or_none(change, words):
    """What is wrong is named by row and column, and nothing is stored."""
    rows = [{**PARAMS, "loss": 1.0}, {**PARAMS, "loss": 2.0, **change}]
    frame = pd.DataFrame({name: pd.Series([row.get(name) for row in rows], dtype=object) for name in rows[1]})
    frame.index = ["a", "b"]
    with new() as study, pytest.raises(InputError) as caught:
        study.from_frame(frame)

    assert words in str(caught.value)
    assert "row 'a'" not in str(caught.value)


@pytest.mark.parametrize(
    "frame, words",
    [
        (pd.DataFrame({"rate": [1.0]}), "has no column 'loss'"),
        (pd.DataFrame({"loss": [1.0], "rates": [1.0]}), "has no column 'rate', .*Did you mean 'rates'"),
        (pd.DataFrame([[1.0, 2.0]], columns=["loss", "loss"]), "two columns named 'loss'"),
        ([1.0], "expected a pandas table"),
    ],
)
def test_columns_that_are_missing(frame, words):
    """They are named."""
    with new() as study, pytest.raises(InputError, match=words):
        study.from_frame(frame)


def test_times_without_a_zone(study, tmp_path):
    """They are in UTC, as a spreadsheet writes them that was given such."""
    (tmp_path / "t.csv").write_text("asked,finished\n2026-11-19 18:29,2026-11-19T18:30:00+01:00\n,\n")
    frame = read_frame(tmp_path / "t.csv", study)

    assert pd.Timestamp("2026-11-19T18:29Z") == frame["asked"][0]
    assert pd.Timestamp("2026-11-19T17:30Z") == frame["finished"][0]


def test_a_parameter_is_no_measurement():
    """The column `value` stands for the objective only where no parameter has that name."""
    study = Study(space={"value": Float(0, 9)}, minimize="loss")
    with pytest.raises(InputError, match=r"has no column 'loss'\. Did you mean 'Loss'"):
        study.from_frame(pd.DataFrame({"value": [1.0], "Loss": [0.5]}))

    assert [] == study.trials


def test_formulas_are_text(study, tmp_path):
    """In CSV behind an apostrophe, in Excel by their type."""
    frame = study.to_frame().assign(code=["=A1", "+1", "-x", "@y", "a b"])
    write_frame(frame, tmp_path / "t.csv")
    write_frame(frame, tmp_path / "t.xlsx")
    sheet = openpyxl.load_workbook(tmp_path / "t.xlsx").active
    cells = {str(cell.value): cell for row in sheet for cell in row}

    assert all(f",'{text}," in (tmp_path / "t.csv").read_text() for text in ("=A1", "+1", "-x", "@y"))
    assert ",\"'=cmd" in (tmp_path / "t.csv").read_text()
    assert all("s" == cells[text].data_type and cells[text].quotePrefix for text in ("=A1", "+1", "-x", "@y"))


def test_a_choice_that_a_file_cannot_tell(tmp_path):
    """1 and "1" look the same there: an error, not a guess."""
    with Study(space={"x": Choice([1, "1", 2])}, minimize="loss") as study:
        study.add({"x": "1"}, 0.0)
        write_frame(study.to_frame(), tmp_path / "t.csv")

        with pytest.raises(ValueError, match="line 2, column 'x': '1' may be 1 or '1'"):
            read_frame(tmp_path / "t.csv", study)


def look(value):
    """How a value looks in a file, whatever its type."""
    try:
        return float(str(value).replace("\N{MINUS SIGN}", "-"))
    except ValueError:
        return str(value).casefold()


words = (
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=8)
    .map(str.strip)
    .filter(bool)
)
scalars = st.booleans() | st.integers(-99, 99) | st.floats(-1e9, 1e9) | words | st.none()


@settings(max_examples=10, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@example(["a", None], [0, 1], "0\r0", 0.0)
@example(["=1", "'=1", -1], [0, 1, 2], "\x1b_x0041_", 0.1 + 0.2)
@given(
    choices=st.lists(scalars, min_size=2, max_size=5, unique_by=look),
    picks=st.lists(st.integers(0, 4), min_size=1, max_size=4),
    reason=words,
    value=st.floats(allow_nan=False, allow_infinity=False),
)
def test_any_choice_comes_back(tmp_path_factory, choices, picks, reason, value):
    """Whatever the choices and reasons are, a study takes its table, and both kinds of files give it back."""
    folder = tmp_path_factory.mktemp("table")
    xs = pd.Series([choices[pick % len(choices)] for pick in picks] * 2, dtype=object)
    n = len(picks)
    rows = {"x": xs, "loss": [value] * n + [math.nan] * n, "reason": [None] * n + [reason] * n}
    with Study(space={"x": Choice(choices)}, minimize="loss") as study:
        study.from_frame(pd.DataFrame(rows))

        assert xs.tolist() == [trial.params["x"] for trial in study.trials]
        assert [reason] * n == [trial.reason for trial in study.trials if trial.state == "failed"]
        for name in ("t.csv", "t.xlsx"):
            write_frame(study.to_frame(), folder / name)
            assert_frame_equal(study.to_frame(), read_frame(folder / name, study), check_exact=True)


def test_the_example(capsys):
    """A pool goes out as an Excel file and comes back filled in."""
    runpy.run_path(str(Path(__file__).parents[2] / "examples" / "pandas" / "sheet.py"))

    assert "{'pending': 0, 'told': 4, 'failed': 1}" in capsys.readouterr().out
