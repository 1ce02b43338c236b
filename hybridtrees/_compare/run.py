"""The comparison itself: split, search, fit, score."""

from __future__ import annotations

import pickle
import time as clock
import warnings
from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np

from hybridtrees._compare.choice import Choice, Standing, count_folds, is_worse
from hybridtrees._compare.data import Data, make_data
from hybridtrees._compare.ensemble import Blend, Blender
from hybridtrees._compare.families import ENSEMBLE, Family, choose_families
from hybridtrees._compare.helpers import Helpers, helping
from hybridtrees._compare.progress import Progress
from hybridtrees._compare.resampling import interval, resampled_scores
from hybridtrees._compare.result import Comparison, Result
from hybridtrees._compare.scores import Prediction, Score, choose_score, predict, scores_of
from hybridtrees._compare.search import SEARCHES, Limits, Search, Trial
from hybridtrees._parameters import check_integer, check_option, check_real
from hybridtrees.core.base.random_state import seed_sequence, spawn_seeds
from hybridtrees.core.base.threads import effective_threads
from hybridtrees.selection.splits import Split, split_rows

# The quickest of several calls is reported: one call is too short to time.
_PREDICT_REPEATS, _PREDICT_SECONDS = 5, 1.0
# Shares of a budget for the search and for the folds; the final fits have the rest.
_SEARCH_SHARE, _CHOICE_SHARE = 0.5, 0.25


def compare(
    X: Any,
    y: Any,
    *,
    task: str = "auto",
    models: Sequence[Any] | None = None,
    score: str | None = None,
    time: Any = None,
    folds: int | None = None,
    search: str = "halving",
    budget: float | None = None,
    overfit_limit: float | None = None,
    categorical_features: Any = None,
    random_state: Any = 0,
    n_jobs: int | None = None,
    progress: bool | None = None,
    name: str = "data",
) -> Comparison:
    """Compare all families of models on one data set, by an honest protocol.

    Rows are divided into 70 % training, 15 % validation and 15 % test. Every setting of a
    family's grid is fitted on the training rows and scored on these and on the validation rows.
    Settings whose two scores differ by more than `overfit_limit` are set aside, unless all do;
    of the others the best on validation stands for the family.

    The families are then ranked by folds of the training and validation rows: five, the same for
    all families, repeated up to three times if there are few rows. On more than 20,000 rows
    the score on the validation rows ranks them. Each family is at last fitted on training and
    validation rows and scored on the test rows, which nothing has seen before and which decide
    nothing. Scores come with intervals that cover 95 % of bootstrap resamples of their rows.
    A family is marked as tied if a paired bootstrap does not show it to be worse than the first.

    One more row is an ensemble of the others: their final models, averaged with weights that a
    greedy selection finds on the held-out predictions that ranked them, so that nothing is fitted
    again. Its own score comes from weights that have not seen the rows that they are scored on.
    By folds it is first unless a model alone is better by more than one standard error of their
    difference: the best of many models owes its score partly to luck.

    Columns of dates become features; see `DateFeatures`. `best_` takes tables with such columns.

    Parameters
    ----------
    X : array-like, data frame, dict of columns or sparse matrix of shape (n_rows, n_features)
        Features as every estimator takes them: text columns are categories, NaN is missing.
    y : array-like of shape (n_rows,)
        Target: numbers or classes.
    task : {"auto", "regression", "classification"}, default="auto"
        By default text, truth values and up to ten different whole numbers are classes.
    models : sequence of str, optional
        Families to compare: linear, cart, forest, adaboost, gb, xgb, linear_tree, linear_forest,
        rerf, eblr, plgb, baseline, and ensemble, which averages the others. All by default.
    score : str, optional
        What ranks the models: "rmse" (the default of regression), "mae", "r2" or "mape"; "auc" (the
        default of classification), "logloss", "accuracy", "f1" or "brier".
    time : str, int or array-like, optional
        Column of X, or values, by which rows are ordered: the earliest train, the latest test.
        By default the split is random, class by class.
    folds : int, optional
        Validate by so many folds of the rows that do not test, instead of one split, and rank
        the families by as many.
    search : {"halving", "grid"}, default="halving"
        Whether, on more than 3000 training rows, settings are first tried on a part of the rows,
        of which the best third goes on to three times as many; or all settings on all rows.
    budget : float, optional
        Seconds after which to try no further settings. The first setting of every family is
        tried in any case. With a budget, results depend on the speed of the machine.
    overfit_limit : float, optional
        Largest relative difference between validation and training scores. By default 0.1 for
        scores such as the AUC, and 1 for errors such as the RMSE.
    categorical_features : sequence, optional
        Columns that hold categories, besides text columns: names, numbers or a mask.
    random_state : int, SeedSequence, Generator or RandomState, default=0
        Seed of the split and of the models.
    n_jobs : int, optional
        Threads; all usable CPUs by default. Results do not depend on it.
    progress : bool, optional
        Whether to draw a bar on the error stream; by default if that is a terminal.
    name : str, default="data"
        What headings call the data.

    Returns
    -------
    comparison : Comparison
        `table` has a row per family, the best first; `best_` is the first one's fitted model.

    Examples
    --------
    >>> import hybridtrees
    >>> from hybridtrees.datasets import load_heart_failure
    >>> data = load_heart_failure()
    >>> result = hybridtrees.compare(data.data, data.target, models=["cart", "baseline"])
    >>> [row["model"] for row in result.table]
    ['CART', 'baseline (constant)']
    >>> result.best_
    CARTClassifier(max_depth=4, min_samples_leaf=20, random_state=0)
    """
    families = choose_families(models)
    check_option("search", search, SEARCHES)
    check_real("budget", budget, 0, closed="neither", allow_none=True)
    check_real("overfit_limit", overfit_limit, 0, allow_none=True)
    check_integer("folds", folds, 2, allow_none=True)
    effective_threads(n_jobs)  # refuses what is no number of threads
    data = make_data(
        X, y, task=task, time=time, categorical_features=categorical_features, name=name
    )
    choose_score(score, data.task)
    seed_sequence(random_state)  # refuses what is no seed
    whole = isinstance(random_state, Integral)
    # An integer is the seed itself, as on the command line.
    seed = int(random_state) if whole else int(spawn_seeds(random_state, 1)[0] % 2**31)
    limits = Limits(search, budget, overfit_limit, n_jobs, seed)
    return compare_data(
        data, families, score, limits, folds=folds, progress=Progress.for_people(progress, name)
    )


def compare_data(
    data: Data,
    families: Sequence[Family],
    score_name: str | None,
    limits: Limits,
    *,
    folds: int | None = None,
    progress: Progress | None = None,
    helpers: Helpers | None = None,
) -> Comparison:
    """Compare families on data that are ready; see `compare`."""
    start = clock.perf_counter()
    score = choose_score(score_name, data.task)
    family_of = {family.key: family for family in families}
    averages = family_of.pop(ENSEMBLE, None)
    families = list(family_of.values())
    plan = split_rows(
        data.shape[0], strata=data.strata, time=data.time, n_folds=folds, random_state=limits.seed
    )
    n_folds, n_repeats = count_folds(data, plan, folds)
    progress = progress or Progress()
    try:
        # The final fits count as one more setting each.
        progress.expect({family.key: 1.0 for family in families})
        with helping(helpers, limits.n_threads) as helpers:
            searching = Search(data, plan, score, limits, progress, helpers)
            share = _SEARCH_SHARE if n_folds else _SEARCH_SHARE + _CHOICE_SHARE
            found = list(searching.run(families, limits.end(start, share)).values())
            choice = Choice(data, plan, score, limits, progress, helpers, n_folds, n_repeats)
            standings = {}
            sound = [trial for trial in found if trial.error is None]
            if n_folds and len(sound) > 1:
                end = limits.end(start, _SEARCH_SHARE + _CHOICE_SHARE)
                standings = choice.run(sound, end)
        blend = None
        if averages is not None:
            blend = Blender(data, plan, score, limits.seed).run(sound, standings, choice)
        for trial in searching.trials:
            trial.held_out = None
        final = _FinalFits(data, plan, limits)
        results = []
        for trial in found:
            began = clock.perf_counter()
            standing = standings.get(trial.family.key)
            overfits = score.overfits(trial.train, trial.validation, limits.overfit)
            results.append(final.result(trial, standing, overfits))
            progress.done(trial.family.key, clock.perf_counter() - began)
        if blend is not None:
            joined = final.ensemble(averages, blend, results)
            results += [] if joined is None else [joined]
    finally:
        progress.close()
    _order(results, score, standings, blend)
    if not standings:
        final.mark_ties(results, score)
    notes = list(data.notes)
    if searching.n_skipped:
        notes.append(f"the budget left {searching.n_skipped} settings untried")
    if n_folds and len(sound) > 1 and not standings:
        notes.append("the budget left no time for folds: models are ranked by one validation split")
    return Comparison(
        data=data,
        plan=plan,
        score=score,
        results=results,
        trials=searching.trials,
        limits=limits,
        seconds=clock.perf_counter() - start,
        notes=notes,
        n_folds=n_folds if standings else 0,
        n_repeats=choice.n_repeats if standings else 0,
    )


def _order(
    results: list[Result], score: Score, standings: dict[str, Standing], blend: Blend | None
) -> None:
    """Sort the results, the best first, and mark what the folds do not tell from that."""
    leading = ENSEMBLE if blend is not None and blend.leads else None
    results.sort(key=lambda r: (r.error is not None, r.family.key != leading, score.key(r.choice)))
    if blend is not None:
        standings = {**standings, ENSEMBLE: blend.standing}
    values = [getattr(standings.get(r.family.key), "resampled", None) for r in results]
    for result, found in zip(results[1:], values[1:], strict=True):
        if values[0] is not None and found is not None:
            result.tied = not is_worse(score, found, values[0])


class _FinalFits:
    """Fits chosen settings to all rows but those of the test, and scores them on these."""

    def __init__(self, data: Data, plan: Split, limits: Limits) -> None:
        self.data, self.limits, self.in_time = data, limits, plan.by_time
        self.X, self.X_test = data.columns.take(plan.rest).table, data.columns.take(plan.test).table
        self.labels = data.labels[plan.rest]
        self.y, self.y_test = data.target[plan.rest], data.target[plan.test]

    def result(self, trial: Trial, standing: Standing | None, overfits: bool) -> Result:
        """Fit the setting of a trial and measure it.

        Bins are not shared here: the fit takes the time that it takes a user.
        """
        result = Result(trial.family, trial.final_setting(), trial, overfits, error=trial.error)
        result.choice = trial.validation
        if standing is not None:
            result.choice, result.choice_interval = standing.mean, standing.interval
            result.fold_scores = standing.scores
            result.error = result.error or standing.error
        if result.error is not None:
            return result
        model = trial.family.make(
            self.data.task,
            result.setting,
            random_state=self.limits.seed,
            n_jobs=self.limits.n_jobs,
            categorical_features=self.data.categorical or None,
        )
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                start = clock.perf_counter()
                model.fit(self.X, self.labels)
                result.fit_seconds = clock.perf_counter() - start
                return self._measured(result, model)
        except Exception as error:  # one family that fails must not end the comparison
            result.error = f"{type(error).__name__}: {error}"
            return result

    def ensemble(
        self, family: Family | None, blend: Blend, results: Sequence[Result]
    ) -> Result | None:
        """Average the models that are fitted already, and measure that."""
        used = [r for r in results if r.model is not None and blend.weights.get(r.family.key)]
        if family is None or len(used) == 0:
            return None
        weights = np.array([blend.weights[r.family.key] for r in used])
        weights /= weights.sum()
        shares = {r.family.key: round(float(w), 4) for r, w in zip(used, weights, strict=True)}
        trial = Trial(family, shares, validation=blend.validation, n_rows=len(self.y))
        result = Result(family, shares, trial, False, choice=blend.validation)
        standing = blend.standing
        if standing.scores:
            result.choice, result.choice_interval = standing.mean, standing.interval
            result.fold_scores = standing.scores
        kind = family.estimator(self.data.task)
        options = {"voting": "soft"} if self.data.n_classes else {}
        try:
            members = [(r.family.key, r.model) for r in used]
            model = kind.of_fitted(members, weights, n_jobs=self.limits.n_jobs, **options)
            result.fit_seconds = sum(r.fit_seconds for r in used)
            return self._measured(result, model)
        except Exception as error:
            result.error = f"{type(error).__name__}: {error}"
            return result

    def _measured(self, result: Result, model: Any) -> Result:
        """Time a fitted model, and score it on its own and on the test rows."""
        result.predict_seconds = self._time_predict(model)
        result.train = self._scores(self.y, self._predict(model, self.X))
        result.predicted = self._predict(model, self.X_test)
        result.test = self._scores(self.y_test, result.predicted)
        values = self._resampled(scores_of(self.data.task), result.predicted)
        result.test_intervals = {name: interval(found) for name, found in values.items()}
        result.size_bytes = len(pickle.dumps(model))
        result.model = model
        return result

    def mark_ties(self, results: list[Result], score: Score) -> None:
        """Mark what the test rows cannot tell from the first model, where no folds can say it."""
        values = [
            self._resampled({"": score}, result.predicted)[""]
            for result in results
            if result.predicted is not None
        ]
        for result, found in zip(results[1:], values[1:], strict=False):
            result.tied = not is_worse(score, found, values[0])

    def _resampled(self, scores: dict[str, Score], predicted: Prediction) -> dict[str, np.ndarray]:
        return resampled_scores(scores, self.y_test, predicted, self.limits.seed, self.in_time)

    def _predict(self, model: Any, X: Any) -> Prediction:
        return predict(_Coded(model, self.data.classes), X, self.data.n_classes)

    def _scores(self, y: np.ndarray, predicted: Prediction) -> dict[str, float]:
        return {name: score(y, predicted) for name, score in scores_of(self.data.task).items()}

    def _time_predict(self, model: Any) -> float:
        quickest, begin = np.inf, clock.perf_counter()
        for _ in range(_PREDICT_REPEATS):
            start = clock.perf_counter()
            if self.data.n_classes:
                model.predict_proba(self.X_test)
            else:
                model.predict(self.X_test)
            quickest = min(quickest, clock.perf_counter() - start)
            if clock.perf_counter() - begin > _PREDICT_SECONDS:
                break
        return quickest


class _Coded:
    """A fitted model whose classes go by their codes."""

    def __init__(self, model: Any, classes: np.ndarray | None) -> None:
        self._model = model
        if classes is not None:
            self.classes_ = np.searchsorted(classes, model.classes_)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)
