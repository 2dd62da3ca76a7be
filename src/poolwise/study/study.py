"""`Study`: the one mutable object. It asks for pools, is told outcomes, and keeps both in a store."""

from __future__ import annotations

import importlib
import logging
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, cast

from sqlalchemy.engine import URL

from poolwise.errors import InputError
from poolwise.space.space import Space
from poolwise.study.arguments import Number, number_of, outcome_of, pool_size, request_name, seconds
from poolwise.study.asking import Params, Wish, ask
from poolwise.study.callbacks import watchers
from poolwise.study.definition import Definition, Flag, Settings, Wanted, check_study_name
from poolwise.study.engine import is_missing, shown
from poolwise.study.errors import ConflictError, StudyNotFound
from poolwise.study.handles import Closed, Plots
from poolwise.study.placing import nearest, stored_params
from poolwise.study.rows import Row, plain
from poolwise.study.stops import RunStopped
from poolwise.study.store import NO_REASON, Outcome, Said, Store
from poolwise.study.trial import Pool, Revision, Trial, columns, to_frame

if TYPE_CHECKING:
    import pandas as pd

    from poolwise.study.model import Model

log = logging.getLogger(__name__)


class Study:
    """Experiments asked for and told, kept in a database: `sqlite:///file`, `postgresql://...`, or memory.

    A new study needs a space and a direction with the objective's name, `minimize="loss"` or `maximize="yield"`; one
    that exists needs its address and name only, and whatever is said again must agree with what is stored. `seed` and
    `settings` are stored too: the same study gives the same next pool, also after a crash. `patience` is for how many
    seconds a database that does not answer is tried again.

    >>> from poolwise.space.parameters import Float
    >>> study = Study(space={"x": Float(0, 1)}, minimize="loss")
    >>> for trial in study.ask(4):
    ...     _ = study.tell(trial, (trial.params["x"] - 0.3) ** 2)
    >>> len(study.trials), study.best.value < 0.1
    (4, True)
    """

    def __init__(  # noqa: PLR0913
        self,
        url: str | URL | None = None,
        *,
        name: str = "study",
        space: Space | Mapping[str, Any] | None = None,
        constraints: Iterable[str] = (),
        minimize: str | None = None,
        maximize: str | None = None,
        seed: Number = None,
        settings: Settings | None = None,
        patience: Number = 60.0,
    ) -> None:
        self.name = check_study_name(name)
        wanted = Wanted(space, constraints, minimize, maximize, seed, settings)
        fresh = wanted.definition().to_json() if wanted.complete else None
        if url is None and fresh is None:
            raise InputError('space: a study in memory is new; give space= and minimize="..." or maximize="...".')
        if fresh is None and is_missing(url):
            raise StudyNotFound(f"There is no file {url}; give space= and a direction to begin a study there.")
        self._store = Store(url, patience=seconds("patience", patience))
        try:
            row = self._store.load(name) if fresh is None else self._opened(fresh, wanted)
            self.definition = Definition.from_json(row["definition"], name)
            wanted.check_against(self.definition, name)
        except BaseException:
            self._store.close()
            raise
        self._id: int = row["id"]
        self._url = shown(self._store.url)

    @property
    def space(self) -> Space:
        """What may be varied."""
        return self.definition.space

    @property
    def objective(self) -> str:
        """The name of what is measured."""
        return self.definition.objective

    @property
    def direction(self) -> str:
        """`"minimize"` or `"maximize"`."""
        return self.definition.direction

    @property
    def seed(self) -> int:
        """What all randomness of the study comes from, with the number of trials."""
        return self.definition.seed

    @property
    def settings(self) -> Settings:
        """How pools are chosen."""
        return self.definition.settings

    @property
    def url(self) -> str:
        """Where the study is kept, without passwords."""
        return self._url

    def ask(self, q: Number = 1, *, request_id: str | None = None, lease: Number = None) -> Pool:
        """The next q experiments, stored as pending: all of them, or none and an error.

        A repeat with the same `request_id` returns the same pool. With `lease`, a trial that is neither told nor
        renewed within that many seconds is handed out again by a later ask, before new ones. A pool is smaller than q
        only where the space has fewer experiments left; `SpaceExhausted` where it has none.
        """
        q, request = pool_size(q), request_name(request_id)
        span = None if lease is None else seconds("lease", lease)
        if request_id is not None and (known := self._store.answered(self._id, request, q)) is not None:
            return Pool(known, self.objective, request)
        return ask(self, Wish(q, request, span))

    def answered(self, request_id: str) -> int | None:
        """How many trials a request was answered for; None where it was not."""
        return self._store.asked(self._id, request_name(request_id))

    def tell(self, trial: Trial | Number, value: Number, sem: Number = None, *, replace: bool = False) -> Trial:
        """Store the value of a trial; when this returns, it is durable.

        `sem` is the value's standard error, where it is known. The same value again changes nothing, another one is a
        `ConflictError` unless `replace` is set: then the old one is kept in the trial's history. A value that is NaN or
        infinite fails the trial. A trial whose lease has run out still takes its value.
        """
        return self._store.finish(self._id, self._own(trial), outcome_of(value, sem), replace=replace)

    def fail(self, trial: Trial | Number, reason: str = "", *, replace: bool = False) -> Trial:
        """Store that a trial has no value, and why; its neighbourhood is avoided from then on."""
        outcome = Outcome("failed", reason=plain(reason) or NO_REASON)
        return self._store.finish(self._id, self._own(trial), outcome, replace=replace)

    def add(self, params: Mapping[str, Any], value: Number, sem: Number = None) -> Trial:
        """Store a trial that was not asked for: earlier data, or an experiment of one's own.

        Values between steps or just outside a range (by one percent of it) are modelled at the nearest one the space
        has; farther out they are stored and may be the best, but are not modelled.
        """
        kept, outside = stored_params(self.space, params)
        if outside is not None:
            far = nearest(self.space, kept) is None
            log.warning(
                "study %s: an added trial is outside the space (%s) It is stored, %s.",
                self.name,
                outside,
                "but not modelled" if far else "and modelled at the nearest point of the space",
            )
        return self._store.add(self._id, uuid.uuid4().hex, kept, outcome_of(value, sem))

    def tell_all(self, decide: Callable[[list[Trial]], Sequence[Said]], *, replace: bool = False) -> list[Trial]:
        """Store all that is decided on in view of the trials that are there, in one transaction, or nothing."""
        return self._store.tell_all(self._id, decide, replace=replace)

    def renew(self, trial: Trial | Number, lease: Number) -> Trial:
        """Give a pending trial that many seconds from now; a worker that is still busy calls it now and then."""
        return self._store.renew(self._id, number_of(trial), seconds("lease", lease))

    @property
    def best(self) -> Trial | None:
        """The told trial with the best value, the earliest of equals; None before the first."""
        return self._store.best(self._id, highest=self.direction == "maximize")

    @property
    def trials(self) -> list[Trial]:
        """All trials, by number."""
        return self._store.snapshot(self._id).trials

    @property
    def pending(self) -> list[Trial]:
        """The trials that have been asked for and neither told nor failed."""
        return self._store.pending(self._id)

    @property
    def counts(self) -> dict[str, int]:
        """How many trials are pending, told and failed."""
        return {"pending": 0, "told": 0, "failed": 0} | self._store.counts(self._id)

    def trial(self, number: Number) -> Trial:
        """The trial of that number."""
        return self._store.trial(self._id, number_of(number))

    def history(self, trial: Trial | Number) -> list[Revision]:
        """What a trial said before it was replaced, oldest first."""
        return self._store.history(self._id, number_of(trial))

    def to_frame(self) -> pd.DataFrame:
        """All trials as a pandas table: number, state, pool, the parameters, the objective, sem, reason, times."""
        return to_frame(self.trials, self.objective, self.space.names)

    def from_frame(self, frame: Any) -> list[Trial]:
        """Store the rows of a pandas table such as `to_frame` gives: every row, or none and an error with its rows.

        A row with a trial's number and parameters tells that trial; others are added as earlier data. What is stored
        already changes nothing. `docs/pandas.md` tells more.
        """
        return importlib.import_module("poolwise.study.frames").record(self, frame)

    @property
    def columns(self) -> list[str]:
        """The columns of the table of trials."""
        return columns(self.space.names, self.objective)

    def model(self) -> Model | None:
        """What the told trials say about the whole space; None while there are too few."""
        from poolwise.study.model import learn

        return learn(self.definition, self.trials)

    def recommend(self) -> Params | None:
        """The parameters whose expected value is best, told before or not; None before the first told trial."""
        from poolwise.study.suggest import recommend

        return recommend(self.definition, self.trials)

    def run(  # noqa: PLR0913
        self,
        f: Callable[..., Any],
        *,
        trials: Number,
        q: Number = 1,
        executor: Any = None,
        asynchronous: Flag = False,
        timeout: Number = None,
        lease: Number = None,
        progress: Any = None,
        callbacks: Any = (),
    ) -> Study:
        """Ask, call `f(**params)` and tell, until the study has `trials` finished trials (told or failed, not added).

        `f` returns a number, `(number, sem)` or `{"value": number}`. One that raises, returns no number, takes longer
        than `timeout` seconds or ends its process costs that trial only. The same run again goes on where the last one
        ended. `executor` is one of `concurrent.futures`, or "here", "threads" or "processes"; docs/run.md tells more.
        """
        run_study = importlib.import_module("poolwise.study.run").run_study
        try:
            run_study(self, f, trials, q, executor, asynchronous, timeout, lease, progress, watchers(callbacks))
        except RunStopped as stopped:
            stopped.study = self
            raise
        return self

    @property
    def plot(self) -> Plots:
        """Pictures of the study: `study.plot.history()` and others, each a matplotlib figure."""
        return Plots(self)

    def close(self) -> None:
        """Let go of the database; the study stays there, and this object is of no more use."""
        self._store.close()
        self._store = cast(Store, Closed(repr(self)))

    def __enter__(self) -> Study:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        memory = self.url == "sqlite://"
        where = "it is in memory, and so in this process only" if memory else "open it there by its address"
        raise TypeError(f"{self!r} cannot be sent to another process or copied: {where}.")

    def __repr__(self) -> str:
        return f"Study({self.url!r}, name={self.name!r}, {self.direction}={self.objective!r})"

    def _opened(self, fresh: str, wanted: Wanted) -> Row:
        """The row of this study, made where there is none; before the first trial the latest definition counts."""
        row = self._store.create(self.name, fresh)
        if row["trials"] > 0:
            return row
        try:
            wanted.check_against(Definition.from_json(row["definition"], self.name), self.name)
        except ConflictError:
            return self._store.redefine(self.name, fresh)
        return row

    def _own(self, trial: Trial | Number) -> int:
        """The number of a trial of this study; another study's has other parameters."""
        number = number_of(trial)
        if isinstance(trial, Trial) and self.trial(number).params != trial.params:
            raise ConflictError(
                f"trial {number}: its parameters are not those of trial {number} of study {self.name!r}; "
                "it belongs to another study, or its params were changed since it was asked for."
            )
        return number
