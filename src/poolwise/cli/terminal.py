"""What is shown, and where: data on standard output, messages on standard error."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

import click

from poolwise.study.tables import spelled as spelled


def say(message: str) -> None:
    """A message, on standard error."""
    click.echo(message, err=True)


@contextlib.contextmanager
def printing_apart() -> Iterator[None]:
    """What is printed meanwhile, also by processes that are started, goes to standard error, away from data."""
    if sys.__stdout__ is None or sys.__stderr__ is None:
        yield
        return
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


def put(text: str) -> None:
    """Text on standard output; all of it in UTF-8 if it has a letter that the encoding there lacks."""
    try:
        click.echo(text, nl=False)
    except UnicodeEncodeError:
        click.echo(text.encode(), nl=False)


def put_json(data: Any) -> None:
    """Data as JSON, on standard output."""
    put(as_json(data) + "\n")


def as_json(data: Any) -> str:
    """JSON as people and programs read it; times in ISO 8601."""
    return json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False, default=datetime.isoformat)


def put_table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """A table on standard output: plain columns, in full width."""
    right = [any(isinstance(row[i], int | float) for row in rows) for i in range(len(columns))]
    lines = [[brief(cell) for cell in line] for line in [columns, *rows]]
    widths = [max(len(line[i]) for line in lines) for i in range(len(columns))]
    padded = [[t.rjust(w) if r else t.ljust(w) for t, w, r in zip(line, widths, right, strict=True)] for line in lines]
    put("".join("  ".join(line).rstrip() + "\n" for line in padded))


def put_facts(facts: Iterable[tuple[str, Any]]) -> None:
    """Names and values on standard output, one below the other."""
    pairs = [(brief(name), brief(value)) for name, value in facts]
    width = max(len(name) for name, _ in pairs)
    put("".join(f"{name.ljust(width)}  {value}".rstrip() + "\n" for name, value in pairs))


def brief(value: Any) -> str:
    """A value for a reader: six digits, no control characters, nothing for nothing."""
    if value is None:
        return ""
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M:%S")
    if isinstance(value, float):
        return f"{value:.6g}"
    return printable(spelled(value))


def printable(text: str) -> str:
    """Text on one line that no terminal takes for an order."""
    return "".join(c if c.isprintable() else " " for c in text)
