"""What the paper tried and did not show: update rules and samples a step, temperatures, kinds of base samples.

Every search starts from the same beliefs, those that the default's runs on expected improvement went through, and every
pool is judged on the same many samples.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import poolwise as pw
from poolwise.acquisition.base_samples import normals
from poolwise.belief.padding import bucket
from poolwise.paper import choosing, tables, tasks
from poolwise.paper.calibration import calibrate, fixed
from poolwise.paper.figure2 import play_missing
from poolwise.paper.playing import Budgets, leave_if_orphaned, observed
from poolwise.paper.processes import workers
from poolwise.paper.provenance import check_folder
from poolwise.paper.settings import PAPER_ACQUISITIONS, Setup, Unit
from poolwise.pool.ascent import max_objective

RULES = ("adam", "rmsprop", "momentum")
SIZES = (32, 64, 128, 256)
RATES = {"adam": (1e-3, 25e-3), "rmsprop": (1e-3, 25e-3), "momentum": (25e-3, 0.25)}
TEMPERATURES = (1.0, 0.1, 0.01, 0.001)
BASES = (("iid", 64), ("sobol", 64), ("iid", 256), ("sobol", 256), ("iid", 1024), ("sobol", 1024))
TASKS = 8  # the first of them serve
JUDGES = 2**14

Rows = list[dict[str, Any]]


def ablation(setup: Setup, out: Path, *, only: tuple[str, ...] = (), count: int = 2) -> Path:
    """Run what is missing, and write ablation.csv."""
    check_folder(out, setup)
    acquisitions = tuple(name for name in PAPER_ACQUISITIONS if not only or name in only)
    indices = range(min(setup.tasks, TASKS))
    names = [(kind, a, i) for i in indices for kind in ("rules", "bases") for a in acquisitions]
    names += [("temperature", "pi", i) for i in indices if "pi" in acquisitions]
    with workers(count) as crew:
        budgets = fixed(setup, acquisitions) if setup.quick else calibrate(setup, acquisitions, out, crew)
        budgets |= _by_size(setup, budgets, acquisitions, out, crew)
        play_missing(setup, [Unit(index, "ei", "default") for index in indices], budgets, out, crew)
        missing = [name for name in names if not _file(out, *name).exists()]
        crew.run([(_part, (setup, budgets, *name, out)) for name in missing], "ablation")
    tables.write(out / "ablation.csv", [row for name in names for row in tables.read(_file(out, *name))])
    return out / "ablation.csv"


def sizes(setup: Setup) -> tuple[int, ...]:
    """Samples a step."""
    return (setup.batch_size,) if setup.quick else SIZES


def bases(setup: Setup) -> tuple[tuple[str, int], ...]:
    """Kinds and numbers of fixed base samples."""
    return (("iid", setup.samples), ("sobol", setup.samples)) if setup.quick else BASES


def _by_size(setup: Setup, budgets: Budgets, acquisitions: tuple[str, ...], out: Path, crew: Any) -> Budgets:
    """Equal runtime for each number of samples a step; rules and rates cost the same."""
    if setup.quick:
        return {(a, f"adam-{s}", b): n for (a, o, b), n in budgets.items() if o == "stochastic" for s in sizes(setup)}
    return calibrate(setup, acquisitions, out, crew, optimizers=tuple(f"adam-{size}" for size in SIZES))


def _file(out: Path, kind: str, acquisition: str, index: int) -> Path:
    return out / "ablation" / f"{kind}-{acquisition}-{index:02d}.csv"


def _part(setup: Setup, budgets: Budgets, kind: str, acquisition: str, index: int, out: Path) -> None:  # noqa: PLR0913
    """One part of the ablation on one task."""
    rows: Rows = []
    run = tables.read(out / "units" / f"{Unit(index, 'ei', 'default').name}.csv")
    for round in sorted({max(1, setup.rounds // 4), setup.rounds}):
        leave_if_orphaned()
        X, y = observed(run[:round], setup)
        posterior = tasks.prior(setup).condition(X, y)
        seed = tasks.stream(setup, index, 8, round)
        label = {"part": kind, "task": index, "acquisition": acquisition, "observations": len(y)}
        found = {"rules": _rules, "bases": _bases, "temperature": _temperatures}[kind](
            setup, budgets, acquisition, posterior, seed
        )
        rows += [label | row for row in found]
    tables.write(_file(out, kind, acquisition, index), rows)


def _rules(setup: Setup, budgets: Budgets, acquisition: str, posterior: pw.Posterior, seed: int) -> Rows:
    """Update rules, samples a step and rates, at equal runtime."""
    worth, rows, size = choosing.integrand(acquisition, posterior, setup, seed), [], bucket(len(posterior.y))
    for rule in RULES[:1] if setup.quick else RULES:
        for batch in sizes(setup):
            for rate in RATES[rule]:
                evaluations = budgets[acquisition, f"adam-{batch}", size]
                name = f"{rule}-{batch}-{rate}"
                choice = choosing.choose(name, posterior, worth, setup, evaluations=evaluations, seed=seed)
                rows.append(
                    _row(f"{rule}, rate {rate:g}", batch, choice, choosing.judged(posterior, worth, choice.pool))
                )
    return rows


def _row(setting: str, number: float, choice: choosing.Choice, value: float, **more: float) -> dict[str, Any]:
    cells = {"setting": setting, "number": number, "evaluations": choice.evaluations, "value": value}
    return cells | {"soft": "", "hard": ""} | more


def _bases(setup: Setup, budgets: Budgets, acquisition: str, posterior: pw.Posterior, seed: int) -> Rows:
    """Gradient ascent on fixed independent or Sobol' samples; and on fresh ones at every step, by Adam."""
    worth, rows = choosing.integrand(acquisition, posterior, setup, seed), []
    starts = choosing.starting_pools(posterior, worth, setup, seed)
    size = bucket(len(posterior.y))
    for base, samples in bases(setup):
        with jax.enable_x64(True):
            nobody = np.zeros((0, setup.d))
            objective = max_objective(posterior, worth, setup.q, nobody, samples=samples, seed=seed)[0]
            z = jnp.asarray(normals(samples, setup.q, base=base, seed=seed))
            objective = dataclasses.replace(objective, normals=z)
        climb = pw.Lbfgsb(rounds=1000)(objective, starts, pw.Budget(budgets[acquisition, "gradient", size]))
        choice = choosing.Choice(climb.best.reshape(setup.q, -1), climb.evaluations, climb.seconds, 0.0)
        rows.append(_row(f"fixed, {base}", samples, choice, choosing.judged(posterior, worth, choice.pool)))
    evaluations = budgets[acquisition, "stochastic", size]
    choice = choosing.choose("stochastic", posterior, worth, setup, evaluations=evaluations, seed=seed)
    rows.append(_row("fresh, iid", setup.batch_size, choice, choosing.judged(posterior, worth, choice.pool)))
    return rows


def _temperatures(setup: Setup, budgets: Budgets, _: str, posterior: pw.Posterior, seed: int) -> Rows:
    """The soft probability of improvement is climbed at each temperature, and the hard one judges; likewise entropy."""
    rows, best, size = [], float(posterior.y.max()), bucket(len(posterior.y))
    hard = pw.ProbabilityOfImprovement(best, temperature=None)
    for temperature in TEMPERATURES:
        worth = pw.ProbabilityOfImprovement(best, temperature=temperature)
        evaluations = budgets["pi", "gradient", size]
        choice = choosing.choose("gradient", posterior, worth, setup, evaluations=evaluations, seed=seed)
        both = [_value(goal, posterior, choice.pool, JUDGES) for goal in (worth, hard)]
        rows.append(_row("pi", temperature, choice, both[1], soft=both[0], hard=both[1]))
    if setup.quick:
        return rows
    places = choosing.representers(posterior, best, seed)
    inner = choosing.INNER
    sharp = pw.EntropySearch(places, noise=setup.noise, temperature=None, samples=8 * inner)
    for temperature in TEMPERATURES:
        soft = pw.EntropySearch(places, noise=setup.noise, temperature=temperature, samples=inner)
        count = 24 * setup.entropy_starts
        choice = choosing.choose("gradient", posterior, soft, setup, evaluations=count, seed=seed)
        many = dataclasses.replace(soft, samples=8 * inner)
        both = [_value(goal, posterior, choice.pool, 256) for goal in (many, sharp)]
        rows.append(_row("es", temperature, choice, both[1], soft=both[0], hard=both[1]))
    return rows


def _value(goal: Any, posterior: pw.Posterior, pool: Any, samples: int) -> float:
    return float(pw.expectation(goal, posterior, pool, samples=samples, seed=choosing.JUDGE_SEED).value)
