"""The words of a constraint: numbers, names, texts and signs, each with its place."""

from __future__ import annotations

import re
from dataclasses import dataclass

from poolwise.space.errors import SpaceError

LONGEST = 1000
PATTERN = re.compile(
    r"""
    (?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)
  | (?P<name>[^\W\d]\w*)
  | `(?P<quoted>[^`]*)`
  | (?P<text>"[^"]*"|'[^']*')
  | (?P<sign>\*\*|<=|>=|==|!=|[-+*/^()<>,])
    """,
    re.VERBOSE,
)
HINTS = {"=": "write == to compare", "&": "write and", "|": "write or", "!": "write not, or !="}


@dataclass(frozen=True)
class Token:
    """A word of an expression: its kind, its text, and where it begins."""

    kind: str
    text: str
    at: int


def tokenize(text: str) -> list[Token]:
    """The words of an expression, and `end`."""
    if len(text) > LONGEST:
        raise SpaceError(f"constraint: has {len(text)} characters, at most {LONGEST} are read; split it in two.")
    tokens, at = [], 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        match = PATTERN.match(text, at)
        if match is None:
            raise fault(text, at, _unreadable(text[at]))
        kind = str(match.lastgroup)
        tokens.append(Token("name" if kind == "quoted" else kind, match[kind], at))
        at = match.end()
    return [*tokens, Token("end", "", len(text))]


def fault(text: str, at: int, message: str) -> SpaceError:
    """An error that shows the expression, with a caret under the fault."""
    shown = "".join(c if c.isprintable() else " " for c in text)
    return SpaceError(f"constraint: {message}\n  {shown}\n  {' ' * at}^")


def _unreadable(sign: str) -> str:
    if sign in "\"'`":
        return f"the {sign} that opens here is not closed."
    hint = f"; {HINTS[sign]}" if sign in HINTS else ""
    return f"cannot read {sign!r}{hint}."
