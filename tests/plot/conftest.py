"""Studies to draw: mixed parameters and a constraint, with trials told, failed, added and pending."""

import math

import pytest

from poolwise.space.parameters import Choice, Float, Int
from poolwise.space.space import Space
from poolwise.study.definition import Settings
from poolwise.study.study import Study

SPACE = Space(
    {"lr": Float(1e-4, 1, log=True), "n": Int(1, 4), "kind": Choice(["a", "b", "c"]), "fixed": 7},
    ["n * lr <= 1"],
)
CENTRE = {"lr": 0.01, "n": 2, "kind": "b", "fixed": 7}


@pytest.fixture(scope="session", autouse=True)
def no_program_cache():
    """Studies in tests leave JAX's own cache alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("POOLWISE_PROGRAMS", "off")
        yield


def loss(lr, n, kind, fixed):
    return (math.log10(lr) + 2) ** 2 + 0.1 * n + {"a": 0.5, "b": 0.0, "c": 0.2}[kind]


def filled(**direction):
    """Pools of three and five with trial 3 failed, two added trials, and a pending pool of two; no search for pools."""
    study = Study(space=SPACE, settings=Settings(acquisition="fill"), **direction)
    sign = 1 if "minimize" in direction else -1
    for q in (3, 5):
        for trial in study.ask(q):
            if trial.number == 3:
                study.fail(trial, "diverged")
            else:
                study.tell(trial, sign * loss(**trial.params))
    for lr in (0.02, 0.3):
        params = CENTRE | {"lr": lr}
        study.add(params, sign * loss(**params))
    study.ask(2)
    return study


@pytest.fixture(scope="session")
def study():
    """A study that minimises."""
    return filled(minimize="loss")


@pytest.fixture(scope="session")
def maximizing():
    """The same outcomes with the other sign, maximised."""
    return filled(maximize="gain")


@pytest.fixture(scope="session")
def centre():
    """A point for pictures to go through, so that none has to be searched for."""
    return CENTRE
