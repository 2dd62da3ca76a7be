"""Double precision at the public entry points, without touching the user's JAX settings."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ParamSpec, TypeAlias, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

P = ParamSpec("P")
R = TypeVar("R")

# JAX's, or NumPy's on the host, whose copy to the device would take longer than most of our arithmetic; both are used
# alike, so the type checker is told of one.
if TYPE_CHECKING:
    AnyArray: TypeAlias = jax.Array
else:
    AnyArray = jax.Array | np.ndarray


def double(function: Callable[P, R]) -> Callable[P, R]:
    """Run a public entry point in 64 bit, and hand concrete results back as NumPy arrays.

    Outside the entry point JAX may be in its 32-bit default, where arithmetic on a 64-bit JAX array would silently
    round it; a NumPy array keeps its digits. Under a transformation of the user's (`jax.grad`, `jax.jit`, `jax.vmap`)
    tracers go through, and the backward pass runs in 64 bit as well.
    """

    @functools.wraps(function)
    def entry(*args: P.args, **kwargs: P.kwargs) -> R:
        if narrow((args, kwargs)):
            return _differentiable(function, args, kwargs)
        with jax.enable_x64(True):
            return to_numpy(function(*args, **kwargs))

    return entry


def narrow(arguments: Any) -> bool:
    """Whether arguments are under a transformation in 32 bit."""
    if jax.config.jax_enable_x64:  # type: ignore[attr-defined]
        return False
    return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(arguments))


def to_numpy(tree: R) -> R:
    """Concrete JAX arrays become NumPy arrays (scalars become NumPy scalars); tracers stay."""
    return jax.tree.map(
        lambda leaf: np.asarray(leaf)[()] if isinstance(leaf, jax.Array) and concrete(leaf) else leaf, tree
    )


def to_double(value: Any) -> AnyArray:
    """A 64-bit array: a copy of numbers on the host, where they stay until a program takes them, or a JAX array."""
    if np.ma.is_masked(value):
        raise ValueError("some are masked")
    host = value
    if not isinstance(value, jax.Array):
        with contextlib.suppress(TypeError, ValueError):  # such as a list of tracers, or ragged rows
            host = np.array(value)
            if host.dtype.kind in "biuf":
                return host.astype(np.float64, copy=False)  # type: ignore[return-value]
    if getattr(host, "dtype", np.dtype(float)).kind == "c":
        raise TypeError("they are complex")
    return jnp.asarray(value, dtype=np.float64)


def concrete(leaf: Any) -> bool:
    """Whether a value is known now, so that it can be checked and converted."""
    return not isinstance(leaf, jax.core.Tracer)


def _differentiable(function: Callable[..., R], args: Any, kwargs: Any) -> R:
    """The entry point under a 32-bit transformation: forward and backward each open the 64-bit context."""
    leaves, structure = jax.tree.flatten((args, kwargs))
    moving = [i for i, leaf in enumerate(leaves) if isinstance(leaf, jax.core.Tracer)]

    def call(tracers: list[Any]) -> R:
        filled = list(leaves)
        for i, tracer in zip(moving, tracers, strict=True):
            filled[i] = tracer
        again, named = jax.tree.unflatten(structure, filled)
        return jax.tree.map(_as_default, function(*again, **named))

    @jax.custom_vjp
    def run(tracers: list[Any]) -> R:
        with jax.enable_x64(True):
            return call(tracers)

    def forward(tracers: list[Any]) -> tuple[R, Any]:
        with jax.enable_x64(True):
            return jax.vjp(call, tracers)

    def backward(pull: Any, cotangent: Any) -> Any:
        with jax.enable_x64(True):
            return pull(cotangent)

    run.defvjp(forward, backward)
    return run([leaves[i] for i in moving])


def _as_default(leaf: Any) -> Any:
    """A number goes back in the precision that the user computes in; a vector is on its way to another entry point."""
    return leaf.astype(np.float32) if isinstance(leaf, jax.Array) and leaf.ndim == 0 else leaf
