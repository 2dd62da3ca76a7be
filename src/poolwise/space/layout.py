"""A space as plain JSON values, and back: what study files and TOML files hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from poolwise.space.errors import SpaceError, did_you_mean
from poolwise.space.parameters import Choice, Fixed, Float, Int, Parameter

TYPES: dict[str, type[Parameter]] = {"float": Float, "int": Int, "choice": Choice, "fixed": Fixed}
REQUIRED = {"float": ("low", "high"), "int": ("low", "high"), "choice": ("values",), "fixed": ("value",)}
OPTIONAL = {"float": ("log", "step"), "int": ("log",), "choice": ("ordered",), "fixed": ()}


def to_dict(parameters: Mapping[str, Parameter], constraints: Sequence[str]) -> dict[str, Any]:
    """`{"parameters": {name: {"type": ...}}, "constraints": [...]}`; the order of parameters is part of the space."""
    return {
        "parameters": {name: _described(parameter) for name, parameter in parameters.items()},
        "constraints": list(constraints),
    }


def from_dict(data: Mapping[str, Any]) -> tuple[dict[str, Parameter], list[str]]:
    """The parameters and constraints of a description."""
    if not isinstance(data, Mapping):
        raise SpaceError(f"space: expected a table, got {type(data).__name__}.")
    _check_keys("space", data, required=("parameters",), optional=("constraints",))
    if not isinstance(data["parameters"], Mapping):
        raise SpaceError("space: 'parameters' must be a table from names to parameters.")
    constraints = data.get("constraints", [])
    if not isinstance(constraints, list | tuple) or not all(isinstance(text, str) for text in constraints):
        raise SpaceError("space: 'constraints' must be a list of texts.")
    return {name: parameter(name, value) for name, value in data["parameters"].items()}, list(constraints)


def parameter(name: str, value: Any) -> Parameter:
    """One parameter from its description, or from a plain value that fixes it."""
    if not isinstance(value, Mapping):
        return _named(name, Fixed, {"value": value})
    type_ = value.get("type")
    if not isinstance(type_, str) or type_ not in TYPES:
        known = ", ".join(repr(word) for word in TYPES)
        shown = "has no type" if type_ is None else f"unknown type {type_!r}"
        raise SpaceError(f"{name}: {shown}; choose one of {known}.{did_you_mean(str(type_), TYPES)}")
    _check_keys(name, value, required=("type", *REQUIRED[type_]), optional=OPTIONAL[type_])
    return _named(name, TYPES[type_], {word: given for word, given in value.items() if word != "type"})


def _named(name: str, make: Any, fields: Mapping[str, Any]) -> Parameter:
    """A parameter whose errors begin with its name."""
    try:
        return make(**fields)
    except SpaceError as error:
        raise SpaceError(f"{name}: {error}") from None


def _described(value: Parameter) -> dict[str, Any]:
    type_ = next(word for word, kind in TYPES.items() if isinstance(value, kind))
    fields = {word: getattr(value, word) for word in REQUIRED[type_]}
    given = {word: getattr(value, word) for word in OPTIONAL[type_]}
    fields |= {word: option for word, option in given.items() if option is not None and option is not False}
    return {"type": type_, **{word: list(v) if isinstance(v, tuple) else v for word, v in fields.items()}}


def _check_keys(name: str, table: Mapping[str, Any], *, required: Sequence[str], optional: Sequence[str]) -> None:
    known = (*required, *optional)
    for word in table:
        if word not in known:
            raise SpaceError(
                f"{name}: unknown key {word!r}; it takes {', '.join(known)}.{did_you_mean(str(word), known)}"
            )
    for word in required:
        if word not in table:
            raise SpaceError(f"{name}: key {word!r} is missing.")
