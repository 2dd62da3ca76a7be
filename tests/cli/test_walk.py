"""The walk of a new user: every command of the pages about the command line is run, and does what the page shows.

On a page, a line that is a file's name in backquotes gives the name of the block below it. In a `console` block each
line after `$` is a command, and what follows is its output: numbers, blanks and folders may differ, and `...` stands
for any lines.
"""

import json
import re
import shlex
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from poolwise.cli import main

HERE = Path(__file__).parents[2]
PAGES = [HERE / "docs" / name for name in ("cli.md", "lab.md")]
BLOCK = re.compile(r"(?:^`([\w.]+)`:?\n\n)?^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FOLDER = re.compile(r"sqlite:////\S*/")
NUMBER = re.compile(r"-?\d+(\.\d+)?(e[+-]?\d+)?")


MEASURE = ["{python}", "-c", "print(0.5)", "{temperature}", "{concentration}", "{cycles}", "{solvent}"]


def steps(page):
    """What a page says to do: (name, content) for a file, (command, lines of output) for a command."""
    for name, language, content in BLOCK.findall(page):
        if language == "console":
            for part in re.split(r"^\$ ", content, flags=re.MULTILINE)[1:]:
                command, _, output = part.partition("\n")
                yield "run", command, output.splitlines()
        elif name:
            yield "write", name, content


def plain(line):
    """A line without what may differ."""
    return " ".join(NUMBER.sub("#", FOLDER.sub("sqlite:///", line)).split())


def agrees(expected, output):
    """Whether an output is what a page shows."""
    pattern = "".join("(.*\n)*?" if line.strip() == "..." else re.escape(plain(line)) + "\n" for line in expected)
    return re.fullmatch(pattern, "".join(f"{plain(line)}\n" for line in output.splitlines())) is not None


def run(command):
    """The output of a command as a terminal shows it; `> file` puts the data there."""
    line, _, target = command.partition(" > ")
    program, *arguments = shlex.split(line)
    if program == "cat":
        return 0, Path(arguments[0]).read_text()
    assert "poolwise" == program
    result = CliRunner().invoke(main, arguments)
    if target:
        Path(target.strip()).write_text(result.stdout)
    return result.exit_code, result.stderr if target else result.output


def walk(page):
    """Do what a page says."""
    for kind, what, content in steps(page):
        if kind == "write":
            Path(what).write_text(content)
            continue
        code, output = run(what)
        assert code in (0, 3), f"$ {what}\n{output}"
        assert agrees(content, output), f"$ {what}\n{output}"


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_the_page_does_what_it_shows(path, terminal):
    """From an empty folder to the end of the page."""
    page = path.read_text()

    assert len(list(steps(page))) > 5
    walk(page)


def spoken(page):
    """The commands of a page that shows no output, without their remarks."""
    for block in re.findall(r"^```(?:console|sh)?\n(.*?)^```$", page, re.MULTILINE | re.DOTALL):
        for line in block.splitlines():
            parts = line.removeprefix("$ ").partition(" #")[0].split(";")
            yield from (part.strip() for part in parts if part.strip().startswith("poolwise "))


def prepare(command):
    """What a person does before a command: edits the study file, measures, fills in a table."""
    file = Path("study.toml")
    if command.startswith("poolwise run"):
        text = file.read_text().replace("trials = 32", "trials = 4")
        text = re.sub("^# command = .*", lambda _: f"command = {json.dumps(MEASURE)}", text, flags=re.MULTILINE)
        file.write_text(f'{text}\n[settings]\nacquisition = "fill"\n')
    elif command.startswith("poolwise ask"):
        file.write_text(file.read_text().replace("trials = 4 ", "trials = 32 "))
    elif command.startswith("poolwise tell") and command.endswith(".csv"):
        table = Path(command.split()[-1])
        head, *rows = table.read_text().splitlines()
        table.write_text("\n".join([head, *(f"{row}0.5" for row in rows)]))


def test_the_commands_of_the_first_page(terminal, monkeypatch):
    """All of them, in their order, end well; two kinds of pictures stand for all."""
    monkeypatch.setattr(sys.modules["poolwise.cli.plot"], "PICTURES", ("history", "parallel"))
    commands = list(spoken((HERE / "README.md").read_text()))
    for command in commands:
        prepare(command)
        code, output = run(command)
        assert 0 == code, f"$ {command}\n{output}"

    assert ["init", "run", "ask", "tell", "status", "best", "plot"] == [command.split()[1] for command in commands]


def test_a_wrong_page_fails(bench):
    """A command that fails, and one that shows something else, are seen."""
    walk("```console\n$ poolwise ask -q 1\n...\n```\n")
    for page in ("$ poolwise tell 77 1\n...\n", "$ poolwise status\nstudy  other\n...\n", "$ poolwise best\nnothing\n"):
        with pytest.raises(AssertionError):
            walk(f"```console\n{page}```\n")
