"""Search for good parameters by successive halving."""

from __future__ import annotations

import time as clock
import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hybridtrees._parameters import check_boolean, check_integer, check_real
from hybridtrees.core.base.random_state import seed_sequence
from hybridtrees.core.base.threads import effective_threads
from hybridtrees.core.base.workers import run_side_by_side
from hybridtrees.core.bins.shared import sharing_bins
from hybridtrees.input._user_tables import open_columns
from hybridtrees.input.folds import check_cv, check_per_row, check_times, make_folds
from hybridtrees.input.targets import check_sample_weight
from hybridtrees.inspection._scoring import Scorer, make_scorers
from hybridtrees.selection.cross_validation import check_classes, read_target
from hybridtrees.selection.halving import n_survivors
from hybridtrees.selection.resources import Grown, Part, Resource, choose_resource, fresh
from hybridtrees.selection.spaces import draw_settings, read_spaces
from hybridtrees.selection.splits import nested_parts
from hybridtrees.selection.tuned import Rung, Trial, Tuning

_FEWEST_TRIALS = 2


def tune(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    params: Any = None,
    n_trials: int = 30,
    cv: Any = 5,
    scoring: Any = None,
    sample_weight: Any = None,
    groups: Any = None,
    time: Any = None,
    max_resource: int | None = None,
    time_limit: float | None = None,
    refit: bool = True,
    fit_params: dict[str, Any] | None = None,
    random_state: Any = 0,
    n_jobs: int | None = None,
    verbose: bool = False,
) -> Tuning:
    """Search for good parameters of a model by successive halving.

    All settings are scored by the same folds after a few rounds of boosting; the best third goes on
    to three times as many, and so on. Nothing is fitted twice: boosted models and forests are
    continued from rung to rung. Other models are fitted to more and more rows. The estimator as it
    is takes part, so that the result is no worse than it by the folds.

    Parameters
    ----------
    estimator : estimator
        Any with `fit`, `predict`, `get_params` and `set_params`; it is left as it is.
    X : array-like, data frame, dict of columns or sparse matrix of shape (n_rows, n_features)
        Features, as the estimator takes them.
    y : array-like of shape (n_rows,) or (n_rows, n_outputs)
        Target: numbers, or classes for a classifier.
    params : dict or list of dicts, optional
        What to try: from each parameter, those of nested estimators as ``step__parameter``, to a
        list of values or a distribution with ``rvs(random_state=...)``, as those of scipy.stats.
        Values are drawn at random; of lists with no more combinations than `n_trials`, all are
        tried. By default the values that the guide lists for the family.
    n_trials : int, default=30
        Number of settings, the estimator's own included.
    cv : int, iterable of pairs (training rows, test rows) or splitter, default=5
        Number of folds, dealt out at random with equal shares of each class, or folds of your own.
    scoring : str, Metric or callable, optional
        As in `cv`, one score. By default the RMSE, or the log-loss of a classifier. A callable
        takes the fitted model and is therefore asked at the end of a rung only.
    sample_weight : array-like of shape (n_rows,), optional
        Row weights of fits and scores.
    groups : array-like of shape (n_rows,), optional
        Rows of one group are never divided.
    time : array-like of shape (n_rows,), optional
        Numbers or dates. Each fold trains on the rows before those that it tests on.
    max_resource : int, optional
        What the last rung has: rounds of boosting (by default 1000), trees of a forest (100, or
        its own number), or training rows of a fold (all). If learning rates are tried, the
        rounds are those at 0.1; smaller rates have more, up to ten times as many.
    time_limit : float, optional
        Seconds after which no fit is started. Without it, and unless it cuts something, which a
        warning and the summary then say, the result depends on the rows and the seed only.
    refit : bool, default=True
        Whether to fit the best setting to all rows, with the rounds that were found.
    fit_params : dict, optional
        Further arguments of every `fit`.
    random_state : int, Generator, RandomState or None, default=0
        Seed of folds, settings, and of estimators whose `random_state` is None.
    n_jobs : int, optional
        Number of threads, shared by fits side by side; the result does not depend on it.
    verbose : bool, default=False
        Whether to print a line for each rung.

    Returns
    -------
    result : Tuning
        With `best_estimator_`, `best_params_`, `best_score_` and a table of all trials.

    See Also
    --------
    compare : Search over all families.
    cv : Scores of one setting.

    Examples
    --------
    >>> from hybridtrees import XGBRegressor, tune
    >>> from hybridtrees.datasets import make_house_prices
    >>> houses = make_house_prices(300, random_state=0)
    >>> result = tune(
    ...     XGBRegressor(), houses.data, houses.target, cv=3, max_resource=60,
    ...     params={"max_depth": [2, 4, 6], "learning_rate": [0.1, 0.3]},
    ... )
    >>> sorted(result.best_params_)
    ['learning_rate', 'max_depth', 'n_estimators']
    >>> model = result.best_estimator_
    """
    check_integer("n_trials", n_trials, _FEWEST_TRIALS)
    check_integer("max_resource", max_resource, 1, allow_none=True)
    check_real("time_limit", time_limit, 0, closed="right", allow_none=True)
    check_boolean("refit", refit)
    check_boolean("verbose", verbose)
    if time is not None and groups is not None:
        raise ValueError("give groups or time, not both: folds in time order may divide groups")
    splitter = check_cv(cv)
    if time is not None and not isinstance(splitter, int):
        raise ValueError("time needs a number of folds, got folds of your own")
    columns = open_columns(X)
    n_rows = columns.shape[0]
    weight = check_sample_weight(sample_weight, n_rows)
    target, classes = read_target(estimator, y, n_rows)
    if not hasattr(estimator, "set_params"):
        raise TypeError(f"estimator must have the method set_params, got {estimator!r}")
    spaces = read_spaces(params, estimator)
    labels = None if classes is None else np.searchsorted(classes, target)
    group, times = check_per_row(groups, "groups", n_rows), check_times(time, n_rows)
    of_folds, of_settings, of_models, of_rows = seed_sequence(random_state).spawn(4)
    folds = make_folds(
        splitter, n_rows, labels, weight, groups=group, time=times,
        rng=np.random.default_rng(of_folds),
    )  # fmt: skip
    check_classes(folds, labels, classes)
    settings = draw_settings(spaces, n_trials - 1, np.random.default_rng(of_settings))
    trials = [Trial(k, setting) for k, setting in enumerate([{}, *settings])]
    tuned = {name for space in spaces for name in space}
    n_train = min(len(train) for train, _ in folds)
    resource = choose_resource(estimator, tuned, max_resource, n_train, len(trials))
    n_parts = len(resource.levels) if resource.parameter is None else 1
    parts = [
        [
            Part.of(columns, target, weight, rows)
            for rows in _nested(train, resource.levels[-n_parts:], labels, group, times, of_rows)
        ]
        for train, _ in folds
    ]
    tests = [Part.of(columns, target, weight, test) for _, test in folds]
    name, scorer = _read_scoring(scoring, estimator, classes)
    seed = int(of_models.generate_state(1, np.uint32)[0] & 0x7FFFFFFF)
    search = _Search(
        estimator, resource, parts, tests, scorer, fit_params or {}, seed, n_jobs, time_limit,
        verbose, name,
    )  # fmt: skip
    best, rungs = search.run(trials)
    found = resource.setting(best.params, best.amount)
    model = None
    if refit:
        model = fresh(estimator, best.params, seed, effective_threads(n_jobs))
        model = resource.final(model, best.amount)
        Part(columns.table, target, weight).fit(model, fit_params or {})
        if "n_jobs" in model.get_params(deep=False):
            model.set_params(n_jobs=estimator.get_params(deep=False)["n_jobs"])
    return Tuning(
        type(estimator).__name__, model, found, best.score, best, trials, rungs, resource.name,
        name, scorer.maximize or scorer.negated, len(folds), search.n_cut,
    )  # fmt: skip


def _read_scoring(scoring: Any, estimator: Any, classes: Any) -> tuple[str, Scorer]:
    """Return the name of the score, and how it is computed."""
    if scoring is None:
        scoring = "rmse"
        if classes is not None:
            proba = hasattr(estimator, "predict_proba")
            scoring = "accuracy" if not proba else "logloss" if len(classes) == 2 else "mlogloss"
    scorers = make_scorers(scoring, _as_if_fitted(estimator, classes))
    if len(scorers) != 1:
        raise ValueError(f"scoring must be one score, got {list(scorers)}")
    return next(iter(scorers.items()))


def _as_if_fitted(estimator: Any, classes: Any) -> Any:
    """Return an object with what scorers ask of a fitted estimator, under its name."""
    fitted = type(type(estimator).__name__, (), {})()
    if classes is not None:
        fitted.classes_ = classes
    if hasattr(estimator, "predict_proba"):
        fitted.predict_proba = estimator.predict_proba
    return fitted


def _nested(
    rows: np.ndarray,
    sizes: list[int],
    labels: np.ndarray | None,
    groups: np.ndarray | None,
    times: np.ndarray | None,
    seed: np.random.SeedSequence,
) -> list[np.ndarray]:
    """Training rows of each rung, those of one within those of the next; the last has all."""
    sizes = [min(size, len(rows)) for size in sizes[:-1]]
    if not sizes:
        return [rows]
    if groups is not None:
        nested = _whole_groups(rows, sizes, groups[rows], seed)
    elif times is not None:
        nested = nested_parts(rows[np.argsort(times[rows], kind="stable")], sizes, True, None, 0)
    else:
        nested = nested_parts(rows, sizes, False, labels, seed)
    if labels is not None:
        # Classes of few rows must be present, too.
        one_each = rows[np.unique(labels[rows], return_index=True)[1]]
        nested = [np.union1d(part, one_each) for part in nested]
    return [*map(np.sort, nested), rows]


def _whole_groups(
    rows: np.ndarray, sizes: list[int], groups: np.ndarray, seed: np.random.SeedSequence
) -> list[np.ndarray]:
    """Nested sets of rows of whole groups, each of at least the size that is asked for."""
    _, group, counts = np.unique(groups, return_inverse=True, return_counts=True)
    order = np.random.default_rng(seed).permutation(len(counts))
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    ends = np.cumsum(counts[order])
    return [rows[place[group] <= np.searchsorted(ends, size)] for size in sizes]


@dataclass
class _Search:
    """Runs the rungs."""

    estimator: Any
    resource: Resource
    parts: list[list[Part]]  # training rows of each fold, on each rung or on all
    tests: list[Part]
    scorer: Scorer
    fit_params: dict[str, Any]
    seed: int
    n_jobs: int | None
    time_limit: float | None
    verbose: bool
    name: str
    n_cut: int = 0  # trials that the time limit kept from a rung
    _grown: dict[tuple[int, int], Grown] = field(default_factory=dict)

    def run(self, trials: list[Trial]) -> tuple[Trial, list[Rung]]:
        """Return the best trial, and what the rungs did."""
        self._start = clock.perf_counter()
        standing, rungs = trials, []
        for k in range(len(self.resource.levels)):
            start = clock.perf_counter()
            ended = standing
            with sharing_bins(len(self.tests) + 1):
                for level in self.resource.steps(k):
                    going = [trial for trial in ended if not trial.has_peaked(self.resource)]
                    cut = self._try_all(going, k, level)
                    ended = [t for t in ended if t.error is None and t.number not in cut]
            if not ended and k == 0:
                raise _failure(trials)
            if not ended:
                break
            standing = sorted(ended, key=self._order)
            rungs.append(
                Rung(len(ended), self.resource.levels[k], standing[0].score,
                     clock.perf_counter() - start)
            )  # fmt: skip
            if self.verbose:
                print(
                    f"{rungs[-1].n_trials} settings, {self.resource.name} "
                    f"{rungs[-1].amount}: best {self.name} {rungs[-1].score:.5g}",
                    flush=True,
                )
            best = standing[0]
            standing = standing[: n_survivors(len(standing))]
            kept = {trial.number for trial in standing}
            self._grown = {key: g for key, g in self._grown.items() if key[0] in kept}
            if self.n_cut:
                break
        self._warn(trials)
        return best, rungs

    def _order(self, trial: Trial) -> tuple[float, int]:
        """Sort key: the score, then the number."""
        larger = self.scorer.maximize or self.scorer.negated
        return (-trial.score if larger else trial.score), trial.number

    def _is_late(self) -> bool:
        limit = self.time_limit
        return limit is not None and clock.perf_counter() - self._start > limit

    def _try_all(self, trials: list[Trial], rung: int, level: int) -> set[int]:
        """Give trials so much of the resource, and return those that the time limit cut."""
        jobs = [(trial, fold) for trial in trials for fold in range(len(self.tests))]

        def job(item: tuple[Trial, int], n_threads: int) -> Grown | str | None:
            trial, fold = item
            if self._is_late() and not (rung == 0 and trial is trials[0]):
                return None
            try:
                return self._grow(trial, fold, rung, level, n_threads)
            except Exception as error:  # a setting that fails must not end the search
                return f"{type(error).__name__}: {error}"

        found = run_side_by_side(job, jobs, self.n_jobs)
        cut, n_folds = set(), len(self.tests)
        for k, trial in enumerate(trials):
            made = found[k * n_folds : (k + 1) * n_folds]
            errors = [one for one in made if isinstance(one, str)]
            if errors:
                trial.error = errors[0]
            elif any(one is None for one in made):
                cut.add(trial.number)
            else:
                grown = [one for one in made if isinstance(one, Grown)]
                self._grown |= {(trial.number, fold): one for fold, one in enumerate(grown)}
                trial.take([one.scores for one in grown], rung, self.resource, self._better)
                trial.seconds += sum(one.seconds for one in grown)
        self.n_cut += len(cut)
        return cut

    def _better(self, scores: np.ndarray) -> int:
        larger = self.scorer.maximize or self.scorer.negated
        return int(np.argmax(scores) if larger else np.argmin(scores))

    def _grow(self, trial: Trial, fold: int, rung: int, level: int, n_threads: int) -> Grown:
        """Fit or continue the model of a fold, and score it."""
        start = clock.perf_counter()
        resource, old = self.resource, self._grown.get((trial.number, fold))
        model = fresh(self.estimator, trial.params, self.seed, n_threads)
        model = resource.prepared(model)
        amount = resource.amount(model, level)
        parts = self.parts[fold]
        part = parts[rung] if len(parts) > 1 else parts[0]
        before, known = (None, 0) if old is None else (old.model, max(old.scores))
        model = resource.fit(model, before, amount, part, self.fit_params)
        scores = resource.scores(model, known, amount, self.tests[fold], self.scorer)
        if old is not None:
            scores = old.scores | scores
        kept = None if resource.parameter is None else model
        return Grown(kept, scores, clock.perf_counter() - start)

    def _warn(self, trials: list[Trial]) -> None:
        failed = [trial for trial in trials if trial.error is not None]
        if failed:
            warnings.warn(
                f"{len(failed)} of {len(trials)} settings failed, the first one, "
                f"{failed[0].params}, by {failed[0].error}", stacklevel=4,
            )  # fmt: skip
        if self.n_cut:
            warnings.warn(
                f"time_limit={self.time_limit} ended the search early: the result depends on the "
                "speed of this machine", stacklevel=4,
            )  # fmt: skip


def _failure(trials: list[Trial]) -> ValueError:
    """Return the error of a search in which nothing could be fitted."""
    first = next(trial for trial in trials if trial.error is not None)
    return ValueError(f"all {len(trials)} settings failed, the first one by {first.error}")
