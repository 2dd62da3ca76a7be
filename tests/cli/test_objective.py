"""The objective as a command: arguments, values, failures, and processes that are ended with their children."""

import math
import os
import sys
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poolwise.cli.command import FileError
from poolwise.cli.objective import (
    CannotStart,
    Command,
    CommandFailed,
    Processes,
    check_command,
    check_program,
    filled,
    read_value,
)


def script(code, folder=None, timeout=None, processes=None):
    """A command that runs a piece of Python."""
    arguments = (sys.executable, "-I", "-S", "-c", code, "{x}")
    return Command(arguments, Path(folder or "."), "loss", timeout, processes or Processes())


@pytest.mark.parametrize(
    "argument, expected",
    [
        ("{x}", "0.1"),
        ("--x={x},{n}", "--x=0.1,3"),
        ("{{x}}", "{x}"),
        ('{{"x": {x}}}', '{"x": 0.1}'),
        ("{t}", "; rm -rf $HOME {x} `ls`"),
        ("{b}{o}", "truenone"),
        ("{long name}", "1"),
        ("{python}", sys.executable),
        ("plain", "plain"),
    ],
)
def test_placeholders(argument, expected):
    """Each fills a part of one argument; what a value holds is not looked at again."""
    params = {"x": 0.1, "n": 3, "t": "; rm -rf $HOME {x} `ls`", "b": True, "o": None, "long name": 1}

    assert [expected] == filled([argument], params)


@pytest.mark.parametrize(
    "arguments, words",
    [
        ([], "is empty"),
        (["p", "{y}", "{lr}"], "{y}.*The space has lr"),
        (["p", "{lrr}"], "Did you mean 'lr'"),
        (["p", "{lr"], "lone {"),
        (["p", "{lr:.3f}"], "no parameter"),
        (["p"], "does not use lr; add {lr}"),
        (["p", "{lr}\0"], "zero byte"),
    ],
)
def test_a_wrong_command_is_refused(arguments, words):
    """Before anything is run."""
    with pytest.raises(FileError, match=words):
        check_command(arguments, ["lr"], ["lr"])


@pytest.mark.parametrize(
    "output, value",
    [
        ("0.5", (0.5, None)),
        ("epoch 1\nepoch 2\n -1e-3 \n\n", (-0.001, None)),
        ('{"loss": 2}', (2.0, None)),
        ('noise\n{"value": 2, "sem": 0.5, "more": [1]}', (2.0, 0.5)),
        ('{"loss": 1, "value": 2}', (1.0, None)),
        ("inf", (math.inf, None)),
    ],
)
def test_the_value_is_on_the_last_line(output, value):
    """A number, or a JSON object with the objective's name or `value`."""
    assert value == read_value(output, "loss")


@pytest.mark.parametrize(
    "output", ["", "\n", "done", "loss 0.5", "{", '{"los": 1}', '{"value": "1"}', '{"value": true}', "[1]"]
)
def test_what_is_no_value(output):
    """The reason says what was there instead."""
    with pytest.raises(CommandFailed):
        read_value(output, "loss")


@given(st.text(max_size=30))
def test_no_output_breaks_the_reader(text):
    """A number or a CommandFailed."""
    try:
        value, _ = read_value(text, "loss")
    except CommandFailed:
        return

    assert isinstance(value, float)


def test_a_command_runs_in_the_folder_of_its_study(tmp_path):
    """Its arguments come whole, its standard input is empty."""
    code = "import sys, os; assert sys.stdin.read() == ''; print(os.getcwd()); print(len(sys.argv[1]))"

    assert (12.0, None) == script(code, tmp_path)(x="a b; c $d 'e")


def test_much_output_is_no_burden():
    """Only its end is kept."""
    assert (7.0, None) == script("import sys; sys.stdout.write('x' * 5_000_000); print(); print(7)")(x=1)


@pytest.mark.parametrize(
    "code, words",
    [
        ("import sys; print(1); sys.exit('no \\x1b[31mGPU')", "exit code 1: no  .*GPU"),
        ("import os; os.kill(os.getpid(), 9)", "signal 9"),
        ("print('nothing')", "no value: nothing"),
        ("1 / 0", "ZeroDivisionError"),
    ],
)
def test_a_failure_says_why(code, words):
    """With the end of what the command wrote, and without what a terminal would obey."""
    with pytest.raises(CommandFailed, match=words) as caught:
        script(code)(x=1)

    assert "\x1b" not in str(caught.value)


def test_the_last_line_of_an_error_comes_first():
    """It is what a table shows; the rest is below."""
    command = script("import sys; sys.exit('a\\nb')")
    report = command.report(command.start({"x": 1}))

    assert (None, "exit code 1: b\na\nb") == (report.value, report.reason)
    command = script("print('nan')")
    assert "the objective returned nan" == command.report(command.start({"x": 1})).reason


def test_a_program_that_is_not_there():
    """It cannot be started, which is no failure of an experiment."""
    with pytest.raises(CannotStart, match="cannot be started"):
        Command(("no-such-program", "{x}"), Path("."), "loss")(x=1)


@pytest.mark.skipif(os.name != "posix", reason="permissions")
def test_programs_are_looked_for_where_they_are_run(tmp_path):
    """By name on the PATH, by path from the folder of the study."""
    (tmp_path / "tool").write_text("#!/bin/sh\necho 1\n")
    for words in (["no-such-program"], ["./none"], ["/no/such/program"], ["tool"], ["./tool"], ["./."]):
        with pytest.raises(FileError, match=r"command: .*program"):
            check_program(words, tmp_path)
    (tmp_path / "tool").chmod(0o755)
    for words in (["./tool"], [str(tmp_path / "tool")], ["sh"], ["{python}"], ["{tool}"]):
        check_program(words, tmp_path)


CHILD = """
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-I", "-S", "-c", "import time; time.sleep(60)"])
open(sys.argv[1], "w").write(str(child.pid))
time.sleep(60)
"""


def gone(pid):
    """Whether a process has ended, within a few seconds."""
    for _ in range(500):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        if state == "Z":
            return True
        time.sleep(0.01)
    return False


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="looks at processes by /proc")
def test_a_timeout_ends_the_children_too(tmp_path):
    """The whole group of the command goes."""
    with pytest.raises(TimeoutError, match="within 1 seconds"):
        script(CHILD, timeout=1.0)(x=str(tmp_path / "pid"))

    assert gone(int((tmp_path / "pid").read_text()))


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="looks at processes by /proc")
def test_all_processes_can_be_ended(tmp_path):
    """What runs is ended with its children, and nothing new begins."""
    processes, reasons = Processes(), []

    def call():
        try:
            script(CHILD, processes=processes)(x=str(tmp_path / "pid"))
        except CommandFailed as error:
            reasons.append(str(error))

    thread = threading.Thread(target=call)
    thread.start()
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
        os.sched_yield()
    processes.end()
    thread.join()

    assert ["ended by signal 15: no output"] == reasons
    assert gone(int((tmp_path / "pid").read_text()))
    with pytest.raises(CommandFailed, match="interrupted"):
        script("print(1)", processes=processes)(x=1)
