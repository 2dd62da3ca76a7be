"""What a study is about: space, objective, direction, seed and settings; stored once, compared when it is opened."""

from __future__ import annotations

import dataclasses
import math
import numbers
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from poolwise.errors import InputError, PoolwiseError
from poolwise.space.space import Space
from poolwise.study.errors import ConflictError
from poolwise.study.rows import damaged, decoded, encoded
from poolwise.study.trial import AFTER, BEFORE
from poolwise.version import __version__

NAME = re.compile(r"[A-Za-z0-9._-]{1,128}")
RESERVED = {*BEFORE, *AFTER, "request_id", "lease"}
ACQUISITIONS = ("balanced", "ei", "nei", "pi", "ucb", "mean", "fill")
EXPIRED = ("ask", "fail")
LARGEST = sys.float_info.max
ROOT3 = math.sqrt(3)  # the paper's

Number: TypeAlias = Any  # checked here, with a message
Flag: TypeAlias = Any  # likewise
Direction = Literal["minimize", "maximize"]


@dataclass(frozen=True)
class Settings:
    """How pools are chosen; part of the stored study.

    `acquisition` is "balanced", a climb where the model sees one hill and exploration where there may be many; "ei"
    or "pi" over the best expected outcome so far, "nei" over the unknown best; "ucb" (with `beta`, see
    `UpperConfidenceBound`), "mean", or "fill" for pools that fill the space evenly and ask no model. `model_trials` is
    how many told trials the model takes at most: with more it takes the best, the latest and a spread of the others.
    `expired` says what becomes of a trial whose lease has run out: "ask" hands it out again, "fail" fails it. `warp`
    lets the model warp outcomes by a power, and warp or turn inputs, where the evidence says so; improvement then
    counts on the warped scale of outcomes.
    """

    acquisition: str = "balanced"
    beta: Number = ROOT3
    model_trials: Number = 500
    expired: str = "ask"
    warp: Flag = True

    def __post_init__(self) -> None:
        _option("acquisition", self.acquisition, ACQUISITIONS)
        _option("expired", self.expired, EXPIRED)
        if isinstance(self.beta, bool) or not isinstance(self.beta, int | float) or not 0 < self.beta <= LARGEST:
            raise InputError(f"beta: must be a number above zero, got {self.beta!r}.")
        if not _whole(self.model_trials) or self.model_trials < 16:
            raise InputError(f"model_trials: expected a whole number, 16 or more, got {self.model_trials!r}.")
        if not isinstance(self.warp, bool):
            raise InputError(f"warp: expected true or false, got {self.warp!r}.")
        object.__setattr__(self, "beta", float(self.beta))
        object.__setattr__(self, "model_trials", int(self.model_trials))


@dataclass(frozen=True)
class Definition:
    """A study without its trials."""

    space: Space
    objective: str
    direction: Direction
    seed: Number = 0
    settings: Settings = field(default_factory=Settings)

    def __post_init__(self) -> None:
        _name("the objective's name", self.objective)
        names = list(self.space.parameters)
        if clash := [name for name in names if name in RESERVED or name == self.objective]:
            raise InputError(
                f"space: the name {clash[0]!r} is taken by a column of the table of trials; give the parameter another."
            )
        if not _whole(self.seed) or not 0 <= self.seed < 2**53:
            raise InputError(f"seed: expected a whole number, 0 or more, got {self.seed!r}.")
        object.__setattr__(self, "seed", int(self.seed))

    def to_json(self) -> str:
        """The text that is stored."""
        return encoded({**self.parts(), "poolwise": __version__})

    def parts(self) -> dict[str, Any]:
        """Plain data, part by part."""
        return {
            "space": self.space.to_dict(),
            "objective": self.objective,
            "direction": self.direction,
            "seed": self.seed,
            "settings": dataclasses.asdict(self.settings),
        }

    @staticmethod
    def from_json(text: str, name: str) -> Definition:
        """The definition that a text describes."""
        where = f"the definition of study {name!r}"
        content = decoded(text, where)
        try:
            if not isinstance(content, dict) or content["direction"] not in ("minimize", "maximize"):
                raise TypeError("it has no direction")
            settings = Settings(**content["settings"])
            space = Space.from_dict(content["space"])
            return Definition(space, content["objective"], content["direction"], content["seed"], settings)
        except (PoolwiseError, TypeError, KeyError, ValueError, AttributeError) as error:
            raise damaged(where, f"cannot be read ({error})") from None


@dataclass(frozen=True)
class Wanted:
    """What the caller says about a study; all of it for a new one, none of it for one that exists."""

    space: Space | Mapping[str, Any] | None = None
    constraints: Iterable[str] = ()
    minimize: str | None = None
    maximize: str | None = None
    seed: Number = None
    settings: Settings | None = None

    def __post_init__(self) -> None:
        given = self.constraints
        object.__setattr__(self, "constraints", (given,) if isinstance(given, str) else tuple(given))

    @property
    def complete(self) -> bool:
        """Whether a study can be made of it; a space without a direction, or two directions, are errors."""
        if self.minimize is not None and self.maximize is not None:
            raise InputError('minimize, maximize: give one of them, for instance minimize="loss", not both.')
        directed = self.objective is not None
        if self.space is not None and not directed:
            raise InputError('minimize, maximize: say which way is better, for instance minimize="loss".')
        return self.space is not None and directed

    @property
    def direction(self) -> Direction:
        return "maximize" if self.minimize is None else "minimize"

    @property
    def objective(self) -> str | None:
        return self.maximize if self.minimize is None else self.minimize

    def definition(self) -> Definition:
        """The definition of a new study."""
        assert self.objective is not None
        seed = 0 if self.seed is None else self.seed
        return Definition(self._space(), self.objective, self.direction, seed, self.settings or Settings())

    def _space(self) -> Space:
        if not isinstance(self.space, Space):
            assert self.space is not None
            return Space(self.space, tuple(self.constraints))
        if self.constraints:
            raise InputError("constraints: give them to the Space itself, or give the space as a dictionary.")
        return self.space

    def check_against(self, stored: Definition, name: str) -> None:
        """Whatever is said again must be what is stored."""
        there = stored.parts()
        said: dict[str, Any] = {}
        if self.space is not None:
            said["space"] = self._space().to_dict()
        elif self.constraints and set(self.constraints) != set(stored.space.constraints):
            raise ConflictError(
                f"study {name!r}: exists with other constraints: "
                f"{difference(list(stored.space.constraints), list(self.constraints))}. "
                "Leave it out to go on with the stored ones, or choose another name for a new study."
            )
        if self.objective is not None:
            said |= {"direction": self.direction, "objective": self.objective}
        if self.seed is not None:
            said["seed"] = self.seed
        if self.settings is not None:
            said["settings"] = dataclasses.asdict(self.settings)
        for key, value in said.items():
            if not same(there[key], value):
                raise ConflictError(
                    f"study {name!r}: exists with another {key}: {difference(there[key], value)}. "
                    "Leave it out to go on with the stored one, or choose another name for a new study."
                )


def same(stored: Any, given: Any) -> bool:
    """Whether two pieces of plain data are equal; true is not 1, and the order of keys does not matter."""
    if isinstance(stored, dict) and isinstance(given, dict):
        return stored.keys() == given.keys() and all(same(value, given[key]) for key, value in stored.items())
    if isinstance(stored, list) and isinstance(given, list):
        return len(stored) == len(given) and all(map(same, stored, given))
    return bool(stored == given) and isinstance(stored, bool) == isinstance(given, bool)


def difference(stored: Any, given: Any) -> str:
    """The innermost place where two pieces of plain data differ, in words."""
    if isinstance(stored, dict) and isinstance(given, dict):
        for key in [*stored, *given]:
            if not same(stored.get(key), given.get(key)):
                return f"{key}: {difference(stored.get(key), given.get(key))}"
    return f"stored {stored!r}, given {given!r}"


def check_study_name(name: str) -> str:
    """Letters, digits, dot, underscore and hyphen: safe in any file name, shell and table."""
    if not isinstance(name, str) or NAME.fullmatch(name) is None:
        raise InputError(f"name: use 1 to 128 letters, digits, dots, underscores and hyphens, got {name!r}.")
    return name


def _name(what: str, name: Any) -> None:
    if not isinstance(name, str) or not name.strip() or len(name) > 128 or name in RESERVED:
        raise InputError(f"{what}: expected a short word such as 'loss', got {name!r}.")


def _whole(value: Any) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def _option(name: str, value: Any, options: tuple[str, ...]) -> None:
    if value not in options:
        raise InputError(f"{name}: unknown option {value!r}; choose one of {', '.join(map(repr, options))}.")
