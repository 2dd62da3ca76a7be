"""Equal runtime: how many evaluations each optimizer gets for the seconds that random search takes.

Seconds are measured once, on all processes at work as in the run itself, and turned into evaluations; runs then count
evaluations alone, so that the same seed and calibration give the same results on any clock. The seconds are those of
the processor, which one thread has to itself: on a machine that does nothing else they are those of the clock.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from poolwise.belief.padding import bucket
from poolwise.paper import choosing, tables, tasks
from poolwise.paper.playing import Budgets, leave_if_orphaned
from poolwise.paper.processes import Job
from poolwise.paper.settings import Setup

REPEATS = 7
NEAR = 1.5  # factor by which the second timing may change the first's count: with few steps a slope is mostly noise
MATCHED = ("direct", "gradient", "stochastic")

Timed = Callable[[str, int, int], tuple[float, int]]  # optimizer, evaluations, seed -> seconds, evaluations made


@runtime_checkable
class Crew(Protocol):
    """Whoever does jobs."""

    def run(self, jobs: Sequence[Job], title: str) -> list[Any]:
        """The results of jobs, in their order."""


def buckets(setup: Setup) -> list[int]:
    """The padded sizes that a run meets."""
    return sorted({bucket(setup.q * (round + 1)) for round in range(setup.rounds)})


def calibrate(  # noqa: PLR0913
    setup: Setup,
    acquisitions: tuple[str, ...],
    out: Path,
    crew: Crew,
    *,
    optimizers: tuple[str, ...] = MATCHED,
    sizes: Sequence[int] = (),
    by: Callable[..., None] | None = None,
) -> Budgets:
    """Evaluations for each optimizer, acquisition and bucket; measured where calibration.csv does not have them yet.

    `by` is what measures, and `sizes` are the buckets, where they are not those of single runs.
    """
    rows: list[dict[str, Any]] = list(tables.read(out / "calibration.csv"))
    known = {(row["acquisition"], int(row["bucket"]), row["optimizer"]) for row in rows}
    jobs = []
    for size in sizes or buckets(setup):
        for acquisition in acquisitions:
            path = out / "calibration" / f"{acquisition}-{size}-{optimizers[0]}.csv"
            if {(acquisition, size, name) for name in optimizers} - known and not path.exists():
                jobs.append((by or measure, (setup, acquisition, size, optimizers, path)))
    crew.run(jobs, "calibration")
    for path in sorted((out / "calibration").glob("*.csv")):
        fresh = [
            row for row in tables.read(path) if (row["acquisition"], int(row["bucket"]), row["optimizer"]) not in known
        ]
        known |= {(row["acquisition"], int(row["bucket"]), row["optimizer"]) for row in fresh}
        rows += fresh
    rows.sort(key=lambda row: (row["acquisition"], int(row["bucket"]), row["optimizer"]))
    tables.write(out / "calibration.csv", rows)
    return {(row["acquisition"], row["optimizer"], int(row["bucket"])): int(row["evaluations"]) for row in rows}


def fixed(setup: Setup, acquisitions: tuple[str, ...], sizes: Sequence[int] = ()) -> Budgets:
    """Budgets without a clock, for quick runs: as many evaluations as a small search needs."""
    budgets: Budgets = {}
    for acquisition in acquisitions:
        starts = setup.starts_of(acquisition)
        few = {"direct": 128, "gradient": 24 * starts, "stochastic": 48 * starts, "random": setup.pools_of(acquisition)}
        budgets |= {(acquisition, name, size): count for name, count in few.items() for size in sizes or buckets(setup)}
    return budgets


def measure(setup: Setup, acquisition: str, size: int, optimizers: tuple[str, ...], path: Path) -> None:
    """Random search's seconds, and the evaluations that the others make in them, written to a file."""
    X = np.random.default_rng(setup.seed).random((size, setup.d))
    posterior = tasks.prior(setup).condition(X, tasks.task(setup, 0)(X))
    worth = choosing.integrand(acquisition, posterior, setup, 0)

    def timed(name: str, count: int, seed: int) -> tuple[float, int]:
        leave_if_orphaned()
        choice = choosing.choose(name, posterior, worth, setup, evaluations=count, seed=seed)
        return choice.cpu_seconds, choice.evaluations

    rows = matched(setup, acquisition, optimizers, timed)
    tables.write(path, [row | {"bucket": size} for row in rows])


def matched(  # noqa: PLR0913
    setup: Setup,
    acquisition: str,
    optimizers: tuple[str, ...],
    timed: Timed,
    *,
    repeats: int = REPEATS,
    longest: int = 1024,
) -> list[dict[str, Any]]:
    """Evaluations that take as long as random search, from timed searches; DIRECT's are at most `longest` at first.

    Each search is timed with few and with more evaluations, then with as many, and half as many, as should take
    random search's time, for costs do not grow in proportion.
    """
    pools = setup.pools_of(acquisition)
    steps = {name: 1 if name == "direct" else setup.starts_of(acquisition) for name in optimizers}
    counts = {name: (4 * step, longest if step == 1 else 48 * step) for name, step in steps.items()}
    each: dict[str, float] = {}
    for again in (False, True):
        plan = [("random", pools)] + [(name, count) for name, pair in counts.items() for count in dict.fromkeys(pair)]
        median = _medians(plan, timed, repeats)
        target = median["random", pools][0]
        for name, step in steps.items():
            (early, few), (late, many) = (median[name, count] for count in counts[name])
            each[name] = max(late - early, 1e-3 * late) / max(many - few, 1)
            wanted = few + (target - early) / each[name]
            if again:
                wanted = float(np.clip(wanted, counts[name][1] / NEAR, counts[name][1] * NEAR))
            evaluations = max(2, round(wanted / step)) * step
            counts[name] = (evaluations // step // 2 * step, evaluations)
    row = {"acquisition": acquisition, "bucket": 0, "optimizer": "random", "evaluations": pools}
    rows = [row | {"seconds_each": target / pools, "target": target}]
    for name, (_, evaluations) in counts.items():
        rows.append(row | {"optimizer": name, "evaluations": evaluations, "seconds_each": each[name], "target": target})
    return rows


def _medians(plan: Sequence[tuple[str, int]], timed: Timed, repeats: int) -> dict[tuple[str, int], tuple[float, int]]:
    """The median of each search's times; searches take turns, so that what else the machine does slows all alike."""
    turns = [[timed(name, count, repeat) for name, count in plan] for repeat in range(repeats + 1)]
    return {key: sorted(times)[repeats // 2] for key, times in zip(plan, zip(*turns[1:], strict=True), strict=True)}
