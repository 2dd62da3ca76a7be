"""What every maximizer promises, whatever it climbs."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from poolwise.errors import InputError
from poolwise.maximizers.climb import Budget, Climb
from poolwise.maximizers.direct import Direct
from poolwise.maximizers.lbfgsb import Lbfgsb
from poolwise.maximizers.random_search import RandomSearch
from poolwise.maximizers.stochastic import Stochastic
from poolwise.pytree import pytree

MAXIMIZERS = [
    RandomSearch(points=300, chunk=64),
    RandomSearch(points=300, chunk=64, design="sobol"),
    Direct(evaluations=200),
    Direct(locally_biased=True, evaluations=200),
    Lbfgsb(),
    Stochastic("adam", steps=100),
    Stochastic("rmsprop", steps=100),
    Stochastic("momentum", steps=100),
]
every = pytest.mark.parametrize("maximizer", MAXIMIZERS, ids=str)

TRACES: list[str] = []


@pytree
class Bowl:
    """A bowl turned over, with its top anywhere; it counts how often it is traced."""

    top: jax.Array
    height: jax.Array

    def __call__(self, points):
        TRACES.append("bowl")
        return self.height - ((points - self.top[None]) ** 2).sum(-1)


@pytree
class NoisyBowl:
    """A bowl whose top is blurred by base samples, which can be drawn anew."""

    top: jax.Array
    normals: jax.Array

    def __call__(self, points):
        tops = self.top[None] + 0.1 * self.normals
        return -((points[:, None] - tops[None]) ** 2).sum(-1).mean(-1)

    def redraw(self, key, samples):
        """The same bowl with fresh samples."""
        return NoisyBowl(self.top, jax.random.normal(key, (samples, len(self.top)), self.normals.dtype))


def bowl(top=(0.3, 0.9, 0.5), height=2.0):
    """A bowl in 64 bit, whatever JAX is set to outside."""
    return Bowl(np.array(top), np.float64(height))


def starts(r=4, p=3):
    """A few points of the cube."""
    return np.random.default_rng(5).random((r, p))


def valued(objective, points):
    """The objective in 64 bit."""
    with jax.enable_x64(True):
        return np.asarray(objective(jnp.asarray(points)))


@every
def test_result_has_the_shape_of_the_starts(maximizer):
    """As many points as starts, inside the cube, in NumPy's double precision."""
    climb = maximizer(bowl(), starts())

    assert isinstance(climb, Climb)
    assert climb.points.shape == (4, 3)
    assert climb.values.shape == (4,)
    assert np.float64 == climb.points.dtype == climb.values.dtype
    assert climb.points.min() >= 0 and climb.points.max() <= 1
    assert climb.seconds > 0


@every
def test_values_are_those_of_the_objective(maximizer):
    """Values belong to the points to machine precision, and `best` is the highest."""
    climb = maximizer(bowl(), starts())

    np.testing.assert_allclose(valued(bowl(), climb.points), climb.values, rtol=1e-13)
    assert climb.points[np.argmax(climb.values)].tolist() == climb.best.tolist()


@every
def test_best_point_is_near_the_top(maximizer):
    """On a bowl everything climbs: the best start is beaten, and the top is within 0.2."""
    climb = maximizer(bowl(), starts())

    assert valued(bowl(), starts()).max() <= climb.values.max()
    assert np.abs(climb.best - [0.3, 0.9, 0.5]).max() < 0.2


@every
def test_history_rises(maximizer):
    """Evaluations rise, the best value never falls, and the last row is the end of the climb."""
    climb = maximizer(bowl(), starts())

    assert (np.diff(climb.history[:, 0]) >= 0).all()
    assert (np.diff(climb.history[:, 1]) >= 0).all()
    assert climb.evaluations == climb.history[-1, 0]
    assert climb.values.max() <= climb.history[-1, 1]


@every
@pytest.mark.parametrize("evaluations", [1, 4, 5, 57])
def test_evaluations_are_kept(maximizer, evaluations):
    """No more evaluations than allowed, except that the starts are always evaluated."""
    climb = maximizer(bowl(), starts(), Budget(evaluations=evaluations))

    assert climb.evaluations <= max(evaluations, 4)
    assert np.isfinite(climb.values).all()


@every
def test_seconds_are_kept(maximizer):
    """A warm program stops within five percent and one chunk, for which 50 ms of a loaded machine are allowed."""
    maximizer(bowl(), starts(), Budget(seconds=1e-3))
    climb = maximizer(bowl(), starts(), Budget(seconds=0.2))

    assert climb.seconds < 0.2 * 1.05 + 0.05


@every
def test_same_seed_gives_the_same_climb(maximizer):
    """Nothing but the arguments decides."""
    one, two = (maximizer(bowl(), starts(), seed=3) for _ in range(2))

    assert one.points.tolist() == two.points.tolist()
    assert one.history.tolist() == two.history.tolist()


@every
def test_compiled_once_for_a_type_and_shape(maximizer):
    """A second objective of the same type and shape runs the compiled program, with its own numbers."""
    maximizer(bowl(), starts())
    TRACES.clear()
    climb = maximizer(bowl(top=(0.6, 0.2, 0.4), height=-1.0), starts())

    assert TRACES == []
    assert np.abs(climb.best - [0.6, 0.2, 0.4]).max() < 0.2


@every
def test_plain_function_is_climbed(maximizer):
    """A function that is no pytree works as well."""
    climb = maximizer(lambda points: -jnp.abs(points - 0.25).sum(-1), starts())

    assert np.abs(climb.best - 0.25).max() < 0.25


@every
def test_nan_everywhere_ends(maximizer):
    """An objective without a value leaves the starts where they are, at -inf."""
    climb = maximizer(lambda points: points.sum(-1) * jnp.nan, starts())

    assert starts().tolist() == climb.points.tolist()
    assert [-np.inf] * 4 == climb.values.tolist()
    assert (climb.history[:, 1] == -np.inf).all()


@every
def test_nan_region_is_left_out(maximizer):
    """Values that are not numbers never win."""
    climb = maximizer(lambda points: jnp.where(points[:, 0] > 0.5, jnp.nan, points.sum(-1)), starts(8))

    assert climb.best[0] <= 0.5
    assert climb.values.max() > 1.0


@every
def test_stochastic_objective_is_climbed(maximizer):
    """Only `Stochastic` draws anew; all end near the top that the fixed samples have, within their blur."""
    normals = np.random.default_rng(0).standard_normal((512, 3))
    objective = NoisyBowl(np.array([0.3, 0.9, 0.5]), normals)
    climb = maximizer(objective, starts())

    assert np.abs(climb.best - [0.3, 0.9, 0.5]).max() < 0.2
    np.testing.assert_allclose(valued(objective, climb.points), climb.values, rtol=1e-12)


@every
@pytest.mark.parametrize(
    "bad, says",
    [
        (np.full((2, 3), 1.2), "unit cube"),
        (np.array([[0.1, np.nan]]), "unit cube"),
        (np.zeros(3), "one row"),
        (np.zeros((0, 3)), "one row"),
        ([["a", "b"]], "numbers"),
    ],
    ids=["outside", "nan", "vector", "empty", "text"],
)
def test_bad_starts(maximizer, bad, says):
    """Starts that cannot be used are refused in words."""
    with pytest.raises(InputError, match=says):
        maximizer(bowl(), bad)


@every
def test_objective_of_the_wrong_shape(maximizer):
    """An objective that does not give one value for each row is refused."""
    with pytest.raises(InputError, match="one value for each row"):
        maximizer(lambda points: points, starts())


@pytest.mark.parametrize(
    "argument, value",
    [("evaluations", 0), ("evaluations", -5), ("seconds", 0.0), ("seconds", -1.0), ("seconds", float("nan"))],
)
def test_budget_of_nothing(argument, value):
    """A budget of nothing names its argument."""
    with pytest.raises(InputError, match=argument):
        Budget(**{argument: value})


@pytest.mark.parametrize(
    "make, says",
    [
        (lambda: Stochastic("adm"), "Did you mean 'adam'"),
        (lambda: Stochastic("newton"), "'rmsprop'"),
        (lambda: RandomSearch(design="sobel"), "Did you mean 'sobol'"),
        (lambda: RandomSearch(points=0), "points: .*got 0"),
        (lambda: Lbfgsb(rounds=0), "rounds: .*got 0"),
        (lambda: Direct(evaluations=-1), "evaluations: .*got -1"),
        (lambda: Stochastic(learning_rate=0.0), "learning_rate=0.0"),
    ],
)
def test_bad_settings(make, says):
    """Settings that cannot be used are refused when they are made."""
    with pytest.raises(InputError, match=says):
        make()
