"""Cosine and sine by polynomials, against NumPy's."""

import jax
import numpy as np
import pytest

from poolwise.belief.turning import cos_and_sin

EDGES = np.pi * np.array([0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5])  # where angles are folded


@pytest.fixture(autouse=True)
def _double():
    with jax.enable_x64(True):
        yield


@pytest.mark.parametrize("largest", [1.0, 10.0, 1e4])
def test_values(largest):
    rng = np.random.default_rng(0)
    angles = np.concatenate([largest * rng.uniform(-1, 1, 4000), EDGES, -EDGES, np.nextafter(EDGES, 9.0)])

    cosine, sine = jax.jit(cos_and_sin)(angles)

    tolerance = 1e-14 + 4e-16 * largest
    assert np.allclose(cosine, np.cos(angles), rtol=0, atol=tolerance)
    assert np.allclose(sine, np.sin(angles), rtol=0, atol=tolerance)


def test_slopes_are_those_of_the_functions_also_at_folds():
    angles = np.concatenate([EDGES, -EDGES])
    both = lambda angle: cos_and_sin(angle)  # noqa: E731

    forward = jax.vmap(jax.jacfwd(both))(angles)
    backward = jax.vmap(jax.jacrev(both))(angles)

    for slopes in (forward, backward):
        assert np.allclose(slopes[0], -np.sin(angles), rtol=0, atol=1e-14)
        assert np.allclose(slopes[1], np.cos(angles), rtol=0, atol=1e-14)


def test_not_finite_is_nan():
    assert np.isnan(np.array(jax.jit(cos_and_sin)(np.array([np.nan, np.inf])))).all()
