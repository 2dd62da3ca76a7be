"""Tables of spreadsheets: what was written is read back, whatever dialect is between."""

import io
import os

import openpyxl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from poolwise.study.tables import TableError, as_csv, escaped, read, unescaped, write

EXPECTED = ["number", "yield", "x"]


@pytest.mark.parametrize("text", ["=1+1", "+1", "-ethanol", "@x", "\tx", "'=x", "''-x"])
def test_a_formula_becomes_text_and_comes_back(text):
    """An apostrophe in front keeps a spreadsheet from running it."""
    assert f"'{text}" == escaped(text)
    assert text == unescaped(escaped(text))


@pytest.mark.parametrize(
    "value, cell", [(-0.5, "-0.5"), (3, "3"), (True, "true"), (None, ""), ("it's", "it's"), ("'", "'")]
)
def test_other_cells_are_left_alone(value, cell):
    """Numbers are no formulas, and an apostrophe of the user's stays."""
    assert cell == escaped(value)
    assert cell == unescaped(cell)


@given(st.text())
@example("'''=")
def test_any_text_comes_back(text):
    """Escaping can be undone."""
    assert text == unescaped(escaped(text))


@pytest.mark.parametrize(
    "data, comma",
    [
        (b"number,yield\n0,1.5\n", False),
        (b"\xef\xbb\xbfnumber,yield\r\n0,1.5\r\n", False),
        (b"number;yield\n0;1,5\n", True),
        (b"sep=;\nnumber;yield\n0;1,5\n", True),
        ("number\tyield\n0\t1,5\n".encode("utf-16"), True),
        (b'"number","yield"\n"0","1.5"\n\n\n', False),
        (b"\n\nnumber,yield,,\n0,1.5,,\n,,,\n", False),
        (b"number;yield;note\n0;1,5;\xb5l, a lot\n", True),
        (b"number,yield\r0,1.5\r", False),
    ],
)
def test_dialects(data, comma):
    """Marks, separators, decimal commas, old encodings, empty lines and columns."""
    sheet = read("t.csv", data, EXPECTED)
    [row] = sheet.rows

    assert (comma, ["number", "yield"]) == (sheet.comma, list(sheet.columns)[:2])
    assert (0.0, 1.5) == (sheet.number(row.cells["number"]), sheet.number(row.cells["yield"]))


@pytest.mark.parametrize(
    "text",
    ["", "a", "1_000", "1.2.3", "0x1", "nan", "inf", "\N{ARABIC-INDIC DIGIT ONE}", "1,5", "1 000", "--1", "1e", "5%"],
)
def test_what_is_no_number(text):
    """Only plain decimal numbers are; the comma only where columns have another separator."""
    assert read("t", b"number,x\n", EXPECTED).number(text) is None


def test_a_minus_sign_of_typesetters():
    """Spreadsheets and PDFs write it."""
    assert -1.5 == read("t", b"number,x\n", EXPECTED).number("\N{MINUS SIGN}1.5")


@pytest.mark.parametrize(
    "data, words",
    [
        (b"", "is empty"),
        (b" , \n", "is empty"),
        (b"number,number\n", "two columns named 'number'"),
        (b"number,yield\n1,2,3\n", "line 2 has more cells"),
        (b'number,yield\n1,"2\n', "cannot be read as a table"),
        (b"\xff\xfen", "no text in utf-16"),
        (b"PK\x03\x04 no zip", "cannot be read as an Excel file"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "save it as .xlsx or CSV"),
        (b"number," + b"x" * 200_000, "cannot be read as a table"),
    ],
)
def test_what_is_no_table(data, words):
    """It is refused, by name."""
    with pytest.raises(TableError, match=rf"t\.csv: .*{words}"):
        read("t.csv", data, EXPECTED)


@settings(max_examples=100)
@given(st.binary(max_size=60) | st.text(alphabet='",;\n\r\t\0=ab1', max_size=40).map(str.encode))
def test_no_bytes_break_the_reader(data):
    """Whatever a file holds, it is a table or a TableError."""
    try:
        sheet = read("t.csv", data, EXPECTED)
    except TableError:
        return

    assert all(set(row.cells) <= set(sheet.columns) for row in sheet.rows)


cells = (
    st.none()
    | st.booleans()
    | st.integers(-9, 9)
    | st.floats(-9, 9)
    | st.text(st.characters(exclude_categories=["Cs", "Cc"]))
)


@given(st.lists(st.tuples(cells, cells), max_size=4))
def test_a_table_comes_back(rows):
    """What is written as CSV is read as the same cells, blanks at their ends aside."""
    written = as_csv(["number", "=x"], [["0", *row][:2] for row in rows])
    read_back = [row.cells["=x"] for row in read("t", written.encode(), EXPECTED).rows]

    assert [unescaped(escaped(row[0]).strip()) for row in rows] == read_back


def test_an_excel_file():
    """The first sheet is the table."""
    book = openpyxl.Workbook()
    book.active.append(["number", "yield", "note"])
    book.active.append([3, 0.5, None])
    stream = io.BytesIO()
    book.save(stream)
    sheet = read("t.xlsx", stream.getvalue(), EXPECTED)

    assert [{"number": "3", "yield": "0.5", "note": ""}] == [dict(row.cells) for row in sheet.rows]


def test_a_file_that_is_too_large(tmp_path):
    """The file that was wanted is named, and nothing is left of it."""
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        with pytest.raises(OSError, match=r"all\.csv") as refused:
            write(tmp_path / "all.csv", "x" * 1000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)

    assert str(tmp_path / "all.csv") == refused.value.filename
    assert [] == list(tmp_path.iterdir())


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes with names")
def test_what_is_no_file_is_not_replaced(tmp_path):
    """Such as a pipe or a device, which a file with its name would be no longer."""
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(TableError, match="is no file"):
        write(tmp_path / "pipe", "x")


def test_an_excel_file_with_its_table_elsewhere():
    """It says which sheet was looked at."""
    book = openpyxl.Workbook()
    book.create_sheet("Results").append(["number", "yield"])
    stream = io.BytesIO()
    book.save(stream)

    with pytest.raises(TableError, match="its first sheet, 'Sheet', is empty"):
        read("t.xlsx", stream.getvalue(), EXPECTED)


@pytest.mark.parametrize(
    "cells, unclear",
    [
        (["1.234", "3,5"], {"1.234"}),
        (["1,234", "-3.5"], {"1,234"}),
        (["1.234", "35"], set()),
        (["0.234", "1234.567", "12.3450", "3,5"], set()),
    ],
)
def test_what_may_be_thousands(cells, unclear):
    """Three digits behind a mark, where other numbers have another one."""
    assert unclear == read("t", b"number;x\n", EXPECTED).unclear(cells)
    assert set() == read("t", b"number,x\n", EXPECTED).unclear(cells)
