"""The ledger `docs/equations.md` is complete: each tag of the source has a row whose function and test exist."""

from __future__ import annotations

import ast
import functools
import importlib
import re
import tokenize
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
TAG = re.compile(r"\[([A-Z][A-Za-z]*\d\d(?:, [^\]]+)?)\]")


class Row(NamedTuple):
    tag: str
    functions: list[tuple[str, str]]
    tests: list[tuple[str, str]]


def ledger() -> list[Row]:
    """The rows of the ledger's tables: tag, equation, where, functions, tests."""
    lines = (ROOT / "docs" / "equations.md").read_text(encoding="utf-8").splitlines()
    return [row(line) for line in lines if line.startswith("| [")]


def row(line: str) -> Row:
    tag, _, _, functions, tests = (cell.strip() for cell in line.split("|")[1:-1])
    return Row(tag[1:-1], re.findall(r"`([\w.]+):([\w.]+)`", functions), re.findall(r"`([\w/.]+)::(\w+)`", tests))


def tags(path: Path) -> set[str]:
    """The tags in strings and comments of a source file, also where a line ends inside one."""
    with tokenize.open(path) as file:
        words = [
            t.string for t in tokenize.generate_tokens(file.readline) if t.type in (tokenize.STRING, tokenize.COMMENT)
        ]
    return set(TAG.findall(" ".join(" ".join(words).split())))


def unlisted(path: Path) -> set[str]:
    return tags(path) - {row.tag for row in ledger()}


@functools.cache
def functions_of(path: Path) -> set[str]:
    """The names of a test file's functions, without running it."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("path", sorted((ROOT / "src").rglob("*.py")), ids=lambda path: str(path.relative_to(ROOT)))
def test_every_tag_is_listed(path: Path) -> None:
    """A tag in the source that the ledger does not have is a claim that nobody checks."""
    assert set() == unlisted(path)


@pytest.mark.parametrize("row", ledger(), ids=lambda row: row.tag)
def test_functions_and_tests_exist(row: Row) -> None:
    """Each row names at least one function that can be imported and one test that is there."""
    assert row.functions
    assert row.tests
    for module, name in row.functions:
        assert functools.reduce(getattr, name.split("."), importlib.import_module(module))
    for file, name in row.tests:
        assert name in functions_of(ROOT / file)


def test_no_tag_is_listed_twice() -> None:
    """One row for each tag."""
    listed = [row.tag for row in ledger()]

    assert sorted(set(listed)) == sorted(listed)


def test_a_made_up_tag_is_caught(tmp_path: Path) -> None:
    """This file can fail: unknown tags are seen in docstrings, comments and across lines, and code is left alone."""
    source = tmp_path / "source.py"
    source.write_text(
        '"""Made up [W17, 99],\nor [W17,\nEI]."""\nx = [Matern52]  # as in [Nobody99]\n', encoding="utf-8"
    )

    assert {"W17, 99", "W17, EI", "Nobody99"} == tags(source)
    assert {"W17, 99", "Nobody99"} == unlisted(source)
