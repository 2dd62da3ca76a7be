"""A Tune search space as Poolwise's parameters, and the way back to what Tune's trainables expect."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from poolwise.errors import InputError, MissingExtra
from poolwise.space.errors import SpaceError
from poolwise.space.parameters import Choice, Float, Int, Parameter, scalar

try:
    from ray.tune.search import sample
    from ray.tune.search.variant_generator import parse_spec_vars
except ImportError:
    raise MissingExtra("This needs Ray Tune, which is not installed: pip install 'poolwise[ray]'") from None


@dataclass(frozen=True)
class Knob:
    """A parameter of Tune's: where it stands in a config, how Poolwise varies it, and what its values mean to Tune."""

    path: tuple[str, ...]
    parameter: Parameter
    outward: Callable[[Any], Any] = lambda value: value
    inward: Callable[[Any], Any] = lambda value: value


def knobs_of(config: Mapping[str, Any]) -> Iterator[Knob]:
    """The parameters that a Tune config leaves open; plain values in it are none of ours."""
    _, domains, grids = parse_spec_vars(dict(config))
    for path, _ in grids:
        raise InputError(
            f"space: {called(path)} is a grid_search, which names its trials itself; use tune.choice([...]) instead."
        )
    if not domains:
        raise InputError("space: nothing in it varies; use tune.uniform(0, 1) and the like.")
    for path, domain in domains:
        if not all(isinstance(key, str) and "/" not in key for key in path):
            raise InputError(f"space: {called(path)} is in a list or has a key with '/'; use nested dictionaries.")
        yield _choice(path, domain.categories) if isinstance(domain, sample.Categorical) else _number(path, domain)


def called(path: Iterable[Any]) -> str:
    """The name of a parameter."""
    return "/".join(map(str, path))


def _number(path: tuple[str, ...], domain: Any) -> Knob:
    whole = isinstance(domain, sample.Integer)
    if not whole and not (isinstance(domain, sample.Float) and math.isfinite(domain.upper - domain.lower)):
        raise InputError(
            f"space: {called(path)} is drawn by a function or has no bounds; use tune.uniform, loguniform, randint, "
            "choice and the like."
        )
    sampler = domain.get_sampler()
    step = sampler.q if isinstance(sampler, sample.Quantized) else None
    log = isinstance(sampler if step is None else sampler.sampler, sample.LogUniform)
    if step is not None and (whole or log):
        return _multiples(path, domain, step, log=log)
    if whole:
        return Knob(path, Int(domain.lower, domain.upper - 1, log=log))
    return Knob(path, Float(domain.lower, domain.upper, log=log, step=step))


def _multiples(path: tuple[str, ...], domain: Any, step: Any, *, log: bool) -> Knob:
    """n * step for whole n: that is also what a logarithmic scale with steps means."""
    low, high = math.ceil(domain.lower / step - 1e-9), math.floor(domain.upper / step + 1e-9)
    if isinstance(domain, sample.Integer):
        last = high - 1 if step == 1 else high  # Tune leaves the upper bound out only then
        return Knob(path, Int(low, last, log=log), lambda n: n * step, lambda value: round(value / step))
    return Knob(path, Int(low, high, log=log), lambda n: float(f"{n * step:.12g}"), lambda value: round(value / step))


def _choice(path: tuple[str, ...], values: list[Any]) -> Knob:
    """A choice among plain values; one among other objects is a choice among their places in the list."""
    if any(parse_spec_vars({"value": value})[1:] != ([], []) for value in values):
        raise InputError(f"space: {called(path)} has choices that vary themselves; give each parameter its own name.")
    try:
        return Knob(path, Choice([scalar(called(path), value) for value in values]))
    except SpaceError:
        return Knob(path, Choice(list(range(len(values)))), values.__getitem__, values.index)
