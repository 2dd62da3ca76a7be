"""Bad input: a Poolwise error that is a ValueError too, names the argument, and says what to change."""

import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import poolwise as pw

NAN, INF = float("nan"), float("inf")
X, Y = [[0.1], [0.5], [0.9]], [1.0, 2.0, 3.0]
PROCESS = pw.GaussianProcess(pw.Matern52(0.3), noise=1e-3)
NORMAL = pw.Normal([0.0, 1.0], [[1.0, 0.2], [0.2, 0.5]])
SR = pw.SimpleRegret()


@pytest.fixture(scope="module")
def seen():
    return PROCESS.condition(X, Y)


BAD = {
    "NaN in X": ("X", lambda s: PROCESS.condition([[0.1], [NAN], [0.9]], Y)),
    "infinite X": ("X", lambda s: PROCESS.condition([[0.1], [INF], [0.9]], Y)),
    "NaN in y": ("y", lambda s: PROCESS.condition(X, [1.0, NAN, 2.0])),
    "infinite y": ("y", lambda s: PROCESS.condition(X, [1.0, -INF, 2.0])),
    "words for y": ("y", lambda s: PROCESS.condition(X, ["a", "b", "c"])),
    "fewer y than X": ("y", lambda s: PROCESS.condition(X, [1.0, 2.0])),
    "X a vector": ("X", lambda s: PROCESS.condition([0.1, 0.5, 0.9], Y)),
    "y a matrix": ("y", lambda s: PROCESS.condition(X, [[1.0], [2.0], [3.0]])),
    "no data": ("X", lambda s: PROCESS.condition(np.zeros((0, 1)), [])),
    "ragged X": ("X", lambda s: PROCESS.condition([[0.1], [0.2, 0.3]], [1.0, 2.0])),
    "noise for fewer": ("noise", lambda s: pw.GaussianProcess(pw.Matern52(0.3), [0.1, 0.2]).condition(X, Y)),
    "negative noise": ("noise", lambda s: pw.GaussianProcess(pw.Matern52(0.3), -0.1)),
    "NaN noise": ("noise", lambda s: pw.GaussianProcess(pw.Matern52(0.3), NAN)),
    "negative lengthscale": ("lengthscale", lambda s: pw.Matern52(-1.0)),
    "zero lengthscale": ("lengthscale", lambda s: pw.Matern52([0.3, 0.0])),
    "zero amplitude": ("amplitude", lambda s: pw.Matern52(0.3, amplitude=0.0)),
    "dimensions of the kernel": ("X", lambda s: pw.GaussianProcess(pw.Matern52([0.3, 0.4])).condition(X, Y)),
    "empty pool": ("pool", lambda s: s(np.zeros((0, 1)))),
    "pool a vector": ("pool", lambda s: s([0.1, 0.2])),
    "pool in two dimensions": ("pool", lambda s: s([[0.1, 0.2]])),
    "NaN in the pool": ("pool", lambda s: s([[NAN]])),
    "empty pool in expectation": ("pool", lambda s: pw.expectation(SR, s, np.zeros((0, 1)))),
    "no pool in expectation": ("pool", lambda s: pw.expectation(SR, s)),
    "a Normal and a pool": ("pool", lambda s: pw.expectation(SR, NORMAL, [[0.1]])),
    "pending in two dimensions": ("pending", lambda s: pw.expectation(SR, s, [[0.1]], pending=[[0.1, 0.2]])),
    "covariance not symmetric": ("covariance", lambda s: pw.Normal([0.0, 0.0], [[1.0, 0.3], [0.1, 1.0]])),
    "covariance not square": ("covariance", lambda s: pw.Normal([0.0, 0.0], [[1.0, 0.3]])),
    "covariance of another size": ("covariance", lambda s: pw.Normal([0.0], np.eye(2))),
    "covariance not positive": ("covariance", lambda s: pw.Normal([0.0, 0.0], [[1.0, 2.0], [2.0, 1.0]])),
    "negative variance": ("covariance", lambda s: pw.Normal([0.0], [[-1.0]])),
    "NaN in the covariance": ("covariance", lambda s: pw.Normal([0.0], [[NAN]])),
    "empty mean": ("mean", lambda s: pw.Normal([], np.zeros((0, 0)))),
    "reversed box": ("lower", lambda s: pw.Box(1.0, 0.0)),
    "box reversed in one place": ("lower", lambda s: pw.Box([0.0, 1.0], [1.0, 0.5])),
    "empty box": ("lower", lambda s: pw.Box(1.0, 1.0)),
    "NaN bound": ("upper", lambda s: pw.Box(upper=NAN)),
    "bounds of two lengths": ("upper", lambda s: pw.Box([0.0, 0.0], [1.0, 1.0, 1.0])),
    "bounds for another pool": ("lower", lambda s: pw.expectation(SR, NORMAL, region=pw.Box([0.0, 0.0, 0.0]))),
    "unknown base": ("base", lambda s: pw.expectation(SR, NORMAL, base="sobbol")),
    "no samples": ("samples", lambda s: pw.expectation(SR, NORMAL, samples=0)),
    "odd antithetic samples": ("samples", lambda s: pw.expectation(SR, NORMAL, samples=5, base="antithetic")),
    "negative seed": ("seed", lambda s: pw.expectation(SR, NORMAL, seed=-1)),
    "no integrand": ("integrand", lambda s: pw.expectation("EI", NORMAL)),
    "lookahead without posterior": ("belief", lambda s: pw.expectation(pw.EntropySearch([[0.1]]), NORMAL)),
    "NaN threshold": ("threshold", lambda s: pw.ExpectedImprovement(NAN)),
    "vector threshold": ("threshold", lambda s: pw.ExpectedImprovement([1.0, 2.0])),
    "negative beta": ("beta", lambda s: pw.UpperConfidenceBound(-1.0)),
    "zero temperature": ("temperature", lambda s: pw.ProbabilityOfImprovement(0.0, temperature=0.0)),
    "zero spread": ("spread", lambda s: pw.ProbabilityOfImprovement(0.0, spread=0.0)),
    "representers a vector": ("representers", lambda s: pw.EntropySearch([0.1, 0.2])),
    "representers in two dimensions": (
        "representers",
        lambda s: pw.expectation(pw.EntropySearch([[0.1, 0.2]]), s, [[0.1]]),
    ),
    "candidates in two dimensions": (
        "candidates",
        lambda s: pw.expectation(pw.TwoStepExpectedImprovement(0.0, [[0.1, 0.2]]), s, [[0.1]]),
    ),
    "no inner samples": ("samples", lambda s: pw.EntropySearch([[0.1]], samples=0)),
    "normals of another width": ("normals", lambda s: NORMAL.outcomes([[0.1, 0.2, 0.3]])),
    "fit with NaN": ("y", lambda s: pw.fit(X, [1.0, NAN, 3.0])),
    "fit with fewer y": ("y", lambda s: pw.fit(X, [1.0, 2.0])),
    "fit with more y than scouts": ("y", lambda s: pw.fit(np.linspace(0, 1, 280)[:, None], np.zeros(300))),
    "fit beyond numbers": ("y", lambda s: pw.fit(X, [1e200, 0.0, 1.0])),
    "fit with negative noise": ("noise", lambda s: pw.fit(X, Y, noise=-1.0)),
    "fit with another start": ("start", lambda s: pw.fit([[0.1, 0.2], [0.3, 0.4]], [1.0, 2.0], start=s)),
    "paths without dimension": ("dimension", lambda s: pw.sample_paths(PROCESS)),
    "no paths": ("count", lambda s: pw.sample_paths(s, 0)),
    "few samples of a search": ("samples", lambda s: pw.Ascent(samples=3)),
    "masked y": ("y", lambda s: PROCESS.condition(X, np.ma.array(Y, mask=[False, False, True]))),
    "complex y": ("y", lambda s: PROCESS.condition(X, np.array(Y) + 1j)),
    "complex y of JAX": ("y", lambda s: PROCESS.condition(X, jnp.array(Y) + 1j)),
    "negative seed of balanced": ("seed", lambda s: pw.balanced(s, 2, seed=-1)),
    "negative seed of thompson": ("seed", lambda s: pw.thompson(s, 2, seed=-1)),
    "paths at a vector": ("points", lambda s: pw.sample_paths(s)([0.1, 0.2])),
}


@pytest.mark.parametrize("name, call", BAD.values(), ids=BAD)
def test_bad_input_is_named(name, call, seen):
    """One error for users of Poolwise and of ValueError alike; the message begins with the argument."""
    with pytest.raises(pw.InputError) as caught:
        call(seen)

    assert isinstance(caught.value, pw.PoolwiseError)
    assert isinstance(caught.value, ValueError)
    assert str(caught.value).startswith(f"{name}: ")


def test_messages_say_where_and_what():
    """The index of a bad number, and the option that was meant."""
    with pytest.raises(pw.InputError, match=r"1 value.* at index 1; leave"):
        PROCESS.condition(X, [1.0, NAN, 2.0])
    with pytest.raises(pw.InputError, match="Did you mean 'sobol'"):
        pw.expectation(SR, NORMAL, base="sobbol")
    with pytest.raises(pw.InputError, match=r"\[0, 1\] and \[1, 0\] differ by 0.2"):
        pw.Normal([0.0, 0.0], [[1.0, 0.3], [0.1, 1.0]])


def test_shapes_are_checked_under_a_transformation(seen):
    """What cannot be looked at still has a shape."""
    with pytest.raises(pw.InputError, match="pool: has 2 columns"):
        jax.grad(lambda X: pw.expectation(SR, seen, X).value)(jnp.zeros((1, 2)))


def test_rounding_is_no_asymmetry():
    """Covariances that came out of arithmetic are accepted, rank loss included."""
    pw.Normal([0.0, 0.0], [[1.0, 0.3], [0.3 + 1e-12, 1.0]])
    pw.Normal([0.0, 0.0], [[1.0, 1.0], [1.0, 1.0 - 1e-12]])


def test_numbers_in_any_dress():
    """Lists, integers, 32-bit arrays and JAX arrays all become 64-bit numbers."""
    for X in ([[0], [1]], np.array([[0], [1]], dtype=np.float32), jnp.array([[0.0], [1.0]])):
        posterior = PROCESS.condition(X, [1, 2])

        assert np.float64 == posterior(X).mean.dtype


WHOLE_NUMBERS = """
import numpy as np
import poolwise as pw
seen = pw.GaussianProcess(pw.Matern52(0.3), noise=1e-3).condition([[0.1], [0.5], [0.9]], [1.0, 2.0, 3.0])
best, told = pw.SimpleRegret(), pw.KnowledgeGradient()
two, few = np.int64(2), np.int64(64)
for make in (
    lambda q, m: pw.propose(seen, best, q, maximizer=pw.Ascent(samples=m, polish=4)).pool,
    lambda q, m: pw.propose(seen, told, q, maximizer=pw.OneShot(fantasies=m, rounds=2, turns=1)).pool,
    lambda q, m: pw.balanced(seen, q).pool,
    lambda q, m: pw.thompson(seen, q, features=m).pool,
    lambda q, m: pw.expectation(best, seen, [[0.2]], samples=m).value,
    lambda q, m: pw.expectation(pw.EntropySearch([[0.1], [0.6]], samples=m), seen, [[0.2]], samples=q).value,
):
    np.testing.assert_array_equal(make(2, 64), make(two, few))
"""


def test_whole_numbers_of_numpy_are_whole_numbers():
    """They have 64 bits where Python's have no end; in a process without the tests' own type checker."""
    quick = os.environ | {"XLA_FLAGS": "--xla_backend_optimization_level=0"}
    ran = subprocess.run([sys.executable, "-c", WHOLE_NUMBERS], capture_output=True, text=True, env=quick)

    assert "" == ran.stderr
