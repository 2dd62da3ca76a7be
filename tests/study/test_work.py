"""Workers that share a study: no two have the same trial, none is lost, and what one leaves another takes."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from concurrent.futures import Executor, Future

import pytest

from poolwise.space.parameters import Float, Int
from poolwise.study.apart import ask_apart
from poolwise.study.asking import Wish
from poolwise.study.definition import Settings
from poolwise.study.engine import url_of
from poolwise.study.errors import ConflictError
from poolwise.study.leases import Board, give_back, look, take, waiting_lease
from poolwise.study.stops import RunStopped
from poolwise.study.study import Study
from poolwise.study.turn import turn
from poolwise.study.work import Means, Shift, work

SPACE = {"x": Float(0, 1)}
FILL = Settings(acquisition="fill")


def ask(study, q):
    """A pool as a worker asks for it."""
    return study.ask(q, lease=waiting_lease(study))


def test_trials_are_taken_in_turn(clocked):
    """Each once, by number, up to the budget; a trial that is given back comes first."""
    ask(clocked, 4)
    clocked._store._clock.now += 1

    assert [0, 1, 2] == [take(clocked, 60.0, 3).number for _ in range(3)]
    assert take(clocked, 60.0, 3) is None
    assert Board(pools=1, finished=0, held=3, free=1) == look(clocked)

    give_back(clocked, 1)
    clocked.tell(0, 1.0)
    assert Board(pools=1, finished=1, held=1, free=2) == look(clocked)
    assert [1, 3] == [take(clocked, 60.0, 9).number for _ in range(2)]


def test_a_lease_that_ran_out(clocked):
    """The trial is taken by another; the third time it is failed, and still takes a late value."""
    clock = clocked._store._clock
    ask(clocked, 1)
    for _ in range(3):
        clock.now += 100
        assert 0 == take(clocked, 60.0, 9).number
    clock.now += 100

    assert take(clocked, 60.0, 9) is None
    assert ("failed", True) == (clocked.trial(0).state, "3 workers" in clocked.trial(0).reason)
    assert ["pending", "pending"] == [entry.state for entry in clocked.history(0)]
    assert "told" == clocked.tell(0, 5.0).state


def test_a_study_that_fails_what_has_lapsed(url, clock):
    """The setting holds for workers too, while a trial that waits or is given back is not failed."""
    with Study(url, space=SPACE, minimize="loss", settings=Settings(expired="fail")) as study:
        study._store._clock = clock
        ask(study, 2)
        clock.now += 100
        assert 0 == take(study, 60.0, 9).number
        give_back(study, 0)
        clock.now += 100
        assert 0 == take(study, 60.0, 9).number
        clock.now += 100
        assert 1 == take(study, 60.0, 9).number

        assert {"pending": 1, "told": 0, "failed": 1} == study.counts
        assert "lease ran out" in study.trial(0).reason


@pytest.mark.parametrize("url", ["sqlite", "postgresql"], indirect=True)
def test_a_crowd_takes_each_trial_once(url):
    """Eight threads, each with a connection of its own."""
    with Study(url, space=SPACE, minimize="loss", settings=FILL) as study:
        ask(study, 40)
    taken, errors = [], []

    def worker():
        try:
            with Study(url) as mine:
                while (trial := take(mine, 60.0, 40)) is not None:
                    taken.append(trial.number)
        except Exception as error:
            errors.append(error)

    together(worker, 8)

    assert [] == errors
    assert list(range(40)) == sorted(taken)


@pytest.mark.parametrize("url", ["sqlite", "postgresql"], indirect=True)
def test_one_has_the_turn(url):
    """Until it is over."""
    with (
        Study(url, name="a", space=SPACE, minimize="loss") as first,
        Study(url, name="a") as second,
    ):
        for _ in range(2):
            with turn(first) as mine, turn(second) as other:
                assert (True, False) == (mine, other)


@pytest.mark.parametrize(
    "board, synchronous, asynchronous",
    [
        (Board(pools=0, finished=0, held=0, free=0), 8, 8),
        (Board(pools=1, finished=0, held=8, free=0), 0, 1),
        (Board(pools=1, finished=2, held=6, free=0), 0, 2),
        (Board(pools=1, finished=7, held=0, free=1), 0, 0),
        (Board(pools=2, finished=16, held=0, free=0), 4, 4),
        (Board(pools=3, finished=16, held=4, free=0), 0, 0),
        (Board(pools=3, finished=16, held=3, free=0), 0, 1),
    ],
)
def test_the_size_of_a_pool(board, synchronous, asynchronous):
    """Whole pools one after the other, or as many as are missing to q; never beyond the budget."""
    assert synchronous == Shift(20, 8).pool_size(board)
    assert asynchronous == Shift(20, 8, asynchronous=True).pool_size(board)


def together(function, count):
    threads = [threading.Thread(target=function) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def workers(url, objective, count, shift):
    """Workers in threads, each with a study of its own; what they raised."""
    errors = []

    def one():
        try:
            with Study(url) as mine:
                work(mine, shift, Means(url, objective, "threads"))
        except BaseException as error:
            errors.append(error)

    together(one, count)
    return errors


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("url", ["sqlite", "postgresql"], indirect=True)
def test_workers_share_a_budget(url, asynchronous):
    """Every trial is run once, and no pool is asked for twice."""
    calls = []

    def objective(x):
        calls.append(x)
        return x

    with Study(url, space=SPACE, minimize="loss", settings=FILL) as study:
        assert [] == workers(url, objective, 4, Shift(14, 4, asynchronous=asynchronous))

        assert {"pending": 0, "told": 14, "failed": 0} == study.counts
        assert sorted(calls) == sorted(trial.params["x"] for trial in study.trials)
        sizes = Counter(trial.pool for trial in study.trials)
        assert max(sizes.values()) == 4 and (asynchronous or [4, 4, 4, 2] == [sizes[k] for k in range(4)])


def test_a_trial_that_is_given_back_while_a_pool_is_asked_for(tmp_path):
    """It is the pool; so no trial is new, and the worker goes on to ask for those that are."""
    url = f"sqlite:///{tmp_path / 'study.db'}"

    class Other:
        """Another worker, which gives its trial back when this one has looked, and counts how often it looks."""

        looks = 0

        def on_look(self, study, board):
            self.looks += 1
            if board.held:
                give_back(study, 0)
            if self.looks > 50:
                pytest.fail("the worker looks again and again")

    with Study(url, space=SPACE, minimize="loss", settings=FILL) as study:
        study.ask(1, lease=60)
        work(study, Shift(4, 2, asynchronous=True), Means(url, lambda x: x, "threads", Other()))

        assert {"pending": 0, "told": 4, "failed": 0} == study.counts
        assert [0, 2, 2, 3] == [trial.pool for trial in study.trials]


def test_workers_end_when_nothing_is_left(tmp_path):
    """A space of three experiments, and a budget of nine."""
    url = f"sqlite:///{tmp_path / 'study.db'}"
    with Study(url, space={"n": Int(1, 3)}, minimize="loss", settings=FILL) as study:
        assert [] == workers(url, lambda n: n, 2, Shift(9, 2))

        assert {"pending": 0, "told": 3, "failed": 0} == study.counts


def test_a_worker_that_fails_everything_leaves(tmp_path):
    """Before it has spent the budget of all."""
    url = f"sqlite:///{tmp_path / 'study.db'}"
    with Study(url, space=SPACE, minimize="loss", settings=FILL) as study:
        [error] = workers(url, lambda x: 1 / 0, 1, Shift(64, 8))

        assert isinstance(error, RunStopped) and "ZeroDivisionError" in str(error)
        assert {"pending": 2, "told": 0, "failed": 6} == study.counts


class Cancelling(Executor):
    """Cancels every call."""

    def submit(self, fn, /, *args, **kwargs):
        future = Future()
        future.cancel()
        future.set_running_or_notify_cancel()
        return future


def test_a_call_that_is_cancelled_costs_its_trial(tmp_path):
    """And not the worker."""
    url = f"sqlite:///{tmp_path / 'study.db'}"
    with Study(url, space=SPACE, minimize="loss", settings=FILL) as study:
        work(study, Shift(2), Means(url, lambda x: x, Cancelling()))

        assert ["the call did not come through (the executor cancelled the call)"] * 2 == [
            trial.reason for trial in study.trials
        ]


def test_an_idle_worker_may_leave(tmp_path):
    """While another has the only trial that is left."""
    url = f"sqlite:///{tmp_path / 'study.db'}"
    with Study(url, space=SPACE, minimize="loss", settings=FILL) as study:
        ask(study, 1)
        take(study, 60.0, 1)
        assert [] == workers(url, lambda x: x, 1, Shift(1, 1, idle=0.2))

        assert 1 == study.counts["pending"]


def test_a_server_that_restarts_while_workers_work(own_server):
    """Nobody ends, nothing is lost, and everything is told once."""
    url = own_server.get_uri()
    done = []

    def objective(x):
        time.sleep(0.02)
        done.append(x)
        if len(done) in (5, 15):
            own_server.stop()
            own_server.ensure_postgres_running()
        return x

    with Study(url, space=SPACE, minimize="loss", settings=FILL) as study:
        assert [] == workers(url, objective, 3, Shift(24, 4))

        assert {"pending": 0, "told": 24, "failed": 0} == study.counts
        assert all(trial.value == trial.params["x"] for trial in study.trials)


def test_a_pool_of_another_process(tmp_path):
    """It is the one that this process would have asked for; a repeat gives it again, another size is a conflict."""
    url = url_of(tmp_path / "study?.db")
    with Study(url, space=SPACE, minimize="loss", settings=FILL) as study:
        for _ in range(2):
            ask_apart(url, "study", Wish(3, "mine", None), lambda: False)
        with Study(space=SPACE, minimize="loss", settings=FILL) as same:
            assert [trial.params for trial in same.ask(3)] == [trial.params for trial in study.pending]
        with pytest.raises(ConflictError):
            ask_apart(url, "study", Wish(2, "mine", None), lambda: False)
        ask_apart(url, "study", Wish(2, "given up", None), lambda: True)
        assert 3 == len(study.pending)


STUDY = """\
name = "crowd"
minimize = "loss"
url_env = "STUDY_URL"
q = {q}
trials = {trials}
command = ["{{python}}", "-I", "-S", "loss.py", "{{x}}"]
[space.x]
type = "float"
low = 0
high = 1
[settings]
acquisition = "{acquisition}"
"""

# Every fifth call fails; two calls kill the worker that waits for them.
LOSS = """\
import fcntl, os, signal, sys
log = os.open("calls", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
fcntl.flock(log, fcntl.LOCK_EX)
os.write(log, b".")
count = os.fstat(log).st_size
os.close(log)
if count in (3, 4):
    os.kill(os.getppid(), signal.SIGKILL)
elif count % 5 == 0:
    raise SystemExit("no convergence")
else:
    print((float(sys.argv[1]) - 0.3) ** 2)
"""


def check_crowd(url, folder, count, trials, q, acquisition):
    """Worker processes of the command line, two of which are killed in mid-trial; the study that they leave."""
    (folder / "study.toml").write_text(STUDY.format(q=q, trials=trials, acquisition=acquisition))
    (folder / "loss.py").write_text(LOSS)
    command = [sys.executable, "-m", "poolwise", "work", "--lease", "4"]
    environment = {**os.environ, "STUDY_URL": url, "POOLWISE_PROGRAMS": str(folder / "programs")}
    pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
    crowd = [subprocess.Popen(command, cwd=folder, env=environment, **pipes) for _ in range(count)]
    messages = [process.communicate(timeout=600)[1] for process in crowd]
    codes = Counter(process.returncode for process in crowd)

    assert {-signal.SIGKILL: 2, 0: count - 2} == codes, messages
    with Study(url, name="crowd") as study:
        counts, found = study.counts, study.trials
        lapsed = [trial.number for trial in found if study.history(trial)]
    assert trials == len(found) == counts["told"] + counts["failed"]
    assert 2 == len(lapsed)
    assert trials + 2 == (folder / "calls").stat().st_size
    failed = [trial.reason for trial in found if trial.state == "failed"]
    assert (trials + 2) // 5 == len(failed)
    assert all("exit code 1: no convergence" in reason for reason in failed)
    assert all((t.params["x"] - 0.3) ** 2 == t.value for t in found if t.state == "told")
    assert len({trial.params["x"] for trial in found}) == trials


def test_killed_workers_lose_nothing(databases, tmp_path):
    """16 trials by four processes on PostgreSQL, of which two are killed; 64 in the long run."""
    check_crowd(databases(), tmp_path, 4, 16, 4, "fill")


@pytest.mark.slow
@pytest.mark.parametrize("url", ["sqlite", "postgresql"], indirect=True)
def test_64_trials_by_workers_that_are_killed(url, tmp_path):
    """Pools of eight, chosen by the model."""
    check_crowd(url, tmp_path, 5, 64, 8, "ei")
