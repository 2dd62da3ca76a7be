"""`PoolSearchCV` at half the evaluations against `RandomizedSearchCV`, on data sets that ship with scikit-learn.

Both search the same ranges on the same five folds; a seed moves the searches only. The score is the best mean over the
folds, accuracy for the classifier and R² for the regressor. Needs the `sklearn` extra.

    python bench/sklearn_search.py [number of seeds]
"""

import csv
import statistics
import sys
import time
from pathlib import Path

from scipy.stats import loguniform
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from sklearn.model_selection import KFold, RandomizedSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR

from poolwise.adapters.sklearn import PoolSearchCV

RESULTS = Path(__file__).resolve().parent / "results"
SEEDS, EVALUATIONS, Q = 9, 60, 4
FIELDS = ("data", "search", "seed", "evaluations", "score", "seconds")
HEADS = ("data set", "model", f"random, {EVALUATIONS}", f"pools, {EVALUATIONS // 2}", "better", "equal", "worse")

PROBLEMS = {
    "breast_cancer": (
        load_breast_cancer,
        make_pipeline(StandardScaler(), SVC()),
        {"svc__C": loguniform(1e-3, 1e4), "svc__gamma": loguniform(1e-6, 1e1)},
        StratifiedKFold(5, shuffle=True, random_state=0),
    ),
    "wine": (
        load_wine,
        make_pipeline(StandardScaler(), SVC()),
        {"svc__C": loguniform(1e-3, 1e4), "svc__gamma": loguniform(1e-6, 1e1)},
        StratifiedKFold(5, shuffle=True, random_state=0),
    ),
    "diabetes": (
        load_diabetes,
        make_pipeline(StandardScaler(), SVR()),
        {
            "svr__C": loguniform(1e-1, 1e3),
            "svr__gamma": loguniform(1e-6, 1e1),
            "svr__epsilon": loguniform(1e-1, 1e2),
        },
        KFold(5, shuffle=True, random_state=0),
    ),
}


def searches(model, ranges, options):
    """Each search, and how many candidates it may evaluate."""
    half = EVALUATIONS // 2
    yield "random", EVALUATIONS, RandomizedSearchCV(model, ranges, n_iter=EVALUATIONS, **options)
    yield "pools", half, PoolSearchCV(model, ranges, n_iter=half, n_points=Q, **options)


def measure(name: str, seed: int):
    load, model, ranges, folds = PROBLEMS[name]
    options = {"cv": folds, "random_state": seed, "refit": False}
    for kind, evaluations, search in searches(model, ranges, options):
        began = time.perf_counter()
        search.fit(*load(return_X_y=True))
        yield dict(
            zip(FIELDS, (name, kind, seed, evaluations, search.best_score_, time.perf_counter() - began), strict=True)
        )


def line(name: str, rows: list[dict]) -> list[str]:
    """The medians of a data set, and in how many seeds the pools were better, equal or worse."""
    random, pools = ([r["score"] for r in rows if (r["data"], r["search"]) == (name, s)] for s in ("random", "pools"))
    better = sum(p > r for p, r in zip(pools, random, strict=True))
    equal = sum(p == r for p, r in zip(pools, random, strict=True))
    counts = [better, equal, len(pools) - better - equal]
    model = type(PROBLEMS[name][1][-1]).__name__
    return [name, model, f"{statistics.median(random):.4f}", f"{statistics.median(pools):.4f}", *map(str, counts)]


def table(rows: list[dict]) -> str:
    """What has been measured so far, in words and numbers."""
    lines = [list(HEADS), ["---"] * len(HEADS), *[line(name, rows) for name in PROBLEMS]]
    seeds = len({row["seed"] for row in rows})
    text = "".join(f"| {' | '.join(cells)} |\n" for cells in lines)
    return (
        f"{text}\nMedian best score over {seeds} seeds; then in how many of them the pools were better, equal, worse.\n"
    )


def main(seeds: int) -> None:
    rows = []
    for seed in range(seeds):
        for name in PROBLEMS:
            rows += measure(name, seed)
        with (RESULTS / "sklearn_search.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, FIELDS)
            writer.writeheader()
            writer.writerows(rows)
        (RESULTS / "sklearn_search.md").write_text(table(rows))
        print(table(rows), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else SEEDS)
