"""What tests of engines share: an objective in trouble, why trials failed, and scripts that get Ctrl-C."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from poolwise.space.parameters import Float
from poolwise.study.definition import Settings
from poolwise.study.study import Study

FILL = Settings(acquisition="fill")


def reasons(study):
    return [trial.reason for trial in study.trials if trial.state == "failed"]


KILLED = (10, 31)  # the calls that kill their worker


def troubled(folder, wait):
    """An objective of which every fifth call fails, and two calls kill their worker; a file for each call counts."""

    def objective(x):
        call = len(os.listdir(folder))
        while True:  # a number of its own for each call, whichever process makes it
            try:
                os.close(os.open(folder / str(call), os.O_CREAT | os.O_EXCL))
                break
            except FileExistsError:
                call += 1
        time.sleep(wait)
        if call in KILLED:
            os.kill(os.getpid(), signal.SIGKILL)
        if call % 5 == 4:
            raise ArithmeticError(f"no convergence in call {call}")
        return (x - 0.37) ** 2 + float("jax" in sys.modules)

    return objective


INTERRUPTED = """
import os, sys, time
from pathlib import Path

HERE = Path(__file__).parent

def f(x):
    (HERE / f"call-{os.getpid()}-{x!r}").touch()
    while x > 0.5 and not (HERE / "go").exists():
        time.sleep(0.01)
    return x

def run(executor):
    from poolwise.study.study import Study  # not in workers, which import the script

    with Study(f"sqlite:///{HERE / 'a.db'}") as study:
        try:
            study.run(f, trials=8, q=4, executor=executor, lease=60)
        except KeyboardInterrupt as error:
            print(error, flush=True)
            raise
        print("finished", flush=True)
"""


def check_interrupted(folder, main, resume=None):
    """Send Ctrl-C to a script that runs a study in an engine, and check what it leaves; then go on with the study.

    As on a terminal, the whole group of processes gets it. `main` is the end of the script, which calls `run`;
    `resume(study)` goes on, or else the script again. Gives the processes that had called the objective.
    """
    script = folder / "script.py"
    script.write_text(INTERRUPTED + main)
    with Study(f"sqlite:///{folder / 'a.db'}", space={"x": Float(0, 1)}, minimize="loss", settings=FILL) as study:
        with started(script) as process:
            # of the first four points two are above one half, and wait
            wait_for(lambda: study.counts["told"] == 2 and len(list(folder.glob("call-*"))) == 4, process)
            sent = time.monotonic()
            os.killpg(process.pid, signal.SIGINT)
            said = process.stdout.readline()
            took, at = time.monotonic() - sent, time.time()
            before, callers = study.trials, {int(path.name.split("-")[1]) for path in folder.glob("call-*")}
            (folder / "go").touch()  # so that an engine that cannot end a call can close
            _, errors = process.communicate(timeout=60)

        assert said.startswith("stopped by Ctrl-C: 2 of 8 trials are finished, 2 stay pending in study 'study'"), errors
        assert 5 > took
        assert 0 != process.returncode and "RunInterrupted: stopped by Ctrl-C" in errors
        assert "run: " not in errors  # no warning of Poolwise's: nothing went wrong
        assert ["told" if trial.params["x"] < 0.5 else "pending" for trial in before] == [t.state for t in before]
        assert all(trial.lease.timestamp() < at + 1 for trial in before if trial.state == "pending")

        if resume is None:
            with started(script) as process:
                output, errors = process.communicate(timeout=60)
            assert "finished\n" == output, errors
        else:
            resume(study)
        assert {"pending": 0, "told": 8, "failed": 0} == study.counts
        assert [trial.params for trial in before] == [trial.params for trial in study.trials[:4]]
        assert all(trial.value == trial.params["x"] for trial in study.trials)
    return callers


@contextlib.contextmanager
def started(script):
    """A script, as the leader of a group of processes; killed if it is not over at the end."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, str(script)], start_new_session=True, **pipes) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


def wait_for(condition, process=None, seconds=60):
    """Look again and again, for a while at most."""
    until = time.monotonic() + seconds
    while not condition():
        assert process is None or process.poll() is None, process.stderr.read()
        assert time.monotonic() < until
        time.sleep(0.02)


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
