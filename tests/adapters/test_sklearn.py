"""A search of scikit-learn: its own checks and tests of searches, and what is ours."""

import importlib
import math
import runpy
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import expon, loguniform, randint, uniform
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import make_classification
from sklearn.decomposition import PCA
from sklearn.exceptions import FitFailedWarning
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import ShuffleSplit
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils._testing import MinimalClassifier
from sklearn.utils.estimator_checks import check_estimator

from poolwise import Choice, Float, InputError, Int, Space, SpaceError
from poolwise.adapters.sklearn import PoolSearchCV, standard_errors
from poolwise.adapters.sklearn_space import SearchSpace

EXAMPLE = Path(__file__).parents[2] / "examples" / "sklearn" / "search.py"
X, y = make_classification(n_samples=60, n_features=4, random_state=0)
REFUSED = {  # by scikit-learn's own searches too
    "check_supervised_y_2d": "DataConversionWarning not caught",
    "check_requires_y_none": "Doesn't fail gracefully",
}
SEARCHES = [
    PoolSearchCV(Ridge(), {"alpha": [0.1, 1.0]}, n_iter=2, cv=2, error_score="raise", random_state=0),
    PoolSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, n_iter=2, cv=2, error_score="raise", random_state=0),
]


def type_of(search):
    return type(search.estimator).__name__


@pytest.mark.parametrize("search", [SEARCHES[0], pytest.param(SEARCHES[1], marks=pytest.mark.slow)], ids=type_of)
def test_checks_of_estimators(search):
    """What scikit-learn asks of every estimator."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        checks = check_estimator(search, expected_failed_checks=REFUSED, on_skip=None)

    assert sum(check["status"] == "passed" for check in checks) > 30


def as_randomized(estimator, param_distributions, *, n_iter=10, **options):
    """Our search, called like scikit-learn's; one pool, which needs no model."""
    return PoolSearchCV(estimator, param_distributions, n_iter=n_iter, n_points=n_iter, **options)


HOST = {
    "test_trivial_cv_results_attr": (),
    "test_random_search_cv_results_multimetric": (),
    "test_pickle": (),
    "test_n_features_in": (),
    "test_scalar_fit_param_compat": (as_randomized, {"alpha": uniform(0.01, 0.1)}),
    "test_search_cv_using_minimal_compatible_estimator": (as_randomized, MinimalClassifier),
    "test_search_html_repr": (),
    "test_multi_metric_search_forwards_metadata": (as_randomized, "param_distributions"),
    "test_unsupported_sample_weight_scorer": (),
    "test_empty_cv_iterator_error": (),
}


@pytest.fixture(scope="module")
def host(pytestconfig):
    """The module of scikit-learn that tests its searches."""
    pytestconfig.addinivalue_line("markers", "thread_unsafe: of scikit-learn's tests")
    return importlib.import_module("sklearn.model_selection.tests.test_search")


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize("name, arguments", HOST.items(), ids=HOST)
def test_tests_of_searches(name, arguments, host, monkeypatch):
    """Tests that scikit-learn has for its randomized search hold for ours in its place."""
    monkeypatch.setattr(host, "RandomizedSearchCV", as_randomized)

    getattr(host, name)(*arguments)


class Hill(ClassifierMixin, BaseEstimator):
    """An estimator whose score is a hill over its parameters, and which fails beyond a line."""

    def __init__(self, height=0.0, rate=1.0, kind="plain", most=0.75):
        self.height = height
        self.rate = rate
        self.kind = kind
        self.most = most

    def fit(self, X, y):
        if self.height > self.most:
            raise ValueError("too high")
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return np.zeros(len(X), dtype=int)

    def score(self, X, y):
        return -((self.height - 0.4) ** 2) - 0.1 * math.log10(self.rate / 0.02) ** 2 - (self.kind == "worse")


SPACE = {"height": Float(0, 1), "rate": Float(1e-4, 1, log=True), "kind": ["plain", "worse"]}
failures = pytest.mark.filterwarnings("ignore::sklearn.exceptions.FitFailedWarning", "ignore:One or more of the")


def search(estimator, space, **options):
    return PoolSearchCV(estimator, space, **{"cv": 2, "random_state": 0, "n_points": 4, **options})


@failures
def test_a_search_climbs_and_failures_cost_their_candidate_only():
    """Twenty candidates come near the hill's top; those that fail have no score, and the search goes on."""
    found = search(Hill(), SPACE, n_iter=20).fit(X, y)
    failed = np.isnan(found.cv_results_["mean_test_score"])

    assert 20 == len(found.cv_results_["params"])
    assert failed.any()
    assert all(found.cv_results_["param_height"][failed] > 0.75)
    assert found.best_score_ > -0.05
    assert "plain" == found.best_params_["kind"]


@failures
@pytest.mark.parametrize("error_score", [np.nan, -9.0])
def test_a_pool_that_fails_is_not_the_end(error_score):
    """Pools of one, most of which fail: they have their row like others that fail, and the search goes on."""
    options = {"n_iter": 4, "n_points": 1, "error_score": error_score, "return_train_score": True}
    found = search(Hill(most=0.5), {"height": Float(0, 1)}, **options).fit(X, y)
    failed = found.cv_results_["param_height"] > 0.5
    scores = [found.cv_results_[name][failed] for name in ("mean_test_score", "split1_test_score", "mean_train_score")]

    assert 4 == len(found.cv_results_["params"]) == len(found.cv_results_["rank_test_score"])
    assert 0 < failed.sum() < 4
    np.testing.assert_array_equal(np.full((3, failed.sum()), error_score), scores)
    assert found.best_params_["height"] <= 0.5
    assert found.best_score_ == max(found.cv_results_["mean_test_score"][~failed])


@failures
def test_pools_that_fail_have_all_scores():
    """Of several scores each is that of an error; nothing is left behind on the search."""
    scoring = {"one": lambda m, X, y: m.score(X, y), "two": lambda m, X, y: 1.0}
    options = {"n_iter": 4, "n_points": 1, "error_score": -9, "refit": "one"}
    found = search(Hill(most=0.5), {"height": Float(0, 1)}, scoring=scoring, **options).fit(X, y)

    assert {-9.0, 1.0} == set(found.cv_results_["mean_test_two"].tolist())
    assert not hasattr(found, "_fits")


def test_a_pool_that_fails_is_warned_of():
    """With what scikit-learn says of its fits."""
    with pytest.warns(FitFailedWarning, match="too high") as told:
        search(Hill(most=0.5), {"height": Float(0, 1)}, n_iter=4, n_points=1, error_score=-9).fit(X, y)

    assert {FitFailedWarning} == {warning.category for warning in told}


@failures
def test_a_search_without_a_score_is_an_error():
    """As with other searches, if all fits fail."""
    with pytest.raises(ValueError, match="fits failed"):
        search(Hill(most=-1), {"height": Float(0, 1)}, n_iter=3, n_points=2).fit(X, y)


def test_an_error_is_raised_where_asked():
    """`error_score="raise"` is the user's wish."""
    with pytest.raises(ValueError, match="too high"):
        search(Hill(most=-1), {"height": Float(0, 1)}, n_iter=3, error_score="raise").fit(X, y)


def test_the_same_seed_gives_the_same_candidates():
    """Numbers and states of NumPy's generators."""
    found = [search(Hill(most=2), SPACE, n_iter=5, random_state=r).fit(X, y).cv_results_["params"] for r in (3, 3, 4)]

    assert found[0] == found[1] != found[2]
    assert search(Hill(most=2), SPACE, n_iter=2, random_state=np.random.RandomState(1)).fit(X, y).best_params_


def test_pools_are_scored_on_the_same_folds():
    """Also where the splitter shuffles without a seed: equal candidates have equal scores."""
    tree = DecisionTreeClassifier(max_depth=2, random_state=0)
    splits, many = ShuffleSplit(20, test_size=0.3), range(20)  # so many that not all have one score by chance
    found = search(tree, {"max_features": [4, None]}, n_iter=2, n_points=1, cv=splits).fit(X, y)
    scores = [found.cv_results_[f"split{i}_test_score"].tolist() for i in many]

    assert all(a == b for a, b in scores)
    assert len({a for a, _ in scores}) > 1


@pytest.mark.parametrize(
    "refit, sign",
    [("low", -1), pytest.param("high", 1, marks=pytest.mark.slow), pytest.param(False, 1, marks=pytest.mark.slow)],
)
def test_one_of_several_scores_is_searched_for(refit, sign):
    """The one that `refit` names, or the first."""
    scoring = {"high": lambda m, X, y: math.log10(m.C), "low": lambda m, X, y: -math.log10(m.C)}
    space = {"C": Float(1e-4, 1e4, log=True)}
    found = search(LogisticRegression(), space, n_iter=8, scoring=scoring, refit=refit).fit(X, y)
    tried = [sign * math.log10(params["C"]) for params in found.cv_results_["params"]]

    assert max(tried[4:]) > 3.8


def test_workers_load_no_jax():
    """Folds are fitted in other processes, which are started anew and do not need it."""

    def loaded(model, X, y):
        return float("jax" in sys.modules)

    found = search(LogisticRegression(), {"C": Float(0.1, 1)}, n_iter=2, n_jobs=2, scoring=loaded).fit(X, y)

    assert [0.0, 0.0] == found.cv_results_["mean_test_score"].tolist()


def test_lists_hold_anything():
    """Estimators, tuples, None and NaN are given to the estimator as they are."""
    values = [PCA(2), "passthrough", None]
    space = SearchSpace.of({"step": values, "sizes": [(1, 2), (3,)], "missing": np.array([1.0, np.nan])})
    codes = {"step": 0, "sizes": 1, "missing": 1}

    assert values[0] is space.candidate(codes)["step"]
    assert (3,) == space.candidate(codes)["sizes"]
    assert math.isnan(space.candidate(codes)["missing"])


@pytest.mark.parametrize(
    "given, parameter",
    [
        (Float(0, 1), Float(0, 1)),
        (loguniform(1e-3, 10), Float(1e-3, 10, log=True)),
        (uniform(1, 3), Float(1, 4)),
        (randint(1, 5), Int(1, 4)),
        ((1, 100, "log-uniform"), Int(1, 100, log=True)),
        ((1e-3, 1.0, "uniform"), Float(1e-3, 1.0)),
        ([1, 10, 100], Choice([0, 1, 2], ordered=True)),
        (pd.Series([1, 10, 100]), Choice([0, 1, 2], ordered=True)),
        (pd.Index(["a", "b"]), Choice([0, 1])),
        (np.logspace(2, 0, 3), Choice([0, 1, 2], ordered=True)),
        (["a", "b"], Choice([0, 1])),
        (("a", "b"), Choice([0, 1])),
        ([True, False], Choice([0, 1])),
    ],
    ids=range(13),
)
def test_what_a_space_may_be_written_as(given, parameter):
    """Parameters of ours, SciPy's even distributions, lists, and ranges with a prior."""
    assert Space({"x": parameter}) == SearchSpace.of({"x": given}).space


@pytest.mark.parametrize(
    "given, words",
    [
        (expon(scale=3), "x: the distribution 'expon' is no even range"),
        (loguniform(1, 10, loc=5), "x: the distribution 'loguniform' is no even range"),
        ((1, 10), r"x: \(1, 10\) may be a range or a choice"),
        ([], "x: the list is empty"),
        ({1, 2}, "x: got"),
    ],
    ids=["expon", "moved", "pair", "empty", "set"],
)
def test_what_a_space_may_not_be(given, words):
    """The message names the parameter and what to write."""
    with pytest.raises((InputError, SpaceError), match=words):
        search(LogisticRegression(), {"x": given}).fit(X, y)


def test_constraints_of_a_space():
    """A `Space` with its constraints is searched as it is."""
    space = Space({"height": Float(0, 1), "rate": Float(0.01, 1)}, ["height + rate <= 0.9"])
    found = search(Hill(), space, n_iter=4).fit(X, y)

    assert all(p["height"] + p["rate"] <= 0.9 for p in found.cv_results_["params"])


def test_a_small_space_is_evaluated_once():
    """With a warning, like that of other searches."""
    with pytest.warns(UserWarning, match="has 2 candidates, fewer than n_iter=9"):
        found = search(Hill(), {"kind": ["plain", "worse"]}, n_iter=9).fit(X, y)

    assert {"plain", "worse"} == {params["kind"] for params in found.cv_results_["params"]}


def test_standard_errors_leave_out_what_folds_share():
    """A fold that is hard for all counts for none; where a score is missing there is no error."""
    hard = np.array([0.0, 0.0, -0.5, 0.0])
    own = np.array([[0.0, 0, 0, 0], [0.1, -0.1, 0.1, -0.1], [-0.1, 0.1, -0.1, 0.1], [np.nan, 0, 0, 0]])
    errors = standard_errors(own + hard[None, :])
    alone = math.sqrt(4 * 0.01 / 3 / 4)  # of the second and the third, which is also the median

    np.testing.assert_allclose([alone / math.sqrt(2), alone, alone], errors[:3], rtol=1e-12)
    assert np.isnan(errors[3])
    assert np.isnan(standard_errors(np.ones((2, 1)))).all()


def test_without_scikit_learn():
    """The message is the line to type."""
    code = "import sys; sys.modules['sklearn'] = None; import poolwise.adapters.sklearn"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    assert "MissingExtra" in done.stderr
    assert "pip install 'poolwise[sklearn]'" in done.stderr


def test_the_example(capsys):
    """It prints its best score."""
    runpy.run_path(str(EXAMPLE))

    assert float(capsys.readouterr().out.split()[-1]) > 0.95
