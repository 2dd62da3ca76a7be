"""Runs that share a study share its total, whatever they do at the same time."""

import itertools
import threading

import pytest

from poolwise.space.parameters import Float
from poolwise.study.asking import LAPSED, Limit, Request, Wish, ask
from poolwise.study.definition import Settings
from poolwise.study.study import Study

LINE = {"x": Float(0, 1)}
FILL = Settings(acquisition="fill")
FAIL = Settings(acquisition="fill", expired="fail")


class Together:
    """A watcher that lets runs begin at the same moment."""

    def __init__(self, count):
        self.barrier = threading.Barrier(count)

    def on_start(self, study, trials):
        self.barrier.wait(60)


def test_runs_at_the_same_time_share_the_total(tmp_path, databases):
    """Three runs in pools of four, again and again: never a trial too many."""
    urls = [f"sqlite:///{tmp_path}/{i}.db" for i in range(3)] + [databases() for _ in range(2)]
    for url in urls:
        together = Together(3)
        studies = [Study(url, space=LINE, minimize="loss", settings=FILL) for _ in range(3)]
        options = {"trials": 6, "q": 4, "executor": "threads", "lease": 60, "callbacks": [together]}
        threads = [threading.Thread(target=s.run, args=(lambda x: x,), kwargs=options) for s in studies]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)

        assert {"pending": 0, "told": 6, "failed": 0} == studies[0].counts
        for study in studies:
            study.close()


def limited(study, q, trials, mine=()):
    """The numbers of a pool within a limit."""
    return [
        trial.number for trial in ask(study, Wish(q, f"request-{q}-{trials}", 60.0, Limit(trials, frozenset(mine))))
    ]


def test_a_pool_within_a_limit(clocked, clock):
    """Told trials, living leases and one's own trials count; lapsed ones, added ones and those of nobody do not."""
    nobodys, mine, late, live = clocked.ask(1) + clocked.ask(1) + clocked.ask(1, lease=5) + clocked.ask(1, lease=50)
    clocked.add(nobodys.params, 1.0)
    clocked.tell(clocked.ask(1)[0], 1.0)
    clock.now += 10

    assert [] == limited(clocked, 4, 3, [mine.number])
    assert [late.number, 6] == limited(clocked, 4, 5, [mine.number])
    assert [] == limited(clocked, 2, 5, [mine.number])
    assert [7, 8, 9] == limited(clocked, 4, 8, [mine.number])
    assert "pending" == clocked.trial(live.number).state


def test_a_limit_is_kept_when_a_pool_is_stored(clocked):
    """Also by a request that only what would be wrong makes stale: of two chosen at once, one has no room."""
    seen = clocked._store.snapshot(clocked._id)
    points = [trial.params for trial in clocked.ask(4, lease=60)]

    def stored(x, trials):
        wish = Wish(2, f"request-{trials}", 60.0, Limit(trials, frozenset()))
        return clocked._store.ask(clocked._id, Request(wish, [], [{**points[0], "x": x}] * 2, seen, strict=False))

    assert stored(0.111, 5) is None
    assert 2 == len(stored(0.222, 6))


@pytest.mark.parametrize("total, counts", [(4, (0, 4)), (6, (2, 4))])
def test_trials_that_are_failed_as_their_lease_ran_out_are_a_part_of_the_total(url, clock, total, counts):
    with Study(url, space=LINE, minimize="loss", settings=FAIL) as study:
        study._store._clock = clock
        study.ask(4, lease=1)
        clock.now += 10
        study.run(lambda x: x, trials=total, q=4, executor="threads")

        assert counts == (study.counts["told"], study.counts["failed"])


def test_a_trial_that_is_to_fail_is_never_handed_out_again(url):
    """Also where its lease runs out while others are failed."""
    with Study(url, space=LINE, minimize="loss", settings=FAIL) as study:
        times = itertools.count()  # a second for each look at the clock
        study._store._clock = lambda: float(next(times))
        for _ in range(2):
            study.ask(1, lease=2.5)

        assert [2] == [trial.number for trial in study.ask(1)]
        assert [LAPSED] * 2 == [trial.reason for trial in study.trials[:2]]
