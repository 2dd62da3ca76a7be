"""The command line in an empty folder, in this process; and a study that needs no model."""

import json
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner

from poolwise.cli import main

STUDY = """\
name = "bench"
maximize = "yield"
q = 4
trials = 12

[space.temperature]
type = "float"
low = 20
high = 90

[space.dose]
type = "float"
low = 0.001
high = 1
log = true

[space.cycles]
type = "int"
low = 1
high = 8

[space.solvent]
type = "choice"
values = ["water", "-ethanol", true]

[settings]
acquisition = "fill"
"""

SQUARES = """\
minimize = "loss"
q = 3
trials = 6
timeout = 20
command = ["{python}", "-I", "-S", "loss.py", "{x}"]
[space.x]
type = "float"
low = -1
high = 1
[settings]
acquisition = "fill"
"""


@dataclass
class Terminal:
    """A folder in which commands are given."""

    folder: Path

    def __call__(self, *arguments, code=0, typed=None):
        """Run a command, check its exit code, and return what it did."""
        result = CliRunner().invoke(main, [str(word) for word in arguments], input=typed)
        assert code == result.exit_code, result.output
        return result

    def json(self, *arguments, code=0):
        """The data that a command puts on standard output."""
        return json.loads(self(*arguments, "--json", code=code).stdout)

    def write(self, name, text):
        """A file of the folder."""
        path = self.folder / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    def read(self, name):
        return (self.folder / name).read_text()


@pytest.fixture
def terminal(tmp_path, monkeypatch):
    """Commands in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("POOLWISE_PROGRAMS", "off")
    monkeypatch.delenv("POOLWISE_STUDY", raising=False)
    return Terminal(tmp_path)


@pytest.fixture
def bench(terminal):
    """A folder with a study file whose pools fill the space."""
    terminal.write("study.toml", STUDY)
    return terminal


@pytest.fixture
def shop(terminal):
    """A study with a command that is quick."""
    terminal.write("study.toml", SQUARES)
    terminal.write("loss.py", "import sys\nprint('working')\nprint(float(sys.argv[1]) ** 2)\n")
    return terminal
