"""The same code on an accelerator: one large pool, and many studies in one program, beside BoTorch on the same device.

Run it where JAX sees a GPU: python bench/gpu.py --json results/gpu.json. BoTorch is measured if it can be imported.
"""

import argparse
import functools
import json
import time
from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import ours
from problem import LENGTHSCALE, NOISE, Problem, judge, reference

import poolwise as pw
from poolwise.acquisition.base_samples import normals
from poolwise.pool.ascent import RACE, SAMPLED, Beginning, _advance, _first_states, _objective
from poolwise.pool.effort import Ascent
from poolwise.pool.greedy import greedy
from poolwise.pool.starts import candidate_sets


def best(call: Callable[[], object], repeat: int = 5) -> tuple[float, float]:
    """Seconds of the first call, which compiles, and of the fastest after it."""
    seconds = []
    for _ in range(repeat + 1):
        began = time.perf_counter()
        jax.block_until_ready(call())
        seconds.append(time.perf_counter() - began)
    return seconds[0], min(seconds[1:])


def one_pool(n: int, q: int, settings: Ascent) -> dict:
    """`propose` with many observations, points and samples."""
    problem = reference(n)
    posterior, goal = ours.posterior(problem), pw.UpperConfidenceBound()
    proposals = []
    first, seconds = best(lambda: proposals.append(pw.propose(posterior, goal, q, maximizer=settings)) or 0, 3)
    return {"first": first, "seconds": seconds, "value": judge(problem, proposals[-1].pool, "ucb")}


@functools.partial(jax.jit, static_argnames=("starts",))
def _together(posteriors, thresholds, z, offered, chance, starts):
    """Pools of many studies: the search of one, mapped over all."""

    def one(posterior, threshold):
        objective, prefix = _objective(posterior, pw.ExpectedImprovement(threshold), jnp.zeros((0, 8)), jnp.zeros(0), z)
        effort = {"rounds": 12, "picks": len(offered), "starts": starts}
        pool, values, _ = greedy(objective.field, objective.integrand, prefix, offered, **effort)
        states = _first_states(objective, Beginning(pool, offered[0], values), chance, 2)
        greedy_lane, other = [_advance(objective, state, RACE) for state in states]
        leads = other.values[0] > greedy_lane.values[0]
        leader = jax.tree.map(lambda a, b: jnp.where(leads, b, a), greedy_lane, other)
        return _advance(objective, leader, 60 - RACE).points

    return jax.vmap(one)(posteriors, thresholds)


def many_studies(count: int, n: int, q: int) -> dict:
    """`count` studies of n observations each, in one compiled program."""
    problems = [reference(n, seed) for seed in range(count)]
    with jax.enable_x64(True):
        posteriors = [ours.posterior(problem) for problem in problems]
        stacked = jax.tree.map(lambda *leaves: jnp.stack([jnp.asarray(leaf) for leaf in leaves]), *posteriors)
        thresholds = jnp.asarray([problem.threshold for problem in problems])
        z, offered = jnp.asarray(normals(1024, q)), jnp.asarray(candidate_sets(q, 128, 8, 0))
        chance = jnp.asarray(np.random.default_rng(0).gumbel(size=(SAMPLED, 128)))
        found = []
        first, seconds = best(lambda: found.append(_together(stacked, thresholds, z, offered, chance, 8)) or found[-1])
    values = [
        judge(problem, np.asarray(pool).reshape(q, 8), "ei") for problem, pool in zip(problems, found[-1], strict=True)
    ]
    return {"first": first, "seconds": seconds, "value": float(np.mean(values))}


def botorch_pool(problem: Problem, q: int, name: str, samples: int, sequential: bool) -> dict:
    """BoTorch on the same device, with the reference problem's hyperparameters."""
    import torch
    from botorch.acquisition import qExpectedImprovement, qUpperConfidenceBound
    from botorch.models import SingleTaskGP
    from botorch.optim import optimize_acqf
    from botorch.sampling import SobolQMCNormalSampler
    from gpytorch.kernels import MaternKernel
    from gpytorch.means import ZeroMean

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    double = {"dtype": torch.double, "device": device}
    X, y = torch.tensor(problem.X, **double), torch.tensor(problem.y, **double)[:, None]
    kernel = MaternKernel(nu=2.5)
    model = SingleTaskGP(
        X, y, torch.full_like(y, NOISE), covar_module=kernel, mean_module=ZeroMean(), outcome_transform=None
    ).to(device)
    kernel.lengthscale = LENGTHSCALE
    model.eval()
    sampler = SobolQMCNormalSampler(torch.Size([samples]), seed=0)
    goal = {
        "ei": lambda: qExpectedImprovement(model, best_f=problem.threshold, sampler=sampler),
        "ucb": lambda: qUpperConfidenceBound(model, beta=3**0.5, sampler=sampler),
    }[name]()
    bounds = torch.tensor([[0.0] * 8, [1.0] * 8], **double)
    restarts = {"num_restarts": 4, "raw_samples": 256} if sequential else {"num_restarts": 32, "raw_samples": 512}
    began = time.perf_counter()
    pool, _ = optimize_acqf(goal, bounds, q=q, sequential=sequential, options={"maxiter": 200}, **restarts)
    value = judge(problem, pool.detach().cpu().numpy(), name)
    return {"seconds": time.perf_counter() - began, "value": value}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--ours", action="store_true", help="leave BoTorch out")
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it runs")
    chosen = parser.parse_args()
    n, q, samples, count = (128, 4, 256, 4) if chosen.quick else (4096, 64, 2**14, 64)
    thorough = Ascent(samples=samples, candidates=2048, starts=64, rounds=60, lanes=4, polish=600)
    result = {"jax": jax.__version__, "device": str(jax.devices()[0])}
    parts = {
        "one pool, default effort": lambda: one_pool(n, q, Ascent(samples=samples)),
        "one pool, more effort": lambda: one_pool(n, q, thorough),
        "many studies": lambda: many_studies(count, 248, 8),
        "botorch, one study, warm-up": lambda: botorch_pool(reference(248), 8, "ei", 512, True),
        "botorch, one study, sequential": lambda: botorch_pool(reference(248), 8, "ei", 512, True),
        "botorch, one study, joint": lambda: botorch_pool(reference(248), 8, "ei", 512, False),
        "botorch, one pool, sequential": lambda: botorch_pool(reference(n), q, "ucb", samples, True),
    }
    for name, part in parts.items():
        if chosen.ours and name.startswith("botorch"):
            continue
        try:
            result[name] = part()
        except Exception as error:  # a peer that is missing or out of memory is a result, too
            result[name] = {"failed": f"{type(error).__name__}: {str(error)[:300]}"}
        print(name, result[name], flush=True)
        chosen.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
