"""The command line: thin commands over the library, loaded when they run so that `--help` stays light."""

from __future__ import annotations

from pathlib import Path

import click

from poolwise.version import __version__


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="poolwise")
def main() -> None:
    """Choose the next pool of experiments."""


@main.command()
@click.option("--out", type=click.Path(path_type=Path), default=Path("out"), show_default=True, help="Picture folder.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of the search.")
def demo(out: Path, seed: int) -> None:
    """Choose a pool of two on the paper's one-dimensional example, and draw it."""
    from poolwise.cli.demo import run

    run(out, seed)
