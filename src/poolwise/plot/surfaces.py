"""A belief on a line, and beside it what every pair of points is worth under it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from poolwise import checks
from poolwise.acquisition.base_samples import normals
from poolwise.acquisition.expectation import Base, as_pytree, check_integrand, estimate, look_ahead
from poolwise.acquisition.integrand import baseline_slots
from poolwise.belief.gaussian_process import Posterior
from poolwise.belief.paths import sample_paths
from poolwise.errors import InputError
from poolwise.plot.canvas import new_figure
from poolwise.plot.look import BAND, DATA, GREY, INK, STAR, clean
from poolwise.precision import double

SIZE, PAD = (8.6, 4.1), 11.0
TOGETHER = 64  # pairs that are valued at a time
LEVELS = 25
FAR = 4.0  # quartile ranges below the lower quartile: lower values share one colour
SHOWN = 6  # drawn functions
CELLS = 20  # along a side, in which pairs of maxima are counted
RARE = 1e-3  # of the fullest cell: emptier ones share one colour


@dataclass(frozen=True)
class Fineness:
    """How much work a surface is: points along a side, and base samples of each value."""

    grid: int = 81
    samples: int = 1024

    def __post_init__(self) -> None:
        checks.count("grid", self.grid, least=2)
        checks.count("samples", self.samples)


def surface(  # noqa: PLR0913
    posterior: Posterior,
    integrand: Any,
    *,
    name: str,
    label: str = "acquisition value",
    pool: Float[np.ndarray, "2 1"] | None = None,
    fineness: Fineness = Fineness(),  # noqa: B008
) -> Any:
    """Left, a belief about points in [0, 1], with its observations; right, the acquisition value of every pair.

    Stars are `pool`, or the pair of the highest value, once in either order; the dashed line is the axis of symmetry.
    Where few pairs are worth far less than the rest, these share the lowest colour, and the colour bar ends in a tip.
    """
    _on_a_line(posterior)
    check_integrand(integrand)
    x = np.linspace(0, 1, fineness.grid)
    values = pair_values(posterior, integrand, fineness)
    best = x[list(np.unravel_index(int(np.argmax(values)), values.shape))]
    shown = best if pool is None else pool[:, 0]
    figure, (left, right) = new_figure(1, 2, size=SIZE)
    _belief(left, posterior)
    if hasattr(integrand, "threshold"):
        left.axhline(float(integrand.threshold), color=GREY, lw=1.0, ls="--", label="threshold")
    for place in shown:
        left.axvline(place, color=GREY, lw=0.8, ls=":", zorder=1)
    left.plot(shown, posterior(shown[:, None]).mean, label="best pair" if pool is None else "the pool", **_star())
    _legend(left)
    _pairs(figure, right, values, label)
    for pair in (shown, shown[::-1]):
        right.plot(*pair, **_star())
    right.set_title(name, pad=PAD)
    return figure


def maxima(posterior: Posterior, *, name: str, fineness: Fineness = Fineness(), seed: int = 0) -> Any:  # noqa: B008
    """Left, a belief and functions drawn from it; right, how likely two of them have their maxima in a pair of cells.

    `fineness.samples` functions are drawn and looked at in `fineness.grid` places; every two of them are a pair.
    """
    _on_a_line(posterior)
    x = np.linspace(0, 1, fineness.grid)
    drawn = np.asarray(sample_paths(posterior, fineness.samples, seed=seed)(x[:, None]))
    places = x[np.argmax(drawn, axis=1)]
    share = np.histogram(places, bins=CELLS, range=(0, 1))[0] / len(places)
    figure, (left, right) = new_figure(1, 2, size=SIZE)
    _belief(left, posterior)
    some = slice(0, SHOWN)
    left.plot(x, drawn[some].T, color=GREY, lw=0.7, label=["drawn functions"] + ["_"] * (len(drawn[some]) - 1))
    left.plot(places[some], drawn[some].max(axis=1), label="their maxima", **(_star() | {"ms": 11}))
    _legend(left)
    _cells(figure, right, np.outer(share, share))
    right.set_title(name, pad=PAD)
    return figure


def pair_values(posterior: Posterior, integrand: Any, fineness: Fineness = Fineness()) -> Float[np.ndarray, "g g"]:  # noqa: B008
    """The acquisition value of every pair of places on an even grid; the order of a pair makes no difference."""
    x = np.linspace(0, 1, fineness.grid)
    low, high = np.triu_indices(fineness.grid)
    pairs = np.stack([x[low], x[high]], axis=1)
    z = normals(fineness.samples, 2 + baseline_slots(integrand))
    one, other = _values(integrand, posterior, pairs, z), _values(integrand, posterior, pairs[:, ::-1], z)
    values = np.zeros((fineness.grid, fineness.grid))
    values[low, high] = values[high, low] = (one + other) / 2
    return values


@double
def _values(
    integrand: Any, posterior: Posterior, pairs: Float[np.ndarray, "p 2"], z: Float[np.ndarray, "m w"]
) -> Float[np.ndarray, " p"]:
    return np.asarray(_program(as_pytree(integrand), posterior, jnp.asarray(pairs), Base(jnp.asarray(z))))


@jax.jit
def _program(integrand: Any, posterior: Posterior, pairs: Float[Array, "p 2"], base: Base) -> Float[Array, " p"]:
    def one(pair: Float[Array, " 2"]) -> Float[Array, ""]:
        return estimate(*look_ahead(integrand, posterior, pair[:, None]), base).value

    return jax.lax.map(one, pairs, batch_size=TOGETHER)


def _on_a_line(posterior: Posterior) -> None:
    checks.kind("posterior", posterior, Posterior, "give what fit(X, y) or GaussianProcess(...).condition returns.")
    if posterior.dimension != 1:
        raise InputError(f"posterior: its points have {posterior.dimension} dimensions; pairs are drawn for one alone.")


def _belief(axes: Any, posterior: Posterior) -> None:
    x = np.linspace(0, 1, 301)
    normal = posterior(x[:, None])
    deviation = np.sqrt(np.maximum(np.diagonal(normal.covariance), 0))
    for width, alpha in ((2, 0.30), (1, 0.45)):
        low, high = normal.mean - width * deviation, normal.mean + width * deviation
        axes.fill_between(x, low, high, color=BAND, alpha=alpha, lw=0)
    axes.plot(x, normal.mean, color=INK, lw=1.8, label="mean, 1 and 2 deviations")
    axes.plot(posterior.X[:, 0], posterior.y, "o", color=DATA, ms=7, mec="white", mew=0.8, label="observed", zorder=4)
    axes.set(xlabel="$x$", ylabel="outcome", xlim=(0, 1))
    axes.set_title("Belief", pad=PAD)
    axes.set_box_aspect(1)
    clean(axes)


def _legend(axes: Any) -> None:
    axes.legend(frameon=False, fontsize=7.5, ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.16), markerscale=0.7)


def _pairs(figure: Any, axes: Any, values: Float[np.ndarray, "g g"], label: str) -> None:
    from matplotlib.colors import Normalize

    x = np.linspace(0, 1, len(values))
    low, high = _shown(values)
    levels, colours = np.linspace(low, high, LEVELS), Normalize(low, high)
    tip = "min" if low > values.min() else "neither"
    axes.contourf(x, x, values, levels=levels, cmap="viridis", norm=colours, extend=tip)
    axes.contour(x, x, values, levels=levels[::2], colors="white", linewidths=0.3, alpha=0.45)
    _dress(figure, axes, colours, label, tip)


def _cells(figure: Any, axes: Any, shares: Float[np.ndarray, "c c"]) -> None:
    from matplotlib.colors import LogNorm

    colours = LogNorm(RARE * shares.max(), shares.max())
    edges = np.linspace(0, 1, len(shares) + 1)
    axes.pcolormesh(edges, edges, np.maximum(shares, RARE * shares.max()), cmap="viridis", norm=colours)
    _dress(figure, axes, colours, f"share of pairs, {len(shares)} by {len(shares)} cells", "min")


def _dress(figure: Any, axes: Any, colours: Any, label: str, tip: str) -> None:
    from matplotlib.cm import ScalarMappable

    bar = ScalarMappable(norm=colours, cmap="viridis")
    figure.colorbar(bar, ax=axes, label=label, fraction=0.046, extend=tip)
    axes.plot([0, 1], [0, 1], "--", color="white", lw=1.0, alpha=0.9)
    axes.set(xlabel="$x_1$", ylabel="$x_2$", xlim=(0, 1), ylim=(0, 1), aspect="equal")


def _shown(values: Float[np.ndarray, "g g"]) -> tuple[float, float]:
    """The values that colours run over: all, but for those far below the lower quartile."""
    lower, upper = np.quantile(values, 0.25), np.quantile(values, 0.75)
    low, high = max(float(values.min()), float(lower - FAR * (upper - lower))), float(values.max())
    return (low, high) if high > low else (low - 0.5, low + 0.5)


def _star() -> dict[str, Any]:
    return {"marker": "*", "ls": "", "color": STAR, "ms": 15, "mec": "black", "mew": 0.8, "clip_on": False, "zorder": 5}
