"""Makes the pictures of these pages, all or those that are named: `python docs/integrands/make.py [page ...]`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

import poolwise as pw
from poolwise.plot.surfaces import Fineness, maxima, surface

PICTURES = Path(__file__).parent / "pictures"
X, Y = [[0.1], [0.5], [0.85]], [0.86, 0.39, 0.78]  # the observations of every page
NOISE = 1e-2
PLAIN = Fineness()
PLACES = np.linspace(0, 1, 51)[:, None]


def belief() -> pw.Posterior:
    """What every page believes."""
    return pw.GaussianProcess(pw.Matern52(0.25), noise=NOISE).condition(X, Y)


class Picture(NamedTuple):
    """What is drawn, its title, its unit, and how finely."""

    integrand: Any
    title: str
    unit: str
    fineness: Fineness = PLAIN


def pictures(posterior: pw.Posterior) -> dict[str, Picture]:
    """The surface of each page."""
    best, drawn = max(Y), pw.path_maxima(posterior, 64)
    tails, nested = Fineness(samples=2**13), Fineness(grid=65, samples=64)
    entropy = pw.EntropySearch(PLACES[::2], noise=NOISE, samples=256)
    two_step = pw.TwoStepExpectedImprovement(best, PLACES[::2], noise=NOISE)
    noisy, log = pw.LogNoisyExpectedImprovement.over(posterior), "log of expected improvement"
    return {
        "expected-improvement": Picture(pw.ExpectedImprovement(best), "Expected improvement", "expected improvement"),
        "log-expected-improvement": Picture(pw.LogExpectedImprovement(best), "Log expected improvement", log, tails),
        "noisy-expected-improvement": Picture(noisy, "Log noisy expected improvement", log, tails),
        "probability-of-improvement": Picture(
            pw.ProbabilityOfImprovement(best), "Probability of improvement", "probability"
        ),
        "upper-confidence-bound": Picture(pw.UpperConfidenceBound(), "Upper confidence bound", "expected best bound"),
        "simple-regret": Picture(pw.SimpleRegret(), "Simple regret", "expected best outcome"),
        "entropy-search": Picture(entropy, "Entropy search", "information, nats", nested),
        "two-step": Picture(two_step, "Two-step expected improvement", "expected improvement", nested),
        "knowledge-gradient": Picture(pw.KnowledgeGradient(PLACES), "Knowledge gradient", "rise of the best mean"),
        "max-value-entropy": Picture(pw.MaxValueEntropy(drawn.values), "Max-value entropy", "information, nats"),
        "joint-entropy-search": Picture(pw.JointEntropySearch(*drawn), "Joint entropy search", "information, nats"),
        "energy-entropy": Picture(
            pw.EnergyEntropy(temperature=0.3), "Energy and entropy", "value at a temperature of 0.3"
        ),
    }


def main(names: list[str]) -> None:
    """Draw all, or those that are named."""
    posterior = belief()
    PICTURES.mkdir(exist_ok=True)
    if not names or "thompson" in names:
        save(maxima(posterior, name="Thompson sampling", fineness=Fineness(grid=201, samples=2**13)), "thompson")
    for name, each in pictures(posterior).items():
        if not names or name in names:
            figure = surface(posterior, each.integrand, name=each.title, label=each.unit, fineness=each.fineness)
            save(figure, name)


def save(figure: Any, name: str) -> None:
    """A PNG of 256 colours."""
    path = PICTURES / f"{name}.png"
    figure.savefig(path, dpi=110)
    Image.open(path).convert("RGB").quantize(256, kmeans=8, dither=Image.Dither.NONE).save(path, optimize=True)


if __name__ == "__main__":
    main(sys.argv[1:])
