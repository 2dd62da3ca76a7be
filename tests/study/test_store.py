"""The contract of the store: the same on SQLite in memory, on an SQLite file and on PostgreSQL."""

import contextlib
import gc
import json
import math
import threading

import pytest

from poolwise.errors import InputError, PoolwiseError
from poolwise.space.errors import SpaceError, SpaceExhausted
from poolwise.space.parameters import Choice, Float, Int
from poolwise.study.definition import Settings
from poolwise.study.engine import parse_url
from poolwise.study.errors import ConflictError, StorageError, StorageUnavailable, StudyNotFound, VersionError
from poolwise.study.migration import stored_version
from poolwise.study.store import Store
from poolwise.study.study import Study
from poolwise.study.transactions import Transactions

POINT = {"x": 0.5, "n": 7, "kind": "b"}


def test_a_pool_is_stored_whole(study):
    """Numbers are consecutive from 0, parameters are complete, and the store says the same."""
    first, second = study.ask(3), study.ask(2)

    assert [0, 1, 2] == [t.number for t in first]
    assert [3, 4] == [t.number for t in second]
    assert [*first, *second] == study.trials == study.pending
    assert [0, 0, 0, 1, 1] == [t.pool for t in study.trials]
    for trial in study.trials:
        assert trial.params == study.space.validate(trial.params)
        assert "pending" == trial.state


def test_no_two_points_are_equal(study):
    points = [json.dumps(t.params) for _ in range(6) for t in study.ask(5)]

    assert 30 == len(set(points))


def test_the_same_request_gives_the_same_pool(study):
    """However often it is repeated, and whatever became of it since."""
    pool = study.ask(3, request_id="monday")
    other = study.ask(1)
    study.tell(pool[0], 1.0)

    assert [t.number for t in pool] == [t.number for t in study.ask(3, request_id="monday")]
    assert "told" == study.ask(3, request_id="monday")[0].state
    assert "monday" == pool.request_id != other.request_id
    assert 4 == len(study.trials)


def test_a_request_with_another_size_is_a_conflict(study):
    study.ask(3, request_id="monday")

    with pytest.raises(ConflictError, match=r"q=3.*q=2"):
        study.ask(2, request_id="monday")


def test_a_value_is_kept_exactly(study):
    """All 64 bits, also of the smallest and largest numbers."""
    values = [0.1 + 0.2, -1e300, 5e-324, 1.7976931348623157e308, -0.0]
    for trial, value in zip(study.ask(5), values, strict=True):
        told = study.tell(trial, value, sem=abs(value) / 3)

        assert (value, abs(value) / 3, "told") == (told.value, told.sem, told.state)
        assert told == study.trial(trial.number)
    assert values == [t.value for t in study.trials]


def test_telling_the_same_again_changes_nothing(study):
    [trial] = study.ask()
    study.tell(trial, 1.5, sem=0.1)
    before = study.trial(0)
    study.tell(trial, 1.5, sem=0.1)
    study.tell(0, 1.5)

    assert before == study.trial(0)
    assert [] == study.history(0)


def test_another_value_is_a_conflict_unless_it_replaces(study):
    """What was said before is kept."""
    [trial] = study.ask()
    study.tell(trial, 1.5)
    for change in (lambda: study.tell(trial, 2.5), lambda: study.tell(trial, 1.5, sem=1.0), lambda: study.fail(trial)):
        with pytest.raises(ConflictError, match=r"trial 0: the store has value 1.5.*replace=True"):
            change()
    assert 1.5 == study.trial(0).value

    study.tell(trial, 2.5, replace=True)
    study.tell(trial, 2.5, replace=True)
    study.fail(trial, "spilt", replace=True)
    study.tell(trial, 3.5, sem=0.5, replace=True)

    assert 3.5 == study.trial(0).value
    assert [("told", 1.5), ("told", 2.5), ("failed", None)] == [(r.state, r.value) for r in study.history(0)]
    assert "spilt" == study.history(0)[-1].reason


def test_a_reason_can_be_replaced(study):
    """The old one is kept, and no reason is none to replace it by."""
    [trial] = study.ask()
    study.fail(trial, "spilt")
    assert "spilt" == study.fail(trial, "dropped").reason
    assert "dropped" == study.fail(trial, "dropped", replace=True).reason
    assert "dropped" == study.fail(trial, replace=True).reason

    assert ["spilt"] == [r.reason for r in study.history(0)]


def test_a_standard_error_can_be_taken_off(study):
    [trial] = study.ask()
    study.tell(trial, 1.5, sem=0.5)
    assert 0.5 == study.tell(trial, 1.5).sem
    assert study.tell(trial, 1.5, replace=True).sem is None

    assert [0.5] == [r.sem for r in study.history(0)]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_value_that_is_no_number_fails_the_trial(study, value):
    [trial] = study.ask()
    told = study.tell(trial, value)

    assert "failed" == told.state
    assert None is told.value
    assert str(value) in told.reason
    assert "failed" == study.tell(trial, value).state
    with pytest.raises(ConflictError):
        study.tell(trial, 1.0)


@pytest.mark.parametrize("value", ["1.5", None, 1j, [1.0, 2.0], object()])
def test_what_is_no_number_is_an_input_error(study, value):
    """And the trial stays pending."""
    [trial] = study.ask()
    with pytest.raises(InputError, match="value: expected a number"):
        study.tell(trial, value)

    assert "pending" == study.trial(0).state


def test_a_failure_keeps_its_reason(study):
    """Any text, even one that a database would choke on."""
    first, second = study.ask(2)
    study.fail(first, "stopped: \x00 \ud800 'quoted'; DROP TABLE trials; " + "x" * 10**5)
    study.fail(first, "again")
    study.fail(second)

    assert study.trial(0).reason.startswith("stopped:")
    assert len(study.trial(0).reason) < 5000
    assert study.trial(1).reason
    assert {"pending": 0, "told": 0, "failed": 2} == study.counts


def test_an_unknown_number_is_a_conflict(study):
    study.ask()
    for change in (lambda: study.tell(1, 1.0), lambda: study.fail(1, "x"), lambda: study.trial(1)):
        with pytest.raises(ConflictError, match="trial 1"):
            change()


def test_the_best_is_the_best_told(study):
    """In the study's direction, the earliest of equals; failures and pending trials do not count."""
    assert study.best is None
    pool = study.ask(5)
    for trial, value in zip(pool, [3.0, 1.0, math.nan, 1.0], strict=False):
        study.tell(trial, value)

    assert 1 == study.best.number


def test_maximizing_takes_the_largest(url):
    with Study(url, space={"x": Float(0, 1)}, maximize="yield") as study:
        for value, trial in enumerate(study.ask(3)):
            study.tell(trial, value)

        assert 2.0 == study.best.value


def test_an_added_trial_counts(study):
    """It is told, has a number of its own and is the best if it is."""
    study.ask(2)
    added = study.add(POINT, -1.0, sem=0.2)

    assert (2, "told", True, POINT) == (added.number, added.state, added.added, added.params)
    assert added == study.best == study.trial(2)
    assert "failed" == study.add(POINT, math.nan).state
    assert study.ask()[0].number == 4


def test_an_added_trial_may_lie_outside(study, caplog):
    """It is stored as it is, with a warning; what cannot be a value of the parameter is an error."""
    outside = {"x": 3.25, "n": 90, "kind": "a"}
    assert outside == study.add(outside, -5.0).params
    assert "outside the space" in caplog.text
    assert -5.0 == study.best.value
    for wrong in ({"x": 0.5, "n": 7}, {**POINT, "y": 1}, {**POINT, "kind": "d"}, {**POINT, "x": "high"}):
        with pytest.raises(SpaceError):
            study.add(wrong, 1.0)
    assert 1 == len(study.trials)


def test_a_lease_that_ran_out_is_asked_again_first(clocked, clock):
    """The same number and parameters, before new ones; a renewed one is left alone."""
    pool = clocked.ask(3, lease=60)
    clock.now += 50
    clocked.renew(pool[1], 60)
    clocked.tell(pool[2], 1.0)
    assert [3] == [t.number for t in clocked.ask(1, lease=60)]
    clock.now += 11
    again = clocked.ask(2, lease=60)

    assert [0, 4] == [t.number for t in again] == [t.number for t in clocked.ask(2, request_id=again.request_id)]
    assert pool[0].params == again[0].params
    assert [5] == [t.number for t in clocked.ask(1)]


def test_a_late_tell_is_taken(clocked, clock):
    """By whoever is first; the second to tell the same trial hears of a conflict if the values differ."""
    [trial] = clocked.ask(lease=1)
    clock.now += 10
    [again] = clocked.ask(lease=1)
    clock.now += 10
    clocked.tell(trial, 1.0)

    assert trial.number == again.number
    assert 1.0 == clocked.trial(0).value
    with pytest.raises(ConflictError):
        clocked.tell(again, 2.0)
    assert [1] == [t.number for t in clocked.ask()]


def test_a_trial_without_lease_waits_for_ever(clocked, clock):
    clocked.ask()
    clock.now += 1e9

    assert [1] == [t.number for t in clocked.ask()]


def test_expired_trials_may_be_failed_instead(url, clock):
    """And a late tell is still taken, also then; the lease's failure is kept in the history."""
    with Study(url, space={"x": Float(0, 1)}, minimize="loss", settings=Settings(expired="fail")) as study:
        study._store._clock = clock
        [trial] = study.ask(lease=1)
        clock.now += 10

        assert [1] == [t.number for t in study.ask()]
        assert "failed" == study.trial(0).state
        assert 2.0 == study.tell(trial, 2.0).value
        assert ["failed"] == [r.state for r in study.history(0)]


def test_a_late_reason_is_taken(url, clock):
    """It says more than that the lease ran out."""
    with Study(url, space={"x": Float(0, 1)}, minimize="loss", settings=Settings(expired="fail")) as study:
        study._store._clock = clock
        [trial] = study.ask(lease=1)
        clock.now += 10
        study.ask()
        assert "the lease ran out" in study.fail(trial).reason
        assert "out of memory" == study.fail(trial, "out of memory").reason

        assert ["the lease ran out" in r.reason for r in study.history(0)] == [True]


def test_clocks_that_jump_do_no_harm(clocked, clock):
    """Order is by number; a jump back makes leases longer, a jump ahead hands trials out again, nothing is lost."""
    numbers = []
    for jump in (3600.0, -7200.0, 0.0, 1e6, -1e6):
        clock.now += jump
        for trial in clocked.ask(2, lease=60):
            numbers.append(trial.number)
            if trial.number % 2:
                clocked.tell(trial, float(trial.number))

    trials = clocked.trials
    assert list(range(len(trials))) == [t.number for t in trials] == sorted(set(numbers))
    assert all(t.value == t.number for t in trials if t.number % 2)


def test_a_finite_space_runs_out(url):
    """Every experiment once, the last pool smaller, then an error that says so."""
    space = {"n": Int(1, 3), "kind": Choice(["a", "b"])}
    with Study(url, space=space, minimize="loss") as study:
        sizes = [len(study.ask(4)), len(study.ask(4))]

        assert [4, 2] == sizes
        assert 6 == len({json.dumps(t.params) for t in study.trials})
        with pytest.raises(SpaceExhausted):
            study.ask(1)


def test_opening_needs_only_address_and_name(tmp_path):
    url = f"sqlite:///{tmp_path / 'a.db'}"
    with Study(url, name="one", space={"x": Float(0, 1)}, maximize="yield", seed=3) as study:
        pool = study.ask(2)
    with Study(url, name="one") as again:
        assert (3, "maximize", "yield", study.space) == (again.seed, again.direction, again.objective, again.space)
        assert pool == again.trials
    with Study(url, name="one", space={"x": Float(0, 1)}, maximize="yield") as again:
        assert 3 == again.seed


@pytest.mark.parametrize(
    "said, words",
    [
        ({"minimize": "yield"}, "direction.*stored 'maximize', given 'minimize'"),
        ({"maximize": "speed"}, "objective"),
        ({"seed": 4}, "seed"),
        ({"space": {"x": Float(0, 2)}, "maximize": "yield"}, r"space.*stored 1.0, given 2.0"),
        ({"settings": Settings(beta=2)}, "settings: beta"),
    ],
)
def test_what_is_said_again_must_agree(tmp_path, said, words):
    """The message shows the difference."""
    url = f"sqlite:///{tmp_path / 'a.db'}"
    with Study(url, space={"x": Float(0, 1)}, maximize="yield") as study:
        study.ask()
    with pytest.raises(ConflictError, match=words):
        Study(url, **said)


@pytest.mark.parametrize(
    "said, agrees", [([1, 0, 2], True), ([1.0, 0, 2], True), ([True, 0, 2], False), ([1, False, 2], False)]
)
def test_true_is_not_one(tmp_path, said, agrees):
    """A choice that is said again has the same values, of which 1 and 1.0 are one, and true another."""
    url = f"sqlite:///{tmp_path / 'a.db'}"
    with Study(url, space={"x": Float(0, 1), "c": Choice([1, 0, 2])}, maximize="yield") as study:
        study.ask()
    space = {"c": Choice(said), "x": Float(0, 1)}

    with contextlib.nullcontext() if agrees else pytest.raises(ConflictError, match="c: values: stored"):
        Study(url, space=space, maximize="yield").close()


def test_the_first_trial_settles_what_a_study_is(url, tmp_path):
    """Before it the latest definition counts, and who has the study open with an earlier one is told."""
    url = url or f"sqlite:///{tmp_path / 'a.db'}"
    with (
        Study(url, space={"x": Float(0, 1)}, maximize="yield") as earlier,
        Study(url, name="other", space={"x": Float(0, 1)}, maximize="yield"),
        Study(url, space={"x": Float(0, 1)}, maximize="yield", seed=3) as study,
        Study(url, space={"x": Float(0, 1)}, maximize="yield") as same,
    ):
        for outdated in (earlier.ask, lambda: earlier.add({"x": 0.5}, 1.0), lambda: earlier.trials):
            with pytest.raises(StudyNotFound, match="defined anew"):
                outdated()
        assert [0] == [trial.number for trial in same.ask()]
        assert (3, 3) == (study.seed, same.seed)
        with pytest.raises(ConflictError, match="seed"):
            Study(url, space={"x": Float(0, 1)}, maximize="yield", seed=4)
        assert 1 == len(study.trials)


def test_looking_for_a_study_makes_nothing(url, tmp_path):
    """A database without tables of ours stays as it is, until a study is begun there."""
    url = url or f"sqlite:///{tmp_path / 'a.db'}"
    if url.startswith("sqlite"):
        (tmp_path / url.rpartition("/")[2]).touch()
    with pytest.raises(StudyNotFound, match="it has none yet"):
        Study(url, name="mine")

    run = Transactions(parse_url(url), 1.0)
    assert run.read(stored_version) is None
    run.close()
    assert [b""] * url.startswith("sqlite") == [path.read_bytes() for path in tmp_path.iterdir()]


def test_a_study_that_is_not_there(tmp_path):
    """The message lists those that are."""
    url = f"sqlite:///{tmp_path / 'a.db'}"
    Study(url, name="first", space={"x": Float(0, 1)}, maximize="yield").close()
    with pytest.raises(StudyNotFound, match=r"no study 'second' in .*: it has 'first'"):
        Study(url, name="second")


def test_studies_share_a_store(url, tmp_path):
    """Each has its own numbers."""
    url = url or f"sqlite:///{tmp_path / 'both.db'}"
    space = {"x": Float(0, 1)}
    with Study(url, name="a", space=space, maximize="y") as a, Study(url, name="b", space=space, minimize="y") as b:
        a.ask(2)
        assert [0] == [t.number for t in b.ask()]
        assert 2 == len(a.trials)
        assert ["a", "b"] == a._store.names()


@pytest.mark.parametrize("url", ["sqlite", "postgresql"], indirect=True)
def test_a_crowd_makes_studies(url):
    """Eight at a time: one of the same name, of which there is one then, and one each of another name."""
    stores, start, made, errors = [Store(url) for _ in range(8)], threading.Barrier(8), [], []

    def work(i):
        try:
            for turn in range(5):
                start.wait(60)
                made.append((stores[i].create(f"{turn}", "{}")["id"], turn))
                made.append((stores[i].create(f"{turn}-{i}", "{}")["id"], (turn, i)))
        except Exception as error:
            start.abort()
            errors.append(error)

    crowd = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for one in crowd:
        one.start()
    for one in crowd:
        one.join(60)
    names = stores[0].names()
    for store in stores:
        store.close()

    assert [] == errors
    assert 45 == len(set(made)) == len({identity for identity, _ in made}) == len(names) == len(set(names))


@pytest.mark.parametrize(
    "arguments, words",
    [
        ({}, "space"),
        ({"space": {"x": Float(0, 1)}}, "which way is better"),
        ({"space": {"x": Float(0, 1)}, "minimize": "a", "maximize": "b"}, "not both"),
        ({"space": {"number": Float(0, 1)}, "minimize": "a"}, "'number' is taken"),
        ({"space": {"x": Float(0, 1)}, "minimize": "x"}, "'x' is taken"),
        ({"space": {"x": Float(0, 1)}, "minimize": "number"}, "objective's name"),
        ({"space": {"x": Choice(["x" * 600_000, "y" * 600_000])}, "minimize": "a"}, "at most 1000000 are read again"),
        ({"space": {"x": Float(0, 1)}, "minimize": "a", "seed": True}, "seed"),
        ({"space": {"x": Float(0, 1)}, "minimize": "a", "name": "../b"}, "letters, digits"),
        ({"space": {"x": Float(0, 1)}, "minimize": "a", "seed": -1}, "seed"),
    ],
)
def test_a_wrong_definition_is_an_input_error(arguments, words):
    with pytest.raises(InputError, match=words):
        Study(**arguments)


@pytest.mark.parametrize("q", [0, -1, True])
def test_a_pool_has_at_least_one_trial(q):
    study = Study(space={"x": Float(0, 1)}, minimize="a")
    with pytest.raises(InputError, match="q: expected a whole number"):
        study.ask(q)


def test_errors_are_builtins_too():
    for error, builtin in [
        (StudyNotFound, KeyError),
        (ConflictError, ValueError),
        (StorageError, OSError),
        (StorageUnavailable, OSError),
        (VersionError, OSError),
    ]:
        assert issubclass(error, builtin)
        assert issubclass(error, PoolwiseError)


def test_threads_share_a_study(url):
    """Each gets its own trials."""
    study = Study(url, space={"x": Float(0, 1)}, minimize="loss", settings=Settings(acquisition="fill"))
    got, errors = [], []

    def work():
        try:
            for _ in range(3):
                [trial] = study.ask()
                study.tell(trial, float(trial.number))
                got.append(trial.number)
        except Exception as error:
            errors.append(error)

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)

    assert [] == errors
    assert list(range(12)) == sorted(got)
    assert 12 == len({json.dumps(t.params) for t in study.trials})
    study.close()


def test_a_study_that_nobody_has_is_closed(tmp_path):
    """Also one that was never closed: since Python 3.13 a connection that is left to the collector is warned of."""
    study = Study(f"sqlite:///{tmp_path / 'a.db'}", space={"x": Float(0, 1)}, minimize="loss")
    pool = study._store.run.engine.pool
    assert 1 == pool.checkedin()
    del study
    gc.collect()

    assert 0 == pool.checkedin()
