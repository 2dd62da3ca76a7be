"""What the room of spaces raises, and the hint that its messages share."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from poolwise.errors import PoolwiseError


class SpaceError(PoolwiseError, ValueError):
    """A space, a constraint or a point that cannot be used; the message names the parameter and what to change."""


class SpaceExhausted(PoolwiseError, RuntimeError):
    """Every experiment that the space allows has been asked for."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """` Did you mean 'rate'?`, or nothing when no known word is close."""
    close = difflib.get_close_matches(word, list(known), n=1)
    return f" Did you mean {close[0]!r}?" if close else ""
