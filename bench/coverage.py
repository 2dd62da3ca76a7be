"""How sure `fit` is of itself: which share of outcomes at new points lies within two deviations of what it expects.

All 24 BBOB functions in 5 and 10 dimensions, 8 to 64 random observations, 200 new points; outcomes on a study's scale,
neither warped. An honest Gaussian belief holds 95 percent.

    python bench/coverage.py
"""

from pathlib import Path

import numpy as np
from regret_tasks import bbob_name, bbob_task
from rich.progress import track

import poolwise as pw
from poolwise.study.scaling import scale_of

DIMENSIONS, COUNTS, INSTANCE, NEW = (5, 10), (8, 16, 32, 64), 401, 200


def main() -> None:
    rng, found = np.random.default_rng(5), {}
    for d in DIMENSIONS:
        for function in track(range(1, 25), f"{d} dimensions"):
            task = bbob_task(bbob_name(function, d, INSTANCE))
            new = rng.random((NEW, d))
            for count in COUNTS:
                X = rng.random((count, d))
                y = task.function(X)
                scale = scale_of(y, maximize=True)
                belief, truth = pw.fit(X, scale.outcomes(y)), scale.outcomes(task.function(new))
                normal = belief(new)
                deviations = np.sqrt(np.diagonal(normal.covariance) + belief.noise)
                miss = np.asarray(normal.mean) - truth
                share, error = np.mean(np.abs(miss) < 2 * deviations), np.sqrt(np.mean(miss**2)) / truth.std()
                found.setdefault((d, count), []).append((share, error))
    lines = ["| dimensions | observations | within two deviations | median error, in deviations of the outcomes |"]
    lines.append("|" + " --- |" * 4)
    for (d, count), rows in found.items():
        shares, errors = np.array(rows).T
        lines.append(f"| {d} | {count} | {100 * shares.mean():.0f} % | {np.median(errors):.2f} |")
    (Path(__file__).resolve().parent / "results" / "coverage.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
