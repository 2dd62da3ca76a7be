"""Poolwise: choose the next pool of experiments.

An acquisition value is the expectation of an integrand under a belief, over a region; a pool is where it is highest.
Names load when they are first used, so that `import poolwise` costs milliseconds and no JAX.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .version import __version__ as __version__

if TYPE_CHECKING:
    from .acquisition import exact as exact
    from .acquisition.energy import EnergyEntropy as EnergyEntropy
    from .acquisition.entropy import EntropySearch as EntropySearch
    from .acquisition.expectation import Estimate as Estimate
    from .acquisition.expectation import expectation as expectation
    from .acquisition.expectation import log_probability as log_probability
    from .acquisition.information import JointEntropySearch as JointEntropySearch
    from .acquisition.information import MaxValueEntropy as MaxValueEntropy
    from .acquisition.integrand import ExpectedImprovement as ExpectedImprovement
    from .acquisition.integrand import Probability as Probability
    from .acquisition.integrand import ProbabilityOfImprovement as ProbabilityOfImprovement
    from .acquisition.integrand import SimpleRegret as SimpleRegret
    from .acquisition.integrand import UpperConfidenceBound as UpperConfidenceBound
    from .acquisition.integrand import integrand as integrand
    from .acquisition.knowledge import KnowledgeGradient as KnowledgeGradient
    from .acquisition.log_space import LogExpectedImprovement as LogExpectedImprovement
    from .acquisition.log_space import LogProbabilityOfImprovement as LogProbabilityOfImprovement
    from .acquisition.lookahead import TwoStepExpectedImprovement as TwoStepExpectedImprovement
    from .acquisition.noisy import LogNoisyExpectedImprovement as LogNoisyExpectedImprovement
    from .acquisition.region import Box as Box
    from .belief.gaussian_process import GaussianProcess as GaussianProcess
    from .belief.gaussian_process import Posterior as Posterior
    from .belief.kernel import Matern12 as Matern12
    from .belief.kernel import Matern32 as Matern32
    from .belief.kernel import Matern52 as Matern52
    from .belief.kernel import SquaredExponential as SquaredExponential
    from .belief.normal import Normal as Normal
    from .belief.paths import sample_paths as sample_paths
    from .belief.rotation import Rotation as Rotation
    from .belief.trend import Trend as Trend
    from .belief.warp import Warp as Warp
    from .errors import InputError as InputError
    from .errors import MissingExtra as MissingExtra
    from .errors import PoolwiseError as PoolwiseError
    from .learning import fit as fit
    from .maximizers.climb import Budget as Budget
    from .maximizers.direct import Direct as Direct
    from .maximizers.lbfgsb import Lbfgsb as Lbfgsb
    from .maximizers.random_search import RandomSearch as RandomSearch
    from .maximizers.stochastic import Stochastic as Stochastic
    from .pool.balance import balanced as balanced
    from .pool.draws import Maxima as Maxima
    from .pool.draws import path_maxima as path_maxima
    from .pool.draws import thompson as thompson
    from .pool.effort import Ascent as Ascent
    from .pool.fantasies import OneShot as OneShot
    from .pool.proposal import Proposal as Proposal
    from .pool.proposal import propose as propose
    from .programs import keep_programs as keep_programs
    from .space.errors import SpaceError as SpaceError
    from .space.errors import SpaceExhausted as SpaceExhausted
    from .space.parameters import Choice as Choice
    from .space.parameters import Fixed as Fixed
    from .space.parameters import Float as Float
    from .space.parameters import Int as Int
    from .space.space import Space as Space
    from .study.callbacks import Callback as Callback
    from .study.definition import Settings as Settings
    from .study.errors import ConflictError as ConflictError
    from .study.errors import StorageError as StorageError
    from .study.errors import StorageUnavailable as StorageUnavailable
    from .study.errors import StudyNotFound as StudyNotFound
    from .study.errors import VersionError as VersionError
    from .study.oneline import maximize as maximize
    from .study.oneline import minimize as minimize
    from .study.stops import RunInterrupted as RunInterrupted
    from .study.stops import RunStopped as RunStopped
    from .study.study import Study as Study
    from .study.trial import Pool as Pool
    from .study.trial import Trial as Trial

_HOMES = {
    "Ascent": "pool.effort",
    "Box": "acquisition.region",
    "Budget": "maximizers.climb",
    "Callback": "study.callbacks",
    "Choice": "space.parameters",
    "ConflictError": "study.errors",
    "Direct": "maximizers.direct",
    "EnergyEntropy": "acquisition.energy",
    "EntropySearch": "acquisition.entropy",
    "Estimate": "acquisition.expectation",
    "ExpectedImprovement": "acquisition.integrand",
    "Fixed": "space.parameters",
    "Float": "space.parameters",
    "GaussianProcess": "belief.gaussian_process",
    "InputError": "errors",
    "Int": "space.parameters",
    "JointEntropySearch": "acquisition.information",
    "KnowledgeGradient": "acquisition.knowledge",
    "Lbfgsb": "maximizers.lbfgsb",
    "LogExpectedImprovement": "acquisition.log_space",
    "LogNoisyExpectedImprovement": "acquisition.noisy",
    "LogProbabilityOfImprovement": "acquisition.log_space",
    "Matern12": "belief.kernel",
    "Matern32": "belief.kernel",
    "Matern52": "belief.kernel",
    "MaxValueEntropy": "acquisition.information",
    "Maxima": "pool.draws",
    "MissingExtra": "errors",
    "Normal": "belief.normal",
    "OneShot": "pool.fantasies",
    "Pool": "study.trial",
    "PoolwiseError": "errors",
    "Posterior": "belief.gaussian_process",
    "Probability": "acquisition.integrand",
    "ProbabilityOfImprovement": "acquisition.integrand",
    "Proposal": "pool.proposal",
    "RandomSearch": "maximizers.random_search",
    "Rotation": "belief.rotation",
    "RunInterrupted": "study.stops",
    "RunStopped": "study.stops",
    "Settings": "study.definition",
    "SimpleRegret": "acquisition.integrand",
    "Space": "space.space",
    "SpaceError": "space.errors",
    "SpaceExhausted": "space.errors",
    "SquaredExponential": "belief.kernel",
    "Stochastic": "maximizers.stochastic",
    "StorageError": "study.errors",
    "StorageUnavailable": "study.errors",
    "Study": "study.study",
    "StudyNotFound": "study.errors",
    "Trend": "belief.trend",
    "Trial": "study.trial",
    "TwoStepExpectedImprovement": "acquisition.lookahead",
    "UpperConfidenceBound": "acquisition.integrand",
    "VersionError": "study.errors",
    "Warp": "belief.warp",
    "balanced": "pool.balance",
    "expectation": "acquisition.expectation",
    "fit": "learning",
    "integrand": "acquisition.integrand",
    "keep_programs": "programs",
    "log_probability": "acquisition.expectation",
    "maximize": "study.oneline",
    "minimize": "study.oneline",
    "path_maxima": "pool.draws",
    "propose": "pool.proposal",
    "sample_paths": "belief.paths",
    "thompson": "pool.draws",
}

__all__ = ["__version__", "exact", *_HOMES]


def __getattr__(name: str) -> Any:
    if name == "exact":
        return importlib.import_module(".acquisition.exact", __name__)
    if name not in _HOMES:
        raise AttributeError(f"module 'poolwise' has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted(__all__)
