"""Exact values against the oracles, references, identities, and at the edges: ties, rank loss, far tails."""

import itertools

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm
from tests.conftest import ORACLES
from tests.reference import one_factor

from poolwise.acquisition import exact, tail
from poolwise.belief.normal import Normal
from poolwise.errors import InputError

VECTORS = {vector["name"]: vector for vector in ORACLES["normals"] if vector["name"] != "T7"}
ENTRIES = [
    (name, key) for name, vector in VECTORS.items() for key in vector["expected"] if (name, key) != ("T5", "ucb")
]
T2 = VECTORS["T2"]

FUNCTIONS = {
    "ei": lambda normal: exact.expected_improvement(normal, 0.3),
    "log_ei": lambda normal: exact.log_expected_improvement(normal, 0.3),
    "pi": lambda normal: exact.probability_of_improvement(normal, 0.3),
    "log_pi": lambda normal: exact.log_probability_of_improvement(normal, 0.3),
    "soft_pi": lambda normal: exact.probability_of_improvement(normal, 0.3, temperature=0.1),
    "sr": exact.simple_regret,
    "ucb": lambda normal: exact.upper_confidence_bound(normal, 2.0),
    "box": lambda normal: exact.box_probability(normal, -0.9, np.inf),
}
# A gradient of two or three points takes seconds to compile: one of each kind.
CASES = [
    *((name, 1) for name in FUNCTIONS),
    *((name, 2) for name in ("ei", "log_ei", "pi", "soft_pi", "sr", "ucb")),
    ("ei", 3),
]


def normal_of(vector):
    return Normal(vector["mean"], vector["covariance"])


def value_of(key, vector):
    normal, threshold = normal_of(vector), vector["threshold"]
    return {
        "ei": lambda: exact.expected_improvement(normal, threshold),
        "pi": lambda: exact.probability_of_improvement(normal, threshold),
        "pi_soft_0.01": lambda: exact.probability_of_improvement(normal, threshold, temperature=0.01),
        "pi_soft_0.1": lambda: exact.probability_of_improvement(normal, threshold, temperature=0.1),
        "ucb": lambda: exact.upper_confidence_bound(normal, vector["beta"]),
        "sr": lambda: exact.simple_regret(normal),
        "p_max": lambda: exact.probability_of_maximum(normal),
    }[key]()


def gradients(function, mean, covariance):
    """Derivatives in mean and covariance, the entries of the latter as if each stood alone."""
    with jax.enable_x64(True):
        slopes = jax.grad(lambda m, c: function(Normal(m, c)), argnums=(0, 1))(
            jnp.asarray(mean), jnp.asarray(covariance)
        )
        return tuple(map(np.asarray, slopes))


def slope_in(function, value):
    """The derivative in one number."""
    with jax.enable_x64(True):
        return float(jax.grad(function)(value))


def random_normal(seed, q, rank=None, nugget=0.0):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(q, rank or q))
    return 0.5 * rng.normal(size=q), A @ A.T / q + nugget * np.eye(q)


@pytest.mark.parametrize("name, key", ENTRIES)
def test_oracle(name, key):
    """Every entry of the notes for pools of one to three to 1e-11 (those of T5 have twelve digits)."""
    vector = VECTORS[name]

    assert np.asarray(vector["expected"][key]) == pytest.approx(value_of(key, vector), abs=1e-11)


@pytest.mark.parametrize("key", ["ei", "pi", "sr", "ucb"])
def test_oracle_of_the_gaussian_process(key, t9):
    """T9, whose posterior is printed with twelve digits."""
    vector = {"mean": t9["posterior_mean"], "covariance": t9["posterior_covariance"], **t9["expected"]}

    assert t9["expected"][key] == pytest.approx(value_of(key, {**t9, **vector}), abs=1e-11)


def test_oracle_of_the_box(oracles):
    """The probability of the box, printed with seven digits."""
    box = oracles["box"]

    assert box["probability"] == pytest.approx(
        exact.box_probability(normal_of(VECTORS["T5"]), box["lower"], box["upper"]), abs=1e-9
    )


@pytest.mark.parametrize(
    "q, expected", list(zip(ORACLES["iid_max"]["q"], ORACLES["iid_max"]["expected"], strict=True))[:3]
)
def test_expected_maximum_of_independent_normals(q, expected):
    """Printed with nine digits."""
    assert expected == pytest.approx(exact.simple_regret(Normal(np.zeros(q), np.eye(q))), abs=1e-9)


@pytest.mark.parametrize("q", [2, 3, 4, pytest.param(5, marks=pytest.mark.slow)])
def test_one_factor_reference(q):
    """Pools with one common factor, against products of Phi under one integral, to 1e-11."""
    rng = np.random.default_rng(q)
    mean, d, lam = 0.5 * rng.normal(size=q), rng.uniform(0.1, 1, q), rng.normal(size=q)
    normal = Normal(mean, np.diag(d) + np.outer(lam, lam))

    assert abs(exact.expected_improvement(normal, 0.2) - one_factor.ei(mean, d, lam, 0.2)) < 1e-11
    assert abs(exact.probability_of_improvement(normal, 0.2) - one_factor.pi(mean, d, lam, 0.2)) < 1e-11
    if q < 5:
        assert abs(exact.simple_regret(normal) - one_factor.sr(mean, d, lam)) < 1e-11
    if q < exact.LARGEST_SOFT_POOL:
        soft = exact.probability_of_improvement(normal, 0.2, temperature=0.05)
        assert abs(soft - one_factor.pi(mean, d, lam, 0.2, temperature=0.05)) < 1e-11
    if q == 2:
        assert abs(exact.upper_confidence_bound(normal, 2.0) - one_factor.ucb(mean, d, lam, 2.0)) < 1e-11


@pytest.mark.parametrize("q, tolerance", [(2, 1e-14), (3, 1e-7), (4, 1e-6), (5, 1e-6)])
def test_probability_against_scipy(q, tolerance):
    """Within SciPy's own error, for correlations of all signs."""
    mean, covariance = random_normal(q, q, nugget=0.05)
    reference = multivariate_normal.cdf(-mean, np.zeros(q), covariance, maxpts=400_000, abseps=1e-8, rng=0)

    assert abs(1 - exact.probability_of_improvement(Normal(mean, covariance), 0.0) - reference) < tolerance + 2e-12


@pytest.mark.parametrize("rho", [-1 + 1e-12, -0.999, -0.3, 0.0, 0.95, 0.99999, 1 - 1e-12])
def test_bivariate_against_mpmath(rho):
    """Phi_2 at all correlations, by high-precision quadrature of the conditional."""
    h, k = 0.3, -0.2
    with mpmath.workdps(30):
        root = mpmath.sqrt(1 - mpmath.mpf(rho) ** 2)
        bend = k / mpmath.mpf(rho) if rho else mpmath.mpf(0)
        steps = sorted({bend + s * 10 * root for s in (-1, 0, 1)} | {mpmath.mpf(-10)})
        edges = [x for x in steps if -10 <= x < h] + [mpmath.mpf(h)]
        value = mpmath.quad(lambda x: mpmath.npdf(x) * mpmath.ncdf((k - rho * x) / root), edges)
    ours = 1 - exact.probability_of_improvement(Normal([-h, -k], [[1.0, rho], [rho, 1.0]]), 0.0)

    assert abs(float(value) - ours) < 2e-12


@pytest.mark.parametrize(
    "u, log_h", list(zip(*(ORACLES["log_improvement_tail"][key] for key in ("u", "log_h")), strict=True))
)
def test_log_improvement_tail(u, log_h):
    """The notes' table."""
    assert log_h == pytest.approx(exact.log_expected_improvement(Normal([float(u)], [[1.0]]), 0.0), rel=1e-13)


def test_logarithms_against_mpmath():
    """log EI and log PI at one point, and their slopes, from u = -1000 to 10, and at the branch."""
    points = [
        *np.random.default_rng(0).uniform(-1000, 10, 20),
        *np.random.default_rng(1).uniform(-9, 4, 20),
        -4.0,
        -40.0,
        -1e5,
    ]
    with jax.enable_x64(True):
        u = jnp.array(points)
        ei, dei = jax.jvp(tail.log_h, (u,), (jnp.ones_like(u),))
        pi, dpi = jax.jvp(tail.log_ndtr, (u,), (jnp.ones_like(u),))
    with mpmath.workdps(40):
        for i, u in enumerate(map(mpmath.mpf, points)):
            scale = mpmath.sqrt(mpmath.pi / 2) * (_erfcx(-u / mpmath.sqrt(2)))  # Phi / phi
            log_density = -u * u / 2 - mpmath.log(2 * mpmath.pi) / 2
            assert float(log_density + mpmath.log(scale)) == pytest.approx(float(pi[i]), rel=1e-12, abs=1e-15)
            assert float(log_density + mpmath.log(1 + u * scale)) == pytest.approx(float(ei[i]), rel=1e-12, abs=1e-15)
            assert float(1 / scale) == pytest.approx(float(dpi[i]), rel=1e-11)
            assert float(scale / (1 + u * scale)) == pytest.approx(float(dei[i]), rel=1e-11)


def _erfcx(x):
    """exp(x^2) erfc(x), beyond what exp can hold by its asymptotic series, which is 40 digits there."""
    if x < 1000:
        with mpmath.extradps(50):
            return mpmath.exp(x * x) * mpmath.erfc(x)
    return sum((-1) ** k * mpmath.fac2(2 * k - 1) / (2 * x * x) ** k for k in range(8)) / (x * mpmath.sqrt(mpmath.pi))


@pytest.mark.parametrize("q", [1, 2])
def test_slope_of_improvement_in_threshold_is_minus_probability(q):
    """d EI / d threshold = -PI."""
    mean, covariance = random_normal(q, q)
    slope = slope_in(lambda a: exact.expected_improvement(Normal(mean, covariance), a), 0.3)

    assert -slope == pytest.approx(exact.probability_of_improvement(Normal(mean, covariance), 0.3), abs=1e-11)


@pytest.mark.parametrize("name, q", CASES)
def test_gradient_matches_central_differences(name, q):
    """In every entry of mean and covariance; a central difference of step 1e-4 is right to 1e-7."""
    mean, covariance = random_normal(q + 10, q, nugget=0.2)
    dmean, dcovariance = gradients(FUNCTIONS[name], mean, covariance)
    step = 1e-4
    for i, j in itertools.combinations_with_replacement(range(q), 2):
        move = np.zeros((q, q))
        move[i, j] = move[j, i] = step
        change = FUNCTIONS[name](Normal(mean, covariance + move)) - FUNCTIONS[name](Normal(mean, covariance - move))
        assert change / (2 * step) == pytest.approx((dcovariance * move).sum() / step, abs=2e-7)
    for i in range(q):
        move = step * np.eye(q)[i]
        change = FUNCTIONS[name](Normal(mean + move, covariance)) - FUNCTIONS[name](Normal(mean - move, covariance))
        assert change / (2 * step) == pytest.approx(dmean[i], abs=2e-7)


def test_gradients_of_the_notes():
    """T2: simple regret in mean and covariance, expected improvement in the mean."""
    dmean, dcovariance = gradients(exact.simple_regret, T2["mean"], T2["covariance"])
    improvement, _ = gradients(
        lambda normal: exact.expected_improvement(normal, T2["threshold"]), T2["mean"], T2["covariance"]
    )

    assert pytest.approx(list(dmean), abs=1e-11) == [0.624085182977, 0.375914817023]
    assert pytest.approx(list(np.diagonal(dcovariance)), abs=1e-11) == [0.200006491405, 0.200006491405]
    assert pytest.approx(dcovariance[0, 1] + dcovariance[1, 0], abs=1e-11) == -0.400012982810
    assert pytest.approx(list(improvement), abs=1e-9) == [0.421965371, 0.157985528]


@pytest.mark.parametrize("argument", ["threshold", "temperature", "beta", "bound"])
def test_gradient_in_parameters(argument):
    """Threshold, temperature, beta and the box's bounds are differentiated too."""
    normal = normal_of(T2)
    function = {
        "threshold": lambda a: exact.probability_of_improvement(normal, a),
        "temperature": lambda a: exact.probability_of_improvement(Normal([0.3], [[0.49]]), 0.5, temperature=a),
        "beta": lambda a: exact.upper_confidence_bound(normal, a),
        "bound": lambda a: exact.box_probability(normal, [-1.0, -np.inf], a),
    }[argument]
    slope = slope_in(function, 0.4)

    assert (function(0.4001) - function(0.3999)) / 2e-4 == pytest.approx(slope, abs=1e-7)


@pytest.mark.parametrize("name", ["ei", "pi", "sr"])
@pytest.mark.parametrize("nugget", [1e-1, 1e-8, 1e-14])
def test_permutation_changes_nothing(name, nugget):
    """Three points, also where the covariance is almost of rank two."""
    mean, covariance = random_normal(3, 3, rank=2, nugget=nugget)
    orders = [list(order) for order in itertools.permutations(range(3))]
    values = [FUNCTIONS[name](Normal(mean[o], covariance[np.ix_(o, o)])) for o in orders]

    assert np.ptp(values) < 1e-9


@pytest.mark.parametrize("name", ["ei", "sr", "ucb", "pi"])
@pytest.mark.parametrize("nugget", [1e-1, 1e-3, 1e-12])
def test_permutation_with_equal_means(name, nugget):
    """All outcomes tie at one value, where every bound meets every other; two points."""
    _, covariance = random_normal(4, 2, rank=1, nugget=nugget)
    values = [FUNCTIONS[name](Normal([0.3, 0.3], c)) for c in (covariance, covariance[::-1, ::-1])]

    assert np.ptp(values) < 1e-11


@pytest.mark.parametrize("name, q", [(name, q) for name, q in CASES if q > 1])
def test_coincident_points_are_one(name, q):
    """The value of one point, its slope in the mean shared out, everything finite."""
    one, many = Normal([0.1], [[0.7]]), (np.full(q, 0.1), np.full((q, q), 0.7))
    [slope], _ = gradients(FUNCTIONS[name], [0.1], [[0.7]])
    dmean, dcovariance = gradients(FUNCTIONS[name], *many)

    assert FUNCTIONS[name](one) == pytest.approx(FUNCTIONS[name](Normal(*many)), abs=1e-10)
    assert slope == pytest.approx(dmean.sum(), abs=1e-10)
    assert np.isfinite(dcovariance).all()


def test_five_coincident_points():
    """The largest pool, all of it one point."""
    normal = Normal(np.full(5, 0.1), np.full((5, 5), 0.7))

    assert exact.expected_improvement(Normal([0.1], [[0.7]]), 0.3) == pytest.approx(
        exact.expected_improvement(normal, 0.3)
    )


def test_coincident_points_share_their_probability():
    """Two of three points are one."""
    normal = Normal(np.zeros(3), [[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]])

    assert list(exact.probability_of_maximum(normal)) == pytest.approx([0.25, 0.25, 0.5], abs=1e-11)


@pytest.mark.slow
def test_largest_bound():
    """Three points: T5, the one-factor reference, and permutations of equal means."""
    mean, d, lam = [0.1, -0.2, 0.3], [0.3, 0.5, 0.2], [0.5, -0.4, 0.3]
    covariance = np.diag(d) + np.outer(lam, lam)
    orders = [list(order) for order in itertools.permutations(range(3))]
    equal = [exact.upper_confidence_bound(Normal(np.zeros(3), covariance[np.ix_(o, o)]), 2.0) for o in orders]

    assert value_of("ucb", VECTORS["T5"]) == pytest.approx(VECTORS["T5"]["expected"]["ucb"], abs=1e-11)
    assert abs(exact.upper_confidence_bound(Normal(mean, covariance), 2.0) - one_factor.ucb(mean, d, lam, 2.0)) < 1e-9
    assert np.ptp(equal) < 1e-11


@pytest.mark.slow
def test_largest_soft_pool():
    """Four points against the one-factor reference."""
    mean, d, lam = [0.1, -0.2, 0.3, 0.0], [0.3, 0.5, 0.2, 0.9], [0.5, -0.4, 0.3, 1.0]
    value = exact.probability_of_improvement(Normal(mean, np.diag(d) + np.outer(lam, lam)), 0.2, temperature=0.05)

    assert abs(value - one_factor.pi(mean, d, lam, 0.2, temperature=0.05)) < 1e-11


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("mean", [0.1, 0.3, 0.6])
def test_known_outcome(name, mean):
    """Zero variance at one point, below, at and above the threshold: finite in value and gradient."""
    value = FUNCTIONS[name](Normal([mean], [[0.0]]))
    dmean, dcovariance = gradients(FUNCTIONS[name], [mean], [[0.0]])

    assert np.isfinite(value)
    assert np.isfinite(dmean).all()
    assert np.isfinite(dcovariance).all()


def test_values_of_known_outcomes():
    """What is left without variance is arithmetic; a known outcome at the threshold does not improve on it."""
    known = Normal([0.3, 0.5], np.zeros((2, 2)))

    assert pytest.approx(exact.expected_improvement(known, 0.3), abs=1e-12) == 0.2
    assert [exact.probability_of_improvement(known, a) for a in (0.5, 0.4)] == [0.0, 1.0]
    assert pytest.approx(exact.simple_regret(known), abs=1e-12) == 0.5
    assert pytest.approx(exact.upper_confidence_bound(known, 2.0), abs=1e-12) == 0.5
    assert 1 / (1 + np.exp(-2)) == pytest.approx(
        exact.probability_of_improvement(known, 0.3, temperature=0.1), abs=1e-12
    )
    assert exact.box_probability(known, [0.3, 0.4], [0.4, 0.5]) == 1.0


def test_soft_probability_of_a_known_outcome_has_a_slope():
    """The sigmoid's own, at one known point."""
    [slope], _ = gradients(FUNCTIONS["soft_pi"], [0.35], [[0.0]])
    sigmoid = 1 / (1 + np.exp(-0.5))

    assert sigmoid * (1 - sigmoid) / 0.1 == pytest.approx(slope, abs=1e-9)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_point_far_below_adds_nothing(name):
    """The code for two points agrees with that for one."""
    if name == "box":
        return
    pair = Normal([0.2, -40.0], [[1.0, 0.3], [0.3, 0.5]])

    assert FUNCTIONS[name](Normal([0.2], [[1.0]])) == pytest.approx(FUNCTIONS[name](pair), abs=1e-11)


def test_logarithms_of_pools_far_below():
    """Where the value is lost in rounding, its logarithm lies between the best point's and the sum's."""
    pair, one = Normal([-30.0, -30.0], np.eye(2)), Normal([-30.0], [[1.0]])
    for function in (exact.log_expected_improvement, exact.log_probability_of_improvement):
        assert 0 <= function(pair, 0.0) - function(one, 0.0) <= np.log(2) + 1e-12


def test_perfect_anticorrelation():
    """y and -y around the threshold: three outcomes tie at one value."""
    normal = Normal([0.0, 0.0], [[1.0, -1.0], [-1.0, 1.0]])

    assert np.sqrt(2 / np.pi) == pytest.approx(exact.expected_improvement(normal, 0.0), abs=1e-11)
    assert np.sqrt(2 / np.pi) == pytest.approx(exact.simple_regret(normal), abs=1e-11)
    assert pytest.approx(exact.upper_confidence_bound(normal, 1.0), abs=1e-11) == 1.0


def test_box_without_bounds_and_sides():
    """The whole space has probability one; two half-spaces add up to it."""
    normal = normal_of(VECTORS["T5"])
    below = exact.box_probability(normal, -np.inf, [0.3, np.inf, np.inf])
    above = exact.box_probability(normal, [0.3, -np.inf, -np.inf], np.inf)

    assert pytest.approx(exact.box_probability(normal, -np.inf, np.inf), abs=1e-11) == 1.0
    assert pytest.approx(below + above, abs=1e-11) == 1.0
    assert 1 - exact.box_probability(normal, -np.inf, 0.8) == pytest.approx(
        exact.probability_of_improvement(normal, 0.8), abs=1e-11
    )


def test_gradient_in_32_bit_keeps_its_digits():
    """Under JAX's default the forward and backward passes are in 64 bit, the result in that of the argument."""
    slope = jax.grad(lambda m: exact.expected_improvement(Normal(m, T2["covariance"]), 0.25))(np.array(T2["mean"]))

    assert pytest.approx(np.asarray(slope), abs=1e-7) == [0.421965371, 0.157985528]


def test_concrete_values_are_numpy_scalars():
    """Digits survive in a session that is in 32 bit."""
    assert isinstance(exact.expected_improvement(normal_of(T2), 0.25), np.float64)


@pytest.mark.parametrize(
    "call, words",
    [
        (
            lambda: exact.expected_improvement(Normal(np.zeros(6), np.eye(6)), 0.0),
            "normal: has 6 points .* up to 5.*expectation",
        ),
        (lambda: exact.simple_regret(Normal(np.zeros(6), np.eye(6))), "up to 5"),
        (lambda: exact.upper_confidence_bound(Normal(np.zeros(4), np.eye(4)), 1.0), "up to 3"),
        (lambda: exact.probability_of_improvement(Normal(np.zeros(5), np.eye(5)), 0.0, temperature=0.1), "up to 4"),
        (lambda: exact.expected_improvement(Normal([0.0], [[1.0]]), [0.0]), "threshold: expected one number"),
        (lambda: exact.expected_improvement(Normal([0.0], [[1.0]]), np.nan), "threshold: .*NaN"),
        (
            lambda: exact.probability_of_improvement(Normal([0.0], [[1.0]]), 0.0, temperature=0.0),
            "temperature: must be above",
        ),
        (lambda: exact.upper_confidence_bound(Normal([0.0], [[1.0]]), -1.0), "beta: must be zero or more"),
        (lambda: exact.box_probability(Normal([0.0], [[1.0]]), 1.0, 0.0), "lower: 1 at index 0 is above upper"),
        (lambda: exact.box_probability(Normal([0.0], [[1.0]]), [0.0, 0.0], 1.0), "lower: has 2 values where 1"),
        (lambda: exact.box_probability(Normal([0.0], [[1.0]]), np.nan, 1.0), "lower: has NaN"),
    ],
)
def test_bad_input(call, words):
    """Each names the argument and says what to change."""
    with pytest.raises(InputError, match=words):
        call()


@pytest.mark.parametrize("unit", [1e-25, 1e-20, 1e12, 1e100])
def test_outcomes_in_another_unit(unit):
    """The same values in that unit, for outcomes as small or as large as they may be."""
    mean, covariance = np.array([0.2, -0.1]), np.array([[1.0, 0.4], [0.4, 0.6]])

    def values(unit):
        normal = Normal(unit * mean, unit**2 * covariance)
        improvement = exact.expected_improvement(normal, 0.5 * unit)
        return [improvement, exact.simple_regret(normal), exact.upper_confidence_bound(normal, 1.7)]

    np.testing.assert_allclose(values(1.0), np.array(values(unit)) / unit, rtol=1e-12)


@pytest.mark.parametrize("box", [(9.0, np.inf), (-np.inf, -9.0), (9.0, 9.5), (1.0, 2.0), (-2.0, 1.0)])
def test_box_of_one_point_in_either_tail(box):
    """To a few digits less than rounding leaves."""
    low, high = box if box[0] < 0 else (-box[1], -box[0])

    assert exact.box_probability(Normal([0.0], [[1.0]]), *box) == pytest.approx(
        norm.cdf(high) - norm.cdf(low), rel=1e-10
    )
