"""The run loop: pools or single trials, on any workers; an objective that fails costs its trial and nothing else."""

import contextlib
import io
import logging
import math
import signal
import sys
import threading
import time
from asyncio import CancelledError
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import pytest
from rich.console import Console

from poolwise.errors import InputError
from poolwise.space.parameters import Float, Int
from poolwise.study import telling
from poolwise.study.calling import Report, evaluate, read
from poolwise.study.choosing import kind_of
from poolwise.study.definition import Settings
from poolwise.study.errors import StorageUnavailable
from poolwise.study.interrupt import Inbox
from poolwise.study.processes import Processes
from poolwise.study.progress import Display
from poolwise.study.stops import RunStopped
from poolwise.study.study import Study

LINE = {"x": Float(0, 1)}
FILL = Settings(acquisition="fill")

sys.path.insert(0, str(Path(__file__).parent))  # worker processes have the same path
import objectives  # noqa: E402

sys.path.pop(0)


@pytest.fixture(autouse=True)
def objectives_for_workers(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parent)


@pytest.fixture
def line():
    """A study whose pools need no model."""
    with Study(space=LINE, minimize="loss", settings=FILL) as study:
        yield study


def states(study):
    return [trial.state for trial in study.trials]


def failing(study, total):
    """The numbers of failed trials, and of those that should have failed; all are finished."""
    assert total == len(study.trials) == study.counts["told"] + study.counts["failed"]
    return [t.number for t in study.trials if t.state == "failed"], [
        t.number for t in study.trials if t.params["x"] > 0.5
    ]


@pytest.mark.parametrize(
    "returned, value, sem",
    [
        (1, 1.0, None),
        ((2.0, 0.5), 2.0, 0.5),
        ({"value": 3, "sem": 0.1, "epochs": 7}, 3.0, 0.1),
        ({"value": 3, "sem": None}, 3.0, None),
        (1e300, 1e300, None),
    ],
)
def test_what_an_objective_may_return(returned, value, sem):
    assert Report(value, sem) == read(returned)


@pytest.mark.parametrize(
    "returned, reason",
    [
        (None, "no number but None"),
        ("0.5", "no number but '0.5' (str)"),
        (math.nan, "returned nan"),
        (-math.inf, "returned -inf"),
        (1j, "no number but 1j"),
        ((1, 2, 3), "not (value, sem)"),
        ({"loss": 1.0}, 'without "value"'),
        ((1.0, -2.0), "returned 1.0 with a standard error that is none: -2.0"),
        ([1.0] * 99, "..."),
    ],
)
def test_what_is_no_value(returned, reason):
    assert reason in read(returned).reason


def test_a_reason_says_what_was_raised_and_where():
    reason = evaluate(objectives.raises_above_half, {"x": 0.75}).reason

    assert "ValueError: no convergence at 0.75" == reason.splitlines()[0]
    assert "in raises_above_half" in reason
    assert "calling.py" not in reason
    assert "SystemExit: 2" == evaluate(lambda: sys.exit(2), {}).reason.splitlines()[0]


def test_the_total_is_of_the_study(line):
    """Trials added by hand do not count; pending ones come first; a second run does nothing."""
    line.add({"x": 0.1}, 5.0)
    left = line.ask(2)
    calls = []
    for _ in range(2):
        line.run(lambda x: calls.append(x) or x, trials=5)

    assert 5 == len(calls)
    assert [trial.params["x"] for trial in left] == calls[:2]
    assert {"pending": 0, "told": 6, "failed": 0} == line.counts


def test_trials_added_during_a_run_do_not_count(line):
    """As many are run as without them."""

    class Adds:
        def on_tell(self, study, trial):
            study.add({"x": 0.5}, 0.0)

    line.run(lambda x: x, trials=6, callbacks=[Adds()])

    assert [6, 6] == [sum(trial.added == added for trial in line.trials) for added in (False, True)]


def check_any_workers(settings):
    """What is suggested does not depend on who evaluates it."""
    runs = []
    with ThreadPoolExecutor(2) as threads, ProcessPoolExecutor(1, mp_context=get_context("spawn")) as processes:
        for executor in ("threads", threads, processes, None):
            study = Study(space=LINE, minimize="loss", seed=3, settings=settings)
            study.run(objectives.bowl, trials=7, q=3, executor=executor)
            runs.append([(trial.params, trial.value, trial.pool) for trial in study.trials])

    assert [0, 0, 0, 1, 1, 1, 2] == [pool for *_, pool in runs[0]]
    assert all(run == runs[0] for run in runs)


def test_the_same_pools_by_any_workers():
    check_any_workers(FILL)


@pytest.mark.slow
def test_the_same_pools_of_a_model_by_any_workers():
    check_any_workers(Settings())


def test_workers_start_light_and_stay(line):
    """No JAX, not even NumPy, unless the objective wants it; one process serves many trials; one process is one."""
    line.run(objectives.jax_loaded, trials=2, q=2)
    assert [0.0, 0.0] == [trial.value for trial in line.trials]

    line.run(objectives.process, trials=6, q=2)
    assert len({trial.value for trial in line.trials[2:]}) <= 2


@pytest.mark.parametrize("executor", ["here", "threads", "processes"])
def test_an_objective_that_raises_costs_its_trial(line, executor):
    line.run(objectives.raises_above_half, trials=6, q=1, executor=executor)
    failed, expected = failing(line, 6)

    assert expected == failed != []
    assert all(trial.reason.startswith("ValueError: no conv") for trial in line.trials if trial.state == "failed")


@pytest.mark.parametrize("executor", ["here", "threads", "processes", "given"])
def test_an_exception_that_is_no_exception_costs_its_trial(line, executor):
    """Also where panics of other languages arrive so; the trial does not come back."""
    with ThreadPoolExecutor(1) as pool:
        line.run(objectives.panics_above_half, trials=6, executor=pool if executor == "given" else executor)
    failed, expected = failing(line, 6)

    assert expected == failed != []
    assert all("Panic: unwrapped a None" in trial.reason for trial in line.trials if trial.state == "failed")


@pytest.mark.parametrize("raised", [CancelledError, GeneratorExit, SystemExit, BaseExceptionGroup("", [SystemExit()])])
def test_what_ends_a_task_does_not_end_a_run(raised):
    def f():
        raise raised

    assert evaluate(f, {}).reason


def test_ctrl_c_in_an_objective_is_no_report():
    with pytest.raises(KeyboardInterrupt):
        evaluate(lambda: signal.raise_signal(signal.SIGINT), {})


def test_a_killed_worker_costs_its_trial(line):
    """Other workers go on, and a new one takes its place."""
    line.run(objectives.kills_above_half, trials=6, q=2)
    failed, expected = failing(line, 6)

    assert expected == failed != []
    assert all("was killed by SIGKILL" in line.trials[number].reason for number in failed)


def test_a_worker_that_dies_between_calls_is_replaced():
    inbox = Inbox()
    workers = Processes(objectives.process, inbox)
    reports = []
    for _ in range(2):
        future = workers.submit({"x": 0.5})
        reports.append((future.result(60), workers.report(future)))
        [worker] = workers._idle
        worker._process.kill()
        with contextlib.suppress(BrokenExecutor):
            worker._pool.submit(int).result(60)
    workers.close(now=False)

    assert reports[0][1].value != reports[1][1].value


@pytest.mark.parametrize("executor, words", [("processes", "was ended"), ("threads", "may still be running")])
def test_a_trial_that_takes_too_long_is_failed(line, executor, words):
    """Starting a process is not counted; the others are not held up."""
    began = time.monotonic()
    line.run(objectives.hangs_above_half, trials=4, q=2, executor=executor, timeout=0.3)
    failed, expected = failing(line, 4)

    assert expected == failed != []
    assert all(line.trials[number].reason.startswith("timed out after 0.3 seconds; ") for number in failed)
    assert all(words in line.trials[number].reason for number in failed)
    assert time.monotonic() - began < 60


def test_workers_of_a_given_executor_that_are_all_stuck_end_the_run(line):
    release = threading.Event()
    with ThreadPoolExecutor(1) as executor:
        with pytest.raises(RunStopped, match=r"held by 1 trial\(s\) that timed out"):
            line.run(lambda x: release.wait(60), trials=4, executor=executor, timeout=0.05)
        release.set()

    assert ["failed", "pending"] == states(line)


def test_a_run_stops_when_most_trials_fail(line):
    """The sixth failure of ten is enough; the message has the last reason, and what was told is kept."""
    with pytest.raises(RunStopped, match=r"6 of the last 9 trials failed, the last one \(trial 8\) because: ZeroDiv"):
        line.run(lambda x: 1 / (len(line.trials) < 4), trials=100)

    assert {"pending": 0, "told": 3, "failed": 6} == line.counts


def test_every_worker_dying_stops_the_run(line):
    with pytest.raises(RunStopped, match="ended with exit code 3 during the call"):
        line.run(objectives.Broken(), trials=50, q=2, asynchronous=True)

    assert 6 <= line.counts["failed"] <= 7


def test_a_broken_executor_leaves_its_trials_pending(line):
    """Nobody knows whose fault it was; a resumed run with other workers finds out."""
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as executor:
        with pytest.raises(RunStopped, match=r"executor: it is broken .* stay pending"):
            line.run(objectives.Broken(), trials=4, q=2, executor=executor)
        assert ["pending", "pending"] == states(line)
        with pytest.raises(RunStopped, match="executor: it is broken"):
            line.run(objectives.bowl, trials=4, q=2, executor=executor)
    with ThreadPoolExecutor(1) as over:
        pass
    with pytest.raises(RunStopped, match="takes no more calls"):
        line.run(objectives.bowl, trials=4, q=2, executor=over)
    line.run(objectives.bowl, trials=4, q=2)

    assert ["told"] * 4 == states(line)


class Losing(Executor):
    """Loses some calls, as a cluster does with its nodes."""

    def __init__(self, lost):
        self.lost = list(lost)

    def submit(self, fn, /, *args, **kwargs):
        future = Future()
        if self.lost.pop(0):
            future.set_exception(ConnectionError("node gone"))
        else:
            future.set_result(fn(*args, **kwargs))
        return future


def test_a_lost_call_is_repeated_once(line):
    line.run(objectives.bowl, trials=3, executor=Losing([True, False, True, True, False]))

    assert ["told", "failed", "told"] == states(line)
    assert "twice (ConnectionError: node gone)" in line.trials[1].reason


def test_asynchronous_keeps_the_workers_busy(line):
    """The first trial ends last: two other workers do the rest, a new trial whenever one is free, never more than q."""
    three, last, lock = threading.Barrier(3), threading.Event(), threading.Lock()
    running, most, calls = 0, 0, 0

    def f(x):
        nonlocal running, most, calls
        with lock:
            running, calls = running + 1, calls + 1
            most, turn = max(most, running), calls
        if turn <= 3:
            three.wait(60)
        if turn == 1:
            assert last.wait(60)
        if turn == 10:
            last.set()
        with lock:
            running -= 1
        return x

    line.run(f, trials=10, q=3, executor="threads", asynchronous=True)

    assert ["told"] * 10 == states(line)
    assert 3 == most
    assert len({trial.pool for trial in line.trials}) > 4


def test_values_are_told_as_they_come(line):
    """In a pool of three, two values are stored while the third is awaited."""
    seen = threading.Event()

    class Watch:
        def on_tell(self, study, trial):
            if study.counts["told"] == 2:
                seen.set()

    def f(x):
        return float(seen.wait(60)) if x == line.trials[0].params["x"] else 0.0

    line.run(f, trials=3, q=3, executor="threads", callbacks=[Watch()])

    assert [1.0, 0.0, 0.0] == [trial.value for trial in line.trials]


def test_a_small_space_ends_the_run(caplog):
    study = Study(space={"n": Int(1, 5)}, maximize="yield", settings=FILL)
    study.run(lambda n: n, trials=9, q=2, executor="threads")

    assert 5 == study.best.value == study.counts["told"]
    assert "ends before 9 trials" in caplog.text


def test_watchers_are_told_and_cannot_disturb(line, caplog):
    events = []

    class Watch:
        def on_start(self, study, trials):
            events.append(("start", trials))

        def on_ask(self, study, pool):
            events.append(("ask", [trial.number for trial in pool]))

        def on_tell(self, study, trial):
            events.append(("tell", trial.value))
            raise OSError("a watcher's own trouble")

        def on_fail(self, study, trial):
            events.append(("fail", trial.reason))

        def on_end(self, study):
            events.append(("end",))

    values = iter([1.0, math.nan])
    line.run(lambda x: next(values), trials=2, callbacks=[Watch(), object()])

    expected = [
        ("start", 2),
        ("ask", [0]),
        ("tell", 1.0),
        ("ask", [1]),
        ("fail", "the objective returned nan"),
        ("end",),
    ]
    assert expected == events
    assert "a watcher's own trouble" in caplog.text


@pytest.mark.parametrize("terminal", [False, True])
def test_progress(line, terminal):
    """Plain lines, one a pool, or a bar; failures are named."""
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=terminal, width=120, color_system=None)
    line.run(objectives.raises_above_half, trials=8, q=4, executor="threads", progress=Display(console))
    text = stream.getvalue()

    best = min(trial.value for trial in line.trials if trial.value is not None)
    assert f"best loss {best:.6g}" in text
    assert text.count("failed: ValueError: no convergence") == line.counts["failed"]
    assert terminal or ["pool 0: 4 of 8", "pool 1: 8 of 8"] == [w[:14] for w in text.splitlines() if w[:4] == "pool"]
    assert not terminal or "8/8" in text


def test_progress_of_a_resumed_run(line):
    line.run(objectives.bowl, trials=2)
    stream = io.StringIO()
    line.run(objectives.bowl, trials=3, progress=Display(Console(file=stream, width=120)))

    assert stream.getvalue().startswith("2 of 3 trials are finished already, best loss")


def test_waiting_is_said_once(line):
    """Where all that is left are trials of another run, which may be gone."""
    line.ask(1, lease=2.5)
    stream = io.StringIO()
    line.run(objectives.bowl, trials=1, progress=Display(Console(file=stream, width=120)))

    assert 1 == stream.getvalue().count("waiting for 1 trial(s)")
    assert ["told"] == states(line)


class Away:
    """A store that is away for the first attempts to tell."""

    def __init__(self, study, times):
        self.finish, self.times = study._store.finish, times

    def __call__(self, *arguments, **options):
        if self.times > 0:
            self.times -= 1
            raise StorageUnavailable("the database does not answer.")
        return self.finish(*arguments, **options)


def test_a_store_that_comes_back_loses_nothing(line, monkeypatch, caplog):
    monkeypatch.setattr(telling, "WAITS", (0.0, 0.0))
    monkeypatch.setattr(line._store, "finish", Away(line, 2))
    line.run(objectives.bowl, trials=2)

    assert ["told", "told"] == states(line)
    assert 2 == caplog.text.count("could not be stored")


def test_a_store_that_stays_away_ends_the_run_with_the_values(line, monkeypatch):
    monkeypatch.setattr(telling, "WAITS", (0.0,))
    monkeypatch.setattr(line._store, "finish", Away(line, 99))
    with pytest.raises(RunStopped, match=r"does not answer\. Not stored, .*: trial 0: 0\.25"):
        line.run(lambda x: 0.25, trials=2)


def test_a_trial_that_others_have_told_stands(line, caplog):
    line.run(lambda x: line.tell(line.trials[-1], 1.0) and 2.0, trials=1)

    assert 1.0 == line.best.value
    assert "somebody else has told trial 0" in caplog.text


def test_leases_are_renewed_while_trials_run(tmp_path):
    """Longer than its lease, a trial is not handed out to another run."""
    url = f"sqlite:///{tmp_path / 'a.db'}"
    with Study(url, space=LINE, minimize="loss", settings=FILL) as study, Study(url) as other:

        def f(x):
            lease = other.pending[0].lease
            until = time.monotonic() + 30
            while other.pending[0].lease == lease and time.monotonic() < until:
                time.sleep(0.01)
            return float(other.pending[0].lease > lease)

        study.run(f, trials=1, lease=1.0)

        assert 1.0 == study.best.value


def test_two_runs_share_a_total(tmp_path):
    """What a dead run had on a lease is waited for, and taken over."""
    url = f"sqlite:///{tmp_path / 'a.db'}"
    with Study(url, space=LINE, minimize="loss", settings=FILL) as study:
        [dead] = study.ask(1, lease=0.4)
        study.run(objectives.bowl, trials=3, lease=60)

        assert 3 == len(study.trials) == study.counts["told"]
        assert dead.params == study.trials[0].params


def shifted(study, seconds):
    """The study, whose store has a clock that is ahead of this machine's by so many seconds."""
    study._store._clock = lambda: time.time() + seconds
    return study


def test_a_lease_that_is_over_by_the_clock_of_the_store(line):
    """Its trial is taken over at once, though by the clock of this machine it has a while left."""
    shifted(line, 20.0).ask(1, lease=1e-9)
    began = time.monotonic()
    line.run(objectives.bowl, trials=1)

    assert ["told"] == states(line)
    assert time.monotonic() - began < 10


def test_a_lease_that_lives_by_the_clock_of_the_store(line):
    """Its trial is another run's, and a part of the total."""
    [other] = shifted(line, -60.0).ask(1, lease=30)

    class Tells:
        def on_tell(self, study, trial):
            study.tell(other, 1.0)

    line.run(objectives.bowl, trials=2, q=2, executor="threads", callbacks=[Tells()])

    assert ["told", "told"] == states(line)


def test_watchers_are_told_of_no_empty_pool(line):
    """Where a run's own lease is over by a clock that jumped, before it was renewed."""
    jumped, sizes, seconds = threading.Event(), [], [0.0]
    line._store._clock = lambda: time.time() + seconds[0]

    class Watch:
        def on_ask(self, study, pool):
            sizes.append(len(pool))

        def on_tell(self, study, trial):
            seconds[0] = 1e4

    def f(x):
        if x == line.trials[0].params["x"]:
            jumped.wait(60)
        elif len(line.trials) > 3:
            jumped.set()
        return x

    line.run(f, trials=6, q=2, asynchronous=True, executor="threads", lease=600, callbacks=[Watch()])

    assert 6 == sum(sizes) == line.counts["told"]
    assert 0 not in sizes


def test_a_run_that_ends_gives_up_its_leases(line):
    """The next run need not wait for them."""
    with pytest.raises(RunStopped, match="takes no more calls"), ThreadPoolExecutor(1) as over:
        over.shutdown()
        line.run(objectives.bowl, trials=1, executor=over, lease=600)
    line.run(objectives.bowl, trials=1, lease=600)

    assert ["told"] == states(line)


def test_threads_where_processes_cannot(line, caplog):
    """A lambda cannot be sent; said once, and not an error."""
    caplog.set_level(logging.WARNING)
    line.run(lambda x: x, trials=2, q=2)

    assert "threads are used instead of processes, because it cannot be pickled" in caplog.text
    assert 2 == line.counts["told"]


@pytest.mark.parametrize(
    "f, options, message",
    [
        (objectives.bowl, {"trials": -1}, "trials: expected a whole number"),
        (objectives.bowl, {"q": 0}, "q: expected a whole number"),
        (objectives.bowl, {"timeout": 0}, "timeout: expected seconds"),
        (objectives.bowl, {"lease": "a"}, "lease: expected seconds"),
        (objectives.bowl, {"executor": "dask"}, "executor: unknown word 'dask'"),
        (objectives.bowl, {"executor": 7}, "executor: expected one of concurrent.futures, got int"),
        (objectives.bowl, {"executor": "here", "timeout": 3}, 'executor: "here" runs one trial at a time'),
        (objectives.bowl, {"asynchronous": "no"}, "asynchronous: expected True or False, got 'no'"),
        (objectives.bowl, {"progress": "bar"}, "progress: expected true, false or an object .* got 'bar'"),
        (objectives.waits, {}, "f: is `async def`"),
        (partial(objectives.waits), {"executor": "threads"}, "f: is `async def`"),
        (lambda x: x, {"executor": "processes"}, "f: cannot be sent to processes"),
        (lambda x: x, {"executor": ProcessPoolExecutor(1)}, "f: cannot be sent to processes"),
    ],
)
def test_wrong_arguments(line, f, options, message):
    with pytest.raises(InputError, match=message):
        line.run(f, **{"trials": 1, **options})

    assert [] == line.trials


def test_what_is_no_function():
    with pytest.raises(InputError, match="f: expected a function of the parameters, got int"):
        kind_of(3, None, alone=True)


def test_a_partial_and_a_standard_error(line):
    line.run(partial(objectives.with_error), trials=2, q=2)

    assert [0.5, 0.5] == [trial.sem for trial in line.trials]


@pytest.mark.slow
def test_a_server_that_restarts_in_mid_run(own_server):
    """Three restarts while trials run and are told: the run goes on by itself, and every value is there once."""
    study = Study(own_server.get_uri(), space={"x": Float(0, 1)}, minimize="loss", settings=FILL)

    def restarting(x):
        time.sleep(0.02)
        return objectives.bowl(x)

    class Restarts:
        def on_tell(self, study, trial):
            if trial.number in (5, 20, 41):
                threading.Thread(target=restart).start()

    def restart():
        own_server.stop()
        own_server.ensure_postgres_running()

    study.run(restarting, trials=60, q=4, executor="threads", callbacks=[Restarts()], asynchronous=True)

    assert {"pending": 0, "told": 60, "failed": 0} == study.counts
    assert all(trial.value == objectives.bowl(trial.params["x"]) for trial in study.trials)
    study.close()


@pytest.mark.parametrize("jump", [-1e6, 1e6])
def test_a_clock_that_jumps_in_mid_run(tmp_path, jump):
    """By eleven days, either way, with leases: every trial is told once, none is handed out twice."""
    study = Study(f"sqlite:///{tmp_path / 'study.db'}", space={"x": Float(0, 1)}, minimize="loss", settings=FILL)
    shift = [0.0]
    study._store._clock = lambda: time.time() + shift[0]

    class Jumps:
        def on_tell(self, study, trial):
            if trial.number == 3:
                shift[0] = jump

    calls = []

    def counted(x):
        calls.append(x)
        return objectives.bowl(x)

    study.run(counted, trials=12, q=2, executor="threads", lease=60, callbacks=[Jumps()])

    assert {"pending": 0, "told": 12, "failed": 0} == study.counts
    assert 12 == len(calls) == len(set(calls))
    study.close()
