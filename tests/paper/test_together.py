"""All tasks in one program: the same pools as task by task, nothing computed twice, and threads that do not hang."""

import dataclasses
import threading

import jax
import numpy as np
import pytest

import poolwise as pw
from poolwise.paper import choosing, crowd, crowd_choosing, crowd_default, tables, tasks, together
from poolwise.paper.figure2 import figure2
from poolwise.paper.meeting import side_by_side
from poolwise.paper.settings import QUICK, Unit

TOGETHER = dataclasses.replace(QUICK, together=True)
SIZE = 64


@pytest.fixture(scope="module")
def asked():
    """Two tasks with twelve observations each, and expected improvement."""
    X = np.random.default_rng(0).random((2, 12, QUICK.d))
    y = np.stack([tasks.task(QUICK, i)(points) for i, points in enumerate(X)])
    return crowd.ask("ei", crowd.beliefs(QUICK, X, y, SIZE), QUICK, [3, 4])


@pytest.mark.parametrize(("optimizer", "evaluations"), [("random", 512), ("direct", 64), ("gradient", 96)])
def test_pools_are_those_of_each_task_alone(asked, optimizer, evaluations):
    """The same seeds, data and budget: one program for both tasks chooses what two calls choose."""
    choices = crowd_choosing.choose(optimizer, asked, QUICK, evaluations)
    for i, seed in enumerate(asked.seeds):
        posterior = tasks.prior(QUICK).condition(asked.beliefs.X[i], asked.beliefs.y[i])
        worth = choosing.integrand("ei", posterior, QUICK, seed)
        alone = choosing.choose(optimizer, posterior, worth, QUICK, evaluations=evaluations, seed=seed)

        assert alone.evaluations == choices.evaluations[i]
        assert np.allclose(alone.pool, choices.pools[i], atol=1e-9 if optimizer == "gradient" else 0, rtol=0)
        assert np.isclose(choosing.judged(posterior, worth, alone.pool), crowd.judged(asked, choices.pools)[i])


@pytest.mark.slow
def test_the_default_is_that_of_each_task_alone(asked):
    """Where all points of a pool add nothing and are chosen again, and where some do."""
    goals = [pw.ExpectedImprovement(1e3), pw.ExpectedImprovement(3.5)]
    again = dataclasses.replace(asked, worths=crowd.stacked(goals))
    choices = crowd_choosing.choose("default", again, QUICK, None)
    with jax.enable_x64(True):
        found = crowd_default.idle_of(again, crowd_default.proposed(again, QUICK)[0])
    assert [3, 2] == found.sum(axis=1).tolist()
    for i, (goal, seed) in enumerate(zip(goals, asked.seeds, strict=True)):
        posterior = tasks.prior(QUICK).condition(asked.beliefs.X[i], asked.beliefs.y[i])
        alone = pw.propose(posterior, goal, QUICK.q, seed=seed)

        np.testing.assert_allclose(alone.pool, choices.pools[i], atol=1e-5)
        assert alone.evaluations == choices.evaluations[i]


@pytest.fixture
def chosen(monkeypatch):
    """What is asked of the searches: pairs of an optimizer and a number of observations; rehearsals have all rows."""
    calls, choose = [], crowd_choosing.choose

    def counted(optimizer, asked, setup, evaluations):
        if (count := asked.beliefs.y.shape[1]) < SIZE:
            calls.append((optimizer, count))
        return choose(optimizer, asked, setup, evaluations)

    monkeypatch.setattr(crowd_choosing, "choose", counted)
    return calls


def test_a_resumed_run_computes_nothing_twice(chosen, tmp_path):
    """Stopped while a round was written: one task lacks two rounds, the other has the first of them and keeps it."""
    units = [Unit(task, "ei", name) for task in range(2) for name in ("random", "direct")]
    together.play_together(TOGETHER, units, tmp_path)
    before = {path: path.read_bytes() for path in (tmp_path / "units").iterdir()}
    cut = {tmp_path / "units" / f"ei-random-{task:02d}.csv": 1 + task for task in range(2)}
    full = {path: tables.read(path) for path in cut}
    for path, lost in cut.items():
        tables.write(path, full[path][:-lost])
    first = list(chosen)
    chosen.clear()
    together.play_together(TOGETHER, units, tmp_path)
    after = {path: path.read_bytes() for path in (tmp_path / "units").iterdir()}

    assert [("random", 3), ("random", 6), ("direct", 3), ("direct", 6)] == first
    assert [("random", 3), ("random", 6)] == chosen
    assert set(cut) == {path for path in after if after[path] != before[path]}  # in the seconds it took
    for path, lost in cut.items():
        again = tables.read(path)
        assert full[path][:-lost] == again[:-lost]
        assert [row["points"] for row in full[path]] == [row["points"] for row in again]
    chosen.clear()
    together.play_together(TOGETHER, units, tmp_path)
    assert [] == chosen


def test_folders_are_not_mixed(tmp_path):
    """Calibrations differ: a folder of runs task by task, also one from before there was a choice, is refused."""
    tables.write(tmp_path / "settings.csv", [{"name": "seed", "value": "0"}])
    with pytest.raises(pw.InputError, match=r"together=False, not True; give another folder"):
        figure2(TOGETHER, tmp_path, only=("ei",), count=1)


def searching(length):
    """A search of so many points, which keeps the values it was told."""

    def search(value):
        return [value(np.full(2, float(i))) for i in range(length)]

    return search


def within(seconds, call):
    """The result of a call, or a failure where it hangs."""
    found = []
    thread = threading.Thread(target=lambda: found.append(call()), daemon=True)
    thread.start()
    thread.join(seconds)
    assert not thread.is_alive()
    return found


def test_searches_of_unequal_length_meet():
    """As many evaluations as the longest search makes; each search is told the values of its own points."""
    calls = []

    def evaluate(points):
        calls.append(points.copy())
        return points[:, 0] + 100.0 * np.arange(len(points))

    (found,) = within(20, lambda: side_by_side(evaluate, [searching(n) for n in (3, 0, 7, 1)], 2))

    assert [[0, 1, 2], [], [200, 201, 202, 203, 204, 205, 206], [300]] == found
    assert 7 == len(calls)


def test_an_error_ends_every_search():
    """Neither a failing search nor a failing evaluation leaves others waiting."""

    def broken(value):
        value(np.zeros(2))
        raise KeyError("search")

    def failing(call, error):
        with pytest.raises(error):
            call()
        return True

    def evaluate(points):
        raise ValueError("evaluation")

    good = lambda points: points[:, 0]  # noqa: E731
    assert [True] == within(20, lambda: failing(lambda: side_by_side(good, [broken, searching(5)], 2), KeyError))
    both = [searching(3), searching(5)]
    assert [True] == within(20, lambda: failing(lambda: side_by_side(evaluate, both, 2), RuntimeError))
