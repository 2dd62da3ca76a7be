"""`PoolSearchCV`: a search of scikit-learn whose candidates are chosen by a study, a pool at a time."""

from __future__ import annotations

import math
import numbers
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float as Floats

from poolwise.adapters.sklearn_space import Candidate, SearchSpace
from poolwise.errors import MissingExtra
from poolwise.space.errors import SpaceExhausted
from poolwise.space.space import Space
from poolwise.study.study import Study

try:
    from sklearn.exceptions import FitFailedWarning
    from sklearn.model_selection._search import BaseSearchCV
    from sklearn.utils import check_random_state
    from sklearn.utils._param_validation import Interval
except ImportError:
    raise MissingExtra("PoolSearchCV needs scikit-learn 1.6 or newer: pip install 'poolwise[sklearn]'") from None

ALL_FAILED = "fits failed"  # what scikit-learn says when no candidate of one call has a score

Evaluate = Callable[..., Mapping[str, Any]]


class PoolSearchCV(BaseSearchCV):  # type: ignore[misc]
    """Search the parameters of an estimator by cross-validation, `n_points` candidates at a time, `n_iter` in all.

    `search_spaces` is a `Space`, or a mapping from names to `Float`, `Int`, `Choice`, lists of any values, SciPy's
    `uniform`, `loguniform` and `randint`, or `(low, high, "log-uniform")`. Everything else is as in
    `RandomizedSearchCV`. With several scores the one that `refit` names is searched for, otherwise the first. All
    candidates are scored on the same folds, also where `cv` shuffles; one whose score is NaN or infinite has failed.

    >>> from sklearn.datasets import load_iris
    >>> from sklearn.svm import SVC
    >>> from poolwise.space.parameters import Float
    >>> search = PoolSearchCV(SVC(), {"C": Float(1e-2, 1e3, log=True)}, n_iter=4, n_points=2, random_state=0)
    >>> bool(search.fit(*load_iris(return_X_y=True)).best_score_ > 0.9)
    True
    """

    _parameter_constraints = {  # noqa: RUF012
        **BaseSearchCV._parameter_constraints,
        "search_spaces": [Mapping, Space],
        "n_iter": [Interval(numbers.Integral, 1, None, closed="left")],
        "n_points": [Interval(numbers.Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
    }

    def __init__(  # noqa: PLR0913
        self,
        estimator: Any,
        search_spaces: Any,
        *,
        n_iter: Any = 50,
        n_points: Any = 8,
        scoring: Any = None,
        n_jobs: Any = None,
        refit: Any = True,
        cv: Any = None,
        verbose: Any = 0,
        pre_dispatch: Any = "2*n_jobs",
        random_state: Any = None,
        error_score: Any = np.nan,
        return_train_score: Any = False,
    ) -> None:
        self.search_spaces = search_spaces
        self.n_iter = n_iter
        self.n_points = n_points
        self.random_state = random_state
        BaseSearchCV.__init__(
            self,
            estimator,
            scoring=scoring,
            n_jobs=n_jobs,
            refit=refit,
            cv=cv,
            verbose=verbose,
            pre_dispatch=pre_dispatch,
            error_score=error_score,
            return_train_score=return_train_score,
        )

    def _run_search(self, evaluate_candidates: Evaluate, *, callback_ctx: Any = None) -> None:
        """Ask, evaluate and tell until `n_iter` candidates are evaluated, or the space has no more."""
        space = SearchSpace.of(self.search_spaces)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        rounds = Rounds(self, evaluate_candidates, callback_ctx)
        with Study(space=space.space, maximize="mean_test_score", seed=seed) as study:
            for pool in _pools(study, self.n_iter, self.n_points):
                scores = rounds.scores([space.candidate(trial.params) for trial in pool])
                for trial, (score, error) in zip(pool, scores, strict=True):
                    study.tell(trial, score, error)
        rounds.end()

    def _format_results(self, candidate_params: Any, n_splits: int, out: Any, more_results: Any = None) -> Any:
        """Scikit-learn's results; its lists of candidates and fits are kept for `Rounds.end`."""
        self._fits = candidate_params, out
        return BaseSearchCV._format_results(self, candidate_params, n_splits, out, more_results)


def _pools(study: Study, n_iter: int, n_points: int) -> Iterator[Any]:
    """Pools until so many candidates have been asked for."""
    asked = 0
    while asked < n_iter:
        try:
            pool = study.ask(min(int(n_points), int(n_iter) - asked))
        except SpaceExhausted:
            warnings.warn(
                f"The search space has {asked} candidates, fewer than n_iter={n_iter}; all were evaluated.",
                UserWarning,
                stacklevel=2,
            )
            return
        asked += len(pool)
        yield pool


class SameFolds:
    """A splitter that splits once, so that candidates of all pools are scored on the same folds."""

    def __init__(self, cv: Any) -> None:
        self._cv = cv
        self._folds: list[Any] | None = None

    def split(self, X: Any, y: Any = None, **params: Any) -> list[Any]:
        """The folds of the first call."""
        if self._folds is None:
            self._folds = list(self._cv.split(X, y, **params))
        return self._folds


class Rounds:
    """Pools of candidates, evaluated by scikit-learn one after the other."""

    def __init__(self, search: PoolSearchCV, evaluate: Evaluate, context: Any) -> None:
        self._search, self._evaluate = search, evaluate
        self._folds = SameFolds(search._checked_cv_orig)
        self._scored = 0
        self._latest: Any = {}  # what becomes `cv_results_`
        self._lost: list[Candidate] = []  # of pools of which no fit has a score
        self._failure: ValueError | None = None
        self._context = None
        if context is not None:
            pools = math.ceil(search.n_iter / search.n_points)
            self._context = context.subcontext(task_name="search", max_subtasks=pools)
            self._context.call_on_fit_task_begin(estimator=search)

    def scores(self, candidates: Sequence[Candidate]) -> list[tuple[float, float | None]]:
        """The mean score of each candidate, and its standard error over the folds."""
        try:
            results = self._results(candidates)
        except ValueError as error:
            if self._search.error_score == "raise" or ALL_FAILED not in str(error):
                raise
            warnings.warn(str(error), FitFailedWarning, stacklevel=2)
            self._failure = error  # of this pool; another may do better
            self._lost += candidates
            return [(float(self._search.error_score), None)] * len(candidates)
        folds = self._search.n_splits_
        score = self._score_name(results)
        table = np.stack([results[f"split{i}_test_{score}"] for i in range(folds)], axis=1)
        means, errors = results[f"mean_test_{score}"], standard_errors(table)
        new = range(self._scored, len(means))
        self._scored, self._latest = len(means), results
        return [(float(means[i]), None if math.isnan(errors[i]) else float(errors[i])) for i in new]

    def _results(self, candidates: Sequence[Candidate]) -> Mapping[str, Any]:
        if self._context is None:
            return self._evaluate(candidates, cv=self._folds)
        fits = len(candidates) * self._search.n_splits_
        context = self._context.subcontext(task_name="pool", max_subtasks=fits, sequential_subtasks=False)
        context.call_on_fit_task_begin(estimator=self._search)
        results = self._evaluate(candidates, cv=self._folds, callback_ctx=context)
        context.call_on_fit_task_end(estimator=self._search)
        return results

    def _score_name(self, results: Mapping[str, Any]) -> str:
        """Which score is searched for."""
        scores = [key.removeprefix("mean_test_") for key in results if key.startswith("mean_test_")]
        return self._search.refit if self._search.refit in scores else scores[0]

    def _add_lost(self) -> None:
        """Candidates that scikit-learn has dropped get their row after all, with the score of an error."""
        candidates, fits = self._search.__dict__.pop("_fits")
        if not self._lost:
            return
        score, known = self._search.error_score, fits[0]
        row = known | {"fit_time": 0.0, "score_time": 0.0}
        for key in ("test_scores", "train_scores"):
            if key in known:
                row[key] = dict.fromkeys(known[key], score) if isinstance(known[key], dict) else score
        candidates.extend(self._lost)
        fits.extend([row] * len(self._lost) * self._search.n_splits_)
        self._latest |= BaseSearchCV._format_results(self._search, candidates, self._search.n_splits_, fits)

    def end(self) -> None:
        """An error if no candidate of the whole search has a score."""
        if self._scored == 0 and self._failure is not None:
            raise self._failure
        self._add_lost()
        if self._context is not None:
            self._context.call_on_fit_task_end(estimator=self._search)


def standard_errors(scores: Floats[np.ndarray, "n k"]) -> Floats[np.ndarray, " n"]:
    """Standard errors of mean scores over k folds, as far as candidates differ by them; NaN where a score is.

    A fold that is hard for all moves all means alike: the median of the candidates' deviations is taken out of each
    fold. Few folds tell a variance poorly: it is averaged with that of the median candidate.
    """
    k = scores.shape[1]
    deviations = scores - scores.mean(axis=1, keepdims=True)
    finite = np.isfinite(deviations).all(axis=1)
    if k < 2 or not finite.any():
        return np.full(len(scores), np.nan)
    if finite.sum() > 1:
        shared = np.median(deviations[finite], axis=0)
        deviations = deviations - (shared - shared.mean())[None, :]
    variances = (deviations**2).sum(axis=1) / (k - 1) / k
    return np.sqrt((variances + np.median(variances[finite])) / 2)
