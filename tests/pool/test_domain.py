"""`propose` over a domain: only points that can be run, and among those nearly the best pool there is."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import poolwise as pw
from poolwise.acquisition.base_samples import normals
from poolwise.acquisition.expectation import Base, estimate
from poolwise.pool.domain import Domain
from poolwise.pool.seats import table
from poolwise.space.parameters import Choice, Float, Int
from poolwise.space.space import Space

JUDGE = 2**31 - 1  # the seed of the samples that judge a pool


class Grid:
    """A domain of levels for some coordinates, any number for those without, and a condition between them."""

    def __init__(self, *levels, allowed=lambda U: np.ones(len(U), bool)):
        self.levels = [None if column is None else np.asarray(column, float) for column in levels]
        self.allowed = allowed
        self.moving = np.array([column is None for column in self.levels])
        self.size = math.prod(math.inf if column is None else len(column) for column in self.levels)
        self.continuous = False

    def snap(self, U):
        V = np.array(U)
        for j, column in enumerate(self.levels):
            if column is not None:
                V[:, j] = column[np.abs(V[:, j, None] - column[None]).argmin(axis=1)]
        return V

    def feasible(self, U):
        return self.allowed(U)

    def sample(self, n, seed):
        if self.size <= n:
            points = np.array(list(itertools.product(*self.levels)))
            return points[self.feasible(points)]
        points = self.snap(np.random.default_rng(seed).random((4 * n, len(self.levels))))
        return self.different(points)[:n]

    def neighbours(self, u, seed, count):
        rng = np.random.default_rng(seed)
        U = np.repeat(u[None], 2 * count, axis=0)
        column = rng.integers(len(u), size=2 * count)
        U[np.arange(2 * count), column] = rng.random(2 * count)
        return self.different(self.snap(U))[:count]

    def different(self, points):
        points = points[self.feasible(points)]
        return points[np.sort(np.unique(points, axis=0, return_index=True)[1])]


def whole(levels):
    """Whole numbers in the cube."""
    return np.linspace(0.0, 1.0, levels)


def below_the_diagonal(U):
    return U[:, 0] + U[:, 1] <= 1.0


INTEGERS = Grid(whole(5), whole(3), whole(4), allowed=lambda U: U[:, 0] + U[:, 1] > 0.3)
MIXED = Grid(whole(5), [0.0, 1.0], None)
FINE = Grid(whole(5), [0.0, 1.0], whole(16))


def conditioned(d, n=12, seed=0, lengthscale=0.35):
    """A Gaussian process that has seen a wavy function; values at all points are about as good as each other."""
    X = np.random.default_rng(seed).random((n, d))
    y = np.sin(6 * X + 2 * np.arange(d)).sum(axis=1)
    return pw.GaussianProcess(pw.Matern52(lengthscale), noise=1e-4).condition(X, y), float(y.max())


def value_of(posterior, goal, pools):
    """Values of many pools, on the samples that judge a proposal."""
    with jax.enable_x64(True):
        base = Base(jnp.asarray(normals(1024, pools.shape[1], seed=JUDGE)))
        return np.asarray(_values(goal, posterior, jnp.asarray(pools), base))


@jax.jit
def _values(goal, posterior, pools, base):
    return jax.lax.map(lambda pool: estimate(goal, posterior(pool), base).value, pools, batch_size=64)


def best_of_all(posterior, goal, points, q):
    """The highest value among all pools of q of some points."""
    pools = np.array(list(itertools.combinations(range(len(points)), q)))
    return value_of(posterior, goal, points[pools]).max()


def gaps(points):
    return np.abs(points[:, None] - points[None]).max(axis=2)[np.triu_indices(len(points), 1)]


def can_be_run(domain, pool):
    """Each point is on the grid and allowed, and no two are equal."""
    return bool((domain.snap(pool) == pool).all() and domain.feasible(pool).all() and (gaps(pool) >= 1e-6).all())


def test_the_grid_is_a_domain():
    """What the tests use has what the protocol asks for."""
    assert isinstance(INTEGERS, Domain) and isinstance(MIXED, Domain)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("q", [1, 2])
@pytest.mark.parametrize(
    ("domain", "points"),
    [(INTEGERS, INTEGERS.sample(60, 0)), (MIXED, FINE.sample(160, 0))],
    ids=["integers", "mixed"],
)
def test_pool_is_nearly_the_best_there_is(domain, points, q, seed):
    """Within one percent of the best of all pools; for a continuous coordinate, of all on a fine grid."""
    posterior, top = conditioned(points.shape[1], seed=seed)
    goal = pw.ExpectedImprovement(top)
    found = pw.propose(posterior, goal, q, domain=domain, seed=seed)

    assert can_be_run(domain, found.pool)
    assert found.value >= 0.99 * best_of_all(posterior, goal, points, q)


def test_pairs_leave_the_trap_of_single_moves():
    """Here the best pair shares a hill that a single point would hold alone; no move of one point leads there."""
    posterior, top = conditioned(3, seed=2)
    goal = pw.ExpectedImprovement(top)
    found = pw.propose(posterior, goal, 2, domain=MIXED, seed=2)

    assert found.value >= 0.99 * best_of_all(posterior, goal, FINE.sample(160, 0), 2)
    np.testing.assert_array_equal(found.pool[0, :2], found.pool[1, :2])


@pytest.mark.parametrize("second", [None, whole(11)], ids=["continuous", "mixed"])
@pytest.mark.parametrize("q", [1, 2])
def test_best_pool_on_a_constraint_is_found(second, q):
    """The mean rises towards (0.7, 0.9), out of reach: the best that can be run lies where x + y = 1."""
    domain = Grid(None, second, [0.5], allowed=below_the_diagonal)
    X = np.random.default_rng(0).random((30, 3))
    y = -np.sum((X[:, :2] - [0.7, 0.9]) ** 2, axis=1)
    posterior = pw.GaussianProcess(pw.Matern52(0.8), noise=1e-4).condition(X, y)
    goal = pw.ExpectedImprovement(-0.3)
    found = pw.propose(posterior, goal, q, domain=domain)
    x = np.linspace(0, 1, 41)
    edge = np.stack([1 - (x if second is None else second), x if second is None else second], axis=1)
    points = np.concatenate([edge, np.maximum(edge - 0.05, 0.0), np.maximum(edge - [0.05, 0.0], 0.0)])

    assert can_be_run(domain, found.pool)
    assert found.value >= 0.99 * best_of_all(posterior, goal, np.insert(points, 2, 0.5, axis=1), q)
    assert found.pool[0, :2].sum() > 0.99


def test_a_space_is_a_domain():
    """A real space: each trial of the pool is one that the space allows, and no pool of a grid is worth more."""
    space = Space({"x": Float(0, 1), "n": Int(1, 9), "act": Choice(["relu", "gelu"])}, ["x * n <= 5"])
    posterior, top = conditioned(3, seed=1)
    goal = pw.ExpectedImprovement(top)
    found = pw.propose(posterior, goal, 2, domain=space)
    steps = itertools.product(whole(11).tolist(), range(1, 10), ["relu", "gelu"])
    fine = space.encode_many([{"x": x, "n": n, "act": act} for x, n, act in steps if x * n <= 5])

    assert can_be_run(space, found.pool)
    assert [space.validate(params) for params in space.decode_many(found.pool)]
    assert found.value >= 0.99 * best_of_all(posterior, goal, fine, 2)


def test_a_domain_is_emptied_and_then_says_so():
    """Four points are all there are: a pool of four takes each once, with two pending two are left."""
    domain = Grid([0.0, 1.0], [0.0, 1.0], [0.5])
    posterior, top = conditioned(3)
    goal, everything = pw.ExpectedImprovement(top), domain.sample(4, 0)
    four = pw.propose(posterior, goal, 4, domain=domain).pool
    two = pw.propose(posterior, goal, 2, domain=domain, pending=everything[:2]).pool

    np.testing.assert_array_equal(everything, four[np.lexsort(four.T[::-1])])
    np.testing.assert_array_equal(everything[2:], two[np.lexsort(two.T[::-1])])
    with pytest.raises(pw.InputError, match=r"^q: 3 different .* 2 left"):
        pw.propose(posterior, goal, 3, domain=domain, pending=everything[:2])


def test_replicates_may_be_more_than_the_domain_has():
    """Asked for, the same point comes again."""
    domain = Grid([0.0, 1.0], [0.5], [0.5])
    posterior, top = conditioned(3)
    pool = pw.propose(posterior, pw.ExpectedImprovement(top), 4, domain=domain, replicate=True).pool

    assert (domain.snap(pool) == pool).all()


def test_pending_points_count_and_are_not_proposed_again():
    """The point that would be proposed is pending: another is, and the value is that of both."""
    posterior, top = conditioned(3)
    goal = pw.ExpectedImprovement(top)
    alone = pw.propose(posterior, goal, 1, domain=INTEGERS)
    second = pw.propose(posterior, goal, 1, domain=INTEGERS, pending=alone.pool)
    both = np.concatenate([alone.pool, second.pool])

    assert gaps(both).min() >= 1e-6
    assert second.value == pytest.approx(value_of(posterior, goal, both[None])[0], rel=1e-9)


@pytest.mark.parametrize("pending", [None, [[0.25, 0.0, 0.3]]], ids=["alone", "beside pending"])
def test_a_larger_pool_can_be_run_and_comes_again(pending):
    """Four points of a mixed domain; the same arguments give the same pool, another seed another search."""
    posterior, top = conditioned(3)
    goal = pw.ExpectedImprovement(top)
    found = pw.propose(posterior, goal, 4, domain=MIXED, pending=pending, seed=3)
    pw.propose(posterior, goal, 4, domain=MIXED, pending=pending, seed=4)
    again = pw.propose(posterior, goal, 4, domain=MIXED, pending=pending, seed=3)

    assert can_be_run(MIXED, found.pool)
    np.testing.assert_array_equal(found.pool, again.pool)


@pytest.mark.parametrize(
    "goal",
    [pytest.param(pw.ProbabilityOfImprovement(1.0, None), marks=pytest.mark.slow), pw.UpperConfidenceBound()],
    ids=["PI", "UCB"],
)
def test_other_maxima_of_outcomes(goal):
    """Every max-type integrand goes the incremental way."""
    posterior, _ = conditioned(3)
    found = pw.propose(posterior, goal, 2, domain=INTEGERS)

    assert found.value >= 0.99 * best_of_all(posterior, goal, INTEGERS.sample(60, 0), 2)


@pw.integrand
def worst(y, mean):
    return jnp.min(y)


@pytest.mark.parametrize(
    ("domain", "points"),
    [
        (INTEGERS, INTEGERS.sample(60, 0)),
        pytest.param(MIXED, FINE.sample(160, 0), marks=pytest.mark.slow),
    ],
    ids=["integers", "mixed"],
)
def test_own_integrand_over_a_domain(domain, points):
    """Any integrand is maximised over points that can be run: here the worse outcome of two."""
    posterior, _ = conditioned(3)
    found = pw.propose(posterior, worst, 2, domain=domain)
    best = best_of_all(posterior, worst, points, 2)

    assert can_be_run(domain, found.pool)
    assert found.value >= best - 0.01 * abs(best)


@pytest.mark.slow
def test_entropy_search_over_a_mixed_domain():
    """A lookahead integrand too."""
    posterior, _ = conditioned(3, n=4)
    goal = pw.EntropySearch(np.random.default_rng(0).random((8, 3)), noise=1e-4, samples=32)
    found = pw.propose(posterior, goal, 2, domain=MIXED, maximizer=pw.Ascent(samples=128, candidates=64, starts=2))

    assert can_be_run(MIXED, found.pool)
    assert found.value >= found.random_value - 4 * found.error > 0


def test_budget_and_deadline_are_kept():
    """Greedy picks among the candidates are always made; what goes beyond stays within the budget."""
    posterior, top = conditioned(3)
    goal = pw.ExpectedImprovement(top)
    least = pw.propose(posterior, goal, 2, domain=MIXED, budget=pw.Budget(evaluations=1))
    some = pw.propose(posterior, goal, 2, domain=MIXED, budget=pw.Budget(evaluations=least.evaluations + 300))
    late = pw.propose(posterior, goal, 2, domain=MIXED, deadline=1e-6)
    whole = pw.propose(posterior, goal, 2, domain=MIXED)

    assert least.evaluations == late.evaluations < some.evaluations <= least.evaluations + 300 < whole.evaluations
    assert can_be_run(MIXED, least.pool) and whole.random_value < least.value <= whole.value


def test_where_nothing_improves_log_improvement_decides_in_the_domain():
    """A threshold out of reach: the pool goes for what is likeliest to reach it, and can still be run."""
    posterior, _ = conditioned(3)
    found = pw.propose(posterior, pw.ExpectedImprovement(1e3), 2, domain=INTEGERS)
    everything = INTEGERS.sample(4096, 0)
    hopes = [
        [float(pw.exact.log_expected_improvement(posterior(point[None]), 1e3)) for point in points]
        for points in (found.pool, everything)
    ]

    np.testing.assert_array_equal(INTEGERS.snap(found.pool), found.pool)
    assert max(hopes[0]) >= np.quantile(hopes[1], 0.95)


def test_points_that_add_nothing_stay_in_a_domain_without_spares():
    """Three corners are known to be bad and add nothing to the fourth; there is nowhere else, and nobody complains."""
    corners = [(0.0, 0.0), (0.0, 1.0), (1.0, 0.0), (1.0, 1.0)]
    posterior = pw.GaussianProcess(pw.Matern52(0.2), noise=1e-6).condition(corners[:3], [-5.0] * 3)
    found = pw.propose(posterior, pw.ExpectedImprovement(0.5), 4, domain=Grid([0.0, 1.0], [0.0, 1.0]))

    assert set(corners) == {tuple(u) for u in found.pool}
    assert [0, 0, 0] == sorted(found.contributions)[:3] and found.value > 0


def test_the_outcome_in_the_free_seat_is_not_sampled():
    """A single point is worth its exact improvement, whatever the base samples."""
    (posterior, _), points = conditioned(2), np.random.default_rng(3).random((16, 2))
    with jax.enable_x64(True):
        seats = table(posterior, pw.ExpectedImprovement(0.5), 1, points[:0], samples=64, seed=0)
        worth = np.asarray(seats.seat(points[:0], 0).at(jnp.asarray(points)))
    exact = [float(pw.exact.expected_improvement(posterior(point[None]), 0.5)) for point in points]

    assert np.ptp(exact) > 0.01
    assert np.allclose(worth, exact, rtol=1e-6, atol=1e-8)


def test_the_whole_cube_goes_the_usual_way():
    """A domain that says it is continuous changes nothing."""
    posterior, top = conditioned(3)
    cube = Grid(None, None, None)
    cube.continuous = True
    goal, search = pw.ExpectedImprovement(top), pw.RandomSearch(64)
    usual = pw.propose(posterior, goal, 2, maximizer=search)

    np.testing.assert_array_equal(usual.pool, pw.propose(posterior, goal, 2, domain=cube, maximizer=search).pool)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"domain": Grid([0.0, 1.0])}, "domain"),
        ({"maximizer": pw.RandomSearch(64)}, "maximizer"),
        ({"domain": Grid([0.0, 1.0], [0.0, 1.0], [0.5], allowed=lambda U: U[:, 0] > 2)}, "q"),
        ({"domain": Grid(None, None, None, allowed=lambda U: U[:, 0] > 2)}, "q"),
    ],
    ids=["dimensions", "maximizer", "empty", "empty and continuous"],
)
def test_bad_input_is_named(change, named):
    """Each bad argument is an InputError that begins with its name."""
    posterior, _ = conditioned(3)
    with pytest.raises(pw.InputError, match=f"^{named}"):
        pw.propose(posterior, pw.SimpleRegret(), 2, **({"domain": INTEGERS} | change))
