"""Faults: a full disk, damage, hostile content, a server that restarts. Each has a promised outcome and a message."""

import contextlib
import itertools
import json
import logging
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest
import sqlalchemy as sa

from poolwise.errors import InputError, PoolwiseError
from poolwise.space.parameters import Float, Int
from poolwise.study import schema, telling
from poolwise.study.doctor import examine
from poolwise.study.errors import StorageError, StorageUnavailable, StudyNotFound
from poolwise.study.stops import RunStopped
from poolwise.study.study import Study
from poolwise.study.transactions import Transactions

SPACE = {"x": Float(0, 1), "n": Int(1, 1000)}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The file of a study with told, failed and pending trials, a revision and several requests."""
    path = tmp_path_factory.mktemp("whole") / "study.db"
    with Study(f"sqlite:///{path}", space=SPACE, minimize="loss") as study:
        for trial in [t for _ in range(2) for t in study.ask(12)][:20]:
            study.tell(trial, trial.number / 7)
            if trial.number == 3:
                study.tell(trial, 5.0, sem=0.1, replace=True)
        study.fail(21, "broken")
    assert not path.with_name("study.db-wal").exists()
    return path


def content(path):
    with Study(f"sqlite:///{path}") as study:
        return study.space, study.direction, study.trials, study.best, study.history(3)


def outcome(path):
    """What opening and reading gives: the content, or the name of a clean error; anything else is raised."""
    try:
        return content(path)
    except (StorageError, StudyNotFound) as error:
        assert not isinstance(error, StorageUnavailable)  # waiting would not help
        return type(error).__name__


def damaged_copies(path, folder, count, damage):
    data = path.read_bytes()
    for i in range(count):
        copy = folder / f"{i}.db"
        copy.write_bytes(damage(bytearray(data), i))
        yield copy
        for leftover in folder.iterdir():
            leftover.unlink()


def check_truncation(whole, folder, count):
    sizes = random.Random(1).sample(range(whole.stat().st_size), count)
    expected = content(whole)
    outcomes = [outcome(c) for c in damaged_copies(whole, folder, count, lambda data, i: bytes(data[: sizes[i]]))]

    assert all(isinstance(o, str) or o == expected for o in outcomes)
    assert outcomes.count("StorageError") > 0.8 * count


def check_flips(whole, folder, count):
    rng = random.Random(2)
    expected = content(whole)

    def flip(data, i):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        return bytes(data)

    outcomes = [outcome(copy) for copy in damaged_copies(whole, folder, count, flip)]

    assert all(isinstance(o, str) or o == expected for o in outcomes)
    assert "StorageError" in outcomes


def test_a_truncated_file_is_refused(whole, tmp_path):
    """At whatever byte it ends, it is an error or the same content; never other content."""
    check_truncation(whole, tmp_path, 40)


def test_flipped_bits_are_seen(whole, tmp_path):
    """Every row has a checksum: a flipped bit is an error, or is where nothing is stored."""
    check_flips(whole, tmp_path, 60)


def test_a_flipped_bit_in_the_schema_is_seen(whole, tmp_path):
    """Even where SQLite's own message about it is no text."""
    data = bytearray(whole.read_bytes())
    data[data.index(b"CREATE TABLE poolwise_trials") + 3] ^= 0x80
    (tmp_path / "a.db").write_bytes(data)

    assert "StorageError" == outcome(tmp_path / "a.db")


@pytest.mark.slow
def test_many_truncations_and_flips(whole, tmp_path):
    check_truncation(whole, tmp_path, 2000)
    check_flips(whole, tmp_path, 5000)


FULL = """
import os, resource, shutil, sys
from poolwise.study.errors import StorageError
from poolwise.study.stops import RunStopped
from poolwise.study.study import Study
source, folder, *limits = sys.argv[1:]
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
refused = 0
for limit in map(int, limits):
    path = f"{folder}/{limit}.db"
    shutil.copy(source, path)
    acknowledged = {}
    with Study(f"sqlite:///{path}") as study:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
        try:
            for i in range(8):
                [trial] = study.ask()
                acknowledged[trial.number] = "pending"
                study.tell(trial, 0.5) if i < 3 else study.fail(trial, "why " * 500)  # too few for a model
                acknowledged[trial.number] = "told" if i < 3 else "failed"
        except StorageError as error:
            assert "untouched" in str(error) and "full" in str(error), error
            refused += 1
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        before = study.trials
        assert 24 + len(acknowledged) >= len(before) >= 24
        for number, state in acknowledged.items():
            assert state in ("pending", before[number].state), (limit, number)
        [trial] = study.ask()  # there is room again: the same study goes on
        study.fail(trial, "room")
    with Study(f"sqlite:///{path}") as study:
        assert study.trials[:-1] == before and study.trials[-1].reason == "room"
    os.remove(path)
print(refused)
"""


def check_full_disk(folder, limits):
    """Run the script from a study with nothing but pending trials, which needs no model."""
    whole = folder / "source.db"
    with Study(f"sqlite:///{whole}", space=SPACE, minimize="loss") as study:
        study.ask(24)
    run = subprocess.run(
        [sys.executable, "-c", FULL, str(whole), str(folder), *map(str, limits)], capture_output=True, text=True
    )
    assert 0 == run.returncode, run.stderr
    assert len(limits) / 2 < int(run.stdout)


def test_a_full_disk_loses_nothing(tmp_path):
    """Wherever the room ends: an error that says so, what was acknowledged is there, and the study goes on later."""
    check_full_disk(tmp_path, range(0, 60_000, 4999))


@pytest.mark.slow
def test_a_full_disk_at_many_offsets(tmp_path):
    check_full_disk(tmp_path, range(0, 120_000, 127))


@pytest.mark.skipif(sys.platform == "win32", reason="a file that is open stays")
@pytest.mark.parametrize("what", ["removed", "replaced"])
def test_a_file_that_is_gone_is_noticed(tmp_path, what):
    """By the next that is told; what was told before can be read, and nothing new appears in its place."""
    path, other = tmp_path / "study.db", tmp_path / "other.db"
    Study(f"sqlite:///{other}", space=SPACE, minimize="loss").close()
    with Study(f"sqlite:///{path}", space=SPACE, minimize="loss") as study:
        first, second = study.ask(2)
        study.tell(first, 1.0)
        path.unlink() if what == "removed" else other.replace(path)
        for change in (lambda: study.tell(second, 2.0), lambda: study.ask(1), lambda: study.add(first.params, 1.0)):
            with pytest.raises(StorageError, match=f"was {what}.* What was told before can be read"):
                change()

        assert 1.0 == study.best.value
        assert (what == "replaced") == path.exists()


@pytest.mark.skipif(sys.platform == "win32", reason="a file that is open stays")
def test_a_file_that_goes_while_something_is_written_is_noticed(tmp_path):
    """What went into a file without a name is not acknowledged."""
    path = tmp_path / "study.db"
    with Study(f"sqlite:///{path}", space=SPACE, minimize="loss") as study:
        study.ask(1)

        with pytest.raises(StorageError, match="was removed"):
            study._store.run.write(lambda connection: path.unlink())


@pytest.mark.skipif(sys.platform == "win32", reason="a file that is open stays")
def test_a_run_ends_when_its_file_is_gone(tmp_path, monkeypatch):
    """With the values that are not stored."""
    monkeypatch.setattr(telling, "WAITS", ())
    path = tmp_path / "study.db"
    with Study(f"sqlite:///{path}", space={"x": Float(0, 1)}, minimize="loss") as study:
        with pytest.raises(RunStopped, match=r"was removed.*Not stored, .*trial 1: 0\.25"):
            study.run(lambda x: path.unlink() or 0.25 if study.counts["told"] else 0.25, trials=3)

        assert 1 == study.counts["told"]


def test_another_way_to_the_same_file(tmp_path, monkeypatch):
    """Who goes elsewhere has not lost the file."""
    monkeypatch.chdir(tmp_path)
    with Study("sqlite:///study.db", space=SPACE, minimize="loss") as study:
        monkeypatch.chdir(tmp_path.parent)
        study.ask(1)
        (tmp_path / "study.db").rename(tmp_path / "away.db")
        (tmp_path / "study.db").symlink_to("away.db")

        assert 1 == len(study.ask(1))


READ_ONLY = """
import os, sys
from poolwise.study.errors import StorageError
from poolwise.study.stops import RunStopped
from poolwise.study.study import Study
if os.geteuid() == 0:
    os.setgid(65534); os.setuid(65534)
try:
    Study(f"sqlite:///{sys.argv[1]}/study.db").ask()
except StorageError as error:
    print(error)
"""


def test_a_read_only_folder_is_explained(whole):
    """The message names the file and says that the folder must be writable."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(whole, folder)
        os.chmod(f"{folder}/study.db", 0o444)
        os.chmod(folder, 0o555)
        run = subprocess.run([sys.executable, "-c", READ_ONLY, folder], capture_output=True, text=True)
        os.chmod(folder, 0o755)

    assert "study.db" in run.stdout, run.stderr
    assert "folder" in run.stdout


def test_a_folder_that_is_not_there_is_explained(tmp_path):
    with pytest.raises(StorageError, match="folder does not exist"):
        Study(f"sqlite:///{tmp_path}/no/study.db")


def test_a_file_that_is_no_database_is_left_alone(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("not a database, " * 100)
    with pytest.raises(StorageError, match="no SQLite database"):
        Study(f"sqlite:///{path}", space=SPACE, minimize="loss")

    assert path.read_text() == "not a database, " * 100


DEEP = "[" * 100_000 + "]" * 100_000
HOSTILE = [
    ("params", '["x", 1]'),
    ("params", '{"x": NaN, "n": 1}'),
    ("params", DEEP),
    ("params", '{"x": "' + "a" * 2_000_000 + '"}'),
    ("params", b"\x80\x04\x95\x12\x00\x00\x00\x00\x00\x00\x00\x8c\x02os\x94\x8c\x06system\x94\x93\x94."),
    ("params", "__import__('os').system('touch hacked')"),
    ("value", "1.5"),
    ("value", float("inf")),
    ("value", None),
    ("state", "ready"),
    ("number", 77),
    ("asked", 1e300),
    ("reason", b"bytes"),
]


@pytest.mark.parametrize("column, value", HOSTILE, ids=lambda v: str(v)[:20])
def test_hostile_trials_are_refused(whole, tmp_path, column, value):
    """Even with a checksum that fits: nothing is run, nothing is guessed."""
    path = shutil.copy(whole, tmp_path / "hostile.db")
    with sqlite3.connect(path) as connection:
        connection.row_factory = sqlite3.Row
        row = dict(connection.execute("SELECT * FROM poolwise_trials WHERE number = 5").fetchone())
        row[column] = value
        seal = schema.seal({**row, column: value if not isinstance(value, bytes) else repr(value)})
        connection.execute(f"UPDATE poolwise_trials SET {column} = ?, seal = ? WHERE number = 5", (value, seal))
    connection.close()

    with Study(f"sqlite:///{path}") as study, pytest.raises(StorageError):
        study.trials  # noqa: B018
    assert any("error" == f.level for f in examine(f"sqlite:///{path}"))


@pytest.mark.parametrize(
    "definition",
    ["{}", "[]", '{"direction": "minimize"}', "nonsense", '{"direction": "minimize", "settings": {"run": "rm"}}', DEEP],
    ids=lambda v: v[:20],
)
def test_hostile_definitions_are_refused(whole, tmp_path, definition):
    path = shutil.copy(whole, tmp_path / "hostile.db")
    with sqlite3.connect(path) as connection:
        connection.row_factory = sqlite3.Row
        row = dict(connection.execute("SELECT * FROM poolwise_studies").fetchone()) | {"definition": definition}
        connection.execute("UPDATE poolwise_studies SET definition = ?, seal = ?", (definition, schema.seal(row)))
    connection.close()

    with pytest.raises(StorageError, match="definition"):
        Study(f"sqlite:///{path}")


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TRIGGER t AFTER INSERT ON poolwise_trials BEGIN DELETE FROM poolwise_trials; END",
        "CREATE VIEW poolwise_view AS SELECT load_extension('evil.so') FROM poolwise_trials",
        "ALTER TABLE poolwise_trials RENAME TO other",
        "ALTER TABLE poolwise_trials DROP COLUMN reason",
        "DROP TABLE poolwise_requests",
        "UPDATE poolwise_meta SET value = 'one'",
    ],
)
def test_a_strange_schema_is_refused(whole, tmp_path, statement):
    path = shutil.copy(whole, tmp_path / "strange.db")
    with sqlite3.connect(path) as connection:
        connection.execute(statement)
    connection.close()

    with pytest.raises(StorageError):
        Study(f"sqlite:///{path}")


def test_the_doctor_finds_nothing_wrong_with_a_whole_file(whole):
    findings = examine(f"sqlite:///{whole}")

    assert [] == [str(f) for f in findings if f.level != "ok"]
    assert "24 trials" in findings[-1].message


def test_the_doctor_explains_damage(whole, tmp_path):
    """It names the newest backup and how to recover what is readable; it never raises."""
    (tmp_path / "0.db.backup-v0").write_bytes(b"")
    data = whole.read_bytes()
    for size in (10, len(data) // 2):
        path = tmp_path / "0.db"
        path.write_bytes(data[:size])
        [problem] = [f for f in examine(f"sqlite:///{path}") if f.level == "error"]

        assert ".recover" in problem.advice
        assert "0.db.backup-v0" in problem.advice
    assert "there is no" in examine(f"sqlite:///{tmp_path}/other.db")[-1].message


@pytest.mark.parametrize(
    "change, words",
    [
        ("DELETE FROM poolwise_trials WHERE number = 3", "24 trials were stored, and 23 are there"),
        ("UPDATE poolwise_trials SET number = 99 WHERE number = 3", "24 are there, with other numbers"),
    ],
)
def test_the_doctor_counts_trials(whole, tmp_path, change, words):
    path = tmp_path / "0.db"
    path.write_bytes(whole.read_bytes())
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(change)

    assert any(words in finding.message for finding in examine(f"sqlite:///{path}") if finding.level == "error")


@pytest.mark.parametrize("table", ["requests", "revisions"])
def test_the_doctor_reads_every_table(whole, tmp_path, table):
    """A row that no trial shows is read as well."""
    path = shutil.copy(whole, tmp_path / "a.db")
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"UPDATE poolwise_{table} SET seal = 'none'")
    findings = examine(f"sqlite:///{path}")

    assert any(table in f.message and "checksum" in f.message for f in findings if f.level == "error")


KILLED = """
import os, sys
from poolwise import Float, Study
study = Study(sys.argv[1], space={"x": Float(0, 1)}, minimize="loss")
study.ask(3)
os.kill(os.getpid(), 9)
"""


def files(folder):
    """What is in a folder, but for the index of a log, which is made anew from it."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if not path.name.endswith("-shm")}


def test_the_doctor_changes_nothing(tmp_path):
    """Not what a process left that was killed, whose log it reads; not an empty file, or one of somebody else."""
    url = f"sqlite:///{tmp_path / 'study.db'}"
    subprocess.run([sys.executable, "-c", KILLED, url])
    (tmp_path / "empty.db").touch()
    with contextlib.closing(sqlite3.connect(tmp_path / "other.db")) as connection, connection:
        connection.execute("CREATE TABLE notes (text)")
    before = files(tmp_path)
    findings = [examine(f"sqlite:///{tmp_path}/{name}")[-1] for name in ("study.db", "empty.db", "other.db")]
    (tmp_path / "study.db-shm").unlink()
    again = examine(url)[-1]
    after = files(tmp_path)
    Study(url, name="study").close()  # which empties the log
    examine(url)

    assert len(before["study.db-wal"]) > 0
    assert before == after
    assert ["empty.db", "other.db", "study.db"] == sorted(path.name for path in tmp_path.iterdir())
    assert "3 trials, numbers and checksums are whole" in findings[0].message
    assert findings[0] == again
    assert ["no tables of Poolwise" in finding.message for finding in findings] == [False, True, True]


SECRET = "s3cr3t-w0rd"


def test_passwords_are_never_shown(caplog):
    """Not in errors, logs or representations, and not if they are given as part of the query."""
    url = f"postgresql://user:{SECRET}@127.0.0.1:1/db?sslpassword={SECRET}&application_name=a"
    caplog.set_level(logging.DEBUG)
    with pytest.raises(StorageUnavailable) as caught:
        Study(url, space=SPACE, minimize="loss", patience=0.05)
    run = Transactions(sa.make_url(url).set(drivername="postgresql+psycopg"), 1.0)

    for text in (str(caught.value), repr(caught.value), caplog.text, repr(run), *map(str, examine(url, patience=0.05))):
        assert SECRET not in text
    assert "127.0.0.1" in str(caught.value)
    for wrong in (f"mysql://user:{SECRET}@host/db", f"no address {SECRET}"):
        with pytest.raises(InputError) as refused:
            Study(wrong)
        assert SECRET not in str(refused.value)


def test_a_server_that_restarts_costs_nothing(own_server):
    """A study goes on by itself; every acknowledged tell is there, and nothing twice. Gone for longer, it says so."""
    url = own_server.get_uri()
    acknowledged, errors, stop = [], [], threading.Event()
    study = Study(url, space=SPACE, minimize="loss")

    def work():
        try:
            for number in itertools.count():
                if stop.is_set():
                    return
                study.add({"x": 0.5, "n": 1}, float(number))
                acknowledged.append(float(number))
        except Exception as error:
            errors.append(error)

    worker = threading.Thread(target=work)
    worker.start()
    for _ in range(2):
        seen = len(acknowledged)
        own_server.stop()
        own_server.ensure_postgres_running()
        for _ in range(600):
            if len(acknowledged) > seen + 5 or errors:
                break
            stop.wait(0.05)
    stop.set()
    worker.join(60)

    assert [] == errors
    assert acknowledged == [t.value for t in study.trials]
    assert len(acknowledged) > 10

    study._store.run.patience = 0.2
    own_server.stop()
    with pytest.raises(StorageUnavailable, match=r"does not answer, after trying for 0.2 seconds"):
        study.ask()
    own_server.ensure_postgres_running()
    assert len(acknowledged) == len(study.trials)
    study.close()


def test_a_file_that_another_process_holds(tmp_path):
    """After the patience it is an error; when the file is free again, the study goes on."""
    path = tmp_path / "a.db"
    with Study(f"sqlite:///{path}", space=SPACE, minimize="loss", patience=0.1) as study:
        [trial] = study.ask()
        study._store.run.read(lambda c: c.exec_driver_sql("PRAGMA busy_timeout=10"))
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StorageUnavailable, match="another process holds the file"):
            study.tell(trial, 1.0)
        assert "pending" == study.trial(0).state  # readers are not held up
        other.close()

        assert 1.0 == study.tell(trial, 1.0).value


def test_no_other_error_than_ours(whole, tmp_path):
    """What comes out of a store is a PoolwiseError, also from a file that vanished or was exchanged."""
    path = shutil.copy(whole, tmp_path / "a.db")
    with Study(f"sqlite:///{path}") as study:
        Path(path).write_bytes(json.dumps({"a": 1}).encode() * 3000)
        try:
            study.tell(22, 1.0)
        except PoolwiseError as error:
            assert str(error)


@pytest.mark.parametrize("url", ["sqlite", "postgresql"], indirect=True)
def test_connections_that_other_threads_have_are_waited_for(url):
    """As a lock is; only after the patience it is an error."""
    with Study(url, space=SPACE, minimize="loss", patience=0.2) as study:
        engine = study._store.run.engine
        engine.pool._timeout = 0.05
        with contextlib.ExitStack() as others:
            for _ in range(15):
                others.enter_context(engine.connect().execution_options(reader=True))
            with pytest.raises(StorageUnavailable, match="other threads have all connections"):
                study.ask(2)
            study._store.run.patience = 60
            release = threading.Timer(0.3, others.pop_all().close)
            release.start()
            assert 2 == len(study.ask(2))
            release.join()
