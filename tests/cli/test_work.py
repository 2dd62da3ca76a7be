"""`poolwise work`: one worker of many, from its first look to its end, by whatever that comes."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rich.console import Console
from tests.cli.conftest import SQUARES

from poolwise.cli.work import Watch
from poolwise.study.leases import Board

ROOT = Path(__file__).parents[2]
PAGE, EXAMPLE = ROOT / "docs" / "slurm.md", ROOT / "examples" / "work"


def test_a_worker_ends_at_the_budget(shop):
    """With the best on standard output, and a line for each trial on standard error; one that comes later ends well."""
    result = shop("work")

    assert ["trial", "loss", "x"] == [line.split()[0] for line in result.stdout.splitlines()]
    lines = result.stderr.splitlines()
    assert all(f"({n} of 6 finished, best " in line for n, line in zip(range(1, 7), lines, strict=False))
    assert "done. This worker told 6 trials and failed 0." in result.stderr
    assert "This worker told 0 trials" in shop("work").stderr


def test_a_worker_as_data(shop):
    """What it did, and how far all are; the budget can be raised, and the study be another one."""
    shop("work")
    more = shop.json("work", "--trials", 8)
    other = shop.json("work", "--name", "other", "--trials", 2)

    assert ({"told": 2, "failed": 0}, 8, 8) == (more["mine"], more["finished"], more["budget"])
    assert 2 == other["finished"] == other["mine"]["told"]
    assert {"value", "params"} <= set(more["best"])


def test_pools_are_those_of_a_run(shop):
    """The same study gives the same experiments, whoever runs them."""
    shop("work", "--name", "worked")
    shop("run")
    shop.write("study.toml", f'name = "worked"\n{SQUARES}')
    worked = shop.json("trials")
    shop.write("study.toml", SQUARES)

    assert [t["params"] for t in shop.json("trials")] == [t["params"] for t in worked]


def test_failures_cost_themselves_only(shop):
    """The reason is kept and shown; a worker that fails most of its trials leaves with exit code 1."""
    shop.write("loss.py", "import sys\nassert float(sys.argv[1]) < 0.5, 'too large'\nprint(1)\n")
    result = shop("work")
    assert "failed: exit code 1: AssertionError: too large" in result.stderr

    shop.write("loss.py", "raise SystemExit('no GPU')\n")
    result = shop("work", "--trials", 60, code=1)
    assert "no GPU" in result.stderr and "trials failed" in result.stderr
    assert shop.json("status")["failed"] < 10


@pytest.mark.parametrize(
    "old, new, words",
    [
        ("{x}", "{y}", "names {y}, which is no parameter"),
        ("trials = 6", "", "trials: say how many"),
        ("command", "# command", "command: there is none"),
    ],
)
def test_a_file_that_cannot_be_worked_on(shop, old, new, words):
    """It is refused before anything is made."""
    shop.write("study.toml", SQUARES.replace(old, new))

    assert words in shop("work", code=2).stderr
    assert not (shop.folder / "study.db").exists()


def test_a_program_that_vanishes(shop):
    """What cannot be started is no failed experiment: the worker ends, and its trial is free."""
    shop.write("study.toml", SQUARES.replace('"{python}", "-I", "-S", "loss.py"', '"./tool"'))
    shop.write("tool", "#!/bin/sh\nrm tool\necho 1\n").chmod(0o755)

    assert "'./tool' cannot be started" in shop("work", code=1).stderr
    shop.write("tool", "#!/bin/sh\necho 1\n").chmod(0o755)
    assert 6 == shop.json("work")["finished"] == shop.json("status")["told"]


def worker(folder, *arguments, code="from poolwise.cli import main; main()"):
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    environment = {**os.environ, "POOLWISE_PROGRAMS": "off"}
    return subprocess.Popen([sys.executable, "-c", code, *arguments], cwd=folder, env=environment, **pipes)


@pytest.mark.skipif(os.name != "posix", reason="signals")
@pytest.mark.parametrize("number, first", [("SIGINT", False), ("SIGTERM", False), ("SIGTERM", True), ("SIGHUP", False)])
def test_a_worker_that_is_stopped(shop, number, first):
    """It ends its command and gives the trial back, and the next worker takes it at once.

    Also where the command is ended first, as it may be by Slurm, which signals all processes of a job.
    """
    shop.write("loss.py", "import os, time\nopen(f'{os.getpid()}.pid', 'w').close()\ntime.sleep(60)\n")
    process = worker(shop.folder, "work")
    while not (started := list(shop.folder.glob("*.pid"))):
        assert process.poll() is None, process.communicate()
        os.sched_yield()
    if first:
        os.kill(int(started[0].stem), getattr(signal, number))
        time.sleep(0.1)
    process.send_signal(getattr(signal, number))
    _, messages = process.communicate(timeout=30)

    assert 130 == process.returncode, messages
    assert "trial 0 is given back. This worker told 0 trials" in messages
    assert not Path(f"/proc/{started[0].stem}").exists()
    shop.write("loss.py", "print(1)\n")
    assert 6 == shop.json("work", "--lease", 600)["finished"] == shop.json("status")["told"]


@pytest.mark.parametrize("acquisition", ["fill", pytest.param("ei", marks=pytest.mark.slow)])
def test_a_worker_stays_light(shop, acquisition):
    """A model is made in another process, and the function has one of its own: JAX is loaded in neither."""
    shop.write("study.toml", SQUARES.replace('"fill"', f'"{acquisition}"').replace("q = 3", "q = 4"))
    shop.write("mine.py", "import sys\ndef loss(x):\n    return x * x + ('jax' in sys.modules)\n")
    light = "import sys; from poolwise.cli import main; main(standalone_mode=False); assert 'jax' not in sys.modules"
    process = worker(shop.folder, "work", "--trials", "5", "--function", "mine:loss", code=light)
    _, messages = process.communicate(timeout=300)
    told = shop.json("trials", "--state", "told")

    assert 0 == process.returncode, messages
    assert 5 == len(told) and all(trial["value"] == trial["params"]["x"] ** 2 for trial in told)
    assert "fills the space" not in messages


def test_a_live_line(shop):
    """On a terminal one line is kept up to date; what fails is written above it."""
    console = Console(force_terminal=True, width=100, record=True, file=open(os.devnull, "w"))  # noqa: SIM115
    watch = Watch(console)
    watch.on_start(None, 64)
    watch.on_look(None, Board(pools=6, finished=20, held=4, free=0))
    [shown] = watch._live.tasks

    assert (20, 64, "waiting for 4 trial(s) that others run") == (shown.completed, shown.total, shown.fields["state"])
    watch.on_end(None)
    console.file.close()


@pytest.mark.parametrize("name", ["study.toml", "workers.sbatch"])
def test_the_page_shows_the_example(name):
    """What is on the page is what the test below runs, but for the remark at the head of the file."""
    [shown] = re.findall(rf"^`{re.escape(name)}`\n\n```\w+\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)

    assert (EXAMPLE / name).read_text().endswith(shown)


@pytest.mark.skipif(os.name != "posix", reason="a shell script")
def test_the_job_script(terminal):
    """It starts a worker by `srun`, and hands its signals and its exit code on; here on a file and for two trials."""
    shutil.copytree(EXAMPLE, terminal.folder, dirs_exist_ok=True)
    text = terminal.read("study.toml").replace("trials = 256", "trials = 2")
    terminal.write("study.toml", re.sub("^url = .*", 'url = "sqlite:///tune.db"', text, flags=re.MULTILINE))
    terminal.write("srun", '#!/bin/sh\nexec "$@"\n').chmod(0o755)
    terminal.write("poolwise", f'#!/bin/sh\nexec "{sys.executable}" -m poolwise "$@"\n').chmod(0o755)
    environment = {**os.environ, "PATH": f"{terminal.folder}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "workers.sbatch"], env=environment, capture_output=True, text=True, timeout=120)

    assert 0 == done.returncode, done.stderr
    assert "This worker told 2 trials and failed 0." in done.stderr
