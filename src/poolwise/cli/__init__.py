"""The command line: thin commands over the library, loaded when they run so that `--help` stays light."""

from __future__ import annotations

from pathlib import Path

import click

from poolwise.cli.ask import ask
from poolwise.cli.command import answering
from poolwise.cli.doctor import doctor
from poolwise.cli.init import init
from poolwise.cli.paper import paper
from poolwise.cli.plot import plot
from poolwise.cli.run import run
from poolwise.cli.show import best, export, status, trials
from poolwise.cli.tell import tell
from poolwise.cli.work import work
from poolwise.version import __version__


class InOrder(click.Group):
    """A group whose help lists the commands in the order of their use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


@click.group(cls=InOrder, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="poolwise")
def main() -> None:
    """Choose the next pool of experiments.

    \b
    poolwise init              write a study file, study.toml
    poolwise run               run its command until the budget is reached,
    poolwise work              or by many workers that share the study, or by hand:
    poolwise ask --out a.csv   the next experiments
    poolwise tell a.csv        their values
    poolwise best              the best so far

    \b
    Data go to standard output, messages to standard error.

    \b
    Exit codes:
      0    done
      1    it could not be done: the store, a conflict, something not installed
      2    the command line, the study file or a table is wrong; nothing was done
      3    nothing to do: the budget is reached, nothing is left, no value yet
      130  interrupted
    """


for command in (init, run, work, ask, tell, status, best, trials, export, plot, doctor, paper):
    main.add_command(command)


@main.command()
@click.option("--out", type=click.Path(path_type=Path), default=Path("out"), show_default=True, help="Picture folder.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of the search.")
@answering()
def demo(out: Path, seed: int) -> None:
    """Choose a pool of two on the paper's one-dimensional example, and draw it."""
    from poolwise.cli.demo import run as show

    show(out, seed)
