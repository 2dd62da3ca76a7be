"""Poolwise on the tasks of the regret benchmark: a line in `INTEGRANDS` adds an acquisition function by its name.

`default` is what a `Study` does. All others climb their integrand on the study's model, or on the known process.
A name with an @ is the same method with more or less work, and pictures join such names by a line.
"""

import functools
import hashlib
import logging
import zlib
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from regret_play import Method, Player, play
from regret_tasks import POOL, Task, load, seed_of

import poolwise as pw
from poolwise.pool.balance import best_expected, likely_better, much_better
from poolwise.study import model as study_model
from poolwise.study.definition import Definition, Settings
from poolwise.study.suggest import suggest
from poolwise.study.trial import Trial

PACKAGES = ("poolwise", "jax", "ioh")


# From the posterior and a seed to what a pool is worth.
INTEGRANDS: dict[str, Callable[[pw.Posterior, int], object]] = {
    "ei": lambda posterior, seed: pw.ExpectedImprovement(best_expected(posterior)),
    "pi": lambda posterior, seed: pw.ProbabilityOfImprovement(best_expected(posterior)),
    "ucb": lambda posterior, seed: pw.UpperConfidenceBound(),
    "sr": lambda posterior, seed: pw.SimpleRegret(),
    "logei": lambda posterior, seed: much_better(posterior),
    "lognei": lambda posterior, seed: pw.LogNoisyExpectedImprovement.over(posterior),
    "logpi": lambda posterior, seed: likely_better(posterior),
    "gibbon": lambda posterior, seed: pw.MaxValueEntropy(pw.path_maxima(posterior, features=256, seed=seed).values),
    "jes": lambda posterior, seed: pw.JointEntropySearch(*pw.path_maxima(posterior, features=256, seed=seed)),
    "jes64": lambda posterior, seed: pw.JointEntropySearch(*pw.path_maxima(posterior, 64, seed=seed)),
    "energy": lambda posterior, seed: pw.EnergyEntropy(),
}


def random(task: Task, seed: int) -> Player:
    rng = np.random.default_rng(seed_of(seed, zlib.crc32(f"{task.suite}/{task.name}".encode())))
    return lambda X, y: rng.random((POOL, task.dimension))


def default(task: Task, seed: int) -> Player:
    """What a study suggests; where hyperparameters are known, its way to choose on the known process."""
    if task.noise is None:
        definition = definition_of(task, seed)
        return lambda X, y: suggested(definition, X, y)
    return lambda X, y: pw.balanced(known(task, X, y), POOL, seed=seed_of(seed, len(X)), known=True).pool


def by_model(choose: Callable[[pw.Posterior, int], np.ndarray]) -> Method:
    """The method that chooses by the belief and a seed; while there is no model it fills the space, as a study does."""

    def method(task: Task, seed: int) -> Player:
        definition = definition_of(task, seed)

        def player(X: np.ndarray, y: np.ndarray) -> np.ndarray:
            posterior = learned(definition, X, y) if task.noise is None else known(task, X, y)
            if posterior is None:
                return suggested(definition, X, y)
            return choose(posterior, seed_of(seed, len(X)))

        return player

    return method


def proposing(integrand: Callable[[pw.Posterior, int], object], **options: object) -> Method:
    """The method that climbs an integrand; `options` are those of `propose`."""
    return by_model(lambda belief, seed: pw.propose(belief, integrand(belief, seed), POOL, seed=seed, **options).pool)


def mixed(*parts: tuple[str, int], **options: object) -> Method:
    """A pool of which each part climbs its own integrand, with the parts before it pending; `options` of `propose`."""

    def choose(posterior: pw.Posterior, seed: int) -> np.ndarray:
        pool = np.zeros((0, posterior.dimension))
        for name, count in parts:
            worth = INTEGRANDS[name](posterior, seed)
            pool = np.concatenate([pool, pw.propose(posterior, worth, count, pending=pool, seed=seed, **options).pool])
        return pool

    return by_model(choose)


# Less work for a pool than the default's, and more.
LESS = pw.Ascent(256, candidates=32, starts=2, rounds=4, lanes=1, polish=10)
MORE = pw.Ascent(4096, candidates=1024, starts=32, rounds=30, lanes=8, polish=200)

METHODS: dict[str, Method] = {
    "default": default,
    **{name: proposing(integrand) for name, integrand in INTEGRANDS.items() if name != "jes64"},
    "kg": proposing(lambda posterior, seed: pw.KnowledgeGradient(), maximizer=pw.OneShot()),
    "thompson": by_model(lambda posterior, seed: pw.thompson(posterior, POOL, seed=seed).pool),
    "ucb4+jes4": mixed(("ucb", 4), ("jes", 4)),
    "ucb6+jes2": mixed(("ucb", 6), ("jes", 2)),
    "logpi4+jes4": mixed(("logpi", 4), ("jes", 4)),
    "logpi4+logei4": mixed(("logpi", 4), ("logei", 4)),
    "ucb@less": proposing(INTEGRANDS["ucb"], maximizer=LESS),
    "ucb@more": proposing(INTEGRANDS["ucb"], maximizer=MORE),
    "ucb4+jes4@less": mixed(("ucb", 4), ("jes", 4), maximizer=LESS),
    "ucb4+jes4@more": mixed(("ucb", 4), ("jes64", 4), maximizer=MORE),
    "random": random,
}


def known(task: Task, X: np.ndarray, y: np.ndarray) -> pw.Posterior:
    return pw.GaussianProcess(pw.Matern52(task.lengthscale), noise=task.noise).condition(X, y)


def learned(definition: Definition, X: np.ndarray, y: np.ndarray) -> pw.Posterior | None:
    """The study's model; None while it has too few trials for one, and fills the space."""
    model = study_model.learn(definition, trials_of(definition, X, y))
    return None if model is None else model.posterior


def suggested(definition: Definition, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    return definition.space.encode_many(suggest(definition, trials_of(definition, X, y), POOL))


def definition_of(task: Task, seed: int) -> Definition:
    space = pw.Space({f"x{k}": pw.Float(0.0, 1.0) for k in range(task.dimension)})
    return Definition(space, "value", "maximize", seed, Settings())


def trials_of(definition: Definition, X: np.ndarray, y: np.ndarray) -> list[Trial]:
    then = datetime(2000, 1, 1, tzinfo=UTC)
    params = definition.space.decode_many(X)
    return [Trial(k, params[k], "told", then, float(y[k]), pool=k // POOL) for k in range(len(y))]


class Strict(logging.Handler):
    """A study goes on without its model where that fails; a benchmark must not."""

    def emit(self, record: logging.LogRecord) -> None:
        if "could not be used" in record.getMessage():
            raise RuntimeError(record.getMessage())


def play_one(folder: Path, suite: str, name: str, method: str) -> None:
    logger = logging.getLogger("poolwise")
    if not any(isinstance(handler, Strict) for handler in logger.handlers):
        logger.addHandler(Strict())
    made_by = source()
    run = play(load(folder, suite, name), method, METHODS[method], PACKAGES)
    replace(run, versions=run.versions | {"source": made_by}).save(folder)


@functools.cache
def source() -> str:
    """A digest of Poolwise's source: which runs were made by other code."""
    digest = hashlib.sha256()
    for path in sorted(Path(pw.__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:8]
