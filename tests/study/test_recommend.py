"""What a study recommends where trials fail."""

import math

import pytest

from poolwise.space.parameters import Choice, Float, Int
from poolwise.study.study import Study


def told(space, values):
    """A study whose larger values are better, in which these trials were told; NaN is a failure."""
    study = Study(space=space, maximize="yield")
    for params, value in values:
        study.add(params, value)
    return study


@pytest.fixture(autouse=True)
def no_fallback(caplog):
    """Every recommendation here is the model's."""
    yield
    assert "no recommendation by the model" not in caplog.text


def test_a_failed_experiment_is_not_recommended():
    """The value grows with the batch, and the largest batch does not fit."""
    batch = Choice([32, 64, 128, 256, 512], ordered=True)
    study = told({"batch": batch}, [({"batch": b}, b if b < 512 else math.nan) for b in batch.values])

    assert {"batch": 256} == study.recommend()


@pytest.mark.parametrize("tried", [[1, 3, 5, 7, 9, 10, 11, 13], [2, 3, 4, 5, 6, 7, 8, 9, 11, 13]])
def test_what_is_likely_to_fail_is_not_recommended(tried):
    """Batches above ten fail, also those that were not tried."""
    study = told({"batch": Int(1, 16)}, [({"batch": b}, b if b <= 10 else math.nan) for b in tried])

    assert study.recommend()["batch"] in (9, 10)


def test_an_infinite_end_is_not_recommended():
    study = told({"x": Float(0, 1)}, [({"x": x}, x if x < 0.7 else math.inf) for x in (0.1, 0.3, 0.5, 0.65, 0.8, 1.0)])

    assert 0.5 <= study.recommend()["x"] <= 0.7


def test_told_experiments_may_be_recommended_whatever_failed():
    """All others failed, some of them beside the best; one that was measured again and lost is not taken for failed."""
    names = ["a", "b", "c", "d", "e", "f"]
    values = [1.0, 2.0, 3.0, 4.0, math.nan, math.nan]
    study = told({"x": Choice(names)}, [({"x": x}, value) for x, value in zip(names, values, strict=True)])
    study.add({"x": "d"}, math.nan)

    assert {"x": "d"} == study.recommend()
