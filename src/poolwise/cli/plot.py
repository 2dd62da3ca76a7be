"""`poolwise plot`: pictures of a study, without a display."""

from __future__ import annotations

import io
import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import click

from poolwise.cli.command import NothingToDo, guarded, study_option
from poolwise.cli.terminal import put_json, say
from poolwise.study.handles import PICTURES

if TYPE_CHECKING:
    from poolwise.study.study import Study


@click.command()
@click.argument("kind", type=click.Choice([*PICTURES, "all"]), default="all")
@click.option("--out", type=click.Path(), help="The picture (.png, .pdf, .svg); for all, a folder.")
@study_option
@guarded
def plot(*, source: Path, kind: str, out: str | None, json_: bool) -> None:
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
    from poolwise.plot.canvas import check_drawing

    with load(source).look() as study:
        if study.counts["told"] == 0:
            raise NothingToDo("no trial has a value yet, so there is nothing to draw.")
        check_drawing()
        if kind != "all":
            made = [_draw(study, kind, _place(kind, out or f"{kind}.png"))]
        else:
            made = _draw_all(study, Path(out or f"{study.name}-plots"))
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
    for kind in PICTURES:
        try:
            made.append(_draw(study, kind, folder / f"{kind}.png"))
        except MissingExtra:
            raise
        except PoolwiseError as error:
            say(f"no picture of {kind}: {error}")
    return made


def _place(kind: str, out: str) -> Path:
    """The file of a picture: in the folder that was named, and a .png where the name has no ending."""
    path = Path(out)
    if path.is_dir() or out.endswith(("/", os.sep)):
        return path / f"{kind}.png"
    return path if path.suffix else path.with_name(f"{path.name}.png")


def _draw(study: Study, kind: str, path: Path) -> Path:
    from poolwise.study.tables import write

    figure, picture = getattr(study.plot, kind)(), io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph", UserWarning)  # letters that its font lacks are drawn as boxes
        try:
            figure.savefig(picture, dpi=150, format=path.suffix[1:])
        except ValueError as error:  # an ending that matplotlib does not know
            raise click.UsageError(f"--out {path}: {error}") from None
    path.parent.mkdir(parents=True, exist_ok=True)
    write(path, picture.getvalue())
    return path
