"""`poolwise work`: one of many workers, on any machine, that share a study until its budget is reached."""

from __future__ import annotations

import dataclasses
import math
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from poolwise.cli.command import INTERRUPTED, FileError, guarded, study_argument
from poolwise.cli.run import Job, _command, _function
from poolwise.cli.show import as_data, put_best
from poolwise.cli.terminal import brief, printable, printing_apart, put_json, say

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

    from poolwise.cli.study_file import StudyFile
    from poolwise.study.leases import Board
    from poolwise.study.study import Study
    from poolwise.study.trial import Trial

LEASE = 60.0  # seconds
QUIET = 5.0  # seconds of waiting that are not worth a line

SECONDS = click.FloatRange(min=0, min_open=True)


@click.command(short_help="Be one of many workers that share a study.")
@click.option("--function", metavar="MODULE:NAME", help="The objective as a Python function of the parameters.")
@click.option("--name", help="The study's name in its database [the file's].")
@click.option("-q", "q", type=click.IntRange(min=1), help="How many trials are asked for at a time [the file's q].")
@click.option("--trials", type=click.IntRange(min=1), help="The budget, as a total [the file's trials].")
@click.option("--timeout", type=SECONDS, help="Seconds for one trial [the file's].")
@click.option("--asynchronous/--synchronous", default=None, help="Choose trials while others run [the file's].")
@click.option(
    "--lease",
    type=SECONDS,
    default=LEASE,
    show_default=True,
    help="Seconds after which another worker takes the trial of one that has died.",
)
@click.option("--idle", type=SECONDS, help="Leave after so many seconds without anything to do [stay to the end].")
@study_argument
@guarded
def work(*, source: Path, function: str | None, lease: float, idle: float | None, json_: bool, **changes: Any) -> None:
    """Take trials of a study, run the objective and tell, one at a time, until the budget is reached.

    Start as many of these as you like, on any machine that reaches the study's database. No two run the same trial; one
    of them asks for the next pool, and all take from it. Ctrl-C, SIGTERM and SIGHUP give the running trial
    back. A worker that is killed loses its lease, and another runs the trial again; the third time it is failed.
    """
    from poolwise.cli.study_file import load
    from poolwise.study.leases import look
    from poolwise.study.work import Shift

    file = load(source)
    file = dataclasses.replace(file, **{name: value for name, value in changes.items() if value is not None})
    if file.trials is None:
        raise FileError(f"{file.path}: trials: say how many trials to run, here or by --trials.")
    job = _command(file) if function is None else _function(file, function)
    shift = Shift(file.trials, file.q, lease, file.asynchronous, job.timeout, idle)
    with file.open() as study:
        mine = _go(file, study, job, shift)
        best, finished = study.best, look(study).finished
    if json_:
        best_data = None if best is None else as_data(best)
        put_json({"mine": mine, "finished": finished, "budget": file.trials, "best": best_data})
    elif best is not None:
        put_best(best, file.objective)


def _go(file: StudyFile, study: Study, job: Job, shift: Any) -> dict[str, int]:
    """Work to the end; how many trials this worker told and failed."""
    from poolwise.study.stops import RunInterrupted
    from poolwise.study.work import Means, work

    watch = Watch()
    try:
        with printing_apart():
            work(study, shift, Means(file.url, job.objective, job.executor, watch, job.end))
    except RunInterrupted as stopped:
        say(f"{stopped} {watch.summary}")
        raise SystemExit(INTERRUPTED) from None
    finally:
        job.end()
    say(f"done. {watch.summary}")
    return watch.mine


class Watch:
    """A worker on the screen: a live line on a terminal; elsewhere a line for each trial, and one when it waits."""

    def __init__(self, console: Console | None = None) -> None:
        from rich.console import Console

        self._console = Console(stderr=True) if console is None else console
        self._live: Progress | None = None
        self._total, self._so_far = 0, ""
        self._ended: Trial | None = None
        self._idle_since: float | None = None
        self.mine = {"told": 0, "failed": 0}

    @property
    def summary(self) -> str:
        """What this worker did."""
        return f"This worker told {self.mine['told']} trials and failed {self.mine['failed']}."

    def on_start(self, study: Any, trials: int) -> None:
        self._total = trials
        if self._console.is_terminal:
            self._live = _bar(self._console)
            self._task = self._live.add_task("", total=trials, completed=0, state="looking for a trial")
            self._live.start()

    def on_ask(self, study: Any, pool: list[Trial]) -> None:
        self._idle_since = None
        if self._live is not None:
            self._live.reset(self._task, completed=int(self._live.tasks[0].completed), total=self._total)
            self._live.update(self._task, state=f"trial {pool[0].number} is running{self._so_far}")

    def on_tell(self, study: Any, trial: Trial) -> None:
        self._finish(trial)

    def on_fail(self, study: Any, trial: Trial) -> None:
        self._finish(trial)

    def on_look(self, study: Study, board: Board) -> None:
        """How far all workers are; said after each trial, and once when there is nothing to do for a while."""
        if (trial := self._ended) is not None:
            self._ended, best = None, study.best
            self._so_far = "" if best is None else f", best {brief(best.value)}"
            if self._live is None or trial.state == "failed":
                self._print(
                    f"{_outcome(study.objective, trial)} ({board.finished} of {self._total} finished{self._so_far})"
                )
        waits = not board.free and board.held > 0 and board.finished < self._total
        words = f"waiting for {board.held} trial(s) that others run" if waits else "looking for the next trial"
        if self._live is not None:
            self._live.update(self._task, completed=board.finished, state=f"{words}{self._so_far}")
        elif waits and self._idle_since is None:
            self._idle_since = time.monotonic()
        elif waits and self._idle_since is not None and time.monotonic() - self._idle_since > QUIET:
            self._idle_since = math.inf
            self._print(words)

    def on_end(self, study: Any) -> None:
        if (trial := self._ended) is not None:
            self._print(_outcome(study.objective, trial))
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _finish(self, trial: Trial) -> None:
        self._ended = trial
        self.mine["told" if trial.state == "told" else "failed"] += 1

    def _print(self, line: str) -> None:
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)


def _outcome(objective: str, trial: Trial) -> str:
    if trial.state == "told":
        return f"trial {trial.number}: {objective} {brief(trial.value)}"
    return f"trial {trial.number} failed: {printable((trial.reason or '').splitlines()[0])}"


def _bar(console: Console) -> Progress:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    text = TextColumn("{task.fields[state]}", markup=False)
    return Progress(SpinnerColumn(), BarColumn(20), MofNCompleteColumn(), text, TimeElapsedColumn(), console=console)
