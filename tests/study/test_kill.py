"""Processes that are killed at any moment, and many at once: nothing acknowledged is lost, no pool is half there."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter

import pytest

from poolwise.space.parameters import Float, Int
from poolwise.study.definition import Settings
from poolwise.study.study import Study

SPACE = {"x": Float(0, 1), "n": Int(1, 9)}
Q = 3

# One process loads the library and forks a child for each line it reads: "log request-prefix rounds". A child asks and
# tells, and writes what was acknowledged, a line each, to its log.
NURSERY = """
import os, sys
from poolwise.space.parameters import Float
from poolwise.study.study import Study
Study(space={"x": Float(0, 1)}, minimize="loss").ask()  # whatever loads late is loaded
assert "jax" not in sys.modules

def work(url, path, prefix, rounds):
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    say = lambda *words: os.write(log, (" ".join(map(str, words)) + "\\n").encode())
    study = Study(url)
    for k in range(int(rounds)):
        say("asking", f"{prefix}-{k}")
        pool = study.ask(3, request_id=f"{prefix}-{k}")
        say("asked", f"{prefix}-{k}", *[trial.number for trial in pool])
        for trial in pool:
            study.tell(trial, trial.number / 7)
            say("told", trial.number)
    say("done", prefix)

for line in sys.stdin:
    if (pid := os.fork()) == 0:
        try:
            work(sys.argv[1], *line.split())
        except BaseException as error:
            print("error", repr(error), file=sys.stderr, flush=True)
        os._exit(0)
    print(pid, flush=True)
    while True:
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                break
        except ChildProcessError:
            break
"""


class Nursery:
    """Starts workers on a study, and reads what they were told."""

    def __init__(self, url, folder):
        self.folder = folder
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        with (folder / "errors").open("w") as errors:
            self.process = subprocess.Popen([sys.executable, "-c", NURSERY, url], stderr=errors, text=True, **pipes)

    def start(self, name, rounds=1000):
        print(self.folder / f"{name}.log", name, rounds, file=self.process.stdin, flush=True)
        return int(self.process.stdout.readline())

    def said(self, name):
        """Whole lines that a worker wrote."""
        path = self.folder / f"{name}.log"
        text = path.read_text() if path.exists() else ""
        return [line.split() for line in text[: text.rfind("\n") + 1].splitlines()]

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait(60)
        assert "" == (self.folder / "errors").read_text()


def new_study(url):
    return Study(url, space=SPACE, minimize="loss", settings=Settings(acquisition="fill"))


def remember(said, acknowledged):
    """What a worker was told is done."""
    for words in said:
        if words[0] == "told":
            acknowledged["told"].add(int(words[1]))
        if words[0] == "asked":
            acknowledged["asked"][words[1]] = [int(word) for word in words[2:]]


def check(study, acknowledged):
    """Every promise, on the whole study."""
    trials = study.trials  # raises unless numbers are consecutive
    assert all(trials[n].value == n / 7 for n in acknowledged["told"])
    assert all(t.value in (None, t.number / 7) for t in trials)
    pools = {}
    for trial in trials:
        pools.setdefault(trial.request_id, []).append(trial.number)
    assert {Q} == {len(numbers) for numbers in pools.values()} or not pools
    assert all(pools[request] == numbers for request, numbers in acknowledged["asked"].items())
    assert len(trials) == len({json.dumps(t.params) for t in trials})


def check_kills(url, folder, count, seed):
    rng = random.Random(seed)
    study, nursery = new_study(url), Nursery(url, folder)
    acknowledged = {"told": set(), "asked": {}}
    interrupted = 0
    for i in range(count):
        pid = nursery.start(f"w{i}")
        lines = rng.randrange(1, 12)
        while len(nursery.said(f"w{i}")) < lines:
            time.sleep(0.0005)
        time.sleep(rng.uniform(0.0, 0.01))
        os.kill(pid, signal.SIGKILL)
        said = nursery.said(f"w{i}")
        remember(said, acknowledged)
        if i % max(1, count // 15) == 0:
            check(study, acknowledged)
        last = [words[1] for words in said if words[0] == "asking"][-1]
        interrupted += said[-1][0] == "asking"
        numbers = [t.number for t in study.ask(Q, request_id=last)]  # whether it was answered or not
        assert numbers == [t.number for t in study.ask(Q, request_id=last)]
        assert numbers == acknowledged["asked"].get(last, numbers)
    check(study, acknowledged)
    nursery.close()
    study.close()
    assert interrupted  # some kills came while a pool was being asked for
    assert len(acknowledged["told"]) > count


def check_crowd(url, folder, workers, rounds):
    """Many processes on one study; returns transactions a second."""
    study, nursery = new_study(url), Nursery(url, folder)
    began = time.perf_counter()
    for i in range(workers):
        nursery.start(f"w{i}", rounds)
    while not all(nursery.said(f"w{i}")[-1:] == [["done", f"w{i}"]] for i in range(workers)):
        assert time.perf_counter() - began < 300, (folder / "errors").read_text()
        time.sleep(0.02)
    seconds = time.perf_counter() - began
    nursery.close()
    acknowledged = {"told": set(), "asked": {}}
    for i in range(workers):
        remember(nursery.said(f"w{i}"), acknowledged)
    check(study, acknowledged)
    assert workers * rounds * Q == len(study.trials) == len(acknowledged["told"])
    assert {"told": len(study.trials)} == Counter(t.state for t in study.trials)
    study.close()
    return workers * rounds * (1 + Q) / seconds


def test_kills_on_sqlite(tmp_path):
    """15 kills; 300 in the long run."""
    check_kills(f"sqlite:///{tmp_path / 'study.db'}", tmp_path, 15, seed=1)


def test_kills_on_postgresql(databases, tmp_path):
    """5 kills; 100 in the long run."""
    check_kills(databases(), tmp_path, 5, seed=2)


def test_a_crowd_on_sqlite(tmp_path):
    """16 processes: no trial lost or doubled, no two equal points, no deadlock."""
    check_crowd(f"sqlite:///{tmp_path / 'study.db'}", tmp_path, 16, 1)


def test_a_crowd_on_postgresql(databases, tmp_path):
    check_crowd(databases(), tmp_path, 16, 1)


@pytest.mark.slow
def test_300_kills_on_sqlite(tmp_path):
    check_kills(f"sqlite:///{tmp_path / 'study.db'}", tmp_path, 300, seed=3)


@pytest.mark.slow
def test_100_kills_on_postgresql(databases, tmp_path):
    check_kills(databases(), tmp_path, 100, seed=4)


@pytest.mark.slow
def test_a_crowd_for_longer(databases, tmp_path):
    """Throughput is printed: run with -s."""
    for name, url in (("sqlite", f"sqlite:///{tmp_path / 'study.db'}"), ("postgresql", databases())):
        folder = tmp_path / name
        folder.mkdir()
        print(f"{name}: {check_crowd(url, folder, 16, 12):.0f} transactions a second by 16 processes")
