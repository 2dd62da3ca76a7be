"""The first five minutes: three observations of a function on a line, and the two points to try next."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

import poolwise as pw
from poolwise.plot.canvas import check_drawing
from poolwise.plot.surfaces import surface
from poolwise.programs import keep_if_possible


def run(out: Path, seed: int) -> None:
    """Condition, propose, print a table on standard output, and draw."""
    notes = Console(stderr=True)
    check_drawing()
    out.mkdir(parents=True, exist_ok=True)
    keep_if_possible()
    x = np.array([0.1, 0.5, 0.85])
    y = -(3.6 * x - 1.4) * np.sin(21.6 * x)
    posterior = pw.GaussianProcess(pw.Matern52(lengthscale=0.25), noise=1e-3).condition(x[:, None], y)
    goal = pw.ExpectedImprovement(threshold=y.max())
    with notes.status("choosing a pool of two (the first time, programs are compiled)"):
        proposal = pw.propose(posterior, goal, q=2, seed=seed)
    with notes.status("drawing the surface of every pair"):
        figure = surface(posterior, goal, name="Expected improvement of every pair", pool=proposal.pool)
        figure.savefig(out / "first_pool.png", dpi=150)
    table = Table(title="The next two experiments")
    for heading in ("point", "x", "contribution"):
        table.add_column(heading, justify="right")
    for i, (point, share) in enumerate(zip(proposal.pool[:, 0], proposal.contributions, strict=True)):
        table.add_row(str(i + 1), f"{point:.4f}", f"{share:.4f}")
    Console().print(table)
    Console().print(f"expected improvement {proposal.value:.4f} +- {proposal.error:.4f}")
    Console().print(f"best of 256 random pools {proposal.random_value:.4f}")
    notes.print(f"picture: {out / 'first_pool.png'}")
