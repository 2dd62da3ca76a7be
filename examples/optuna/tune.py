"""Optuna with joint pools: a support vector machine on the wine data, four trials at a time.

With a storage, start it as often as you like, on any machine that reaches it: all of them share the pools.

    python examples/optuna/tune.py --trials 32 --storage sqlite:///wine.db
"""

import argparse

import optuna
from optuna.distributions import CategoricalDistribution, FloatDistribution
from sklearn.datasets import load_wine
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from poolwise.adapters.optuna import PoolSampler

SPACE = {
    "C": FloatDistribution(1e-3, 1e3, log=True),
    "gamma": FloatDistribution(1e-5, 1, log=True),
    "weight": CategoricalDistribution(["balanced", None]),
}
X, Y = load_wine(return_X_y=True)


def error(trial: optuna.Trial) -> float:
    """The share of wines that are taken for another, by cross-validation."""
    C = trial.suggest_float("C", 1e-3, 1e3, log=True)
    gamma = trial.suggest_float("gamma", 1e-5, 1, log=True)
    weight = trial.suggest_categorical("weight", ["balanced", None])
    machine = SVC(C=C, gamma=gamma, class_weight=weight)
    return 1 - cross_val_score(make_pipeline(StandardScaler(), machine), X, Y, cv=5).mean()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=32)
    parser.add_argument("--storage")
    given = parser.parse_args()
    sampler = PoolSampler(q=4, search_space=SPACE)
    study = optuna.create_study(sampler=sampler, storage=given.storage, study_name="wine", load_if_exists=True)
    study.optimize(error, n_trials=given.trials, n_jobs=4)
    print(f"{len(study.trials)} trials, error {study.best_value:.4f} with {study.best_params}")
