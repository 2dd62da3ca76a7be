"""Files that commands write: never over a study's own, nor over others unasked."""

import os
import shutil
import subprocess
import sys

import pytest


@pytest.fixture
def asked(bench):
    """A study with four pending trials."""
    bench("ask")
    return bench


@pytest.mark.parametrize("name", ["study.toml", "study.db", "study.db-wal", "./study.db", "link", "hard"])
@pytest.mark.parametrize("command", ["ask", "export"])
def test_a_study_is_not_written_over(asked, command, name):
    """Neither its file nor its database, by whatever name, not even by force."""
    (asked.folder / "link").symlink_to("study.db")
    (asked.folder / "hard").hardlink_to(asked.folder / "study.db")

    assert "belongs to the study" in asked(command, "--out", name, "--format", "csv", "--force", code=2).stderr
    assert 4 == asked.json("status")["pending"]


def test_a_database_that_is_not_there_yet(bench):
    """Its place is taken."""
    assert "belongs to the study" in bench("ask", "--out", "study.db", "--format", "csv", code=2).stderr
    assert not (bench.folder / "study.db").exists()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes with names")
@pytest.mark.parametrize("command", ["ask", "export"])
def test_what_is_no_file_is_not_replaced(asked, command):
    """Such as a pipe, or a device."""
    os.mkfifo(asked.folder / "pipe")

    assert "is no file" in asked(command, "--out", "pipe", "--format", "csv", "--force", code=2).stderr
    assert (asked.folder / "pipe").is_fifo()


def test_an_export_writes_over_nothing(asked):
    """A table that is there may have values in it that nobody has told."""
    asked.write("all.csv", "precious")

    assert "--force" in asked("export", "--out", "all.csv", code=2).stderr
    assert "precious" == asked.read("all.csv")
    asked("export", "--out", "all.csv", "--force")
    assert asked.read("all.csv").startswith("number,")


@pytest.mark.skipif(os.name != "posix", reason="quotes of a shell")
def test_what_to_do_next_names_the_study(bench, monkeypatch):
    """Where it would not be found without; paths are quoted as a shell wants it."""
    shutil.copy(bench.folder / "study.toml", bench.folder / "the other.toml")
    other = ("--study", "the other.toml")

    told = "then: poolwise tell 'o 1.csv' --study 'the other.toml'\n"
    assert bench("ask", "--out", "o 1.csv", *other).stderr.endswith(told)
    assert bench("ask", *other).stderr.endswith("--format csv --study 'the other.toml'`\n")
    assert "--study" not in bench("ask").stderr
    monkeypatch.setenv("POOLWISE_STUDY", "the other.toml")
    assert "tell 4 VALUE --study study.toml" in bench("ask", "--study", "study.toml").stderr
    assert "bench (the other.toml): 1 told; " in bench("tell", 0, 1).stderr


@pytest.mark.parametrize(
    "out, made",
    [("hist", "hist.png"), ("pics/", "pics/history.png"), ("here", "here/history.png"), ("new/a.svg", "new/a.svg")],
)
def test_where_a_picture_goes(asked, out, made):
    """What is printed is the file that is written; a folder gets it by its kind."""
    (asked.folder / "here").mkdir()
    asked("tell", 0, 1)

    assert f"{made}\n" == asked("plot", "history", "--out", out).stdout
    assert (asked.folder / made).is_file()


def test_a_picture_of_an_unknown_kind(asked):
    """It is refused, and nothing is left."""
    asked("tell", 0, 1)

    assert "--out new/a.txt" in asked("plot", "history", "--out", "new/a.txt", code=2).stderr
    assert not (asked.folder / "new").exists()


def test_a_picture_with_letters_that_a_font_lacks(terminal):
    """Nothing is said about it on the command line."""
    terminal.write("study.toml", 'name = "s"\nminimize = "日本"\n[space.x]\ntype = "int"\nlow = 1\nhigh = 9\n')
    terminal("ask")
    terminal("tell", 0, 1)

    assert "" == terminal("plot", "history").stderr


def test_a_demo_into_a_file(tmp_path):
    """It is refused before anything is computed, so that no programs are kept."""
    (tmp_path / "taken").touch()
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("POOLWISE", "JAX"))}
    environment["XDG_CACHE_HOME"] = str(tmp_path / "cache")
    command = [sys.executable, "-m", "poolwise", "demo", "--out", "taken"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)

    assert (1, True) == (done.returncode, "taken: file exists" in done.stderr)
    assert not (tmp_path / "cache" / "poolwise").exists()
