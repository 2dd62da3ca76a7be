"""A study that grows meets few shapes, so it compiles few programs."""

import logging

import jax
import numpy as np
import pytest

import poolwise as pw
from poolwise import learning
from poolwise.belief import gaussian_process
from poolwise.belief.padding import bucket
from poolwise.pool import ascent, judge

pytestmark = pytest.mark.usefixtures("nothing_kept")

PROGRAMS = {
    "race": learning._race,
    "condition": gaussian_process._condition,
    "begin": ascent._begin,
    "advance": ascent._advance,
    "judge": judge._judge_max,
}


@pytest.fixture(autouse=True)
def nothing_compiled():
    """Programs of other tests would count, and be dropped where there are too many of them."""
    for program in PROGRAMS.values():
        program._jitted.clear_cache()


def test_a_study_from_8_to_256_meets_at_most_four_shapes_of_each_program():
    """Fit, warm from the round before, and propose; rounds that share a bucket are skipped but for its two ends."""

    def shapes(n):
        return learning.rows_of(n), bucket(n)

    ends = [n for n in range(8, 257, 8) if shapes(n) != shapes(n + 8) or shapes(n) != shapes(n - 8) or n == 8]
    rng = np.random.default_rng(0)
    X, y, belief = rng.random((256, 3)), rng.standard_normal(256), None
    settings = pw.Ascent(samples=64, candidates=16, starts=2, rounds=2, polish=2)
    for seed, n in enumerate(ends):
        belief = pw.fit(X[:n], y[:n], start=belief)
        pw.propose(belief, pw.SimpleRegret(), q=2, seed=seed, maximizer=settings)
    met = {name: program._cache_size() for name, program in PROGRAMS.items()}

    assert {8, 64, 72, 96, 104, 128, 136, 256} == set(ends)
    assert all(1 <= count <= 4 for count in met.values()), met


def test_workers_that_come_and_go_cost_no_compilation():
    """One to eight pending points are one shape."""
    rng = np.random.default_rng(0)
    X, y = rng.random((16, 2)), rng.standard_normal(16)
    belief = pw.fit(X, y)
    settings = pw.Ascent(samples=64, candidates=16, starts=2, rounds=2, polish=2)
    sizes = []
    for waiting in (2, 1, 5, 8):
        pw.propose(belief, pw.UpperConfidenceBound(), q=2, pending=X[:waiting] + 0.01, maximizer=settings)
        sizes.append([program._cache_size() for name, program in PROGRAMS.items() if name != "race"])

    assert sizes[0] == sizes[1] == sizes[2] == sizes[3]


def test_one_more_observation_compiles_nothing(caplog):
    """Also where inputs are warped, and in what is done beside the large programs."""
    rng = np.random.default_rng(0)
    X, y = rng.random((21, 2)), rng.standard_normal(21)
    kernel = pw.Matern52(0.9, warp=pw.Warp([0.5, 1.0], [1.0, 2.0]))
    beliefs = [pw.GaussianProcess(kernel, noise=1e-2).condition(X[:n], y[:n]) for n in (20, 21)]
    pw.balanced(beliefs[0], 2)

    with jax.log_compiles(), caplog.at_level(logging.WARNING, logger="jax"):
        pw.balanced(beliefs[1], 2)

    assert [] == [record.getMessage() for record in caplog.records if "ompil" in record.getMessage()]
