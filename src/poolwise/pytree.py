"""Frozen dataclasses that JAX can carry: the shape of every number-holding value in Poolwise."""

from __future__ import annotations

import dataclasses
from typing import Any, TypeVar, dataclass_transform

import jax

T = TypeVar("T")


def static(default: Any = dataclasses.MISSING) -> Any:
    """A field that is part of the compiled program (a choice, a count), not an array."""
    return dataclasses.field(default=default, metadata={"static": True})


@dataclass_transform(frozen_default=True, field_specifiers=(static, dataclasses.field))
def pytree(cls: type[T]) -> type[T]:
    """Make a frozen dataclass whose fields are JAX leaves, except those marked `static`.

    Unflattening does not run `__post_init__`: users' arguments are checked once, tracers never.
    """
    made: Any = dataclasses.dataclass(frozen=True, eq=False)(cls)
    fields = dataclasses.fields(made)
    leaves = [f.name for f in fields if not f.metadata.get("static")]
    fixed = [f.name for f in fields if f.metadata.get("static")]

    def flatten(value: Any) -> tuple[list[Any], tuple[Any, ...]]:
        keyed = [(jax.tree_util.GetAttrKey(name), getattr(value, name)) for name in leaves]
        return keyed, tuple(getattr(value, name) for name in fixed)

    def unflatten(aux: tuple[Any, ...], children: Any) -> Any:
        value = object.__new__(made)
        for name, child in zip(leaves + fixed, [*children, *aux], strict=True):
            object.__setattr__(value, name, child)
        return value

    jax.tree_util.register_pytree_with_keys(made, flatten, unflatten)
    return made
