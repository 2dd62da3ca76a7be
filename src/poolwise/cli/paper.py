"""`poolwise paper`: the figures, tables and claims of Wilson et al. (2017)."""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from poolwise.cli.command import answering

Command = Callable[..., Any]

GATHERED = ("out", "quick", "tasks", "rounds", "seed", "processes", "only")  # options that become a setup


@click.group()
def paper() -> None:
    """Regenerate the figures, tables and claims of arXiv:1712.00424.

    Runs can be stopped at any moment and started again: what is on disk is not computed twice.
    """


def _folder(command: Command) -> Command:
    return click.option(
        "--out",
        type=click.Path(path_type=Path),
        default=Path("out/paper"),
        show_default=True,
        help="Folder of tables and pictures.",
    )(command)


def _running(command: Command) -> Command:
    """The options of every subcommand that runs many jobs, gathered into a setup and what to do with it."""
    options = [
        _folder,
        click.option("--quick", is_flag=True, help="Seconds instead of an hour: small tasks, few samples."),
        click.option("--tasks", type=click.IntRange(min=1), help="How many tasks (16)."),
        click.option("--rounds", type=click.IntRange(min=1), help="How many pools after the first (31)."),
        click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of everything."),
        click.option("--processes", type=click.IntRange(min=1), default=os.cpu_count, help="Workers [all cores]."),
        click.option("--only", multiple=True, help="Run only this; may be given more than once."),
    ]

    @answering()
    @functools.wraps(command)
    def with_setup(**given: Any) -> Any:
        from poolwise.paper.settings import QUICK, Setup
        from poolwise.plot.canvas import check_drawing

        check_drawing()
        chosen = dataclasses.replace(QUICK if given["quick"] else Setup(), seed=given["seed"])
        tasks, rounds = given["tasks"] or chosen.tasks, given["rounds"] or chosen.rounds
        setup = dataclasses.replace(chosen, tasks=tasks, rounds=rounds)
        others = {name: value for name, value in given.items() if name not in GATHERED}
        try:
            return command(setup, given["out"], only=given["only"], count=given["processes"], **others)
        except KeyboardInterrupt:
            click.echo("stopped; the same command goes on from here", err=True)
            raise SystemExit(130) from None

    return functools.reduce(lambda inner, option: option(inner), reversed(options), with_setup)


@paper.command()
@_folder
@click.option("--quick", is_flag=True, help="A coarse picture in seconds.")
@click.option("--only", multiple=True, help="Acquisition function: ei, ucb, pi, sr, es.")
@answering()
def figure1(out: Path, quick: bool, only: tuple[str, ...]) -> None:
    """A belief on a line, and ascents on the surfaces of five acquisition functions."""
    from poolwise.paper.figure1 import QUICK, Fineness
    from poolwise.paper.figure1 import figure1 as make
    from poolwise.plot.canvas import check_drawing
    from poolwise.programs import keep_if_possible

    check_drawing()
    keep_if_possible()
    click.echo(f"picture: {make(out, QUICK if quick else Fineness(), only=only)}")


@paper.command()
@click.option("--together", is_flag=True, help="All tasks in one program on JAX's device, such as a GPU.")
@_running
def figure2(setup: Any, out: Path, *, only: tuple[str, ...], count: int, together: bool) -> None:
    """Log regret of every acquisition function with every optimizer, at equal runtime."""
    from poolwise.paper.figure2 import figure2 as make
    from poolwise.programs import keep_if_possible

    if together:
        keep_if_possible()
        setup = dataclasses.replace(setup, together=True)
    click.echo(f"results: {make(setup, out, only=only, count=count)}")


@paper.command()
@_folder
@answering()
def table2(out: Path) -> None:
    """Seconds that each optimizer takes for a pool, beside the paper's; from the runs of figure2."""
    from poolwise.paper.table2 import markdown
    from poolwise.paper.table2 import table2 as make

    click.echo(markdown(make(out)), nl=False)


@paper.command()
@_running
def ablation(setup: Any, out: Path, *, only: tuple[str, ...], count: int) -> None:
    """Update rules and samples a step, temperatures, and kinds of base samples."""
    from poolwise.paper.ablation import ablation as make

    click.echo(f"results: {make(setup, out, only=only, count=count)}")


@paper.command()
@_running
def rivals(setup: Any, out: Path, *, only: tuple[str, ...], count: int) -> None:
    """Parallel acquisition functions against the classical ways to a pool."""
    from poolwise.paper.contest import rivals as make

    click.echo(f"results: {make(setup, out, only=only, count=count)}")


@paper.command()
@_running
def asynchronous(setup: Any, out: Path, *, only: tuple[str, ...], count: int) -> None:
    """Workers of unequal speed: regret against the clock."""
    from poolwise.paper.asynchronous import asynchronous as make

    click.echo(f"results: {make(setup, out, only=only, count=count)}")


@paper.command()
@_folder
@answering()
def claims(out: Path) -> None:
    """Each claim of the paper, the statistic that decides it and the verdict; from the stored results."""
    from rich.console import Console
    from rich.padding import Padding
    from rich.table import Table

    from poolwise.paper.claims import claims as make

    console, grouped = Console(highlight=False), dict[str, list[dict[str, str]]]()
    for row in make(out):
        grouped.setdefault(row["claim"], []).append(row)
    for claim, rows in grouped.items():
        console.print(claim, style="bold", markup=False)
        table = Table.grid(padding=(0, 2))
        table.add_column(min_width=11, no_wrap=True)  # the longest verdict
        table.add_column(ratio=2)
        table.add_column(ratio=3)
        for row in rows:
            table.add_row(row["verdict"], row["about"], row["numbers"])
        console.print(Padding(table, (0, 0, 1, 2)))
