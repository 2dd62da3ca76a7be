"""Table 2: seconds that each optimizer takes for a pool, beside the paper's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from poolwise.paper import tables
from poolwise.paper.settings import ACQUISITIONS, NAMES, OPTIMIZERS
from poolwise.paper.summary import stored

PAPER = {
    "random": {"ei": (23.9, 2.3), "ucb": (17.8, 1.6), "pi": (20.1, 1.9), "sr": (20.4, 1.9)},
    "direct": {"ei": (19.8, 1.5), "ucb": (21.5, 1.9), "pi": (21.0, 1.7), "sr": (20.2, 1.5)},
    "gradient": {"ei": (19.9, 9.0), "ucb": (18.2, 1.4), "pi": (17.6, 7.8), "sr": (13.7, 1.2)},
    "stochastic": {"ei": (17.6, 9.2), "ucb": (13.6, 5.8), "pi": (15.6, 6.0), "sr": (15.4, 5.9)},
}


def table2(out: Path) -> list[dict[str, Any]]:
    """Mean and deviation of seconds for each optimizer and acquisition function, from the runs of figure 2."""
    rows = summarise(stored(out, "timing.csv", "figure2"))
    tables.write(out / "table2.csv", rows)
    (out / "table2.md").write_text(markdown(rows), encoding="utf-8")
    return rows


def summarise(timing: list[dict[str, str]]) -> list[dict[str, Any]]:
    """One row for each optimizer and acquisition function; a first call's seconds beyond the mean are compilation."""
    rows = []
    for optimizer in OPTIMIZERS:
        for acquisition in ACQUISITIONS:
            mine = [r for r in timing if (r["optimizer"], r["acquisition"]) == (optimizer, acquisition)]
            if not mine:
                continue
            seconds = np.array([float(r["seconds"]) for r in mine])
            first = [float(r["first_call"]) for r in mine if float(r["first_call"]) > 0]
            theirs = PAPER.get(optimizer, {}).get(acquisition, ("", ""))
            row = {"optimizer": optimizer, "acquisition": acquisition, "pools": len(mine)}
            row |= {"mean": float(seconds.mean()), "deviation": float(seconds.std(ddof=min(1, len(seconds) - 1)))}
            row |= {"cpu_mean": float(np.mean([float(r["cpu_seconds"]) for r in mine]))}
            row |= {"first_call_mean": float(np.mean(first)) if first else "", "first_calls": len(first)}
            rows.append(row | {"paper_mean": theirs[0], "paper_deviation": theirs[1]})
    return rows


def markdown(rows: list[dict[str, Any]]) -> str:
    """The table as in the paper, ours over theirs."""
    names = [name for name in ACQUISITIONS if any(row["acquisition"] == name for row in rows)]
    lines = ["| optimizer | | " + " | ".join(NAMES[name] for name in names) + " |", "|" + " --- |" * (2 + len(names))]
    for optimizer in OPTIMIZERS:
        mine = {row["acquisition"]: row for row in rows if row["optimizer"] == optimizer}
        if not mine:
            continue
        ours = [f"{mine[n]['mean']:.3f} ± {mine[n]['deviation']:.3f}" if n in mine else "" for n in names]
        lines.append(f"| {NAMES[optimizer]} | ours | " + " | ".join(ours) + " |")
        cpu = [f"{mine[n]['cpu_mean']:.3f}" if n in mine else "" for n in names]
        lines.append("| | processor | " + " | ".join(cpu) + " |")
        if optimizer in PAPER:
            theirs = [
                f"{PAPER[optimizer][n][0]} ± {PAPER[optimizer][n][1]}" if n in PAPER[optimizer] else "" for n in names
            ]
            lines.append("| | paper | " + " | ".join(theirs) + " |")
        first = [f"{mine[n]['first_call_mean']:.1f}" if n in mine and mine[n]["first_call_mean"] else "" for n in names]
        lines.append("| | first call | " + " | ".join(first) + " |")
    return "\n".join(lines) + "\n"
