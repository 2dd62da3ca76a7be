"""BoTorch on the reference problem, timed. Run by the peers' interpreter; `peers.py` calls it.

    .venv-peers/bin/python bench/peer_botorch.py --what pool --n 64 --q 8 --integrand ei --way joint --json out.json

pool    known hyperparameters: seconds of `optimize_acqf` alone, with the model's caches already filled
fit     learned hyperparameters, as BoTorch's first example does it: seconds of the fit, then of `optimize_acqf`
cold    a fresh process to its first pool, fit included; the parent puts its `time.time()` in POOLWISE_START
rounds  31 rounds of fit and propose that grow a study from 8 observations by q
"""

import os
import time

STARTED = float(os.environ.get("POOLWISE_START", time.time()))  # before the slow imports: they are waited for too
import quiet  # noqa: E402

FIRST = quiet.now()

import argparse  # noqa: E402
import json  # noqa: E402
import warnings  # noqa: E402
from importlib.metadata import version  # noqa: E402
from pathlib import Path  # noqa: E402

import numpy as np  # noqa: E402
import problem as reference_problem  # noqa: E402
import torch  # noqa: E402
from botorch.acquisition import (  # noqa: E402
    qExpectedImprovement,
    qLogExpectedImprovement,
    qProbabilityOfImprovement,
    qSimpleRegret,
    qUpperConfidenceBound,
)
from botorch.exceptions.warnings import NumericsWarning  # noqa: E402
from botorch.fit import fit_gpytorch_mll  # noqa: E402
from botorch.models import SingleTaskGP  # noqa: E402
from botorch.optim import optimize_acqf  # noqa: E402
from botorch.sampling import SobolQMCNormalSampler  # noqa: E402
from gpytorch.kernels import MaternKernel  # noqa: E402
from gpytorch.means import ZeroMean  # noqa: E402
from gpytorch.mlls import ExactMarginalLogLikelihood  # noqa: E402

IMPORTED = time.time()
SAMPLES = 512
ROUNDS = 31
TOLERANCE = 1e-6  # between BoTorch's posterior and the judge's
UNIT_CUBE = torch.tensor([[0.0], [1.0]], dtype=torch.double).expand(2, reference_problem.DIMENSIONS)

# BoTorch's `beta` is the paper's: its multiplier of the deviation is sqrt(beta pi / 2) (`_get_beta_prime`).
ACQUISITIONS = {
    "ei": lambda model, best, sampler: qExpectedImprovement(model, best, sampler=sampler),
    "logei": lambda model, best, sampler: qLogExpectedImprovement(model, best, sampler=sampler),
    "pi": lambda model, best, sampler: qProbabilityOfImprovement(
        model, best, sampler=sampler, tau=reference_problem.TEMPERATURE
    ),
    "ucb": lambda model, best, sampler: qUpperConfidenceBound(model, float(reference_problem.BETA), sampler=sampler),
    "sr": lambda model, best, sampler: qSimpleRegret(model, sampler=sampler),
}
WAYS = {
    "joint": {"num_restarts": 32, "raw_samples": 512, "sequential": False},
    "sequential": {"num_restarts": 4, "raw_samples": 256, "sequential": True},
}


def column(values: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(values)[:, None]


def known(problem: reference_problem.Problem) -> SingleTaskGP:
    """The exact model: zero mean, a bare Matern-5/2 (no scale kernel, so amplitude 1), fixed noise, no transforms."""
    kernel = MaternKernel(nu=2.5)
    kernel.lengthscale = reference_problem.LENGTHSCALE
    y = column(problem.y)
    noise = torch.full_like(y, reference_problem.NOISE)
    X = torch.from_numpy(problem.X)
    return SingleTaskGP(X, y, noise, covar_module=kernel, mean_module=ZeroMean(), outcome_transform=None).eval()


def learned(X: np.ndarray, y: np.ndarray) -> SingleTaskGP:
    """Everything at BoTorch's defaults: standardized outcomes, RBF with the dimension-scaled prior, MAP by L-BFGS-B."""
    model = SingleTaskGP(torch.from_numpy(X), column(y))
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    return model


def difference(model: SingleTaskGP, problem: reference_problem.Problem) -> float:
    """The largest gap between BoTorch's posterior and the exact one, over a random pool and three observed points."""
    pool = np.concatenate([np.random.default_rng(0).uniform(size=(16, problem.X.shape[1])), problem.X[:3]])
    mean, covariance = reference_problem.posterior(problem, pool)
    with torch.no_grad():
        belief = model.posterior(torch.from_numpy(pool))
        gaps = belief.mean[:, 0].numpy() - mean, belief.distribution.covariance_matrix.numpy() - covariance
    return max(float(np.abs(gap).max()) for gap in gaps)


def choose(model: SingleTaskGP, best: float, options: argparse.Namespace, seed: int) -> list[list[float]]:
    """One pool by `optimize_acqf`; the seed draws the base samples and the starts."""
    torch.manual_seed(seed)
    sampler = SobolQMCNormalSampler(torch.Size([SAMPLES]), seed=seed)
    acquisition = ACQUISITIONS[options.integrand](model, best, sampler)
    # No batch_limit: the default climbs all restarts in one batch and scores all raw samples in one.
    pool, _ = optimize_acqf(acquisition, UNIT_CUBE, options.q, options={"maxiter": 200}, **WAYS[options.way])
    return pool.tolist()


def timed(action, *arguments):
    """What the action returns, and its seconds."""
    start = time.perf_counter()
    result = action(*arguments)
    return result, time.perf_counter() - start


def repeated(ask, repeat: int) -> dict:
    """What `ask(seed)` returns, and the cores others used, as lists over runs; of several the first is left out."""
    runs = []
    for seed in range(repeat):
        before = quiet.now()
        runs.append(ask(seed) | {"elsewhere": quiet.elsewhere(before)})
    kept = runs[1:] or runs
    return {name: [run[name] for run in kept] for name in kept[0]}


def measure_pool(options: argparse.Namespace) -> dict:
    problem = reference_problem.reference(options.n, options.seed)
    model = known(problem)
    gap = difference(model, problem)  # also fills the model's caches
    if gap > TOLERANCE:
        raise SystemExit(f"BoTorch's posterior is {gap:.1e} away from the exact one, more than {TOLERANCE:.0e}.")

    def ask(seed: int) -> dict:
        pool, seconds = timed(choose, model, problem.threshold, options, seed)
        return {"seconds": seconds, "pools": pool}

    return repeated(ask, options.repeat) | {"posterior_gap": gap}


def measure_fit(options: argparse.Namespace) -> dict:
    problem = reference_problem.reference(options.n, options.seed)
    return repeated(lambda seed: fit_and_choose(problem.X, problem.y, options, seed), options.repeat)


def fit_and_choose(X: np.ndarray, y: np.ndarray, options: argparse.Namespace, seed: int) -> dict:
    model, fit_seconds = timed(learned, X, y)
    pool, pool_seconds = timed(choose, model, float(y.max()), options, seed)
    seconds = fit_seconds + pool_seconds
    return {"seconds": seconds, "fit_seconds": fit_seconds, "pool_seconds": pool_seconds, "pools": pool}


def measure_cold(options: argparse.Namespace) -> dict:
    """The problem is drawn inside the measured time, a few milliseconds, as a user would read a file."""
    problem = reference_problem.reference(options.n, options.seed)
    run = fit_and_choose(problem.X, problem.y, options, 0)
    seconds, busy = time.time() - STARTED, quiet.elsewhere(FIRST)
    lists = {name: [value] for name, value in run.items()}
    return lists | {"seconds": [seconds], "import_seconds": [IMPORTED - STARTED], "elsewhere": [busy]}


def measure_rounds(options: argparse.Namespace) -> dict:
    """From 8 observations; the last of the 31 rounds is fitted to 8 + 30 q of them."""
    task = reference_problem.task(options.seed)
    X = np.random.default_rng(options.seed).uniform(size=(8, reference_problem.DIMENSIONS))
    y, rounds, before = task(X), [], quiet.now()
    for seed in range(ROUNDS):
        rounds.append(fit_and_choose(X, y, options, seed))
        pool = np.array(rounds[-1]["pools"])
        X, y = np.concatenate([X, pool]), np.concatenate([y, task(pool)])
    seconds = [run["seconds"] for run in rounds]
    fits, pools = [run["fit_seconds"] for run in rounds], [run["pool_seconds"] for run in rounds]
    result = {"seconds": [sum(seconds)], "fit_seconds": fits, "pool_seconds": pools, "best": float(y.max())}
    return result | {"since_start": time.time() - STARTED, "elsewhere": [quiet.elsewhere(before)]}


MEASURES = {"pool": measure_pool, "fit": measure_fit, "cold": measure_cold, "rounds": measure_rounds}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--what", choices=MEASURES, default="pool")
    parser.add_argument("--n", type=int, default=64)
    parser.add_argument("--q", type=int, default=8)
    parser.add_argument("--integrand", choices=ACQUISITIONS, default="ei")
    parser.add_argument("--way", choices=WAYS, default="joint")
    parser.add_argument("--repeat", type=int, default=3, help="runs of pool and fit; of several, the first is warm-up")
    parser.add_argument("--seed", type=int, default=0, help="of the problem")
    parser.add_argument(
        "--threads", type=int, default=torch.get_num_threads(), help="of torch; its own choice if absent"
    )
    parser.add_argument("--json", type=Path, required=True)
    return parser.parse_args()


def main() -> None:
    options = arguments()
    torch.set_num_threads(options.threads)
    warnings.simplefilter("ignore", NumericsWarning)  # "use qLogEI": the table times qEI, and logei beside it
    result = MEASURES[options.what](options)
    asked = {name: value for name, value in vars(options).items() if name != "json"}
    versions = {name: version(name) for name in ("botorch", "gpytorch", "torch")}
    options.json.write_text(json.dumps(asked | versions | result))


if __name__ == "__main__":
    main()
