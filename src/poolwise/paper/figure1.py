"""Figure 1: a belief on a line, the surfaces of five acquisition functions for pools of two, and ascents on each."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

import poolwise as pw
from poolwise.paper import tables
from poolwise.paper.settings import ACQUISITIONS, NAMES
from poolwise.plot.paper import save
from poolwise.plot.paper_figure1 import Panel, draw
from poolwise.pool.ascent import general_objective, max_objective

DATA = np.array([0.1, 0.5, 0.85])
START = np.array([0.42, 0.66])
TEMPERATURE = 0.01
CHUNK = 64  # pairs that are valued at a time


@dataclass(frozen=True)
class Fineness:
    """How much work the picture is."""

    grid: int = 129
    samples: int = 1024
    representers: int = 32
    steps: int = 160
    judges: int = 4096  # samples that the maximum is polished on


QUICK = Fineness(grid=17, samples=64, representers=8, steps=24, judges=64)


def truth(x: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """The function of the authors' one-dimensional example, to be maximised."""
    return -(3.6 * x - 1.4) * np.sin(21.6 * x)


def belief() -> pw.Posterior:
    """What is known after three observations."""
    process = pw.GaussianProcess(pw.Matern52(lengthscale=0.25), noise=1e-3)
    return process.condition(DATA[:, None], truth(DATA))


def figure1(out: Path, fineness: Fineness = Fineness(), *, only: tuple[str, ...] = ()) -> Path:  # noqa: B008
    """Draw it, and write the ends of all ascents beside it."""
    posterior = belief()
    names = [name for name in ACQUISITIONS if not only or name in only]
    panels = {name: panel(posterior, name, fineness) for name in names}
    save(draw(posterior, truth, {NAMES[name]: each for name, each in panels.items()}), out / "figure1")
    rows = [
        {"acquisition": name, "way": way, "x1": point[0], "x2": point[1], "value": value}
        for name, each in panels.items()
        for way, point, value in ends(posterior, name, each, fineness)
    ]
    tables.write(out / "figure1.csv", rows)
    return out / "figure1.png"


def panel(posterior: pw.Posterior, name: str, fineness: Fineness) -> Panel:
    """The surface of one acquisition function with its ascents and its maximum."""
    worth = integrand(posterior, name, fineness)
    grid = np.linspace(0, 1, fineness.grid)
    surface = symmetric(posterior, name, worth, grid)
    objective = _objective(posterior, worth, fineness.samples, seed=0)
    top = np.unravel_index(int(np.argmax(surface)), surface.shape)
    high = pw.Lbfgsb(rounds=50)(_objective(posterior, worth, fineness.judges, seed=1), grid[list(top)][None]).best
    return Panel(surface, gradient_path(objective), stochastic_path(objective, fineness.steps), np.sort(high))


def integrand(posterior: pw.Posterior, name: str, fineness: Fineness) -> Any:
    """The acquisition function, with the paper's parameters."""
    best = float(posterior.y.max())
    if name == "es":
        places = ((np.arange(fineness.representers) + 0.5) / fineness.representers)[:, None]
        return pw.EntropySearch(places, noise=1e-3, temperature=TEMPERATURE, samples=fineness.samples // 4)
    return {
        "ei": pw.ExpectedImprovement(best),
        "pi": pw.ProbabilityOfImprovement(best, temperature=TEMPERATURE),
        "ucb": pw.UpperConfidenceBound(),
        "sr": pw.SimpleRegret(),
    }[name]


def _objective(posterior: pw.Posterior, worth: Any, samples: int, *, seed: int) -> Any:
    nobody = np.zeros((0, 1))
    with jax.enable_x64(True):
        if isinstance(worth, pw.EntropySearch):
            return general_objective(posterior, worth, 2, nobody, samples=max(samples // 8, 16), seed=seed)
        return max_objective(posterior, worth, 2, nobody, samples=samples, seed=seed)[0]


def symmetric(
    posterior: pw.Posterior, name: str, worth: Any, grid: Float[np.ndarray, " g"]
) -> Float[np.ndarray, "g g"]:
    """Values of all pairs on a grid, exact but for entropy search; the order of a pair's points makes no difference."""
    low, high = np.triu_indices(len(grid))
    pairs = np.stack([grid[low], grid[high]], axis=1)
    with jax.enable_x64(True):
        values = _all_values(name, posterior, worth, pairs)
        if name == "es":
            values = (values + _all_values(name, posterior, worth, pairs[:, ::-1])) / 2
    surface = np.zeros((len(grid), len(grid)))
    surface[low, high] = surface[high, low] = values
    return surface


def _all_values(
    name: str, posterior: pw.Posterior, worth: Any, pairs: Float[np.ndarray, "n 2"]
) -> Float[np.ndarray, " n"]:
    """Values of many pairs, by one program for so many at a time."""
    padded = np.concatenate([pairs, np.repeat(pairs[-1:], -len(pairs) % CHUNK, axis=0)])
    parts = padded.reshape(-1, CHUNK, 2)
    return np.concatenate([np.asarray(_values(name, posterior, worth, jnp.asarray(part))) for part in parts])[
        : len(pairs)
    ]


@functools.partial(jax.jit, static_argnames=("name",))
def _values(name: str, posterior: pw.Posterior, worth: Any, pairs: Float[Array, "n 2"]) -> Float[Array, " n"]:
    exact = {
        "ei": lambda normal: pw.exact.expected_improvement(normal, worth.threshold),
        "pi": lambda normal: pw.exact.probability_of_improvement(normal, worth.threshold, temperature=TEMPERATURE),
        "ucb": lambda normal: pw.exact.upper_confidence_bound(normal, worth.beta),
        "sr": pw.exact.simple_regret,
    }

    def one(pair: Float[Array, " 2"]) -> Any:
        if name == "es":
            return pw.expectation(worth, posterior, pair[:, None], samples=64).value
        return exact[name](posterior(pair[:, None]))

    return jax.vmap(one)(pairs)


def gradient_path(objective: Any) -> Float[np.ndarray, "s 2"]:
    """Where L-BFGS-B on fixed samples goes: the same climb with one round more each time."""
    lbfgsb, path = pw.Lbfgsb(), [START]
    for rounds in range(1, 41):
        climb = lbfgsb(objective, START[None], pw.Budget(evaluations=rounds))
        path.append(climb.best)
        if climb.evaluations < rounds:
            break
    return np.stack(path)


def stochastic_path(objective: Any, steps: int) -> Float[np.ndarray, "s 2"]:
    """Where Adam on fresh samples goes, every few steps."""
    adam, path = pw.Stochastic("adam", batch_size=64), [START]
    for count in range(4, steps + 1, 4):
        budget = pw.Budget(evaluations=1 + count + -(-count // 64))
        path.append(adam(objective, START[None], budget).points[0])
    return np.stack(path)


def ends(posterior: pw.Posterior, name: str, found: Panel, fineness: Fineness) -> list[tuple[str, Any, float]]:
    """Where each ascent ended and the value there, beside the maximum's."""
    worth = integrand(posterior, name, fineness)
    places = {"start": START, "gradient": found.gradient[-1], "stochastic": found.stochastic[-1], "maximum": found.top}
    pairs = np.stack([np.sort(place) for place in places.values()])
    with jax.enable_x64(True):
        values = _all_values(name, posterior, worth, pairs)
    return [(way, pair, float(value)) for way, pair, value in zip(places, pairs, values, strict=True)]
