"""Every maximizer on the reference problem at equal seconds: a table and a picture for docs/how-to-choose.md.

Expected improvement of a pool of 8, n = 248; each maximizer is compiled first, then given the same seconds, with three
seeds; the common judge values the pools. The default `Ascent` ends by itself, so it is one point.
"""

import csv
from pathlib import Path

import numpy as np
import ours
from problem import judge, reference
from rich.console import Console
from rich.progress import track

import poolwise as pw
from poolwise.plot.canvas import new_figure

HERE = Path(__file__).resolve().parent
SECONDS, SEEDS = (0.1, 0.3, 1.0, 3.0), (1, 2, 3)
MAXIMIZERS = {
    "random search": pw.RandomSearch(),
    "DIRECT": pw.Direct(),
    "DIRECT, locally biased": pw.Direct(locally_biased=True),
    "L-BFGS-B, 32 starts": pw.Lbfgsb(),
    "Adam": pw.Stochastic("adam"),
    "RMSProp": pw.Stochastic("rmsprop"),
    "momentum": pw.Stochastic("momentum"),
}


def measure() -> list[dict]:
    """One row for each maximizer, budget and seed."""
    problem = reference(248)
    posterior, goal = ours.posterior(problem), ours.integrand("ei", problem.threshold)
    rows = []
    for name, maximizer in track(MAXIMIZERS.items(), "maximizers", console=Console(stderr=True)):
        pw.propose(posterior, goal, 8, maximizer=maximizer, deadline=1.0)
        for seconds in SECONDS:
            for seed in SEEDS:
                found = pw.propose(posterior, goal, 8, maximizer=maximizer, deadline=seconds, seed=seed)
                row = {"maximizer": name, "budget": seconds, "seed": seed, "seconds": round(found.seconds, 4)}
                rows.append(row | {"evaluations": found.evaluations, "value": judge(problem, found.pool, "ei")})
    pw.propose(posterior, goal, 8)
    for seed in SEEDS:
        found = pw.propose(posterior, goal, 8, seed=seed)
        row = {"maximizer": "Ascent (default)", "budget": "", "seed": seed, "seconds": round(found.seconds, 4)}
        rows.append(row | {"evaluations": found.evaluations, "value": judge(problem, found.pool, "ei")})
    return rows


def table(rows: list[dict]) -> str:
    """Mean value at each budget, in Markdown."""
    lines = ["| maximizer | " + " | ".join(f"{s:g} s" for s in SECONDS) + " |", "|" + " --- |" * (1 + len(SECONDS))]
    for name in MAXIMIZERS:
        cells = [
            np.mean([r["value"] for r in rows if r["maximizer"] == name and r["budget"] == seconds])
            for seconds in SECONDS
        ]
        lines.append(f"| {name} | " + " | ".join(f"{cell:.4f}" for cell in cells) + " |")
    ours_ = [row for row in rows if row["budget"] == ""]
    mean, each = np.mean([r["value"] for r in ours_]), min(r["seconds"] for r in ours_)
    return "\n".join([*lines, f"| Ascent (default), {each:.3f} s | {mean:.4f} |" + " |" * (len(SECONDS) - 1)]) + "\n"


def picture(rows: list[dict]) -> object:
    figure, axes = new_figure(size=(7.2, 4.4))
    for name, marker in zip(MAXIMIZERS, "os^DvP*", strict=True):
        mine = [row for row in rows if row["maximizer"] == name]
        at = [np.median([row["seconds"] for row in mine if row["budget"] == s]) for s in SECONDS]
        values = [np.mean([row["value"] for row in mine if row["budget"] == s]) for s in SECONDS]
        axes.plot(at, values, marker=marker, lw=1.4, label=name)
    mine = [row for row in rows if row["budget"] == ""]
    axes.plot(
        min(row["seconds"] for row in mine),
        np.mean([row["value"] for row in mine]),
        "*",
        ms=18,
        color="#f2c200",
        mec="black",
        label="Ascent (default)",
        ls="",
    )
    axes.set(xscale="log", xlabel="seconds", ylabel="expected improvement, fresh samples", title="A pool of 8, n = 248")
    axes.legend(frameon=False, fontsize=8)
    axes.grid(alpha=0.25)
    return figure


def main() -> None:
    rows = measure()
    (HERE / "results").mkdir(exist_ok=True)
    with (HERE / "results" / "maximizers.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    (HERE / "results" / "maximizers.md").write_text(table(rows))
    picture(rows).savefig(HERE.parent / "docs" / "maximizers.png", dpi=130)
    print(table(rows))


if __name__ == "__main__":
    main()
