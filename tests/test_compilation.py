"""One trace per bucket: a study that grows meets few shapes, and each is compiled once."""

import logging

import jax
import numpy as np
import pytest

import poolwise as pw
from poolwise.acquisition.expectation import _at_pool
from poolwise.belief.gaussian_process import _condition, _predict
from poolwise.learning import _race

PROCESS = pw.GaussianProcess(pw.Matern52([0.3, 0.4, 0.5]), noise=1e-3)
RNG = np.random.default_rng(0)
X, Y = RNG.random((130, 3)), RNG.standard_normal(130)


@pytest.fixture(autouse=True)
def empty_caches(nothing_kept):
    """Counts start from nothing, whatever ran before."""
    jax.clear_caches()


def test_conditioning_and_predicting_trace_once_per_bucket():
    """n = 1 .. 64 is one program; 65 and 128 share the next."""
    for n in range(1, 65):
        PROCESS.condition(X[:n], Y[:n])(X[:2])
    assert (1, 1) == (_condition._cache_size(), _predict._cache_size())

    for n in (65, 128):
        PROCESS.condition(X[:n], Y[:n])(X[:2])
    assert (2, 2) == (_condition._cache_size(), _predict._cache_size())


def test_nothing_at_all_is_compiled_for_one_more_row(caplog):
    """Not even the small operations around the compiled programs: JAX logs every compilation, and there is none."""
    noise = pw.GaussianProcess(PROCESS.kernel, np.full(10, 1e-3))
    PROCESS.condition(X[:9], Y[:9])(X[:2])
    noise.condition(X[:10], Y[:10])
    with jax.log_compiles(), caplog.at_level(logging.WARNING, logger="jax"):
        PROCESS.condition(X[:11], Y[:11])(X[:2])
        pw.GaussianProcess(PROCESS.kernel, np.full(12, 1e-3)).condition(X[:12], Y[:12])

    assert [] == [record.getMessage() for record in caplog.records if "ompil" in record.getMessage()]


def test_a_fit_compiles_two_programs(caplog):
    """The race's and the posterior's, not one for each shape of what a race begins with."""
    with jax.log_compiles(), caplog.at_level(logging.WARNING, logger="jax"):
        pw.fit(X[:9], Y[:9])

    compiled = {record.args[0] for record in caplog.records if record.getMessage().startswith("Compiling")}
    assert {"jit(_race)", "jit(_condition)"} == compiled - {"jit(<lambda>)"}  # which asks for the compiler's options


def test_an_estimate_traces_once_per_pool_size():
    """New data, thresholds, seeds and pools of one size share a program; the integrand's type decides."""
    for n in (5, 20, 60):
        posterior = PROCESS.condition(X[:n], Y[:n])
        for seed in range(3):
            pw.expectation(pw.ExpectedImprovement(Y[:n].max()), posterior, X[seed : seed + 2], samples=16, seed=seed)
    assert 1 == _at_pool._cache_size()

    pw.expectation(pw.ExpectedImprovement(0.0), posterior, X[:3], samples=16)
    assert 2 == _at_pool._cache_size()


def test_an_integrand_of_ones_own_traces_once():
    """The decorated function is part of the program, and the program is kept."""
    calls = []

    @pw.integrand
    def counted(y, mean):
        calls.append(1)
        return y.sum()

    posterior = PROCESS.condition(X[:5], Y[:5])
    for seed in range(4):
        pw.expectation(counted, posterior, X[:2], samples=16, seed=seed)

    assert 1 == len(calls)


def test_learning_traces_once_per_bucket():
    """A fit of 3, 17 and 64 observations is one program, with an earlier result or without."""
    for n in (3, 17, 64):
        posterior = pw.fit(X[:n], Y[:n])
    assert 1 == _race._cache_size()

    for n in (20, 30):
        posterior = pw.fit(X[:n], Y[:n], start=posterior)
    assert 1 == _race._cache_size()
