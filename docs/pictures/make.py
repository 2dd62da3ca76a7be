"""Makes the pictures of docs/pictures.md: `python docs/pictures/make.py`."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from PIL import Image

from poolwise.plot.study import PICTURES
from poolwise.space.parameters import Choice, Float, Int
from poolwise.study.study import Study

HERE = Path(__file__).parent
SPACE = {
    "lr": Float(1e-5, 1e-1, log=True),
    "width": Int(16, 512, log=True),
    "layers": Int(1, 5),
    "act": Choice(["relu", "gelu", "tanh"]),
    "dropout": Float(0, 0.5),
}
PENALTY = {"relu": 0.03, "gelu": 0.0, "tanh": 0.12}


def loss(lr: float, width: int, layers: int, act: str, dropout: float) -> float:
    """A stand-in for training a small network."""
    bowl = 0.05 * (math.log10(lr) + 2.7) ** 2 + 0.03 * (math.log2(width) - 7) ** 2 + 0.3 * (dropout - 0.15) ** 2
    return 0.08 + bowl + 0.02 * abs(layers - 3) + PENALTY[act]


def main() -> None:
    """Seven pools of four, one more pending, and a picture of each kind."""
    study = Study(space=SPACE, constraints=["layers * width <= 1200"], minimize="loss", seed=3)
    rng = np.random.default_rng(0)
    for _ in range(7):
        for trial in study.ask(4):
            if trial.params["lr"] > 0.06:
                study.fail(trial, "diverged")
            else:
                study.tell(trial, loss(**trial.params) + 0.005 * rng.standard_normal())
    study.ask(4)
    for name, draw in PICTURES.items():
        path = HERE / f"{name}.png"
        draw(study).savefig(path, dpi=100)
        small = Image.open(path).convert("RGB").quantize(256, Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
        small.save(path, optimize=True)


if __name__ == "__main__":
    main()
