"""`poolwise run`: commands side by side, failures that cost themselves only, and an end that can be gone on from."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.conftest import SQUARES


def test_a_run_ends_with_the_best(shop):
    """The best trial on standard output, progress and the next steps on standard error."""
    result = shop("run")

    assert ["trial", "loss", "x"] == [line.split()[0] for line in result.stdout.splitlines()]
    assert "6 of 6 trials" in result.stderr
    assert (
        "poolwise run study.toml --trials 30" in result.stderr and "poolwise plot --study study.toml" in result.stderr
    )


def test_a_run_goes_on(shop):
    """At its budget there is nothing to do, which is said with the best; a larger budget goes on."""
    shop("run")
    again = shop("run", code=3)
    more = shop.json("run", "--trials", 9, "--asynchronous", "-q", 2)

    assert "all 6 trials" in again.stderr and again.stdout.startswith("trial")
    assert (9, 9) == (more["finished"], shop.json("status")["told"])


def test_a_space_that_is_exhausted(shop):
    """The run ends with what there is; a second finds nothing to do."""
    shop.write("study.toml", SQUARES.replace('"float"', '"int"'))

    assert 3 == shop.json("run")["finished"]
    assert "no experiment is left" in shop("run", code=3).stderr


def test_failures_cost_themselves_only(shop):
    """The reason is kept, the run goes on."""
    shop.write("loss.py", "import sys\nx = float(sys.argv[1])\nassert x < 0.5, 'too large'\nprint(x)\n")
    done = shop.json("run", "--trials", 12)
    failed = shop.json("trials", "--state", "failed")

    assert 12 == done["finished"] and failed
    assert all("AssertionError: too large" in trial["reason"] for trial in failed)
    assert "too large" in shop("trials").stdout


def test_a_run_that_cannot_succeed_stops(shop):
    """With the reason, and exit code 1."""
    shop.write("loss.py", "raise SystemExit('no such GPU')")
    result = shop("run", "--trials", 100, code=1)

    assert "trials failed" in result.stderr and "no such GPU" in result.stderr
    assert shop.json("status")["failed"] < 20


@pytest.mark.skipif(os.name != "posix", reason="permissions")
def test_a_program_that_vanishes(shop):
    """What cannot be started is no failed experiment: the run ends, and its trials stay pending."""
    shop.write("study.toml", SQUARES.replace('"{python}", "-I", "-S", "loss.py"', '"./tool"').replace("q = 3", "q = 1"))
    shop.write("tool", "#!/bin/sh\nrm tool\necho 1\n").chmod(0o755)

    assert "'./tool' cannot be started" in shop("run", code=1).stderr
    assert {"told": 1, "failed": 0, "pending": 1}.items() <= shop.json("status").items()


def test_lines_of_a_run_are_not_broken(shop):
    """However long a reason is, it is one line where there is no terminal."""
    shop.write("loss.py", f"raise SystemExit('{'word ' * 40}')")

    assert ["word " * 40] == list(
        {line.partition("1: ")[2] + " " for line in shop("run", "--trials", 2).stderr.splitlines() if "failed:" in line}
    )


def test_a_timeout(shop):
    """Ends the trial, not the run."""
    shop.write("loss.py", "import sys, time\ntime.sleep(60 if float(sys.argv[1]) > 0 else 0)\nprint(1)\n")
    shop("run", "--timeout", 0.7, "--trials", 4)
    reasons = [trial["reason"] for trial in shop.json("trials", "--state", "failed")]

    assert reasons and all("no value within 0.7 seconds" in reason for reason in reasons)


@pytest.mark.parametrize(
    "old, new, words",
    [
        ("{x}", "{y}", "names {y}, which is no parameter"),
        ('"{x}"', '"x"', "does not use x"),
        ("{python}", "no-such-program", "no program 'no-such-program'"),
        ("{python}", "loss.py", "'loss.py' is a file, but no program"),
        ("trials = 6", "", "trials: say how many"),
        ("command", "# command", "command: there is none"),
    ],
)
def test_a_file_that_cannot_be_run(shop, old, new, words):
    """It is refused before anything is asked for."""
    shop.write("study.toml", SQUARES.replace(old, new))

    assert words in shop("run", code=2).stderr
    assert not (shop.folder / "study.db").exists()


@pytest.mark.parametrize(
    "text, words",
    [
        ("def f(x):\n    return 1 +\n", "SyntaxError: invalid syntax (train.py, line 2)"),
        ("\nscale = 1 / 0\n", "ZeroDivisionError: division by zero ({folder}/train.py, line 2)"),
        ("import sys\nsys.exit('no data')\n", "SystemExit: no data ({folder}/train.py, line 2)"),
        ("import numpi_\n", "No module named 'numpi_' ({folder}/train.py, line 1)"),
    ],
)
def test_a_module_that_cannot_be_imported(shop, text, words):
    """The error says where in it."""
    shop.write("train.py", text)
    process = poolwise(shop.folder, "run", "--function", "train:f")
    _, messages = process.communicate(timeout=60)

    assert 2 == process.returncode
    assert words.format(folder=shop.folder) in messages and "Traceback" not in messages


@pytest.mark.parametrize("name", ["train", "train:", ":f", "nowhere:f", "train:g", "train:f()"])
def test_a_function_that_is_not_there(shop, name):
    """It is an error of usage."""
    shop.write("train.py", "def f(x): return x\n")

    assert "--function" in shop("run", "--function", name, code=2).stderr


def poolwise(folder, *arguments, **options):
    environment = {**os.environ, "POOLWISE_PROGRAMS": "off"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(
        [sys.executable, "-m", "poolwise", *arguments], cwd=folder, env=environment, **pipes, **options
    )


def test_a_function_of_the_command_line(shop):
    """It is called in processes of its own, with the parameters by name."""
    shop.write("mine.py", "print('on')\ndef loss(x):\n    print('x is', x)\n    return {'value': x * x, 'sem': 0.5}\n")
    process = poolwise(shop.folder, "run", "--function", "mine:loss", "--trials", "3", "--json")
    data, messages = process.communicate(timeout=60)

    assert 0 == process.returncode, messages
    assert 3 == json.loads(data)["finished"]  # what a function prints is no data
    assert 3 == messages.count("x is") and "on\n" in messages
    assert [0.5] * 3 == [trial["sem"] for trial in shop.json("trials", "--state", "told")]


@pytest.mark.parametrize(
    "expired, number", [("ask", "SIGINT"), ("fail", "SIGINT"), ("ask", "SIGTERM"), ("ask", "SIGHUP")]
)
@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_an_interrupted_run_goes_on(shop, expired, number):
    """Ctrl-C ends the commands, leaves their trials pending, and the next run takes them up at once.

    So do `kill`, and a terminal that is closed.
    """
    shop.write("study.toml", f'{SQUARES}expired = "{expired}"\n')
    shop.write("loss.py", "import os, time\nopen(f'{os.getpid()}.pid', 'w').close()\ntime.sleep(60)\n")
    process = poolwise(shop.folder, "run", start_new_session=True)
    while len(list(shop.folder.glob("*.pid"))) < 3:
        assert process.poll() is None, process.communicate()
        os.sched_yield()
    process.send_signal(getattr(signal, number))
    _, messages = process.communicate(timeout=30)
    alive = [path.stem for path in shop.folder.glob("*.pid") if Path(f"/proc/{path.stem}").exists()]

    assert 130 == process.returncode, messages
    assert [] == alive
    assert "to go on: poolwise run study.toml" in messages
    assert {"pending": 3, "failed": 0}.items() <= shop.json("status").items()
    shop.write("loss.py", "print(1)\n")
    assert 6 == shop.json("run")["finished"] == shop.json("status")["told"] == len(shop.json("trials"))
