"""How low regret on the prior can get: a player that is told where the highest top is, and has only to learn it.

Up to `--observed` points it plays as the default does. Then it is told the place of the highest top and the curvature
there, and puts all further points where they tell most about the top. To second order the regret of what one recommends
near a top with Hessian H is g' W g / 2, where W = (-H)^-1 over the axes that are not at an edge and g is the gradient
at the top; so pools maximise by how much they will lower its expectation tr(W V) / 2, V the covariance of g. It is a
yardstick: a player that has to find the hill can hardly do better.

    python bench/regret_told.py [--observed 8 160] [--tasks 16]
"""

import argparse
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import regret_prior
from regret_tasks import POOL, ROUNDS, seed_of
from rich.progress import track
from scipy.optimize import minimize

import poolwise as pw
from poolwise.belief.gaussian_process import cross_covariance
from poolwise.belief.kernel import covariances
from poolwise.paper import tasks

SETUP = regret_prior.SETUP
TRIES, AROUND = 3, 0.3  # designs that are climbed, and how far from the top their points start
AGAIN = 2  # points count as if each were observed so often, for other pools follow


def told(index: int, observed: int) -> float:
    """Log10 regret in the end of the player that is told the top after so many observations."""
    function, X = tasks.task(SETUP, index), tasks.first_points(SETUP, index)
    top, highest = tasks.optimum(SETUP, index, X)
    y, process = function(X) + tasks.noises(SETUP, index, 0), tasks.prior(SETUP)
    weight, rng = _inverse_curvature(function, top), np.random.default_rng(seed_of(index))
    for round in range(1, ROUNDS["prior"] + 1):
        posterior = process.condition(X, y)
        if len(X) < observed:
            pool = pw.balanced(posterior, POOL, seed=seed_of(0, len(X)), known=True).pool
        else:
            pool = _telling(posterior, top, weight, rng)
        X, y = np.concatenate([X, pool]), np.concatenate([y, function(pool) + tasks.noises(SETUP, index, round)])
    posterior = process.condition(X, y)
    end = _climbed(lambda x: [-np.asarray(part) for part in _mean(x, posterior)], top)
    return float(np.log10(max(highest - function(end[None])[0], 1e-6)))


def _inverse_curvature(function: tasks.Task, top: np.ndarray) -> np.ndarray:
    """(-H)^-1 over the axes on which the top is not at an edge, zero for the others."""
    angles = function.frequencies @ top
    waves = np.cos(angles) * function.weights[0] + np.sin(angles) * function.weights[1]
    curvature = (function.frequencies.T * waves) @ function.frequencies
    inside = np.flatnonzero((top > 1e-6) & (top < 1 - 1e-6))
    inverse = np.zeros_like(curvature)
    inverse[np.ix_(inside, inside)] = np.linalg.inv(curvature[np.ix_(inside, inside)])
    return inverse


def _telling(posterior: pw.Posterior, top: np.ndarray, weight: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The pool that tells most about the gradient at the top."""
    ends = []
    for _ in range(TRIES):
        ways = rng.standard_normal((POOL, len(top))) * (np.diagonal(weight) > 0)
        start = np.clip(top + AROUND * ways / np.linalg.norm(ways, axis=1, keepdims=True), 0.0, 1.0).ravel()
        ends.append(_climbed(lambda x: [-np.asarray(part) for part in _told(x, posterior, top, weight)], start))
    with jax.enable_x64(True):
        values = [float(_told(end, posterior, top, weight)[0]) for end in ends]
    return ends[int(np.argmax(values))].reshape(POOL, -1)


def _climbed(loss_and_gradient, start: np.ndarray) -> np.ndarray:
    with jax.enable_x64(True):
        options = {"maxiter": 100, "ftol": 1e-12, "gtol": 1e-8}
        bounds = [(0.0, 1.0)] * len(start)
        return minimize(loss_and_gradient, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options).x


@jax.jit
@jax.value_and_grad
def _mean(x, posterior):
    return (posterior.process.mean + cross_covariance(posterior, x[None]) @ posterior.weights)[0]


@jax.jit
@jax.value_and_grad
def _told(flat, posterior, top, weight):
    """tr(W C S^-1 C'), C the covariance of the gradient at the top with the pool's observations, S that of these."""
    pool, kernel = flat.reshape(-1, top.shape[0]), posterior.process.kernel

    def before(x):
        return covariances(kernel, x[None], pool)[0], cross_covariance(posterior, x[None])[0]

    toward_pool, toward_data = jax.jacfwd(before)(top)
    known = cross_covariance(posterior, pool) @ posterior.root.T
    C = toward_pool.T - (toward_data.T @ posterior.root.T) @ known.T
    S = covariances(kernel, pool, pool) - known @ known.T + posterior.process.noise / AGAIN * jnp.eye(pool.shape[0])
    half = jax.scipy.linalg.solve_triangular(jnp.linalg.cholesky(S), C.T, lower=True)
    return jnp.sum((half @ weight) * half)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--observed", type=int, nargs="+", default=[POOL, 160], help="observations before it is told")
    parser.add_argument("--tasks", type=int, default=SETUP.tasks)
    parser.add_argument("--results", type=Path, default=Path(__file__).resolve().parent / "results")
    given = parser.parse_args()
    lines = ["| told after | tasks | log10 regret, recommended |", "| --- | --- | --- |"]
    for observed in given.observed:
        ends = [told(k, observed) for k in track(range(given.tasks), f"told after {observed}")]
        error = np.std(ends, ddof=1) / np.sqrt(len(ends))
        lines.append(f"| {observed} | {len(ends)} | {np.mean(ends):.2f} ± {error:.2f} |")
    (given.results / "regret_told.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
