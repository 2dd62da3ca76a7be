"""What the tests share: the exact values of the paper's notes, and the Gaussian process that most of them speak of.

Rank promotion is an error while tests run, and JAX stays in its 32-bit default: the library must work in both. A test
that differentiates to more digits than 32 bits have opens `jax.enable_x64(True)` itself.
"""

import json
import signal
from pathlib import Path

import jax
import numpy as np
import pytest

import poolwise as pw
from poolwise import programs

# A shell lets what it runs in the background ignore Ctrl-C, and so would processes that tests start and interrupt.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

ORACLES = json.loads((Path(__file__).parent / "data" / "oracles.json").read_text())


@pytest.fixture(scope="module", autouse=True)
def few_programs():
    """A compiled program holds memory maps, of which Linux allows a process 65,530: beyond that it crashes."""
    yield
    maps = Path("/proc/self/maps")
    if maps.exists() and maps.read_bytes().count(b"\n") > 20_000:
        jax.clear_caches()
        programs._programs.clear()


@pytest.fixture
def nothing_kept(monkeypatch):
    """Programs are JAX's own, which counts them, whoever has asked for files of them before."""
    monkeypatch.setattr(programs, "_folder", None)


@pytest.fixture(autouse=True)
def strict_shapes():
    """A vector never broadcasts against a matrix by accident."""
    with jax.numpy_rank_promotion("raise"):
        yield


@pytest.fixture(scope="session")
def oracles():
    """Exact values, computed by quadrature in the notes of the paper."""
    return ORACLES


@pytest.fixture(scope="session")
def t9():
    """Oracle T9: a Gaussian process with three observations, a pool of two, values and gradients there."""
    return ORACLES["gaussian_process"]


@pytest.fixture(scope="session")
def posterior(t9):
    """The posterior of oracle T9, in one dimension."""
    process = pw.GaussianProcess(pw.Matern52(t9["lengthscale"], t9["amplitude"]), t9["noise_variance"], t9["mean"])
    return process.condition(np.array(t9["x"])[:, None], t9["y"])


@pytest.fixture(scope="session")
def pool(t9):
    """The pool of oracle T9, a row each."""
    return np.array(t9["pool"])[:, None]


@pytest.fixture(scope="session")
def plane():
    """A posterior in two dimensions with seven observations, one lengthscale for each."""
    rng = np.random.default_rng(5)
    X = rng.random((7, 2))
    process = pw.GaussianProcess(pw.Matern52([0.4, 0.7], amplitude=1.3), noise=1e-2, mean=0.2)
    return process.condition(X, np.sin(5 * X[:, 0]) + X[:, 1])
