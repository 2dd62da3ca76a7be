"""`poolwise plot`: pictures of a study, without a display."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from poolwise.cli.command import NothingToDo, guarded, study_option
from poolwise.cli.terminal import put_json, say

if TYPE_CHECKING:
    from poolwise.study.study import Study

KINDS = ("history", "slices", "contours", "calibration", "parallel", "importance")


@click.command()
@click.argument("kind", type=click.Choice([*KINDS, "all"]), default="all")
@click.option("--out", type=click.Path(path_type=Path), help="The picture (.png, .pdf, .svg); for all, a folder.")
@study_option
@guarded
def plot(*, source: Path, kind: str, out: Path | None, json_: bool) -> None:
    """Pictures of the study.

    \b
    history      the best value, pool by pool
    slices       the model along each parameter
    contours     the model over pairs of parameters
    calibration  predictions of each trial from the others, against what was told
    parallel     all trials as lines across the parameters
    importance   how much each parameter matters

    Without a kind, or with `all`, each goes into a folder (NAME-plots).
    """
    from poolwise.cli.study_file import load

    with load(source).look() as study:
        if study.counts["told"] == 0:
            raise NothingToDo("no trial has a value yet, so there is nothing to draw.")
        _without_display()
        if kind != "all":
            made = [_draw(study, kind, out or Path(f"{kind}.png"))]
        else:
            made = _draw_all(study, out or Path(f"{study.name}-plots"))
    if json_:
        put_json([str(path) for path in made])
        return
    for path in made:
        click.echo(path)


def _draw_all(study: Study, folder: Path) -> list[Path]:
    """Every kind that the study has enough data for."""
    from poolwise.errors import MissingExtra, PoolwiseError

    folder.mkdir(parents=True, exist_ok=True)
    made = []
    for kind in KINDS:
        try:
            made.append(_draw(study, kind, folder / f"{kind}.png"))
        except MissingExtra:
            raise
        except PoolwiseError as error:
            say(f"no picture of {kind}: {error}")
    return made


def _draw(study: Study, kind: str, path: Path) -> Path:
    figure = getattr(study.plot, kind)()
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        figure.savefig(path, dpi=150)
    except ValueError as error:  # an ending that matplotlib does not know
        raise click.UsageError(f"--out {path}: {error}") from None
    return path


def _without_display() -> None:
    from poolwise.errors import MissingExtra

    try:
        import matplotlib
    except ImportError:
        raise MissingExtra("Pictures need matplotlib, which is not installed: pip install 'poolwise[plot]'") from None
    use: Any = matplotlib.use
    use("Agg")
