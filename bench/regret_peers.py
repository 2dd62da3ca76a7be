"""Peers on the tasks of the regret benchmark. Run by the peers' interpreter; `regret.py` calls it.

    .venv-peers/bin/python bench/regret_peers.py out/regret --tasks bbob/f01-d05-i1 --methods optuna-gp

Plays every method on every task, in that order, and leaves out what is there already. One thread: see quiet.py.
"""

import argparse
import os
import time
import warnings
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
from botorch.acquisition import (
    qLogExpectedImprovement,
    qLogNoisyExpectedImprovement,
    qUpperConfidenceBound,
)
from botorch.exceptions import ModelFittingError
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.optim import optimize_acqf
from botorch.sampling import SobolQMCNormalSampler
from gpytorch.kernels import MaternKernel
from gpytorch.means import ZeroMean
from gpytorch.mlls import ExactMarginalLogLikelihood
from regret_play import Player, play
from regret_tasks import NOT_ON, PEERS, POOL, Task, every_task, load, run_path

SAMPLES = 512
BETA = 3.0**0.5  # the paper's; BoTorch multiplies deviations by sqrt(beta pi / 2)
GREEDY = {"num_restarts": 4, "raw_samples": 256, "sequential": True}  # both as in peer_botorch.py
JOINT = {"num_restarts": 32, "raw_samples": 512, "sequential": False}
PACKAGES = ("botorch", "gpytorch", "torch", "optuna", "ioh")


def known(task: Task, X: torch.Tensor, y: torch.Tensor) -> SingleTaskGP:
    """The process that the task was drawn from: nothing is fitted."""
    kernel = MaternKernel(nu=2.5)
    kernel.lengthscale = task.lengthscale
    noise = torch.full_like(y, task.noise)
    return SingleTaskGP(X, y, noise, covar_module=kernel, mean_module=ZeroMean(), outcome_transform=None).eval()


def learned(X: torch.Tensor, y: torch.Tensor) -> SingleTaskGP:
    """Everything at BoTorch's defaults; where no fit succeeds, the model as it was made."""
    model = SingleTaskGP(X, y)
    try:
        fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    except ModelFittingError as error:
        print(f"not fitted: {error}", flush=True)
        model = SingleTaskGP(X, y)
    return model.eval()


def botorch(goal, way: dict):
    """The method that climbs an acquisition function of BoTorch."""

    def method(task: Task, seed: int) -> Player:
        bounds = torch.tensor([[0.0], [1.0]], dtype=torch.double).expand(2, task.dimension)

        def choose(points: np.ndarray, outcomes: np.ndarray) -> np.ndarray:
            torch.manual_seed(draw := (seed << 16) + len(points))
            X, y = torch.from_numpy(points), torch.from_numpy(outcomes)[:, None]
            model = learned(X, y) if task.noise is None else known(task, X, y)
            acquisition = goal(model, X, y, SobolQMCNormalSampler(torch.Size([SAMPLES]), seed=draw))
            return optimize_acqf(acquisition, bounds, POOL, options={"maxiter": 200}, **way)[0].numpy()

        return choose

    return method


def optuna_gp(task: Task, seed: int) -> Player:
    """Optuna's sampler: all of a pool are asked for before any is told, so that it knows what is pending."""
    import optuna
    from optuna.distributions import FloatDistribution

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    space = {f"x{k}": FloatDistribution(0.0, 1.0) for k in range(task.dimension)}
    sampler = optuna.samplers.GPSampler(seed=seed, n_startup_trials=POOL)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    running: list = []

    def choose(points: np.ndarray, outcomes: np.ndarray) -> np.ndarray:
        if not running:
            for point, value in zip(points, outcomes, strict=True):
                params = dict(zip(space, map(float, point), strict=True))
                study.add_trial(optuna.create_trial(params=params, distributions=space, value=float(value)))
        for trial, value in zip(running, outcomes[len(outcomes) - len(running) :], strict=True):
            study.tell(trial, float(value))
        running[:] = [study.ask(space) for _ in range(POOL)]
        return np.array([[trial.params[name] for name in space] for trial in running])

    return choose


METHODS = {
    "optuna-gp": optuna_gp,
    "botorch-qlognei": botorch(
        lambda model, X, y, sampler: qLogNoisyExpectedImprovement(model, X, sampler=sampler, prune_baseline=True),
        GREEDY,
    ),
    "botorch-qucb": botorch(lambda model, X, y, sampler: qUpperConfidenceBound(model, BETA, sampler=sampler), JOINT),
    "botorch-qlogei": botorch(
        lambda model, X, y, sampler: qLogExpectedImprovement(model, float(y.max()), sampler=sampler), GREEDY
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tasks", nargs="*", help="suite/task; all by default")
    parser.add_argument("--methods", nargs="*", choices=PEERS, default=PEERS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    tasks = [tuple(name.split("/")) for name in options.tasks] if options.tasks else every_task()
    for suite, name in tasks:
        for method in options.methods:
            if (suite, method) in NOT_ON or run_path(options.folder, suite, name, method).exists():
                continue
            began = time.perf_counter()
            task = load(options.folder, suite, name)
            run = play(task, method, METHODS[method], PACKAGES)
            run.save(options.folder)
            best = task.optimum - float(task.function(np.array(run.points)).max())
            print(f"{suite}/{name} {method}: {best:.3g} in {time.perf_counter() - began:.1f} s", flush=True)


if __name__ == "__main__":
    main()
