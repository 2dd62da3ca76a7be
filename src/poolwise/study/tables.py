"""Tables as spreadsheets write them: marks at the beginning, semicolons, decimal commas, formulas that are none."""

from __future__ import annotations

import codecs
import csv
import importlib
import io
import math
import os
import re
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from poolwise.errors import MissingExtra, PoolwiseError

LARGEST = 50_000_000  # bytes of a table
MOST_COLUMNS = 2_000
FORMULA = re.compile(r"'*[=+\-@\t\r\n]")  # what a spreadsheet would run, behind any number of our own marks
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
DECIMAL = re.compile(r"[+-]?\d+([.,])\d+")
THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}[.,]\d{3}")
UNWRITTEN = re.compile("[\x00-\x08\x0b-\x1f\ufffe\uffff]|_(?=x[0-9A-Fa-f]{4}_)")  # in Excel files: _x000D_
WRITTEN = re.compile("_x([0-9A-Fa-f]{4})_")
MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
OLD_EXCEL = b"\xd0\xcf\x11\xe0"
SEPARATORS = (",", ";", "\t")


class TableError(PoolwiseError, ValueError):
    """A file that cannot be used as a table."""


@dataclass(frozen=True)
class Row:
    """One line of a table: its number, and its cells by column."""

    line: int
    cells: Mapping[str, str]


@dataclass(frozen=True)
class Sheet:
    """A table: its columns, and its rows without the empty ones."""

    columns: Sequence[str]
    rows: Sequence[Row]
    comma: bool = False  # whether 0,5 is a number

    def number(self, text: str) -> float | None:
        """The number that a cell holds, or None."""
        plain = text.strip().replace("\N{MINUS SIGN}", "-")
        if self.comma and "." not in plain:
            plain = plain.replace(",", ".", 1)
        return float(plain) if plain.isascii() and NUMBER.fullmatch(plain) else None

    def unclear(self, cells: Iterable[str]) -> set[str]:
        """Those of some cells that may be thousands: 1.234 beside 3,5, where one of the marks is none of decimals."""
        decimals = {cell: match[1] for cell in cells if self.comma and (match := DECIMAL.fullmatch(cell))}
        return {cell for cell in decimals if len({*decimals.values()}) > 1 and THOUSANDS.fullmatch(cell)}


def spelled(value: Any) -> str:
    """A parameter's value as text, in full: in tables, and in the arguments of commands."""
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    return value if isinstance(value, str) else repr(value)


def escaped(value: Any) -> str:
    """A cell; text that a spreadsheet would take for a formula gets an apostrophe in front."""
    if value is None:
        return ""
    text = spelled(value)
    return f"'{text}" if isinstance(value, str) and FORMULA.match(text) else text


def unescaped(text: str) -> str:
    """The text of a cell that `escaped` wrote."""
    return text[1:] if text.startswith("'") and FORMULA.match(text) else text


def as_csv(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table with commas, points and plain line ends; numbers in full."""
    lines = [[escaped(cell) for cell in line] for line in [columns, *rows]]
    return "".join(f"{','.join(map(_quoted, line))}\n" for line in lines)


def _quoted(cell: str) -> str:
    """A cell in quotes where it needs them; Python's own writer forgets them around a carriage return."""
    return '"' + cell.replace('"', '""') + '"' if any(c in cell for c in ',"\r\n') else cell


def as_workbook(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> bytes:
    """An Excel file; text is written as text, so that nothing in it is a formula, times as text in ISO 8601."""
    try:
        openpyxl = importlib.import_module("openpyxl")
    except ImportError:
        raise MissingExtra(
            "Excel files need openpyxl, which is not installed: pip install 'poolwise[pandas]'"
        ) from None
    book = openpyxl.Workbook()
    for i, row in enumerate([columns, *rows], start=1):
        for j, value in enumerate(row, start=1):
            cell = book.active.cell(i, j)
            plain = value.isoformat() if hasattr(value, "isoformat") else value
            if isinstance(plain, float) and math.isfinite(plain):
                cell.value, cell.data_type = repr(plain), "n"  # openpyxl itself writes 16 digits, one too few
                continue
            if plain is None or isinstance(plain, bool | int):
                cell.value = plain
                continue
            plain = spelled(plain)
            text = escaped(plain) if plain.startswith("'") else plain  # because the reader takes an apostrophe off
            cell.value = UNWRITTEN.sub(lambda found: f"_x{ord(found[0]):04X}_", text)
            cell.data_type = "s"
            cell.quotePrefix = FORMULA.match(plain) is not None
    stream = io.BytesIO()
    book.save(stream)
    return stream.getvalue()


def write(path: Path, content: str | bytes) -> None:
    """Write a file, whole or not at all."""
    if path.exists() and not path.is_file():
        raise TableError(f"{path}: is no file that could be replaced; choose another name.")
    try:
        _write(path, content.encode() if isinstance(content, str) else content)
    except OSError as error:  # which names the temporary file, or none
        raise OSError(error.errno, error.strerror, str(path)) from None


def _write(path: Path, data: bytes) -> None:
    handle, temporary = tempfile.mkstemp(dir=path.absolute().parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def read(name: str, data: bytes, expected: Iterable[str]) -> Sheet:
    """The table in the bytes of a file; `expected` are columns it may have, which tell the separator."""
    if len(data) > LARGEST:
        raise TableError(f"{name}: has more than {LARGEST} bytes.")
    if data.startswith(b"PK\x03\x04"):
        return _sheet(name, _workbook(name, data), comma=False)
    if data.startswith(OLD_EXCEL):
        raise TableError(f"{name}: is an Excel file of the old kind; save it as .xlsx or CSV.")
    text = _text(name, data)
    known = {word.casefold() for word in expected}
    first, _, rest = text.partition("\n")
    if re.fullmatch(r"sep=[,;\t]\r?", first, re.IGNORECASE):
        separator, text = first[4], f"\n{rest}"
    else:
        separator = max(SEPARATORS, key=lambda s: len(known & {_key(c) for c in _header(text, s)}))
    try:
        rows = [*csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)]
    except csv.Error as error:
        raise TableError(f"{name}: cannot be read as a table: {error}.") from None
    return _sheet(name, rows, comma=separator != ",")


def _header(text: str, separator: str) -> list[str]:
    try:
        return next((row for row in csv.reader(io.StringIO(text, newline=""), delimiter=separator) if any(row)), [])
    except csv.Error:
        return []


def _key(cell: str) -> str:
    return unescaped(cell.strip()).casefold()


def _text(name: str, data: bytes) -> str:
    encoding = next((encoding for mark, encoding in MARKS if data.startswith(mark)), "utf-8")
    try:
        return data.decode(encoding)
    except UnicodeDecodeError:
        if encoding != "utf-8":
            raise TableError(f"{name}: is no text in {encoding}; save it as CSV in UTF-8.") from None
    return data.decode("cp1252", errors="replace")  # older spreadsheets


def _sheet(name: str, lines: Sequence[Sequence[str]], *, comma: bool) -> Sheet:
    numbered = [(i, [cell.strip() for cell in cells]) for i, cells in enumerate(lines, start=1)]
    filled = [(i, cells) for i, cells in numbered if any(cells)]
    if not filled:
        raise TableError(f"{name}: is empty; its first line should name the columns.")
    columns = [unescaped(cell) for cell in filled[0][1]]
    while columns and not columns[-1]:
        columns.pop()
    if len(columns) > MOST_COLUMNS:
        raise TableError(f"{name}: has {len(columns)} columns, more than {MOST_COLUMNS}.")
    seen: set[str] = set()
    for column in filter(None, columns):
        if column in seen:
            raise TableError(f"{name}: has two columns named {column!r}; rename or remove one.")
        seen.add(column)
    rows = []
    cause = "are separators within cells quoted?"
    if not comma:
        cause = "is it a decimal comma? Write a point, or separate columns by semicolons; quote commas in texts."
    for i, cells in filled[1:]:
        if any(cells[len(columns) :]):
            raise TableError(
                f"{name}: line {i} has more cells than line {filled[0][0]}, which names the columns; {cause}"
            )
        rows.append(Row(i, {c: unescaped(cell) for c, cell in zip(columns, cells, strict=False) if c}))
    return Sheet(columns, rows, comma)


def _workbook(name: str, data: bytes) -> list[list[str]]:
    """The first sheet of an Excel file."""
    try:
        openpyxl = importlib.import_module("openpyxl")
    except ImportError:
        raise MissingExtra(
            f"{name}: reading Excel files needs openpyxl: pip install 'poolwise[pandas]'; or save the table as CSV."
        ) from None
    try:
        book = openpyxl.load_workbook(io.BytesIO(data), read_only=True, data_only=True)
        rows = [[_cell(cell) for cell in row] for row in book.worksheets[0].iter_rows(values_only=True)]
        sheets = book.sheetnames
        book.close()
    except Exception as error:  # openpyxl's own and those of zip and XML readers
        raise TableError(f"{name}: cannot be read as an Excel file ({error}); save the table as CSV.") from None
    if len(sheets) > 1 and not any(map(any, rows)):
        raise TableError(f"{name}: its first sheet, {sheets[0]!r}, is empty; move the table there, or save it as CSV.")
    return rows


def _cell(value: Any) -> str:
    if isinstance(value, str):
        return WRITTEN.sub(lambda found: chr(int(found[1], 16)), value)
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        value = int(value)
    return "" if value is None else spelled(value) if isinstance(value, bool | int | float) else str(value)
