"""The other commands: what they show, where they show it, and how they end."""

import json
import os
import re
import sqlite3
import subprocess
import sys
import time

import openpyxl
import pytest

from poolwise.cli import main
from poolwise.cli.init import questions
from poolwise.cli.study_file import load
from poolwise.cli.template import Answers

COMMANDS = ["init", "run", "ask", "tell", "status", "best", "trials", "export", "plot", "doctor"]


def python(*arguments, **options):
    """A Python of its own."""
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=120, **options)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_help_tells_the_exit_codes(terminal, command):
    """On every command, as well as --json."""
    text = terminal(command, "--help").stdout

    assert "nothing to do" in text and "--json" in text
    assert command == "plot" or not re.search(r"\w   +\w", text.partition("Options:")[0])
    assert [] == [line for line in text.splitlines() if len(line) > 80]


def test_a_table_has_no_empty_columns(bench):
    """Standard errors and reasons are shown where there are any."""
    bench("ask")
    bench("tell", 0, 1.5)
    head = bench("trials").stdout.splitlines()[0].split()
    bench("tell", 1, "failed: clogged")

    assert ["number", "state", "pool", "temperature", "dose", "cycles", "solvent", "yield"] == head
    assert [*head, "reason"] == bench("trials").stdout.splitlines()[0].split()
    assert ["trial        0", "yield        1.5"] == bench("best").stdout.splitlines()[:2]


def test_nothing_light_loads_jax(bench):
    """Help and all commands that only look or tell start without JAX, pandas and matplotlib; the first pool, too."""
    code = """
import sys
from click.testing import CliRunner
from poolwise.cli import main
for line in sys.argv[1:]:
    result = CliRunner().invoke(main, line.split())
    assert result.exit_code == 0, (line, result.output)
    heavy = [name for name in ("jax", "jaxlib", "pandas", "matplotlib") if name in sys.modules]
    assert not heavy, (line, heavy)
"""
    lines = ["--help", "ask", "tell 0 1.5", "status", "best", "trials", "export", "tell --help"]

    assert (0, "", "") == python("-c", code, *lines, cwd=bench.folder)


def test_status_of_a_study_that_has_not_begun(bench):
    """It says so, and makes no file."""
    status = bench.json("status")

    assert (0, 12, None) == (status["told"], status["left"], status["best"])
    assert ["study.toml"] == [path.name for path in bench.folder.iterdir()]
    assert "no value yet" in bench("status").stdout


def test_looking_leaves_a_database_alone(bench):
    """Also where it holds another study, or nothing; a range that is changed before the first trial is no conflict."""
    bench("ask")
    bench.write("study.toml", bench.read("study.toml").replace('"bench"', '"other"'))
    before = (bench.folder / "study.db").read_bytes()
    assert 0 == bench.json("status")["pending"]
    assert "no trial has a value" in bench("best", code=3).stderr
    assert before == (bench.folder / "study.db").read_bytes()
    bench.write("study.toml", bench.read("study.toml").replace("high = 90", "high = 80"))
    bench("status")
    bench("ask")

    bench.write("study.toml", f'url = "sqlite:///empty.db"\n{bench.read("study.toml")}')
    bench.write("empty.db", "")
    assert "number,state" in bench("export").stdout
    assert b"" == (bench.folder / "empty.db").read_bytes()


def test_looking_waits_for_no_writer(bench):
    """A transaction of another process is no reason to wait."""
    bench("ask")
    other = sqlite3.connect(bench.folder / "study.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    began = time.monotonic()
    assert 4 == bench.json("status")["pending"]
    other.close()

    assert time.monotonic() - began < 4  # one wait for a writer takes five seconds


def test_a_constraint_that_nothing_satisfies_can_be_loosened(bench):
    """As the message says: nothing is settled before the first trial."""
    text = bench.read("study.toml")
    bench.write("study.toml", f'constraints = ["temperature > 95"]\n{text}')
    assert "Loosen" in bench("ask", code=1).stderr
    bench.write("study.toml", f'constraints = ["temperature > 85"]\n{text}')

    assert 4 == len(bench.json("ask")["trials"])


def test_a_study_from_ask_to_best(bench):
    """Counts, pending numbers, budget and the best value."""
    bench("ask")
    bench("tell", 1, 0.5)
    bench("tell", 2, 0.75)
    bench("tell", 3, "failed")
    status = bench.json("status")

    assert (2, 1, 1, 8, [0]) == tuple(status[key] for key in ("told", "failed", "pending", "left", "pending_numbers"))
    assert (2, 0.75) == (bench.json("best")["number"], status["best"]["value"])
    assert "12 trials, 8 left" in bench("status").stdout
    assert [0] == [trial["number"] for trial in bench.json("trials", "--state", "pending")]
    assert [2, 3] == [trial["number"] for trial in bench.json("trials", "--last", 2)]


def test_the_study_may_be_elsewhere(bench, monkeypatch):
    """By an argument, an option or the environment."""
    bench("ask", "-q", 1)
    elsewhere = bench.folder / "inner"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    path = "../study.toml"

    assert "there is no such file" in bench("status", code=2).stderr
    assert 1 == bench.json("status", path)["pending"] == bench.json("status", "--study", path)["pending"]
    monkeypatch.setenv("POOLWISE_STUDY", path)
    assert 1 == bench.json("status")["pending"]


@pytest.mark.parametrize("names", [("run?a", "run?b"), ("a%20b", "a b"), ("a#b", "a"), ("a%3Fb", "a?b")])
def test_any_folder_keeps_its_own_study(bench, monkeypatch, names):
    """Letters that mean something in an address are letters of a path."""
    before = bench.read("study.toml")
    for folder in [bench.folder / name for name in names]:
        folder.mkdir()
        (folder / "study.toml").write_text(before)
        monkeypatch.chdir(folder)
        bench("ask", "-q", 1)

        assert ["study.db", "study.toml"] == sorted(path.name for path in folder.iterdir())
        assert 1 == bench.json("status")["pending"]
        assert [] == [finding for finding in bench.json("doctor", "study.db") if finding["level"] == "error"]
    assert sorted([*names, "study.toml"]) == sorted(path.name for path in bench.folder.iterdir())


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="names of folders are text there")
def test_a_folder_whose_name_is_no_text(bench, monkeypatch):
    """Its bytes are shown by escapes, and a path otherwise as it is."""
    for name, shown in ((b"\xff", "\\udcff"), ("a b é".encode(), "a b é")):
        folder = bench.folder / os.fsdecode(name)
        folder.mkdir()
        (folder / "study.toml").write_text(bench.read("study.toml"))
        monkeypatch.chdir(folder)
        bench("ask")

        assert f"sqlite:///{bench.folder}/{shown}/study.db" == bench.json("status")["store"]


def test_ask_writes_what_was_asked_for(bench):
    """A table for people, CSV with an empty column to fill in, JSON for programs."""
    table = bench("ask", "-q", 2).stdout.splitlines()
    sheet = bench("ask", "-q", 2, "--format", "csv").stdout.splitlines()
    data = bench.json("ask", "-q", 2)

    assert ["number", "temperature", "dose", "cycles", "solvent"] == table[0].split()
    assert "number,temperature,dose,cycles,solvent,yield" == sheet[0]
    assert ["2", "3"] == [line.split(",")[0] for line in sheet[1:]]
    assert ("yield", [4, 5]) == (data["objective"], [trial["number"] for trial in data["trials"]])


def test_a_demo_without_a_cache(tmp_path):
    """Where compiled programs cannot be kept, that is a warning."""
    (tmp_path / "cache").touch()
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("POOLWISE", "JAX"))}
    environment["XDG_CACHE_HOME"] = str(tmp_path / "cache")
    code, shown, messages = python("-m", "poolwise", "demo", cwd=tmp_path, env=environment)

    assert (0, True) == (code, "The next two experiments" in shown), messages
    assert "compiled programs are not kept" in messages


def test_a_repeated_request(bench):
    """The same pool again, also when the budget is reached meanwhile."""
    first = bench("ask", "-q", 8, "--request-id", "monday", "--format", "csv").stdout
    bench("ask", "-q", 4)

    assert first == bench("ask", "-q", 8, "--request-id", "monday", "--format", "csv").stdout
    assert "budget of 12 trials is reached" in bench("ask", code=3).stderr


def test_a_repeated_request_that_the_budget_cut(bench):
    """It is known by its name, whatever the budget leaves now; only a smaller one is another."""
    bench("ask", "-q", 10)
    first = bench.json("ask", "-q", 4, "--request-id", "two")

    assert [10, 11] == [trial["number"] for trial in first["trials"]]
    assert first == bench.json("ask", "-q", 4, "--request-id", "two")
    assert first == bench.json("ask", "-q", 2, "--request-id", "two")
    assert "was answered with q=2" in bench("ask", "-q", 1, "--request-id", "two", code=1).stderr


def test_a_repeated_request_for_a_trial_that_was_left(bench):
    """A trial that is handed out again has the request's name of its first pool."""
    with load(bench.folder / "study.toml").open() as study:
        study.ask(1, lease=1e-9)
    first = bench.json("ask", "-q", 1, "--request-id", "again")
    bench("ask", "-q", 11)

    assert [0] == [trial["number"] for trial in first["trials"]]
    assert first == bench.json("ask", "-q", 1, "--request-id", "again")


def test_the_budget_cuts_a_pool(bench):
    """The last pool has what is left, and added trials do not count."""
    bench.write("old.csv", "temperature,dose,cycles,solvent,yield\n30,0.1,2,water,1\n")
    bench("tell", "old.csv")

    assert 12 == len(bench.json("ask", "-q", 100)["trials"])


def test_a_space_that_is_exhausted(terminal):
    """Exit code 3, and a pool that is smaller says so."""
    terminal.write("study.toml", 'minimize = "y"\n[space.n]\ntype = "int"\nlow = 1\nhigh = 3\n')

    assert "only 3 experiments are left" in terminal("ask", "-q", 5).stderr
    assert "have been asked for" in terminal("ask", code=3).stderr


def test_ask_writes_over_nothing(bench):
    """A file that is there is refused before anything is asked for."""
    bench.write("pool.csv", "precious")

    assert "is there already" in bench("ask", "--out", "pool.csv", code=2).stderr
    assert 0 == bench.json("status")["pending"]
    assert ".csv or .json" in bench("ask", "--out", "pool.txt", code=2).stderr
    bench("ask", "--out", "pool.csv", "--force")
    assert bench.read("pool.csv").startswith("number,")


def test_nothing_to_show_yet(bench):
    """No value is exit code 3, not an error."""
    assert "no trial has a value" in bench("best", code=3).stderr
    assert "nothing to draw" in bench("plot", code=3).stderr
    assert (
        "number,state,pool,temperature,dose,cycles,solvent,yield,sem,reason,asked,finished\n" == bench("export").stdout
    )


def test_an_export_is_safe_in_a_spreadsheet(bench):
    """Text that looks like a formula is text, in CSV and in Excel files."""
    bench.write("old.csv", "temperature,dose,cycles,solvent,yield\n30,0.1,2,'-ethanol,-1\n")
    bench("tell", "old.csv")
    bench("export", "--out", "all.csv")
    bench("export", "--out", "all.xlsx")
    bench("export", "--out", "all.json")
    row = list(openpyxl.load_workbook(bench.folder / "all.xlsx").active[2])

    assert "0,told,,30.0,0.1,2,'-ethanol,-1.0," in bench.read("all.csv")
    assert ("-ethanol", "s", -1) == (row[6].value, row[6].data_type, row[7].value)
    assert "-ethanol" == json.loads(bench.read("all.json"))[0]["params"]["solvent"]
    assert "--out" in bench("export", "--format", "xlsx", code=2).stderr


def test_an_export_of_an_unknown_kind(bench):
    """It is refused, unless the format is given."""
    assert ".csv, .json or .xlsx" in bench("export", "--out", "all.parquet", code=2).stderr
    assert not (bench.folder / "all.parquet").exists()
    bench("export", "--out", "all.txt", "--format", "csv")
    assert bench.read("all.txt").startswith("number,")


def test_a_file_that_changed_since(bench):
    """What contradicts the stored study is said, and nothing is done."""
    bench("ask")
    bench.write("study.toml", bench.read("study.toml").replace("high = 90", "high = 80"))

    message = bench("ask", code=1).stderr

    assert "exists with another space" in message and "Undo that change in the file" in message


def test_debug_shows_the_traceback(bench):
    """Otherwise an error is a message."""
    bench("ask")
    result = bench("tell", 99, 1, "--debug", code=1)

    assert "ConflictError" == type(result.exception).__name__
    assert "Traceback" not in bench("tell", 99, 1, code=1).stderr


def test_init_writes_a_file_once(terminal):
    """Not over one that is there, unless it is forced."""
    assert "poolwise ask --study a.toml" in terminal("init", "a.toml").stderr
    terminal.write("a.toml", "precious")

    assert "--force" in terminal("init", "a.toml", code=2).stderr
    assert "precious" == terminal.read("a.toml")
    assert "a.toml" == terminal.json("init", "a.toml", "--force", "--yes")["file"]
    assert 4 == len(terminal.json("ask", "--study", "a.toml")["trials"])
    assert ".toml" in terminal("init", "a.txt", code=2).stderr


def test_init_asks(terminal):
    """On a terminal, question by question; a wrong answer is asked for again."""
    import click
    from click.testing import CliRunner

    got = []
    typed = ["tune", "minimize", "loss", "0", "2", "16", "lr", "float", "1e-5", "1", "y"]
    typed += ["act", "choice", "relu, gelu", "", "python train.py --lr={lr} '--act={act} x'"]
    result = CliRunner().invoke(click.command()(lambda: got.append(questions())), input="\n".join(typed) + "\n")
    space = {
        "lr": {"type": "float", "low": 1e-5, "high": 1.0, "log": True},
        "act": {"type": "choice", "values": ["relu", "gelu"]},
    }
    command = ["python", "train.py", "--lr={lr}", "--act={act} x"]

    assert 0 == result.exit_code, result.output
    assert [Answers("tune", "minimize", "loss", 2, 16, command, space)] == got


def test_init_is_left(terminal, monkeypatch):
    """As every command is left by Ctrl-C, or where input ends."""
    monkeypatch.setattr(sys.modules["poolwise.cli.init"], "interactive", lambda: True)

    assert terminal("init", typed="", code=130).stderr.endswith("interrupted\n")


def test_init_asks_again(terminal, monkeypatch):
    """What a study file could not hold is not taken, and the file that is written can be used."""
    from click.testing import CliRunner

    typed = ["a b", "tune", "minimize", "state", "loss", "2", "16", "loss", "reason", "x", "float", "5", "1"]
    typed += ["float", "0,5", "0.5", "5", "n", "0.1", "x", "", "python '{x}", "python {y}", "python {x}"]
    monkeypatch.setattr(sys.modules["poolwise.cli.init"], "interactive", lambda: True)
    result = CliRunner().invoke(main, ["init"], input="\n".join(typed) + "\n")

    assert 0 == result.exit_code, result.output
    assert "wrote study.toml; edit it, then: poolwise run" in result.stderr
    for words in ("name: use", "'state'", "'loss' is taken", "'reason' is taken", "must be below", "write 0.5"):
        assert words in result.stderr
    for words in ("'x' already", "No closing quotation", "names {y}"):
        assert words in result.stderr
    assert "low = 0.5\nhigh = 5.0\nstep = 0.1\n" in terminal.read("study.toml")


def test_a_folder_that_cannot_be_written_to(terminal, monkeypatch):
    """The file that was wanted is named, not the temporary one."""

    def refuse(**_):
        raise PermissionError(13, "Permission denied", ".a.toml.x1")

    monkeypatch.setattr("tempfile.mkstemp", refuse)

    assert "error: a.toml: permission denied." in terminal("init", "a.toml", code=1).stderr


def test_doctor(bench):
    """Versions, device, the file and the store; an error is exit code 1."""
    subjects = {finding["subject"] for finding in bench.json("doctor")}
    bench("ask")
    after = {finding["subject"]: finding for finding in bench.json("doctor")}
    bench.write("study.db", b"no database" * 1000)

    assert {"versions", "programs", "study file", "store"} <= subjects | {"versions"}
    assert "study 'bench'" in after and "cpu" in after["programs"]["message"]
    assert any(finding["level"] == "error" for finding in bench.json("doctor", "study.db", code=1))
    assert "error" in bench("doctor", code=1).stdout
    bench.write("m.csv", "number,yield\n")
    mistaken = bench("doctor", "m.csv", code=1)
    assert "m.csv is no study file and no SQLite file" in mistaken.stdout and ".recover" not in mistaken.output
    bench.write("study.toml", "q = 1\n")
    assert "which way is better" in bench("doctor", code=1).stdout


def test_letters_that_an_output_lacks(terminal):
    """The whole output is UTF-8 then, which `tell` reads; otherwise it stays as its place wants it."""
    terminal.write("study.toml", 'minimize = "y"\nq = 2\n[space.code]\ntype = "choice"\nvalues = ["é", "水"]\n')
    environment = {**os.environ, "PYTHONIOENCODING": "cp1252"}

    def told(*arguments):
        done = subprocess.run([sys.executable, "-m", "poolwise", *arguments], capture_output=True, env=environment)
        assert 0 == done.returncode, done.stderr
        return done.stdout

    assert {"é", "水"} == {line.split(",")[1] for line in told("ask", "--format", "csv").decode().splitlines()[1:]}
    for arguments in (["trials"], ["trials", "--format", "csv"], ["trials", "--json"]):
        assert "水" in told(*arguments).decode()
    terminal("tell", 0, 1)
    [best] = [trial["params"]["code"] for trial in terminal.json("trials") if trial["state"] == "told"]
    assert best in told("best").decode("cp1252" if best == "é" else "utf-8")


@pytest.mark.parametrize("command", ["demo", "paper figure1 --quick", "paper figure2 --quick", "paper claims"])
def test_pictures_and_the_paper_explain_themselves(terminal, command):
    """Something that is not installed, or not there, is a message and no traceback."""
    code = "import sys; sys.modules['matplotlib'] = None; from poolwise.cli import main; main(sys.argv[1:])"
    done, out, err = python("-c", code, *command.split(), cwd=terminal.folder)

    assert (1, "") == (done, out)
    assert "Traceback" not in err and err.splitlines()[-1].startswith("error: ")
    assert not list(terminal.folder.glob("out/*"))  # it is said before there is work that would be lost


def test_the_program_itself(bench):
    """As its users call it: data and messages apart, exit codes, no colour where there is no terminal."""
    environment = {**os.environ, "FORCE_COLOR": ""}
    code, out, err = python("-m", "poolwise", "ask", "-q", "2", cwd=bench.folder, env=environment)
    assert (0, 3) == (code, len(out.splitlines()))
    assert "\x1b" not in out + err and "poolwise tell 0 VALUE" in err

    assert 2 == python("-m", "poolwise", "status", "none.toml", cwd=bench.folder)[0]
    assert 3 == python("-m", "poolwise", "best", cwd=bench.folder)[0]
