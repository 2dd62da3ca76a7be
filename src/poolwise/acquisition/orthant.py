"""The maximum of a few Gaussians, and the orthant probabilities behind it, exact also where the covariance is singular.

P_n = P(x_1 <= h_1, ..., x_n <= h_n) goes Plackett's way up to n = 5: scale the correlations of the first variable by t.
At t = 0 it is independent of the others; the derivative in a correlation is a bivariate density times an orthant of two
variables fewer, so that

    P_n = Phi(h_1) P_{n-1}(h_2, ..., h_n) + sum_j int_0^1 r_1j phi_2(h_1, h_j; t r_1j) P_{n-2}(rest | x_1, x_j) dt.

Relations among the other variables do not move with t, hence the integrand can be steep at t = 1 alone; t = 1 - v^2,
with panels of v that shrink geometrically, follows it there at every scale. Derivatives are the same densities
[Plackett54].
"""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import erf, ndtr
from jaxtyping import Array, Float, Int

from poolwise.checks import Numbers

FAR = 38.0  # standard deviations: beyond it the normal density underflows
SMALLEST_PIVOT = 2e-15  # a squared pivot of the factor below this share of its variance is rounding
COINCIDENT = 1e-13  # outcomes whose difference deviates by less than this share of the largest sigma are one
# Bounds (or means) that meet in one point are told apart by moving each differently: less than the accuracy promised,
# and a thousand times more than what rounding does to rows.
_OFFSETS = 1e-12 * np.array([0.989, -0.327, 0.73, 0.303, 0.825, -0.542])  # no small integer relation


def composite_legendre(edges: Numbers, nodes: int) -> tuple[Numbers, Numbers]:
    """Gauss-Legendre points and weights on each panel between neighbouring edges, in one row."""
    x, w = np.polynomial.legendre.leggauss(nodes)
    half, middle = (edges[1:] - edges[:-1]) / 2, (edges[1:] + edges[:-1]) / 2
    return (middle[:, None] + half[:, None] * x[None, :]).ravel(), (half[:, None] * w[None, :]).ravel()


_GRADED = composite_legendre(np.concatenate([[0.0], 4.0 ** np.arange(-15.0, 1.0)]), 12)
_UNIT = composite_legendre(np.array([0.0, 1.0]), 20)


def normal_cdf(upper: Float[Array, " n"], covariance: Float[Array, "n n"]) -> Float[Array, ""]:
    """P(x <= upper) for x ~ N(0, covariance); a variable without variance is 0 and either fits or does not."""
    return orthant(*_standard(upper, covariance, factor(covariance)))


@jax.custom_jvp
def orthant(h: Float[Array, " n"], r: Float[Array, "n n"], rows: Float[Array, "n m"]) -> Float[Array, ""]:
    """P(x <= h) for standard normals with correlations r = rows rows^T; differentiable in h and r, as often as wanted.

    Values come from the rows: conditioning projects them, and a small conditional deviation keeps its digits, where
    the square root of a difference of correlations would lose half of them.
    """
    return _orthant(h + _OFFSETS[: h.shape[0]], rows)


@orthant.defjvp
def _orthant_jvp(primals: tuple[Array, ...], tangents: tuple[Array, ...]) -> tuple[Array, Array]:
    """dP = sum_i phi(h_i) P_{n-1}(rest | x_i) dh_i + sum_{i<j} phi_2(h_i, h_j; r_ij) P_{n-2}(rest | x_i, x_j) dr_ij."""
    h, r, rows = primals
    dh, dr, _ = tangents
    value, n = orthant(h, r, rows), h.shape[0]
    if n == 0:
        return value, jnp.zeros_like(value)
    h = h + _OFFSETS[:n]

    def one(i: Array, others: Array) -> Array:
        return _density(h[i], 1.0) * orthant(*_standard(*given((h, r, rows), i, others)))

    def two(i: Array, j: Array, others: Array) -> Array:
        both = given((h, r, rows), i, jnp.concatenate([j[None], others]))
        known = both[1][0, 0] <= 1e-15  # coincident: a kink, where zero is as good as any slope
        second = jnp.where(known, 0.0, _density(both[0][0], jnp.where(known, 1.0, both[1][0, 0])))
        rest = given(both, jnp.zeros((), dtype=int), jnp.arange(1, n - 1))
        return _density(h[i], 1.0) * second * orthant(*_standard(*rest))

    tangent = jnp.sum(jax.vmap(one)(*leave_out(n, 1)) * dh)
    if n > 1:
        i, j, others = leave_out(n, 2)
        tangent = tangent + jnp.sum(jax.vmap(two)(i, j, others) * (dr[i, j] + dr[j, i]) / 2)
    return value, tangent


def _orthant(h: Float[Array, " n"], rows: Float[Array, "n m"]) -> Float[Array, ""]:
    """The value by the recursion at the head of this file."""
    n = h.shape[0]
    if n == 0:
        return jnp.ones(())
    if n == 1:
        return ndtr(h[0])
    if n == 2:
        return _bivariate(h, rows)

    def path(j: Array, others: Array) -> Array:
        """The integral for the pair of the first variable and j. Given is j before the first: nothing cancels there."""
        rho, rest = jnp.sum(rows[0] * rows[j]), jnp.sum(rows[others] * rows[j][None, :], axis=1)
        first, left = rows[0] - rho * rows[j], rows[others] - rest[:, None] * rows[j][None, :]
        cross, own = jnp.sum(left * first[None, :], axis=1), jnp.sum(first * first)

        def slope(v: Array) -> Array:
            t, new = 1 - v * v, v * jnp.sqrt(2 - v * v)  # t of the first variable's row, and a direction of its own
            variance, shift = t * t * own + new * new, h[0] - t * rho * h[j]
            gain = t * cross / variance
            bounds, lengths = h[others] - rest * h[j] - gain * shift, left - (t * gain)[:, None] * first[None, :]
            lengths = jnp.append(lengths, -new * gain[:, None], axis=1)
            bounds, _, inner = _standard(bounds, jnp.zeros((n - 2, n - 2)), lengths)
            return 2 * v * rho * _density(h[j], 1.0) * _density(shift, variance) * _orthant(bounds, inner)

        return jnp.sum(_GRADED[1] * jax.vmap(slope)(jnp.asarray(_GRADED[0])))

    j, others = (index[: n - 1] for index in leave_out(n, 2)[1:])  # the pairs with the first variable
    return ndtr(h[0]) * _orthant(h[1:], rows[1:]) + jnp.sum(jax.vmap(path)(j, others))


def _bivariate(h: Float[Array, " 2"], rows: Float[Array, "2 m"]) -> Float[Array, ""]:
    """P(x_1 <= h_1, x_2 <= h_2) through Owen's T function, which has no trouble at |r| = 1 [Owen56].

    P = (Phi(h) + Phi(k)) / 2 - T(h, a) - T(k, b) - [1/2 if h and k differ in sign], a = (k - r h) / (h sqrt(1 - r^2)).
    """
    h = jnp.where(h == 0, 1e-200, h)
    r = jnp.sum(rows[0] * rows[1])
    root = jnp.maximum(jnp.sqrt(jnp.sum((rows[1] - r * rows[0]) ** 2)), 1e-18)
    owen = _owen(h, (h[::-1] - r * h) / root)
    return jnp.sum(0.5 * ndtr(h) - owen) - jnp.where(jnp.sign(h[0]) * jnp.sign(h[1]) < 0, 0.5, 0.0)


def _owen(h: Float[Array, " 2"], g: Float[Array, " 2"]) -> Float[Array, " 2"]:
    """Owen's T(h, a) at a = g / h: int_0^a exp(-h^2 (1 + x^2) / 2) / (1 + x^2) dx / (2 pi).

    For a > 1 through T(h, a) + T(g, 1 / a) = (1 - erf(h / sqrt 2) erf(g / sqrt 2)) / 4, for h and g above zero.
    """
    swap = jnp.abs(g) > jnp.abs(h)
    large, small = jnp.maximum(jnp.abs(h), jnp.abs(g)), jnp.minimum(jnp.abs(h), jnp.abs(g))
    large = jnp.minimum(large, 1e150)
    a = small / large
    square = 1 + (a[:, None] * _UNIT[0][None, :]) ** 2
    owen = a / (2 * np.pi) * ((jnp.exp(-0.5 * large[:, None] ** 2 * square) / square) @ _UNIT[1])
    both = 0.25 - 0.25 * erf(large / np.sqrt(2)) * erf(small / np.sqrt(2))
    return jnp.sign(h) * jnp.sign(g) * jnp.where(swap, both - owen, owen)


def given(
    bounded: tuple[Float[Array, " n"], Float[Array, "n n"], Float[Array, "n m"]],
    j: Int[Array, ""],
    others: Int[Array, " k"],
) -> tuple[Float[Array, " k"], Float[Array, "k k"], Float[Array, "k m"]]:
    """Bounds, covariance and rows of the others, given that variable j is at its bound."""
    upper, covariance, rows = bounded
    pivot = jnp.maximum(covariance[j, j], 1e-300)
    slope = covariance[others, j] / pivot
    left = rows[others] - jax.lax.stop_gradient(slope)[:, None] * rows[j][None, :]
    rest = covariance[others][:, others] - pivot * slope[:, None] * slope[None, :]
    return upper[others] - slope * upper[j], _anchored(rest, left), left


@jax.custom_jvp
def _anchored(covariance: Float[Array, "n n"], rows: Float[Array, "n m"]) -> Float[Array, "n n"]:
    """The covariance with its value taken from the rows, where it has more digits."""
    return jnp.sum(rows[:, None, :] * rows[None, :, :], axis=2)  # a product of tiny matrices is slow in a batch


@_anchored.defjvp
def _anchored_jvp(primals: tuple[Array, Array], tangents: tuple[Array, Array]) -> tuple[Array, Array]:
    return _anchored(*primals), tangents[0]


def _density(x: Float[Array, ""], variance: float | Float[Array, ""]) -> Float[Array, ""]:
    """The density of N(0, variance) at x."""
    variance = jnp.maximum(variance, 1e-36)
    return jnp.exp(-0.5 * x * x / variance) / jnp.sqrt(2 * np.pi * variance)


def _standard(
    upper: Float[Array, " n"], covariance: Float[Array, "n n"], rows: Float[Array, "n m"]
) -> tuple[Float[Array, " n"], Float[Array, "n n"], Float[Array, "n m"]]:
    """Bounds in standard deviations, correlations and rows of length one; without variance the bound is far off."""
    covariance = _anchored(covariance, rows)
    variance = jnp.diagonal(covariance)
    flat = variance <= 1e-290
    scale = jnp.sqrt(jnp.where(flat, 1.0, variance))
    known = jnp.where(upper >= 0, FAR, -FAR)
    h = jnp.where(flat, known, jnp.clip(jnp.where(flat, 0.0, upper) / scale, -FAR, FAR))
    r = jnp.where(flat[:, None] | flat[None, :], 0.0, covariance / (scale[:, None] * scale[None, :]))
    return h, r, rows / jax.lax.stop_gradient(scale)[:, None]


def leave_out(n: int, size: int) -> tuple[Int[Array, "..."], ...]:
    """All sets of `size` variables, one array for each place, and the matrix of the variables left."""
    chosen = list(itertools.combinations(range(n), size))
    left = [[k for k in range(n) if k not in some] for some in chosen]
    return (*jnp.array(chosen, dtype=int).T, jnp.array(left, dtype=int).reshape(len(chosen), n - size))


def factor(covariance: Float[Array, "n n"]) -> Float[Array, "n n"]:
    """A lower factor of a covariance of any rank: columns whose pivot is rounding are zero. Not differentiated."""
    rest = jax.lax.stop_gradient(covariance)
    own, columns = jnp.diagonal(rest), []
    for k in range(rest.shape[0]):
        lost = rest[k, k] <= SMALLEST_PIVOT * own[k]
        column = jnp.where(lost, 0.0, rest[:, k] / jnp.sqrt(jnp.where(lost, 1.0, rest[k, k])))
        columns.append(jnp.where(np.arange(len(own)) < k, 0.0, column))
        rest = rest - columns[k][:, None] * columns[k][None, :]
    return jnp.stack(columns, axis=1)


def expected_maximum(mean: Float[Array, " n"], covariance: Float[Array, "n n"]) -> Float[Array, ""]:
    """E max_i y_i, in units of the largest sigma, or nearly: outcomes of any size are the same problem."""
    largest = jnp.sqrt(jnp.max(jax.lax.stop_gradient(jnp.diagonal(covariance))))
    scale = jnp.ldexp(jnp.ones(()), jnp.frexp(jnp.where(largest > 0, largest, 1.0))[1])
    return scale * _standard_maximum(mean / scale, covariance / scale**2)


@jax.custom_jvp
def _standard_maximum(mean: Float[Array, " n"], covariance: Float[Array, "n n"]) -> Float[Array, ""]:
    """E max_i y_i, from Stein's identity and the derivatives of p_i = P(y_i is the maximum):

        E max = sum_i mu_i p_i + sum_{i<j} theta_ij phi(d_ij) P(others below | y_i = y_j),

    theta_ij^2 = Var(y_i - y_j), d_ij = (mu_i - mu_j) / theta_ij. Two outcomes: Clark's formula [Clark61]. A constant as
    one more outcome gives expected improvement; it is the formula of Chevalier and Ginsbourger [CG13] with the two
    terms of each pair added up, which leaves nothing to cancel when points are close.
    """
    return _expected_maximum(mean, covariance)[0]


@_standard_maximum.defjvp
def _standard_maximum_jvp(
    primals: tuple[Array, Array], tangents: tuple[Array, Array]
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """d E max = sum_i p_i dmu_i + sum_{i<j} phi(d_ij) P(others below | y_i = y_j) dtheta_ij."""
    mean, covariance = primals
    dmean, dcovariance = tangents
    value, wins, slopes = _expected_maximum(mean, covariance)
    i, j = np.triu_indices(mean.shape[0], 1)
    squares = _differences(dcovariance)[i, j, j]
    return value, jnp.sum(wins * dmean) + 0.5 * jnp.sum(slopes * squares)


def winning_probabilities(mean: Float[Array, " n"], covariance: Float[Array, "n n"]) -> Float[Array, " n"]:
    """P(y_i = max_j y_j); outcomes that coincide share theirs equally."""
    bounded, share = _distinct(mean, covariance)

    def wins(i: Array, others: Array) -> Array:
        upper, apart, rows = (a[i][others] for a in bounded)
        return orthant(*_standard(upper, apart[:, others], rows))

    return share @ jax.vmap(wins)(*leave_out(mean.shape[0], 1))


def _expected_maximum(
    mean: Float[Array, " n"], covariance: Float[Array, "n n"]
) -> tuple[Float[Array, ""], Float[Array, " n"], Float[Array, " m"]]:
    """The value, its derivatives in the means, and twice those in theta_ij^2, i < j."""
    wins = winning_probabilities(mean, covariance)
    bounded, _ = _distinct(mean, covariance)

    def tie(i: Array, j: Array, others: Array) -> tuple[Array, Array]:
        upper, apart, rows = (a[i] for a in bounded)
        density = _density(upper[j], apart[j, j]) * orthant(*_standard(*given((upper, apart, rows), j, others)))
        return apart[j, j] * density, density

    if mean.shape[0] == 1:
        return mean[0], wins, jnp.zeros(0)
    terms, slopes = jax.vmap(tie)(*leave_out(mean.shape[0], 2))
    return jnp.sum(wins * mean) + jnp.sum(terms), wins, slopes


def _distinct(
    mean: Float[Array, " n"], covariance: Float[Array, "n n"]
) -> tuple[tuple[Float[Array, "n n"], Float[Array, "n n n"], Float[Array, "n n m"]], Float[Array, "n n"]]:
    """For each outcome k, bounds, covariance and rows of the others' lead y_i - y_k; and shares of the winners.

    Of coincident outcomes the highest stays, of those equal the first; the others become independent and so low that
    they never win. Shares spread a winner's probability over its equals.
    """
    n = mean.shape[0]
    still, lower = jax.lax.stop_gradient(mean), factor(covariance)
    scale = jnp.max(jnp.linalg.norm(lower, axis=1))
    scale = jnp.where(scale > 0, scale, 1.0)
    same = jnp.linalg.norm(lower[:, None] - lower[None, :], axis=2) <= COINCIDENT * scale
    gap = still[:, None] - still[None, :]
    dead = jnp.any(same & ((gap > 0) | ((gap == 0) & np.triu(np.ones((n, n), dtype=bool), 1))), axis=0)
    level = jnp.where(dead, -100 * scale, mean - jnp.max(still) + scale * _OFFSETS[:n])
    rows = jnp.concatenate([jnp.where(dead[:, None], 0.0, lower), scale * jnp.diag(dead.astype(mean.dtype))], axis=1)
    leads = rows[None, :] - rows[:, None]
    apart = jax.vmap(_anchored)(_differences(covariance), leads)
    equal = (same & (gap == 0)).astype(mean.dtype)
    share = equal * (~dead)[None, :] / jnp.sum(equal, axis=0)[None, :]
    return (level[:, None] - level[None, :], apart, leads), share


def _differences(covariance: Float[Array, "n n"]) -> Float[Array, "n n n"]:
    """[k, i, j] = Cov(y_i - y_k, y_j - y_k)."""
    own = jnp.diagonal(covariance)[:, None, None]
    return covariance[None, :, :] - covariance[:, :, None] - covariance[:, None, :] + own
