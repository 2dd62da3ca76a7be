"""`maximize` and `minimize`: a study in memory, on one line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from poolwise.space.space import Space
from poolwise.study.study import Study


def maximize(  # noqa: PLR0913
    f: Callable[..., Any],
    space: Space | Mapping[str, Any],
    *,
    trials: int = 64,
    q: int = 8,
    constraints: Iterable[str] = (),
    seed: int = 0,
    **options: Any,
) -> Study:
    """The study, in memory, of the largest value of `f(**params)`; `study.best` is the result.

    `options` are those of `Study.run`, for instance `executor=`.
    """
    study = Study(space=space, constraints=constraints, maximize="value", seed=seed)
    return study.run(f, trials=trials, q=q, **options)


def minimize(  # noqa: PLR0913
    f: Callable[..., Any],
    space: Space | Mapping[str, Any],
    *,
    trials: int = 64,
    q: int = 8,
    constraints: Iterable[str] = (),
    seed: int = 0,
    **options: Any,
) -> Study:
    """The study, in memory, of the smallest value of `f(**params)`; `study.best` is the result.

    `options` are those of `Study.run`, for instance `executor=`.
    """
    study = Study(space=space, constraints=constraints, minimize="value", seed=seed)
    return study.run(f, trials=trials, q=q, **options)
