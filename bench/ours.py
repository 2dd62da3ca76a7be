"""Poolwise on the reference problem; a script as well, for what needs a process of its own."""

import argparse
import json
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from problem import BETA, DIMENSIONS, LENGTHSCALE, NOISE, TEMPERATURE, Problem, judge, reference, task

import poolwise as pw


def integrand(name: str, threshold: float) -> object:
    return {
        "ei": lambda: pw.ExpectedImprovement(threshold),
        "pi": lambda: pw.ProbabilityOfImprovement(threshold, TEMPERATURE),
        "ucb": lambda: pw.UpperConfidenceBound(BETA),
        "sr": pw.SimpleRegret,
    }[name]()


def posterior(problem: Problem) -> pw.Posterior:
    return pw.GaussianProcess(pw.Matern52(LENGTHSCALE), noise=NOISE).condition(problem.X, problem.y)


def timed(call: Callable[[int], object], repeat: int) -> tuple[list[float], list]:
    """Seconds and results of calls with seeds 1, 2, ...; the call with seed 0 compiles and is not counted."""
    call(0)
    seconds, results = [], []
    for seed in range(1, repeat + 1):
        began = time.perf_counter()
        results.append(call(seed))
        seconds.append(time.perf_counter() - began)
    return seconds, results


def pool(n: int, q: int, name: str, repeat: int = 9) -> dict:
    """`propose` with known hyperparameters: seconds of each run and the judge's value, averaged over the runs."""
    problem = reference(n)
    belief, goal = posterior(problem), integrand(name, problem.threshold)
    seconds, proposals = timed(lambda seed: pw.propose(belief, goal, q, seed=seed), repeat)
    values = [judge(problem, proposal.pool, name) for proposal in proposals]
    return {"seconds": seconds, "value": float(np.mean(values))}


def ask(n: int = 248, q: int = 8, repeat: int = 9) -> dict:
    """`fit`, warm from the round before (q observations fewer), and `propose`."""
    problem = reference(n)
    before = pw.fit(problem.X[: n - q], problem.y[: n - q])
    goal = integrand("ei", problem.threshold)

    def round_(seed: int) -> tuple[float, float]:
        began = time.perf_counter()
        belief = pw.fit(problem.X, problem.y, start=before)
        middle = time.perf_counter()
        pw.propose(belief, goal, q, seed=seed)
        return middle - began, time.perf_counter() - middle

    seconds, parts = timed(round_, repeat)
    fit_seconds, pool_seconds = np.array(parts).min(axis=0)
    return {"seconds": seconds, "fit": fit_seconds, "pool": pool_seconds}


def rounds(q: int = 8, count: int = 31) -> dict:
    """A study that grows from q observations by q, `count` times, with a fit each time."""
    pw.keep_programs()
    f, X = task(), np.random.default_rng(0).random((q, DIMENSIONS))
    y, belief, each = f(X), None, []
    for seed in range(count):
        began = time.perf_counter()
        belief = pw.fit(X, y, start=belief)
        chosen = pw.propose(belief, pw.ExpectedImprovement(y.max()), q, seed=seed).pool
        each.append(time.perf_counter() - began)
        X, y = np.concatenate([X, chosen]), np.concatenate([y, f(chosen)])
    return {"seconds": sum(each), "each": each, "best": float(y.max())}


def memory(n: int = 2048, q: int = 32) -> dict:
    """The peak of resident memory of a process that proposes once, in GiB."""
    problem = reference(n)
    pw.propose(posterior(problem), integrand("ei", problem.threshold), q)
    return {"gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["rounds", "memory"])
    parser.add_argument("--json", type=Path, required=True)
    chosen = parser.parse_args()
    chosen.json.write_text(json.dumps({"rounds": rounds, "memory": memory}[chosen.what]()))


if __name__ == "__main__":
    sys.exit(main())
