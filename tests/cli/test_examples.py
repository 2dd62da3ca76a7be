"""The examples: their study files can be read, and their commands give a value."""

from pathlib import Path

import pytest

from poolwise.cli.objective import Command, check_command
from poolwise.cli.study_file import load

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*/study.toml"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.parent.name)
def test_the_command_fits_the_space(path):
    """Every parameter is passed on, under its name."""
    file = load(path)

    check_command(file.command, file.space.names, file.space.axes)
    assert file.trials is not None


def test_the_digits_are_read():
    """One trial of `make run`, with parameters that are known to be good."""
    [path] = [path for path in EXAMPLES if path.parent.name == "digits"]
    file = load(path)
    error, _ = Command(file.command, file.folder, file.objective)(scale="none", components=40, C=10.0, gamma=0.001)

    assert 0.01 < error < 0.05
