"""`Study` as a whole: pools that are good, valid and the same after a crash, whatever the trials say."""

import functools
import json
import logging
import math
import os
import subprocess
import sys
from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from poolwise.errors import MissingExtra
from poolwise.space.errors import SpaceExhausted
from poolwise.space.parameters import Choice, Float, Int
from poolwise.space.space import Space
from poolwise.study import schema
from poolwise.study import suggest as suggesting
from poolwise.study.allowed import EVEN, Allowed, tried_of
from poolwise.study.definition import ACQUISITIONS, Definition, Settings
from poolwise.study.handles import PICTURES
from poolwise.study.model import subset
from poolwise.study.placing import nearest
from poolwise.study.scaling import scale_of
from poolwise.study.study import Study
from poolwise.study.success import merge, success_of
from poolwise.study.trial import Trial

LINE = {"x": Float(0, 1)}
MIXED = Space({"x": Float(1e-3, 1, log=True), "n": Int(1, 6), "kind": Choice(["a", "b"])}, ["n * x <= 4"])


def bowl(x):
    return (x - 0.37) ** 2


@pytest.fixture
def no_fallback(caplog):
    """The model was used: no warning that it could not be."""
    caplog.set_level(logging.WARNING)
    yield
    assert [] == [record.message for record in caplog.get_records("call") if "could not be used" in record.message]


@pytest.mark.parametrize("direction, sign", [("minimize", 1), ("maximize", -1)])
def test_a_study_finds_the_optimum(direction, sign, no_fallback):
    """Eight pools of two on a smooth line come within a thousandth, and the recommendation is as good."""
    study = Study(space=LINE, **{direction: "loss"})
    for _ in range(8):
        for trial in study.ask(2):
            study.tell(trial, sign * bowl(trial.params["x"]))

    assert abs(study.best.value) < 1e-3
    assert bowl(**study.recommend()) < 1e-3
    assert 16 == len({trial.params["x"] for trial in study.trials})


@pytest.mark.slow
def test_a_mixed_space_with_a_constraint(no_fallback):
    """Every point is valid and different from all others; the best combination is found."""
    study = Study(space=MIXED, maximize="yield")
    for _ in range(8):
        for trial in study.ask(2):
            p = trial.params
            assert p == study.space.validate(p)
            study.tell(trial, -((math.log10(p["x"]) + 1) ** 2) - (p["n"] - 4) ** 2 / 4 - 2 * (p["kind"] != "b"))

    assert 16 == len({json.dumps(t.params) for t in study.trials})
    assert "b" == study.best.params["kind"]
    assert study.space.feasible(study.space.encode_many([study.recommend()])).all()


def rounds(study, count):
    for _ in range(count):
        yield [trial.params for trial in study.ask(2)]
        for trial in study.pending[:-1]:  # one stays pending, one fails
            study.tell(trial, bowl(trial.params["x"])) if trial.number % 5 else study.fail(trial, "broken")


def test_a_resumed_study_gives_the_same_pools(tmp_path, monkeypatch, no_fallback):
    """Closed and opened before every pool, and once crashed with a pool chosen but not stored."""
    straight = list(rounds(Study(space=LINE, minimize="loss", seed=7), 5))
    url = f"sqlite:///{tmp_path / 'study.db'}"
    Study(url, space=LINE, minimize="loss", seed=7).close()
    resumed = []
    for _ in range(5):
        with Study(url) as study, monkeypatch.context() as patch:
            patch.setattr(type(study._store), "ask", crash)
            with pytest.raises(InterruptedError):
                study.ask(2)
        with Study(url) as study:
            resumed += rounds(study, 1)

    assert straight == resumed


def crash(*_, **__):
    raise InterruptedError


KILLED = """
import os, signal, sys
import poolwise.study.store as store
from poolwise.study.study import Study
study = Study(sys.argv[1])
if sys.argv[2] == "crash":
    store.Store.ask = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
for trial in study.ask(3):
    study.tell(trial, (trial.params["x"] - 0.37) ** 2)
"""


@pytest.mark.slow
def test_a_killed_study_gives_the_same_pools(tmp_path):
    """A new process for every pool, killed the first time."""
    url = f"sqlite:///{tmp_path / 'study.db'}"
    with Study(url, space=LINE, minimize="loss", seed=7) as study:
        for _ in range(5):
            for how in ("crash", "go"):
                environment = {**os.environ, "POOLWISE_PROGRAMS": "off"}
                subprocess.run([sys.executable, "-c", KILLED, url, how], check=how == "go", env=environment)
        straight = Study(space=LINE, minimize="loss", seed=7)
        for _ in range(5):
            for trial in straight.ask(3):
                straight.tell(trial, bowl(trial.params["x"]))

        assert [t.params for t in straight.trials] == [t.params for t in study.trials]


def test_another_seed_gives_another_pool():
    pools = [Study(space=LINE, minimize="loss", seed=seed).ask(2) for seed in (1, 2)]

    assert pools[0][0].params != pools[1][0].params


LIGHT = """
import json, sys, poolwise
from poolwise.space.parameters import Float
from poolwise.study.study import Study
study = Study(sys.argv[1], space={"x": Float(0, 1)}, minimize="loss")
trial = study.ask()[0]
study.tell(trial, 1.0)
study.best, study.counts, study.trials, dir(study.plot), study.plot.history
print(json.dumps(sorted({"jax", "pandas", "matplotlib", "psycopg"} & set(sys.modules))))
"""


def test_telling_needs_no_jax(tmp_path):
    run = subprocess.run(
        [sys.executable, "-c", LIGHT, f"sqlite:///{tmp_path / 'a.db'}"], capture_output=True, text=True
    )

    assert "[]" == run.stdout.strip(), run.stderr


def test_a_table_has_flat_columns():
    study = Study(space=MIXED, maximize="yield")
    assert study.columns == list(study.to_frame().columns)
    pool = study.ask(2)
    study.tell(pool[0], 2.5, sem=0.5)

    expected = ["number", "state", "pool", "x", "n", "kind", "yield", "sem", "reason", "asked", "finished"]
    assert expected == study.columns == list(study.to_frame().columns) == list(pool.to_frame().columns)
    assert [2.5] == study.to_frame()["yield"].dropna().tolist()


def test_a_missing_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingExtra, match=r"pip install 'poolwise\[pandas\]'"):
        Study(space=LINE, minimize="loss").to_frame()


def test_a_representation_says_where_and_what(tmp_path):
    with Study(f"sqlite:///{tmp_path / 'a.db'}", name="tune", space=LINE, minimize="loss") as study:
        assert f"Study('sqlite:///{tmp_path}/a.db', name='tune', minimize='loss')" == repr(study)


VALUES = st.one_of(
    st.sampled_from([0.0, 1.0, 1e300, -1e300, 1e-300, 1.7e308, -1.7e308, math.nan, math.inf]),
    st.floats(-10, 10),
)
ENDS = st.one_of(VALUES, st.just("failed"), st.just("pending"))
PLACES = st.sampled_from([-5.0, -0.005, 0.0, 0.25, 0.5, 0.5, 1.0, 1.004, 1e9])
SEMS = st.sampled_from([None, None, 0.0, 0.1, 1e300])


def steps(told):
    return st.lists(st.tuples(st.sampled_from(["ask", "add"]), ENDS, PLACES, SEMS), max_size=told)


def replay(study, history):
    """A study with that history."""
    for act, end, x, sem in history:
        if act == "add":
            study.add({name: x if name == "x" else 3 for name in study.space.names}, *numbers(end, sem))
            continue
        [trial] = suggested(study, 1)
        if end == "failed":
            study.fail(trial, "broken")
        elif end != "pending":
            study.tell(trial, end, sem=sem)


def numbers(end, sem):
    return (math.nan if isinstance(end, str) else end), sem


def suggested(study, q):
    """A pool whose points are valid and new."""
    before = {json.dumps(t.params) for t in study.trials}
    pool = study.ask(q)
    points = {json.dumps(study.space.validate(t.params)) for t in pool}
    assert q == len(pool) == len(points)
    assert points.isdisjoint(before)
    return pool


@functools.cache
def blank(fill):
    """A study that is emptied and used again, because making the tables takes longest."""
    if fill:
        return Study(space={"x": Float(0, 1), "n": Int(1, 40)}, minimize="loss", settings=Settings(acquisition="fill"))
    return Study(space=LINE, minimize="loss")


def emptied(study):
    def work(c):
        for table in (schema.requests, schema.revisions, schema.trials):
            c.execute(table.delete())
        row = dict(c.execute(schema.studies.select()).mappings().one()) | {"version": 0, "trials": 0, "pools": 0}
        c.execute(schema.studies.update().values(schema.sealed(row)))

    study._store.run.write(work)
    return study


def check_history(history, fill):
    study = emptied(blank(fill))
    replay(study, history[:-1])
    suggested(study, 2)


QUIET = {"deadline": None, "derandomize": True, "suppress_health_check": list(HealthCheck)}


@settings(max_examples=120, **QUIET)
@given(steps(4))
def test_any_history_is_followed_by_a_pool_that_fills(history):
    """Duplicates, constants, 1e300, failures, additions far outside: `ask` does not raise and its points are valid."""
    check_history(history, fill=True)


@settings(max_examples=12, **QUIET)
@given(steps(7))
def test_any_history_is_followed_by_a_pool_of_the_model(history):
    check_history(history, fill=False)


@pytest.mark.slow
@settings(max_examples=int(os.environ.get("POOLWISE_HISTORIES", "20000")), **{**QUIET, "derandomize": False})
@given(steps(9), st.integers(0, 9))
def test_20000_histories(history, kind):
    """One in ten by the model, the others by the filling of the space."""
    check_history(history, fill=kind > 0)


HARD = {
    "constant": lambda x: 1.0,
    "huge": lambda x: 1e300 * x,
    "one huge": lambda x: 1e300 if x > 0.9 else x,
    "tiny": lambda x: 1e-300 * x,
    "two values": lambda x: float(x > 0.5),
    "steep": lambda x: 10.0 ** (600 * x - 300),
}


@pytest.mark.parametrize("f", HARD.values(), ids=HARD.keys())
def test_hard_values_are_modelled(f, no_fallback):
    """Not only survived: the model itself takes them."""
    study = Study(space=LINE, minimize="loss")
    for x in [0.0, 0.1, 0.1, 0.4, 0.7, 1.0]:
        study.add({"x": x}, f(x))

    assert 2 == len(suggested(study, 2))


def test_a_model_that_breaks_is_no_reason_to_stop(monkeypatch, caplog):
    """The pool fills the space, and the log says why."""
    monkeypatch.setattr("poolwise.study.model.fit", crash)
    study = Study(space=LINE, minimize="loss")
    for x in np.linspace(0, 1, 6):
        study.add({"x": float(x)}, float(x))

    assert 3 == len(suggested(study, 3))
    assert "the model could not be used (InterruptedError" in caplog.text
    assert {"x": 0.0} == study.recommend()


@pytest.mark.slow
def test_standard_errors_are_used(no_fallback):
    """A value with a large error hardly moves the recommendation; unknown errors beside known ones are learned."""
    study = Study(space=LINE, minimize="loss")
    for x in np.linspace(0, 1, 9):
        study.add({"x": float(x)}, bowl(x), sem=0.001 if x < 0.8 else None)
    study.add({"x": 0.9}, -5.0, sem=50.0)

    assert abs(study.recommend()["x"] - 0.37) < 0.1
    mean, deviation = study.model().predict([{"x": 0.37}])
    assert abs(mean[0]) < 0.05
    assert deviation[0] < 0.05


@pytest.mark.slow
def test_failures_are_avoided(no_fallback):
    """Where trials fail the study does not go on asking, though the best values lie there."""
    study = Study(space=LINE, maximize="yield")
    for _ in range(8):
        for trial in study.ask(2):
            x = trial.params["x"]
            study.tell(trial, x) if x < 0.6 else study.fail(trial, "broken")
    last = [trial.params["x"] for trial in study.trials[-6:]]

    assert sum(x < 0.6 for x in last) >= 4
    assert 0.5 < study.best.value < 0.6


def test_failures_everywhere_do_not_block():
    study = Study(space=LINE, maximize="yield", settings=Settings(acquisition="fill"))
    for _ in range(6):
        for trial in suggested(study, 8):
            study.fail(trial, "broken")


@pytest.mark.parametrize("q", [5, 8])
def test_failures_are_avoided_where_few_points_are_left(q, no_fallback):
    """First those that are likelier to succeed than not, all of them; then others, to make the pool whole."""
    study = Study(space={"n": Int(0, 23)}, maximize="yield")
    for n in range(0, 24, 2):
        study.add({"n": n}, n if n < 11 else math.nan)

    assert {1, 3, 5, 7, 9} <= {trial.params["n"] for trial in suggested(study, q)}


def follows(points, failing):
    """What is learned when these points fail and the others do not."""
    return success_of(points[~failing], points[failing])


def test_failures_that_follow_one_parameter_are_expected_along_it():
    """Five parameters, and everything above 0.87 of the first fails: also where nothing was tried."""
    rng = np.random.default_rng(0)
    tried, new = rng.random((24, 5)), rng.random((200, 5))
    score = follows(tried, tried[:, 0] > 0.87).score(new, 0.0)

    assert (score[new[:, 0] > 0.95] < 0.2).all()
    assert (score[new[:, 0] < 0.75] > 0.2).all()


def test_failures_by_chance_close_nothing():
    """One of five fails wherever it is; a single failure closes its neighbourhood only."""
    rng = np.random.default_rng(1)
    tried, new = rng.random((60, 3)), rng.random((200, 3))
    by_chance = follows(tried, np.arange(60) % 5 == 0)
    single = follows(tried[:20], np.arange(20) == 7)

    assert EVEN.score < by_chance.score(new, EVEN.doubt).min()
    assert (single.score(new, EVEN.doubt) > EVEN.score).mean() > 0.9


@pytest.mark.parametrize("told", [0, 1])
def test_failures_everywhere_leave_some_of_the_space(told):
    """Of a cube where all but one trial failed, a tenth may still be asked for; a score is always a number."""
    points = np.random.default_rng(2).random((40, 2))
    tried = tried_of(Space({"x": Float(0, 1), "y": Float(0, 1)}), points, success_of(points[:told], points[told:]))
    new = np.random.default_rng(3).random((400, 2))

    assert 0.05 < tried.reaches(new, tried.even).mean() < 0.2
    assert 0.05 < tried.reaches(new, tried.sure).mean()


def test_what_was_tried_is_not_fresh():
    tried = tried_of(Space(LINE), np.array([[0.2], [0.8]]), success_of(np.array([[0.2]]), np.array([[0.8], [0.8]])))
    allowed = Allowed(Space(LINE), tried, tried.even)

    assert [False, True, False] == allowed.fresh(np.array([[0.2], [0.5], [0.8]])).tolist()
    assert [True, False] == allowed.safe(np.array([[0.2], [0.8]])).tolist()
    assert not (np.abs(allowed.sample(32, 0)[:, 0] - 0.8) < 0.01).any()


def test_many_trials_are_merged():
    """Into at most so many, without loss of a trial or of the share that failed."""
    rng = np.random.default_rng(4)
    points, outcomes = rng.random((3000, 3)), np.sign(rng.random(3000) - 0.3)
    merged = merge(points, outcomes, 100)

    assert len(merged.points) <= 100
    assert 3000 == merged.counts.sum()
    np.testing.assert_allclose(merged.counts @ merged.outcomes, outcomes.sum())
    assert np.isfinite(success_of(points[outcomes > 0], points[outcomes < 0]).score(points[:9], 0.5)).all()


FIVE = {"rate": Float(1e-5, 0.1, log=True), **{name: Float(0, 1) for name in "abcd"}}


def five(rate, a, b, c, d):
    return -math.log10(rate) + (a - 0.3) ** 2 + (b - 0.6) ** 2 + 0.2 * abs(c - 0.4) + 0.1 * d


def seek(study, fails, pools):
    """Pools of four; which trials failed."""
    for _ in range(pools):
        for trial in study.ask(4):
            study.fail(trial, "broken") if fails(trial) else study.tell(trial, five(**trial.params))
    return [trial.state == "failed" for trial in study.trials]


@pytest.mark.slow
def test_a_rate_that_is_too_high_is_learned(no_fallback):
    """The best rate is the highest that does not fail; from the third pool on at most one trial of four fails."""
    failed = [seek(Study(space=FIVE, minimize="loss", seed=s), lambda t: t.params["rate"] > 0.03, 10) for s in range(4)]

    assert np.mean([trials[8:] for trials in failed]) <= 0.25


@pytest.mark.slow
def test_failures_by_chance_do_not_hide_the_optimum(no_fallback):
    """One trial of five fails, whatever it is; the study comes as far as without."""
    for seed in range(2):
        study, rng = Study(space=FIVE, minimize="loss", seed=seed), np.random.default_rng(seed)
        seek(study, lambda t, rng=rng: rng.random() < 0.2, 12)
        assert study.best.value < 1.2  # 1.0 is the optimum, 2.5 the usual


def test_pictures_are_known_by_name():
    """Without drawing, and without JAX where it is not there yet."""
    study = Study(space=LINE, minimize="loss")

    assert dir(study.plot) == sorted(PICTURES)
    assert all(hasattr(study.plot, name) for name in PICTURES)
    assert not hasattr(study.plot, "PICTURES")
    with pytest.raises(AttributeError, match="no picture 'historie'; did you mean 'history'"):
        study.plot.historie()


def test_pictures_are_all_there():
    from poolwise.plot import study as pictures

    assert list(pictures.PICTURES) == list(PICTURES)


def test_a_finite_space_ends_also_with_a_model(no_fallback):
    """All nine experiments, no repeat, then `SpaceExhausted`."""
    study = Study(space={"n": Int(1, 9)}, minimize="loss")
    with pytest.raises(SpaceExhausted, match="have been asked for"):
        for _ in range(9):
            for trial in study.ask(2):
                study.tell(trial, trial.params["n"])

    assert 9 == len({t.params["n"] for t in study.trials}) == len(study.trials)


def test_a_large_study_is_modelled_in_part():
    """The best, the latest and a spread of the others."""
    rng = np.random.default_rng(0)
    U, y = rng.random((300, 2)), rng.random(300)
    chosen = subset(y, U, 100)

    assert 100 == len(chosen) == len(set(chosen))
    assert set(np.argsort(-y)[:25]) | set(range(275, 300)) <= set(chosen)
    assert list(range(300)) == subset(y, U, 300)
    rest = [i for i in range(300) if i not in chosen]
    gaps = [np.linalg.norm(U[chosen] - U[i], axis=1).min() for i in rest]
    assert max(gaps) < 0.15  # no hole in the square


@pytest.mark.parametrize("sign", [1, -1])
def test_scaling_keeps_order_and_says_larger_is_better(sign):
    values = np.array([0.0, 1.0, 2.0, 3.0, 50.0, -70.0, 1e6, -1e6, 1e308, -1e308])
    z = scale_of(values[:6], maximize=sign == 1).outcomes(values[:8])

    assert np.argsort(sign * values[:8]).tolist() == np.argsort(z).tolist()
    assert np.isfinite(scale_of(values, maximize=sign == 1).outcomes(values)).all()
    plain = scale_of(values[:4], maximize=sign == 1)
    np.testing.assert_allclose(plain.values(plain.outcomes(values[:4])), values[:4], atol=1e-12)


def test_the_nearest_parameters():
    space = Space(
        {"x": Float(0, 1, step=0.25), "r": Float(1e-3, 1, log=True), "n": Int(1, 5), "k": Choice(["a", None])}
    )
    near = {"x": 0.3, "r": 1.004, "n": 2.6, "k": None}

    assert {"x": 0.25, "r": 1.0, "n": 3, "k": None} == nearest(space, near)
    for far in ({"x": 1.2}, {"r": 2.0}, {"r": -1.0}, {"n": 9}, {"k": "b"}, {"x": True}, {"x": "a"}):
        assert nearest(space, {**near, **far}) is None


def test_additions_outside_are_not_modelled():
    """But near ones are, at the nearest point."""
    study = Study(space=LINE, minimize="loss")
    for x in (0.1, 0.5, 0.9, 1.005, 7.0):
        study.add({"x": x}, x)

    assert [0, 1, 2, 3] == [t.number for t in study.model().trials]


def test_the_seed_is_folded_with_the_count():
    seeds = {suggesting.folded_seed(seed, count) for seed in range(20) for count in range(20)}

    assert 400 == len(seeds)


@pytest.mark.slow
@pytest.mark.parametrize("acquisition", [name for name in ACQUISITIONS if name != "fill"])
def test_every_acquisition_gives_a_pool(acquisition, no_fallback):
    study = Study(space=LINE, minimize="loss", settings=Settings(acquisition=acquisition))
    for x in np.linspace(0, 1, 6):
        study.add({"x": float(x)}, bowl(x))

    assert 2 == len(suggested(study, 2))


@pytest.mark.parametrize("inside", [suggesting.FEWEST - 1, suggesting.FEWEST])
def test_a_model_waits_for_told_trials_in_the_space(inside):
    """Those far outside, which are told first here, do not count."""
    definition = Definition(Space({"x": Float(0.0, 1.0)}), "value", "minimize")
    places = [9.0] * suggesting.FEWEST + [0.1 * k for k in range(inside)]
    trials = [Trial(k, {"x": x}, "told", datetime(2000, 1, 1, tzinfo=UTC), 0.0) for k, x in enumerate(places)]

    assert suggesting.ready(definition, trials) == (inside == suggesting.FEWEST)
