"""`study.toml`: what a study is, in a file. Every key is known, every type is checked, and nothing in it is run."""

from __future__ import annotations

import contextlib
import json
import os
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, NoReturn

from sqlalchemy.engine import URL

from poolwise.cli.command import FileError
from poolwise.errors import PoolwiseError
from poolwise.space.errors import SpaceError, did_you_mean
from poolwise.space.space import Space
from poolwise.study.definition import Settings, Wanted, check_study_name
from poolwise.study.engine import in_memory, parse_url, path_of, url_of
from poolwise.study.errors import StudyNotFound
from poolwise.study.study import Study

LARGEST = 1_000_000  # bytes of a study file
Q = 4  # the pool size where none is given

_Check = tuple[str, Callable[[Any], bool]]


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _whole(least: int) -> _Check:
    return f"a whole number, {least} or more", lambda v: type(v) is int and least <= v < 2**53


_TEXT: _Check = "text", lambda value: isinstance(value, str) and bool(value.strip())
_FLAG: _Check = "true or false", lambda value: isinstance(value, bool)
_TEXTS: _Check = "a list of texts", _texts
_TABLE: _Check = "a table", lambda value: isinstance(value, dict)
_SECONDS: _Check = "seconds, above zero", lambda value: type(value) in (int, float) and 0 < value < 1e9

KEYS: Mapping[str, _Check] = {
    "name": _TEXT,
    "url": _TEXT,
    "url_env": _TEXT,
    "minimize": _TEXT,
    "maximize": _TEXT,
    "q": _whole(1),
    "trials": _whole(1),
    "seed": _whole(0),
    "timeout": _SECONDS,
    "asynchronous": _FLAG,
    "command": _TEXTS,
    "constraints": _TEXTS,
    "space": _TABLE,
    "settings": _TABLE,
}


@dataclass(frozen=True)
class StudyFile:
    """What a study file says. `url` may hold a password, and is not shown."""

    path: Path
    name: str
    url: URL = field(repr=False)
    space: Space
    minimize: str | None
    maximize: str | None
    settings: Settings | None
    seed: int | None
    q: int
    trials: int | None
    timeout: float | None
    asynchronous: bool
    command: tuple[str, ...]

    @property
    def folder(self) -> Path:
        """Where commands run, and where the database is by default."""
        return self.path.absolute().parent

    def open(self) -> Study:
        """The study, made where it is not there yet."""
        return self._study(self.url)

    def look(self) -> Study:
        """The study to read from; nothing is made or changed on disk. One that has no trials yet is in memory."""
        with contextlib.ExitStack() as stack:
            if self.url.get_backend_name() == "sqlite" and not path_of(self.url).exists():
                return self._study(None)
            try:
                study = stack.enter_context(Study(self.url, name=self.name))
            except StudyNotFound:
                return self._study(None)
            if not any(study.counts.values()):
                return self._study(None)
            self.wanted.check_against(study.definition, self.name)
            stack.pop_all()
            return study

    @property
    def files(self) -> list[Path]:
        """The file itself, and those of its database where it is one of files."""
        if self.url.get_backend_name() != "sqlite":
            return [self.path]
        return [self.path, *(Path(f"{self.url.database}{end}") for end in ("", "-wal", "-shm", "-journal"))]

    @property
    def wanted(self) -> Wanted:
        """What the file says of the study itself."""
        return Wanted(self.space, (), self.minimize, self.maximize, self.seed, self.settings)

    @property
    def objective(self) -> str:
        """The name of what is measured."""
        return self.minimize or self.maximize or ""

    def _study(self, url: URL | None) -> Study:
        return Study(
            url,
            name=self.name,
            space=self.space,
            minimize=self.minimize,
            maximize=self.maximize,
            seed=self.seed,
            settings=self.settings,
        )


def load(path: Path) -> StudyFile:
    """Read a study file; an error names the file, the key and what to change."""
    content = _checked(path, _parsed(path))
    if ("minimize" in content) == ("maximize" in content):
        _refuse(path, "", 'say which way is better, once: minimize = "loss", or maximize = "yield" with your own word')
    if not content.get("space"):
        _refuse(path, "space", "has no parameters; give each a table, such as [space.x] with type, low and high")
    study = StudyFile(
        path=path,
        name=content.get("name", "study"),
        url=_url(path, content),
        space=_space(path, content),
        minimize=content.get("minimize"),
        maximize=content.get("maximize"),
        settings=_settings(path, content.get("settings")),
        seed=content.get("seed"),
        q=content.get("q", Q),
        trials=content.get("trials"),
        timeout=float(content["timeout"]) if "timeout" in content else None,
        asynchronous=content.get("asynchronous", False),
        command=tuple(content.get("command", ())),
    )
    try:
        check_study_name(study.name)
        study.wanted.definition()  # the objective's name has rules of its own
    except PoolwiseError as error:
        raise FileError(f"{path}: {error}") from None
    return study


def _parsed(path: Path) -> Any:
    try:
        if path.stat().st_size > LARGEST:
            _refuse(path, "", f"has more than {LARGEST} bytes, which no study file needs")
        text = path.read_text(encoding="utf-8-sig")
        if path.suffix.lower() == ".json":
            return json.loads(text, object_pairs_hook=_once)
        return tomllib.loads(text)
    except (FileNotFoundError, NotADirectoryError):
        raise FileError(
            f"{path}: there is no such file; `poolwise init` writes one, and --study names one elsewhere."
        ) from None
    except IsADirectoryError:
        raise FileError(f"{path}: is a folder; name the file in it.") from None
    except RecursionError:
        raise FileError(f"{path}: is nested too deeply.") from None
    except UnicodeDecodeError:
        raise FileError(f"{path}: is no text in UTF-8; save it as UTF-8.") from None
    except FileError:
        raise
    except ValueError as error:
        kind = "JSON" if path.suffix.lower() == ".json" else "TOML"
        raise FileError(f"{path}: is not valid {kind}: {error}.") from None


def _once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object in which no key comes twice, as in TOML."""
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"the key {key!r} is there twice")
        found[key] = value
    return found


def _checked(path: Path, content: Any) -> dict[str, Any]:
    if not isinstance(content, dict):
        _refuse(path, "", "should be a table of keys and values")
    for key, value in content.items():
        if key not in KEYS:
            _refuse(path, key, f"unknown key; a study file has {', '.join(KEYS)}", did_you_mean(key, KEYS))
        expected, fits = KEYS[key]
        if not fits(value):
            _refuse(path, key, f"expected {expected}, got {_shown(value)}")
    return content


def _space(path: Path, content: Mapping[str, Any]) -> Space:
    try:
        return Space.from_dict({"parameters": content["space"], "constraints": content.get("constraints", [])})
    except SpaceError as error:
        raise FileError(f"{path}: {_misplaced(str(error), content)}") from None


def _misplaced(message: str, content: Mapping[str, Any]) -> str:
    """The message about a space, with its place in the file; TOML puts what follows a [table] into that table."""
    name = message.partition(":")[0]
    inside = content["space"].get(name)
    hint = ""
    if isinstance(inside, dict) and (lost := [key for key in inside if key in KEYS]):
        hint = f" If {lost[0]!r} is meant for the study, write it above the first [table]."
    return f"{'space.' if name in content['space'] else ''}{message}{hint}"


def _settings(path: Path, given: Mapping[str, Any] | None) -> Settings | None:
    if given is None:
        return None
    known = [entry.name for entry in fields(Settings)]
    for key in given:
        if key not in known:
            _refuse(path, f"settings.{key}", f"unknown key; it has {', '.join(known)}", did_you_mean(key, known))
    try:
        return Settings(**given)
    except (PoolwiseError, TypeError) as error:
        raise FileError(f"{path}: settings.{error}") from None


def _url(path: Path, content: Mapping[str, Any]) -> URL:
    """The address of the study; a relative SQLite file lies beside the study file, whatever the current folder is."""
    if "url" in content and "url_env" in content:
        _refuse(path, "url_env", "give url or url_env, not both")
    text, key = content.get("url"), "url"
    if variable := content.get("url_env"):
        key, text = f"url_env: {variable}", os.environ.get(variable, "")
        if not text:
            _refuse(path, "url_env", f"the environment variable {variable} is not set; it should hold the address")
    if text is None:
        return url_of(path.absolute().with_name(f"{path.stem}.db"))
    try:
        address = parse_url(text)
    except PoolwiseError as error:
        raise FileError(f"{path}: {key}: {str(error).removeprefix('url: ')}") from None
    if "url_env" not in content and (address.password or address.query.get("password")):
        _refuse(path, "url", "holds a password; put the address into an environment variable and name it by url_env")
    if in_memory(address):
        _refuse(path, key, "a study of the command line is kept in a file, such as sqlite:///tune.db")
    if address.get_backend_name() == "sqlite":
        return url_of(path.absolute().parent / path_of(address))
    return address


def _shown(value: Any) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _refuse(path: Path, key: str, problem: str, hint: str = "") -> NoReturn:
    raise FileError(f"{path}: {key + ': ' if key else ''}{problem}.{hint}")
