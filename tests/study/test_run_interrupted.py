"""Scripts that run a study and are interrupted, killed, or not written for worker processes."""

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import Future
from pathlib import Path

import pytest

from poolwise.space.parameters import Float
from poolwise.study.calling import Report
from poolwise.study.definition import Settings
from poolwise.study.interrupt import Inbox, Interrupt
from poolwise.study.stops import RunInterrupted
from poolwise.study.study import Study

LINE, FILL = {"x": Float(0, 1)}, Settings(acquisition="fill")

SCRIPT = """
import os, sys, time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

def f(x):
    here = Path(__file__).parent
    (here / f"call-{os.getpid()}-{x!r}").touch()
    while x > 0.5 and not (here / "go").exists():
        time.sleep(0.01)
    return x

def main(word):
    from poolwise.study.study import Study  # not in workers, which import the script

    study = Study(f"sqlite:///{Path(__file__).parent / 'a.db'}")
    given = ProcessPoolExecutor(2, mp_context=get_context("spawn")) if word == "given" else word
    study.run(f, trials=5, q=1 if word == "here" else 2, executor=given)
    print("finished", study.counts)
"""
GUARDED = 'if __name__ == "__main__":\n    main(*sys.argv[1:])\n'


@pytest.fixture
def study(tmp_path):
    """A study of which the first trial waits (x is above one half), and the second does not."""
    with Study(f"sqlite:///{tmp_path / 'a.db'}", space=LINE, minimize="loss", settings=FILL) as made:
        yield made


def start(folder, *arguments, call=GUARDED):
    script = folder / "script.py"
    script.write_text(SCRIPT + call)
    command = [sys.executable, str(script), *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)


def wait_for(condition):
    until = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)


def workers(folder):
    return {int(path.name.split("-")[1]) for path in folder.glob("call-*")}


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize(
    "word, told",
    [
        ("processes", 1),
        *(pytest.param(*case, marks=pytest.mark.slow) for case in (("here", 0), ("threads", 1), ("given", 1))),
    ],
)
def test_ctrl_c_leaves_a_study_that_can_be_resumed(tmp_path, study, word, told):
    """As on a terminal, where the whole group of processes gets it: finished values are told, the rest is pending."""
    process = start(tmp_path, word)
    wait_for(lambda: study.counts["told"] == told and len(list(tmp_path.glob("call-*"))) == told + 1)
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=60)

    assert f"stopped by Ctrl-C: {told} of 5 trials are finished, 1 stay pending in study 'study'" in errors
    assert 0 != process.returncode
    assert {"pending": 1, "told": told, "failed": 0} == study.counts
    assert not any(alive(pid) for pid in workers(tmp_path))

    before = study.trials
    (tmp_path / "go").touch()
    output, errors = start(tmp_path, word).communicate(timeout=60)

    assert "finished {'pending': 0, 'told': 5, 'failed': 0}\n" == output, errors
    assert [t.params for t in before] == [t.params for t in study.trials[: told + 1]]
    assert all(trial.value == trial.params["x"] for trial in study.trials)


def test_workers_end_with_a_killed_parent(tmp_path, study):
    process = start(tmp_path, "processes")
    wait_for(lambda: study.counts["told"] == 1)
    process.kill()
    process.communicate(timeout=60)

    assert workers(tmp_path)
    wait_for(lambda: not any(alive(pid) for pid in workers(tmp_path)))


class Engine:
    """Workers that are lost with Ctrl-C, before the run looks: the first call is cancelled, the second gets Ctrl-C."""

    stuck, calls = 0, 0

    def __init__(self, report):
        self.last, self.closed = report, []

    def make_workers(self, f, inbox):
        self.inbox = inbox
        return self

    def submit(self, params):
        self.calls += 1
        future = Future()
        future.add_done_callback(self.inbox.put)
        future.set_result(None if self.calls == 1 else self.last)
        if self.calls == 2:
            signal.raise_signal(signal.SIGINT)
        return future

    def started(self, future):
        return None

    def report(self, future):
        return future.result()

    def drop(self, future):
        raise NotImplementedError

    def close(self, *, now):
        self.closed.append(now)


@pytest.mark.parametrize("report", [None, Report(reason="the worker was lost", lost=True)], ids=["cancelled", "lost"])
def test_a_trial_does_not_fail_of_ctrl_c(study, report):
    """On a terminal the workers of an engine may get it as well; their trials stay pending, also one that ran twice."""
    engine = Engine(report)
    with pytest.raises(RunInterrupted, match="0 of 5 trials are finished, 1 stay pending"):
        study.run(lambda x: x, trials=5, executor=engine)

    assert {"pending": 1, "told": 0, "failed": 0} == study.counts
    assert 2 == engine.calls and True in engine.closed


def test_what_the_run_ends_itself_is_not_read(study, caplog):
    """Calls that are cancelled because the run leaves are neither told nor warned of."""

    class Late(Engine):
        def submit(self, params):
            self.calls += 1
            self.future = Future()
            signal.raise_signal(signal.SIGINT)
            return self.future

        def report(self, future):
            raise AssertionError

        def close(self, *, now):
            if not self.future.done():
                self.future.set_result(None)

    with pytest.raises(RunInterrupted, match="0 of 5 trials are finished, 1 stay pending"):
        study.run(lambda x: x, trials=5, executor=Late(None))

    assert [] == caplog.records


@pytest.mark.parametrize("expired", ["ask", "fail"])
def test_a_trial_on_a_lease_is_left_to_the_next_run(expired):
    """It is nobody's, and its lease has not run out."""
    with Study(space=LINE, minimize="loss", settings=Settings(acquisition="fill", expired=expired)) as study:
        with pytest.raises(RunInterrupted):
            study.run(lambda x: signal.raise_signal(signal.SIGINT), trials=3, lease=30)
        assert {"pending": 1, "told": 0, "failed": 0} == study.counts

        study.run(lambda x: x, trials=3, lease=30)
        assert {"pending": 0, "told": 3, "failed": 0} == study.counts


def test_a_second_ctrl_c_is_raised():
    interrupt = Interrupt(Inbox())
    before = signal.getsignal(signal.SIGINT)
    with interrupt.watching():
        signal.raise_signal(signal.SIGINT)
        assert interrupt.noted
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)

    assert before == signal.getsignal(signal.SIGINT)


def test_a_script_without_a_guard_has_threads(tmp_path, study):
    """Worker processes would run it again; so there are none, and a warning says why."""
    (tmp_path / "go").touch()
    output, errors = start(tmp_path, call="main(None)\n").communicate(timeout=60)

    assert "threads are used instead of processes, because script.py has no `if __name__" in errors
    assert output.count("finished") == 1
    assert 1 == len(workers(tmp_path))


def test_a_script_that_runs_outside_its_guard_is_told_so(tmp_path, study):
    _, errors = start(tmp_path, call='main("processes")\nif __name__ == "__main__":\n    pass\n').communicate(
        timeout=60
    )

    assert "RunStopped: A worker process could not start" in errors
    assert {"pending": 2, "told": 0, "failed": 0} == study.counts


def test_an_objective_that_workers_do_not_find(tmp_path, study):
    """Defined under the guard, it is not there when workers import the script."""
    call = 'if __name__ == "__main__":\n    def g(x): return x\n    f = g\n    main("processes")\n'
    _, errors = start(tmp_path, call=call).communicate(timeout=60)

    assert "the objective is not found there (AttributeError: module '__mp_main__' has no attribute 'g')" in errors
    assert {"pending": 2, "told": 0, "failed": 0} == study.counts
