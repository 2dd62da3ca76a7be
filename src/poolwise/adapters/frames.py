"""Tables of trials as CSV and Excel files that keep types, and in which no text is a formula."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from poolwise.errors import InputError, MissingExtra
from poolwise.space.parameters import Choice, Parameter
from poolwise.space.scalars import key
from poolwise.study.frames import parameter_value
from poolwise.study.study import Study
from poolwise.study.tables import Sheet, TableError, as_csv, as_workbook, read, spelled, write

if TYPE_CHECKING:
    import pandas as pd

WHOLE = ("number", "pool")
TIMES = ("asked", "finished")


def write_frame(frame: Any, path: str | Path) -> None:
    """Write a table to a file that ends in .csv or .xlsx, whole or not at all; numbers in full, missing cells empty.

    In CSV, text that a spreadsheet would take for a formula gets an apostrophe in front; in Excel it is marked as text.
    """
    path = Path(path)
    columns = [str(name) for name in frame.columns]
    if twice := [name for name, count in Counter(columns).items() if count > 1]:
        raise InputError(f"frame: has two columns named {twice[0]!r}; rename or remove one.")
    missing = [frame[name].isna().tolist() for name in frame.columns]
    cells = [
        [None if gone else _cell(name, value) for gone, value in zip(absent, frame[name].tolist(), strict=True)]
        for name, absent in zip(frame.columns, missing, strict=True)
    ]
    rows = list(zip(*cells, strict=True))
    write(path, as_workbook(columns, rows) if _suffix(path) == ".xlsx" else as_csv(columns, rows))


def read_frame(path: str | Path, study: Study) -> pd.DataFrame:
    """The table of a CSV or Excel file with the types that `study.to_frame()` has; blanks at the ends of text are lost.

    Semicolons, decimal commas and the encodings of spreadsheets are understood. A time without a zone is in UTC.
    Columns that the study does not know are text.
    """
    try:
        import pandas as pd
    except ImportError:
        raise MissingExtra("A table needs pandas, which is not installed: pip install 'poolwise[pandas]'") from None
    sheet = read(str(path), Path(path).read_bytes(), study.columns)
    columns = [name for name in sheet.columns if name]
    data = {
        name: [_value(study, sheet, name, row.cells.get(name, ""), row.line) for row in sheet.rows] for name in columns
    }
    numbers = {name: "float64" for name in (study.objective, "sem") if name in columns}
    times = {name: "datetime64[us, UTC]" for name in TIMES if name in columns}
    return pd.DataFrame(data, columns=columns).astype(numbers | times)


def _suffix(path: Path) -> str:
    suffix = path.suffix.lower()
    if suffix not in (".csv", ".xlsx"):
        raise InputError(f"path: {path.name!r} should end in .csv or .xlsx.")
    return suffix


def _cell(name: Any, value: Any) -> Any:
    if name in WHOLE and isinstance(value, float) and value.is_integer():
        return int(value)
    return value.isoformat() if hasattr(value, "isoformat") else value


def _value(study: Study, sheet: Sheet, name: str, cell: str, line: int) -> Any:
    """What a cell holds, by its column; None where it is empty."""
    parameter = study.space.parameters.get(name)
    if parameter is not None:
        return _parameter(parameter, sheet, name, cell, line)
    if not cell:
        return None
    if name in (*WHOLE, study.objective, "sem"):
        number = sheet.number(cell)
        if number is None:
            raise TableError(f"line {line}, column {name!r}: {cell!r} is no number.")
        return int(number) if name in WHOLE and number.is_integer() else number
    if name in TIMES:
        try:
            time = datetime.fromisoformat(cell)
        except ValueError:
            raise TableError(f"line {line}, column {name!r}: {cell!r} is no time in ISO 8601.") from None
        return time if time.tzinfo is not None else time.replace(tzinfo=UTC)
    return cell


def _parameter(parameter: Parameter, sheet: Sheet, name: str, cell: str, line: int) -> Any:
    if isinstance(parameter, Choice):
        same = _alike(parameter.values, cell, sheet.number(cell))
        if len(same) > 1:
            raise TableError(
                f"line {line}, column {name!r}: {cell!r} may be {same[0]!r} or {same[1]!r}, which look alike in files."
            )
        if same:
            return same[0]
    return parameter_value(parameter, sheet, cell) if cell else None


def _alike(values: Sequence[Any], cell: str, number: float | None) -> list[Any]:
    """The values that a cell may stand for; nothing is written for None, and Excel makes 1 of 1.0."""
    return [
        value
        for value in values
        if ("" if value is None else spelled(value).strip()) == cell
        or (number is not None and key(value) == ("number", number))
    ]
