"""Hyperparameters by maximum a posteriori: `fit` climbs log evidence plus log prior.

Inside, outcomes have mean zero and variance one; the result is in the user's units. With K = amplitude^2 g(s) + noise
and r = y - m, one Cholesky factor and its inverse serve the value and the whole gradient:

    log evidence = -r' a / 2 - log det(K) / 2 - n log(2 pi) / 2,        a = K^-1 r,
    d / dtheta   = sum_ij G_ij dK_ij / dtheta,        G = (a a' - K^-1) / 2,

where dK / dtheta is elementwise in the squared distances and costs matrix products only. The constant mean is profiled:
m = 1'K^-1 y / (1'K^-1 1 + 1) maximises the evidence times N(m; 0, 1), so that the gradient need not see it.
"""

from __future__ import annotations

import functools
import logging
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from poolwise import checks
from poolwise.belief.factor import inverse_root
from poolwise.belief.gaussian_process import Data, GaussianProcess, Posterior, padded_data, prepare, recentred
from poolwise.belief.kernel import Kernel, Matern52
from poolwise.belief.padding import masked
from poolwise.checks import Numbers
from poolwise.errors import InputError
from poolwise.maximizers.lbfgsb import ascend
from poolwise.programs import quickly
from poolwise.pytree import pytree
from poolwise.sobol import sobol

log = logging.getLogger(__name__)

LARGEST = 1e150  # outcomes whose square is no number cannot be modelled
ROUNDS = 60
STARTS = 4
RACE = 8  # rounds that each start has before the leader goes on alone
SCOUTS = 256  # with more observations, the starts race on this many of them and the winner goes on with all
CLOSE = 1e-4  # a step that gains less than this share of the log posterior ends a climb


class Bounds(NamedTuple):
    """Where the logarithms of the hyperparameters may lie, and their normal priors."""

    low: Float[np.ndarray, " t"]
    high: Float[np.ndarray, " t"]
    centre: Float[np.ndarray, " t"]
    width: Float[np.ndarray, " t"]


@pytree
class Logs:
    """Logarithms of hyperparameters of standardised outcomes: lengthscales, amplitude squared, noise variance."""

    lengthscale: Float[Array, " d"]
    amplitude: Float[Array, ""]
    noise: Float[Array, ""]


def bounds(d: int) -> Bounds:
    """Priors on d lengthscales, amplitude^2 and noise variance, log-normal.

    The lengthscale's median grows with sqrt(d), as distances in the cube do: log l ~ N(sqrt(2) + log(d) / 2, 3)
    (Hvarfner et al. 2024).
    """
    lengths = math.sqrt(2) + 0.5 * math.log(d)
    return Bounds(
        low=np.array([*[math.log(0.025)] * d, math.log(1e-2), math.log(1e-6)]),
        high=np.array([*[lengths + 4.0] * d, math.log(1e2), 0.0]),
        centre=np.array([*[lengths] * d, 0.0, -6.0]),
        width=np.array([*[math.sqrt(3)] * d, 1.0, 2.0]),
    )


def fit(  # noqa: PLR0913
    X: Numbers,
    y: Numbers,
    *,
    kernel: type[Kernel] = Matern52,
    noise: Numbers | None = None,
    start: Posterior | None = None,
    seed: int = 0,
) -> Posterior:
    """The posterior with learned hyperparameters: a lengthscale for each dimension, amplitude, noise and mean.

    Points lie in the unit cube, a row each. `noise`, where it is known, is the variance of the observations: one
    number, or one for each. `start` is an earlier result for the same kind of data, such as the round
    before; it makes the fit faster. The same arguments give the same result.

    >>> X = np.linspace(0, 1, 12)[:, None]
    >>> posterior = fit(X, 100 + 5 * np.sin(6 * X[:, 0]))
    >>> bool(abs(posterior([[0.25]]).mean[0] - (100 + 5 * np.sin(1.5))) < 0.1)
    True
    """
    if not (isinstance(kernel, type) and issubclass(kernel, Kernel)):
        raise InputError("kernel: give the kernel's class, for instance kernel=poolwise.Matern52, without lengthscale.")
    checks.count("seed", seed, least=0)
    with jax.enable_x64(True):
        points, outcomes = checks.matrix("X", X), np.asarray(checks.vector("y", y))
        if np.abs(outcomes).max() > LARGEST:
            raise InputError(f"y: has values beyond {LARGEST:g}; rescale the outcomes or leave those out.")
        shift, scale = _standardisation(outcomes)
        known = np.zeros(()) if noise is None else np.asarray(_variances(noise) / scale**2)
        standard = (outcomes - shift) / scale
        starts = _starts(points.shape[1], start, scale, seed)
        climb = functools.partial(_climb, kernel=kernel, learn_noise=noise is None)
        if len(starts) > 1 and len(outcomes) > SCOUTS:
            few = np.sort(np.random.default_rng([seed, 1]).permutation(len(outcomes))[:SCOUTS])
            some = np.asarray(points)[few], standard[few], known[few] if known.ndim else known
            starts = [_highest(climb, padded_data(*some), starts)[0]]
        data = padded_data(points, standard, known)
        prepare(GaussianProcess(kernel(np.ones(data.X.shape[1])), data.noise if known.ndim else 0.0), data)
        cube, value = _highest(climb, data, starts)
        box = bounds(points.shape[1])
        best = box.low + (box.high - box.low) * cube
        if not math.isfinite(value):
            log.warning("fit: no start had finite evidence; going on with the prior's hyperparameters")
            best = box.centre
        learned = kernel(np.exp(best[:-2]), scale * math.exp(0.5 * best[-2]))
        variance = scale**2 * math.exp(best[-1]) if noise is None else noise
        return _profiled(GaussianProcess(learned, variance, shift).condition(points, outcomes), scale)


def _highest(climb: Any, data: Data, starts: list[Float[np.ndarray, " t"]]) -> tuple[Float[np.ndarray, " t"], float]:
    """Where the best start leads, in the cube of logarithms, and the log posterior there.

    Several starts race one after the other for a few rounds, and the leader goes on: one small program serves all.
    """
    if len(starts) > 1:
        ends = [climb(data, start, rounds=RACE) for start in starts]
        starts = [np.asarray(max(ends, key=lambda end: float(end[1]))[0])]
    point, value = climb(data, starts[0], rounds=ROUNDS)
    return np.asarray(point), float(value)


def _profiled(posterior: Posterior, scale: float) -> Posterior:
    """The posterior whose constant mean is the likeliest; `scale` is the standard deviation of its prior."""
    inverse, live = np.asarray(posterior.inverse), np.asarray(posterior.data.live, float)
    offset = live @ np.asarray(posterior.weights) / (live @ inverse @ live + (1 / scale) ** 2)
    return recentred(posterior, float(offset))


def _variances(noise: Numbers) -> Float[np.ndarray, "*n"]:
    return np.asarray(checks.positive("noise", checks.array("noise", noise), zero=True))


def _standardisation(y: Float[np.ndarray, " n"]) -> tuple[float, float]:
    """Mean and standard deviation, by way of the largest value so that nothing overflows; 1 for constant outcomes."""
    size = float(np.abs(y).max()) or 1.0
    scale = size * float(np.std(y / size))
    return size * float(np.mean(y / size)), scale if scale > 1e-12 * size else size


def _starts(d: int, start: Posterior | None, scale: float, seed: int) -> list[Float[np.ndarray, " t"]]:
    """Starts in the unit cube of logarithms: the earlier result alone, or the usual one and a spread around it."""
    box = bounds(d)
    if start is None:
        rows = [np.array([*[math.log(0.5 * math.sqrt(d))] * d, 0.0, math.log(1e-3)])]
        spread = sobol(STARTS - 1, 3, np.random.default_rng(seed))
        low = np.array([math.log(0.1 * math.sqrt(d)), -1.0, math.log(1e-5)])
        high = np.array([math.log(4.0 * math.sqrt(d)), 1.0, math.log(1e-1)])
        rows += [np.array([*[a] * d, b, c]) for a, b, c in low + spread * (high - low)]
    else:
        checks.kind("start", start, Posterior, "give what an earlier fit returned.")
        rows = [_logs_of(start, d, scale)]
    return [np.clip((row - box.low) / (box.high - box.low), 0.0, 1.0) for row in rows]


def _logs_of(posterior: Posterior, d: int, scale: float) -> Float[np.ndarray, " t"]:
    """An earlier result's hyperparameters, in the units of the new standardisation."""
    if posterior.dimension != d:
        raise InputError(f"start: is in {posterior.dimension} dimensions where X has {d} columns.")
    kernel = posterior.process.kernel
    lengths = np.log(np.broadcast_to(kernel.lengthscale, (d,)))
    noise = max(float(np.mean(posterior.noise)), 1e-300)
    return np.array([*lengths, 2 * math.log(float(kernel.amplitude) / scale), math.log(noise) - 2 * math.log(scale)])


def _logs(theta: Float[Array, " t"]) -> Logs:
    return Logs(theta[:-2], theta[-2], theta[-1])


@quickly("kernel", "learn_noise")
def _climb(
    data: Data, start: Float[Array, " t"], rounds: int | Int[Array, ""], *, kernel: type[Kernel], learn_noise: bool
) -> tuple[Float[Array, " t"], Float[Array, ""]]:
    """Where a start in the cube of logarithms leads, and the log posterior there."""
    box = bounds(data.X.shape[1])
    low, width = jnp.asarray(box.low), jnp.asarray(box.high - box.low)

    def value_and_gradient(cubes: Float[Array, "1 t"]) -> tuple[Float[Array, " 1"], Float[Array, "1 t"]]:
        value, gradient = log_posterior(low + width * cubes[0], data, kernel, learn_noise)
        return value[None], (gradient * width)[None]

    end = ascend(value_and_gradient, start[None], rounds=rounds, gtol=1e-2, ftol=CLOSE)
    return end.points[0], end.values[0]


def log_posterior(
    theta: Float[Array, " t"], data: Data, kernel: type[Kernel], learn_noise: bool
) -> tuple[Float[Array, ""], Float[Array, " t"]]:
    """Log evidence plus log prior, and its gradient, at logarithms of the hyperparameters."""
    box = bounds(data.X.shape[1])
    value, slope, _ = log_evidence(_logs(theta), data, kernel, learn_noise)
    off = (theta - box.centre) / box.width
    gradient = jnp.concatenate([slope.lengthscale, slope.amplitude[None], slope.noise[None]])
    return value - 0.5 * jnp.sum(off * off), gradient - off / box.width


def log_evidence(
    logs: Logs, data: Data, kernel: type[Kernel], learn_noise: bool
) -> tuple[Float[Array, ""], Logs, Float[Array, ""]]:
    """Log evidence of the live rows, its gradient, and the profiled mean; -inf where the covariance has no factor.

    `data.noise` is added to the learned noise variance, or stands alone where noise is known.
    """
    lengths, amplitude = jnp.exp(logs.lengthscale), jnp.exp(logs.amplitude)
    noise = jnp.exp(logs.noise) if learn_noise else jnp.zeros(())
    scaled = data.X / lengths[None, :]
    s = product_distance(scaled)
    shape = amplitude * kernel.profile(s)
    K = masked(shape + jnp.diag(data.noise + noise), data.live)
    root = inverse_root(K)
    inverse = root.T @ root
    live = data.live.astype(K.dtype)
    mean = live @ (inverse @ data.y) / (live @ (inverse @ live) + 1.0)
    residual = live * (data.y - mean)
    a = inverse @ residual
    count = jnp.sum(live)
    value = -0.5 * (residual @ a) + jnp.sum(jnp.log(jnp.diagonal(root))) - 0.5 * count * math.log(2 * math.pi)
    G = 0.5 * (a[:, None] * a[None, :] - inverse) * (live[:, None] * live[None, :])
    pull = G * amplitude * kernel.slope(s)
    # sum_ij pull_ij (x_ik - x_jk)^2 = 2 (sum_i x_ik^2 pull_i. - x_k' pull x_k)
    square = 2 * (jnp.sum(pull, axis=1) @ (scaled * scaled) - jnp.sum(scaled * (pull @ scaled), axis=0))
    gradient = Logs(-2 * square, jnp.sum(G * shape), noise * jnp.sum(jnp.diagonal(G)))
    ok = jnp.isfinite(value)
    return jnp.where(ok, value - 0.5 * mean * mean, -jnp.inf), gradient, mean


def product_distance(X: Float[Array, "n d"]) -> Float[Array, "n n"]:
    """Squared distances by a matrix product: faster than differences, and good to rounding for distinct points."""
    squares = jnp.sum(X * X, axis=1)
    s = squares[:, None] + squares[None, :] - 2 * X @ X.T
    return jnp.where(jnp.eye(X.shape[0], dtype=bool), 0.0, jnp.maximum(s, 0.0))
