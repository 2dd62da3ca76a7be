"""Rows of the database as trials: strictly typed and sealed, or an error; never a guess."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NoReturn, cast

import sqlalchemy as sa

from poolwise.errors import InputError
from poolwise.study import schema
from poolwise.study.errors import StorageError
from poolwise.study.trial import STATES, Revision, State, Trial

LONGEST = 1_000_000  # characters of one JSON text
MOST = 4_000  # characters of a reason

Row = dict[str, Any]


def encoded(content: Any) -> str:
    """JSON without spaces; NaN and infinity are no JSON."""
    text = json.dumps(content, allow_nan=False, separators=(",", ":"))
    if len(text) > LONGEST:
        raise InputError(
            f"space, q: what is to be stored has {len(text)} characters, and at most {LONGEST} are read again; "
            "give shorter choices and names, or smaller pools."
        )
    return text


def decoded(text: str, where: str) -> Any:
    """The content of a stored JSON text."""

    def refuse(word: str) -> NoReturn:
        raise ValueError(f"{word} is not a number")

    try:
        if len(text) > LONGEST:
            raise ValueError(f"it has more than {LONGEST} characters")
        return json.loads(text, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise damaged(where, f"is no valid JSON: {error}") from None


def damaged(where: str, what: str) -> StorageError:
    return StorageError(
        f"{where} {what}. The store is damaged or was changed by another program; "
        "`poolwise doctor` tells what is readable and how to recover it."
    )


def checked(row: Mapping[Any, Any], table: sa.Table) -> Row:
    """A row whose columns have their types and whose seal is whole."""
    found = dict(row)
    where = f"{table.name.removeprefix(schema.PREFIX)} row {[found.get(c.name) for c in table.primary_key]}"
    for column in table.c:
        value = found.get(column.name)
        if value is None and column.nullable:
            continue
        if type(value) is not column.type.python_type or (isinstance(value, float) and not math.isfinite(value)):
            raise damaged(where, f"has {type(value).__name__} as its {column.name}")
    if found["seal"] != schema.seal(found):
        raise damaged(where, "does not match its checksum")
    return found


def moment(seconds: float | None, where: str) -> datetime | None:
    if seconds is None:
        return None
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        raise damaged(where, "has an impossible time") from None


def as_trial(row: Mapping[Any, Any]) -> Trial:
    """The trial that a row describes."""
    found = checked(row, schema.trials)
    where = f"trial {found['number']}"
    params = decoded(found["params"], where)
    if not isinstance(params, dict):
        raise damaged(where, "has no parameters")
    state = found["state"]
    if state not in STATES or (state == "told") != (found["value"] is not None):
        raise damaged(where, f"has the state {state!r}, which does not fit its value")
    return Trial(
        number=found["number"],
        params=params,
        state=state,
        asked=cast(datetime, moment(found["asked"], where)),
        value=found["value"],
        sem=found["sem"],
        reason=found["reason"],
        pool=found["pool"],
        request_id=found["request"],
        finished=moment(found["finished"], where),
        lease=moment(found["lease"], where),
    )


def as_revision(row: Mapping[Any, Any]) -> Revision:
    """The earlier outcome that a row describes."""
    found = checked(row, schema.revisions)
    where = f"revision {found['revision']} of trial {found['number']}"
    replaced = cast(datetime, moment(found["replaced"], where))
    state = cast(State, found["state"])
    return Revision(found["number"], state, found["value"], found["sem"], found["reason"], replaced)


def as_numbers(row: Mapping[Any, Any]) -> list[int]:
    """The numbers of the trials that a request was answered with."""
    found = checked(row, schema.requests)
    numbers = decoded(found["numbers"], f"request {found['request']!r}")
    if not isinstance(numbers, list) or not all(type(number) is int for number in numbers):
        raise damaged(f"request {found['request']!r}", "has no list of numbers")
    return numbers


def plain(text: str) -> str:
    """A reason as it can be stored anywhere: valid text, no NUL, and not endless."""
    clean = str(text).replace("\x00", "").encode("utf-8", "replace").decode("utf-8")
    return clean if len(clean) <= MOST else clean[: MOST // 2] + "\n...\n" + clean[-MOST // 2 :]
