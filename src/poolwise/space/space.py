"""`Space`: which experiments there are, and where each lies in the unit cube."""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import math
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from jaxtyping import Bool as Bools
from jaxtyping import Float as Floats

from poolwise.space import layout, sampling
from poolwise.space.axes import Axis, Codes
from poolwise.space.errors import SpaceError, did_you_mean
from poolwise.space.grammar import parse
from poolwise.space.parameters import Choice, Fixed, Float, Int, Parameter
from poolwise.space.scalars import Scalar

LONGEST_NAME = 100


class Space:
    """Named parameters, and constraints between them: `Space({"x": Float(0, 1), "n": Int(1, 4)}, ["n * x <= 2"])`.

    A point of the unit cube has one column for each `Float`, `Int`, ordered or two-valued `Choice`, and one for each
    value of a longer `Choice`; a fixed parameter has none. A plain value means `Fixed`. Spaces do not change.
    """

    def __init__(self, parameters: Mapping[str, Any], constraints: Sequence[str] = ()) -> None:
        if not isinstance(parameters, Mapping):
            raise SpaceError(f"space: expected a mapping from names to parameters, got {type(parameters).__name__}.")
        if not parameters:
            raise SpaceError("space: has no parameters; give at least one, such as {'x': Float(0, 1)}.")
        if isinstance(constraints, str):
            raise SpaceError("constraints: expected a list of expressions, got one text; write [...] around it.")
        self.parameters: Mapping[str, Parameter] = MappingProxyType(
            {_name(name): _parameter(name, value) for name, value in parameters.items()}
        )
        self._constraints = tuple(parse(text, self.parameters) for text in constraints)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all parameters, fixed ones too."""
        return tuple(self.parameters)

    @property
    def constraints(self) -> tuple[str, ...]:
        """The constraints as they were written."""
        return tuple(constraint.text for constraint in self._constraints)

    @functools.cached_property
    def axes(self) -> Mapping[str, Axis]:
        """The parameters that vary, each with its part of the cube."""
        found = {name: parameter.axis() for name, parameter in self.parameters.items()}
        return {name: axis for name, axis in found.items() if axis is not None}

    @functools.cached_property
    def columns(self) -> dict[str, slice]:
        """The columns of each parameter that varies."""
        ends = np.cumsum([0, *(axis.width for axis in self.axes.values())]).tolist()
        return {name: slice(*pair) for name, pair in zip(self.axes, itertools.pairwise(ends), strict=True)}

    @functools.cached_property
    def dimension(self) -> int:
        """How many columns a point has."""
        return sum(axis.width for axis in self.axes.values())

    @functools.cached_property
    def moving(self) -> Bools[np.ndarray, " d"]:
        """Which columns are continuous."""
        return np.array([axis.moving for axis in self.axes.values() for _ in range(axis.width)], dtype=bool)

    @functools.cached_property
    def continuous(self) -> bool:
        """Whether every point of the cube is an experiment: all columns continuous, no constraints."""
        return self.dimension > 0 and bool(self.moving.all()) and not self._constraints

    @functools.cached_property
    def size(self) -> float:
        """How many different experiments there are, constraints aside; infinite if a parameter is continuous."""
        return math.prod((float(axis.count) for axis in self.axes.values()), start=1.0)

    def encode(self, params: Mapping[str, Any]) -> Floats[np.ndarray, " d"]:
        """Where an experiment lies in the cube; constraints are not checked."""
        return self.encode_many([params])[0]

    def encode_many(self, trials: Sequence[Mapping[str, Any]]) -> Floats[np.ndarray, "n d"]:
        """Where experiments lie in the cube, a row each."""
        trials = [self._complete(params) for params in trials]
        codes = {name: self._codes(name, [params[name] for params in trials]) for name in self.parameters}
        return self.place({name: codes[name] for name in self.axes}, len(trials))

    def decode(self, u: Floats[np.ndarray, " d"]) -> dict[str, Any]:
        """The experiment nearest to a point of the cube, as plain Python values."""
        return self.decode_many(np.asarray(u)[None, :])[0]

    def decode_many(self, U: Floats[np.ndarray, "n d"]) -> list[dict[str, Any]]:
        """The experiments nearest to points of the cube."""
        codes, fixed = self.read(U), np.zeros(len(U))
        columns = [parameter.decode(codes.get(name, fixed)) for name, parameter in self.parameters.items()]
        return [dict(zip(self.parameters, row, strict=True)) for row in zip(*columns, strict=True)]

    def snap(self, U: Floats[np.ndarray, "n d"]) -> Floats[np.ndarray, "n d"]:
        """The points of the cube where the experiments nearest to these points lie."""
        return self.place(self.read(U), len(U))

    def feasible(self, U: Floats[np.ndarray, "n d"]) -> Bools[np.ndarray, " n"]:
        """Which points decode to experiments that satisfy all constraints."""
        return np.all(self.gaps(U) == 0.0, axis=1)

    def gaps(self, U: Floats[np.ndarray, "n d"]) -> Floats[np.ndarray, "n c"]:
        """How far each point is from satisfying each constraint, in the units of the constraint."""
        used = {name for constraint in self._constraints for name in constraint.names}
        codes = self.read(U, used)
        columns = [constraint.gap(codes, len(U)) for constraint in self._constraints]
        return np.stack(columns, axis=1) if columns else np.zeros((len(U), 0))

    def grid(self, limit: int = sampling.ENUMERATED) -> Floats[np.ndarray, "m d"]:
        """All different experiments that satisfy the constraints, if the space has at most `limit` without them."""
        if self.size > limit:
            raise SpaceError(f"space: has {self.size:g} points, more than the limit of {limit}; sample it instead.")
        return sampling.grid(self)

    def sample(
        self, n: int, seed: int, *, exclude: Floats[np.ndarray, "k d"] | None = None
    ) -> Floats[np.ndarray, "m d"]:
        """n different experiments that fill the space evenly and satisfy the constraints; none of those in `exclude`.

        Fewer only when no more were found. A finite space of up to 65536 points is searched to its end; elsewhere
        131072 scrambled Sobol' points are tried, then as many steps towards the constraints and among the points that
        satisfy them. SpaceError if there are none.
        """
        return sampling.sample(self, n, seed, exclude)

    def neighbours(self, u: Floats[np.ndarray, " d"], seed: int, count: int) -> Floats[np.ndarray, "m d"]:
        """Up to `count` different feasible experiments near a point, itself left out.

        Small normal moves of continuous columns at several scales, steps to the next integer or ordered value, other
        choices: each alone first, then several at once.
        """
        return sampling.neighbours(self, np.asarray(u, dtype=float), seed, count)

    def validate(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """The parameters complete, in order and of the right types; an error names what is wrong with them."""
        full = self._complete(params)
        codes = {name: self._codes(name, [full[name]]) for name in self.parameters}
        for constraint in self._constraints:
            if not constraint(codes, 1)[0]:
                shown = ", ".join(f"{name} = {full[name]!r}" for name in constraint.names)
                raise SpaceError(f"constraint {constraint.text!r} is violated by {shown}.")
        return {name: parameter.decode(codes[name])[0] for name, parameter in self.parameters.items()}

    def to_dict(self) -> dict[str, Any]:
        """The space as plain JSON values; `from_dict` reads it back."""
        return layout.to_dict(self.parameters, self.constraints)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Space:
        """The space that `to_dict` wrote, or that a file describes in the same way."""
        return cls(*layout.from_dict(data))

    def read(self, U: Floats[np.ndarray, "n d"], names: Collection[str] | None = None) -> dict[str, Codes]:
        """The codes of points, by parameter; of these parameters only, if names are given."""
        U = np.asarray(U, dtype=float)
        if U.ndim != 2 or U.shape[1] != self.dimension:
            raise SpaceError(f"points: expected a matrix with {self.dimension} columns, got shape {U.shape}.")
        if not np.isfinite(U).all():
            raise SpaceError("points: some coordinates are NaN or infinite.")
        read = self.axes if names is None else [name for name in self.axes if name in names]
        return {name: self.axes[name].read(U[:, self.columns[name]]) for name in read}

    def place(self, codes: Mapping[str, Codes], n: int) -> Floats[np.ndarray, "n d"]:
        """The points of codes, a row each."""
        U = np.empty((n, self.dimension))
        for name, axis in self.axes.items():
            U[:, self.columns[name]] = axis.place(codes[name])
        return U

    def _codes(self, name: str, values: Sequence[Any]) -> Codes:
        parameter = self.parameters[name]
        codes = None
        if isinstance(parameter, Float | Int) and {type(value) for value in values} <= {int, float}:
            with contextlib.suppress(OverflowError):  # an integer beyond floats; the message comes below
                codes = parameter.encode(np.array(values, dtype=float))
        if codes is None:  # one by one, so that what is wrong is named
            codes = np.array([parameter.code(name, value) for value in values], dtype=float)
        return codes

    def _complete(self, params: Mapping[str, Any]) -> Mapping[str, Any]:
        if params.keys() == self.parameters.keys():
            return params
        for name in params:
            if name not in self.parameters:
                raise SpaceError(
                    f"{name}: no parameter of the space, which has {', '.join(self.names)}."
                    f"{did_you_mean(str(name), self.names)}"
                )
        full = {**self._defaults, **params}
        if missing := [name for name in self.parameters if name not in full]:
            raise SpaceError(f"{', '.join(missing)}: missing; give a value for every parameter.")
        return full

    @functools.cached_property
    def _defaults(self) -> dict[str, Scalar]:
        return {name: p.decode(np.zeros(1))[0] for name, p in self.parameters.items() if name not in self.axes}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Space) and json.dumps(self.to_dict()) == json.dumps(other.to_dict())

    def __hash__(self) -> int:
        return hash(json.dumps(self.to_dict()))

    def __reduce__(self) -> tuple[Any, ...]:
        return Space, (dict(self.parameters), self.constraints)

    def __repr__(self) -> str:
        lines = [f"  {name}: {parameter!r}" for name, parameter in self.parameters.items()]
        lines += [f"  where {text}" for text in self.constraints]
        return "\n".join(["Space(", *lines, ")"])


def _name(name: Any) -> str:
    if not isinstance(name, str):
        raise SpaceError(f"space: a parameter's name is text, got {name!r}.")
    if not name or name != name.strip() or not name.isprintable() or "`" in name or len(name) > LONGEST_NAME:
        raise SpaceError(
            f"space: {name[:LONGEST_NAME]!r} cannot be a parameter's name; use up to {LONGEST_NAME} printable "
            "characters, without blanks at its ends and without `."
        )
    return name


def _parameter(name: str, value: Any) -> Parameter:
    if isinstance(value, Float | Int | Choice | Fixed):
        return value
    if isinstance(value, list | tuple | set | range):
        raise SpaceError(f"{name}: got {value!r}; write Choice([...]) for a choice, Float(low, high) for a range.")
    try:
        return Fixed(value)
    except SpaceError:
        raise SpaceError(
            f"{name}: expected Float, Int, Choice or a plain value to fix it, got {type(value).__name__}."
        ) from None
