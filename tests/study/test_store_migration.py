"""Versions of the schema: an older store is carried over after a backup, a newer one is refused."""

import sqlite3

import pytest
import sqlalchemy as sa

from poolwise.space.parameters import Float
from poolwise.study.errors import StorageError, VersionError
from poolwise.study.migration import backup_file
from poolwise.study.study import Study
from poolwise.study.transactions import Transactions

DEFINITION = (
    '{"space":{"parameters":{"x":{"type":"float","low":0.0,"high":1.0}}},"objective":"loss","direction":"minimize",'
    '"seed":3,"settings":{"acquisition":"ucb","beta":1.5,"model_trials":500,"expired":"ask"},"poolwise":"0.0"}'
)

# Frozen: what the store looked like at version 0. It is never changed.
VERSION_0 = [
    "CREATE TABLE poolwise_meta (key VARCHAR(64) PRIMARY KEY, value TEXT NOT NULL)",
    "CREATE TABLE poolwise_studies (id INTEGER PRIMARY KEY, name VARCHAR(128) NOT NULL UNIQUE, "
    "definition TEXT NOT NULL, created DOUBLE PRECISION NOT NULL)",
    "CREATE TABLE poolwise_trials (study INTEGER NOT NULL REFERENCES poolwise_studies (id), number BIGINT NOT NULL, "
    "params TEXT NOT NULL, state VARCHAR(16) NOT NULL, value DOUBLE PRECISION, sem DOUBLE PRECISION, reason TEXT, "
    "request VARCHAR(200), asked DOUBLE PRECISION NOT NULL, finished DOUBLE PRECISION, PRIMARY KEY (study, number))",
    "INSERT INTO poolwise_meta VALUES ('schema', '0')",
    f"INSERT INTO poolwise_studies VALUES (1, 'old', '{DEFINITION}', 1700000000.5)",
    """INSERT INTO poolwise_trials VALUES
    (1, 0, '{"x":0.25}', 'told', 1.5, 0.1, NULL, 'first', 1700000001.0, 1700000002.0),
    (1, 1, '{"x":0.5}', 'failed', NULL, NULL, 'broken', 'first', 1700000001.0, 1700000002.0),
    (1, 2, '{"x":0.125}', 'told', -2.0, NULL, NULL, NULL, 1700000003.0, 1700000003.0),
    (1, 3, '{"x":0.75}', 'pending', NULL, NULL, NULL, 'second', 1700000004.0, NULL)""",
]


def old_store(url):
    engine = sa.create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    with engine.begin() as connection:
        for statement in VERSION_0:
            connection.exec_driver_sql(statement)
    engine.dispose()


@pytest.fixture(params=["sqlite", "postgresql"])
def old(request, tmp_path):
    """The address of a store of version 0."""
    sqlite = request.param == "sqlite"
    url = f"sqlite:///{tmp_path / 'old.db'}" if sqlite else request.getfixturevalue("databases")()
    old_store(url)
    return url


def test_an_old_store_is_carried_over(old):
    """All that it says is there, it can be used, and opening it again changes nothing."""
    with Study(old, name="old") as study:
        trials = study.trials
        assert [(0, 1.5, 0), (1, None, 0), (2, -2.0, None), (3, None, 1)] == [
            (t.number, t.value, t.pool) for t in trials
        ]
        assert ["told", "failed", "told", "pending"] == [t.state for t in trials]
        assert ("broken", 0.1, {"x": 0.75}) == (trials[1].reason, trials[0].sem, trials[3].params)
        assert [0, 1] == [t.number for t in study.ask(2, request_id="first")]
        assert (1.5, 500, 3) == (study.settings.beta, study.settings.model_trials, study.seed)
        study.tell(3, 0.5)
        assert [4] == [t.number for t in study.ask()]
    with Study(old, name="old") as study:
        assert 5 == len(study.trials)


def test_there_is_a_backup(old, tmp_path):
    """Made before anything is changed, and whole."""
    Study(old, name="old").close()
    if old.startswith("sqlite"):
        [backup] = tmp_path.glob("old.db.backup-v0")
        connection = sqlite3.connect(backup)
        kept = connection.execute("SELECT number, value FROM poolwise_trials").fetchall()
        connection.close()
    else:
        engine = sa.create_engine(old.replace("postgresql://", "postgresql+psycopg://"))
        with engine.connect() as c:
            kept = [tuple(r) for r in c.execute(sa.text("SELECT number, value FROM poolwise_trials_backup_v0"))]
        engine.dispose()

    assert [(0, 1.5), (1, None), (2, -2.0), (3, None)] == sorted(kept)


def test_a_migration_that_fails_changes_nothing(tmp_path):
    """It is one transaction, after a backup."""
    url = f"sqlite:///{tmp_path / 'old.db'}"
    old_store(url)
    connection = sqlite3.connect(tmp_path / "old.db")
    with connection:
        connection.execute("ALTER TABLE poolwise_trials ADD COLUMN strange INTEGER")
    before = list(connection.iterdump())
    with pytest.raises(StorageError):
        Study(url, name="old")

    assert before == list(connection.iterdump())
    connection.close()
    assert (tmp_path / "old.db.backup-v0").exists()


def test_backups_are_never_overwritten(tmp_path):
    path = tmp_path / "a.db"
    sqlite3.connect(path).close()
    names = [backup_file(path, 0).name for _ in range(3)]

    assert ["a.db.backup-v0", "a.db.backup-v0.1", "a.db.backup-v0.2"] == names


def test_a_newer_store_is_refused(url, tmp_path):
    """With the way out, and without a change."""
    url = url or f"sqlite:///{tmp_path / 'new.db'}"
    with Study(url, space={"x": Float(0, 1)}, minimize="loss") as study:
        study.ask(2)
        study._store.run.write(lambda c: c.exec_driver_sql("UPDATE poolwise_meta SET value = '99'"))
        address = study._store.url
    with pytest.raises(VersionError, match=r"schema version 99.*pip install --upgrade poolwise"):
        Study(url)

    run = Transactions(address, 1.0)
    assert "99" == run.read(lambda c: c.exec_driver_sql("SELECT value FROM poolwise_meta").scalar())
    run.close()
