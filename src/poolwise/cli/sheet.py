"""Tables on the command line: the library's, with errors that end a command."""

from __future__ import annotations

from collections.abc import Iterable

from poolwise.cli.command import FileError
from poolwise.study import tables
from poolwise.study.tables import Row as Row
from poolwise.study.tables import Sheet as Sheet
from poolwise.study.tables import as_csv as as_csv
from poolwise.study.tables import as_workbook as as_workbook
from poolwise.study.tables import escaped as escaped
from poolwise.study.tables import unescaped as unescaped
from poolwise.study.tables import write as write


def read(name: str, data: bytes, expected: Iterable[str]) -> Sheet:
    """The table in the bytes of a file; `expected` are columns it may have, which tell the separator."""
    try:
        return tables.read(name, data, expected)
    except tables.TableError as error:
        raise FileError(str(error)) from None
