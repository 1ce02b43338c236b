"""AutoRegressor and AutoClassifier: models that need no tuning."""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np

from hybridtrees._class_weight import ClassWeightMixin
from hybridtrees._parameters import Seed, attribute, check_integer, check_real, is_classifier
from hybridtrees._predictor import Predictor
from hybridtrees.auto.audition import Audition, Bag, Deadline, Table
from hybridtrees.auto.blend import blend, held_out_losses
from hybridtrees.auto.candidates import make_candidates
from hybridtrees.auto.finish import refit_bags, replay_bags
from hybridtrees.auto.plan import Plan, make_plan
from hybridtrees.auto.summary import check_record, make_record, summary_text
from hybridtrees.base import ClassifierMixin, RegressorMixin, atomic_fit
from hybridtrees.core.base.checks import check_arrays, check_numbers, check_type
from hybridtrees.core.base.random_state import seed_sequence
from hybridtrees.core.base.threads import effective_threads
from hybridtrees.ensembles.members import Explained, member_probabilities
from hybridtrees.ensembles.out_of_fold import joined_folds, weighted_sum
from hybridtrees.input.folds import Folds, check_per_row, check_times, make_folds
from hybridtrees.input.targets import (
    check_sample_weight,
    check_target_classification,
    check_target_regression,
)
from hybridtrees.uncertainty.calibration import find_temperature, heated


class _Auto(Predictor):
    """What both kinds share.

    Parameters
    ----------
    quality : int
        How much work to invest, from 1 to 5. 1: one boosted model, stopped early. 3: five kinds of
        models, four folds. 5: seven kinds, eight folds, half the learning rate. The model depends
        on it and on `random_state` alone, never on the clock.
    time_limit : float or None
        Seconds after which no further model is fitted. A fit that it cuts short warns, and
        `summary` says so; then the model depends on the clock.
    categorical_features : None, "from_dtype" or array-like
        Categorical features. None and "from_dtype" are the same: the string and category columns of
        a data frame (or dict of columns). An array-like names further ones, by index, name or mask.
    random_state : int, Generator, RandomState, SeedSequence or None
        Seed of folds and models.
    n_jobs : int or None
        Number of threads; None is all usable CPUs. The model is the same for any number.
    verbose : int or bool
        Whether to print a line for each fit.

    Attributes
    ----------
    estimators_ : list of estimators
        The fitted models. They read features as numbers and codes of categories.
    weights_ : ndarray of shape (n_models,)
        Weights of the models; they sum to 1.
    """

    quality: int = 3
    time_limit: float | None = None
    categorical_features: Any = None
    random_state: Seed = None
    n_jobs: int | None = None
    verbose: int | bool = 0

    estimators_: list[Any] = attribute()
    weights_: np.ndarray = attribute()
    _record: dict[str, Any] = attribute()
    # Rows held out in the audition, and their weighted mean predictions; during a fit only.
    _held_out: tuple[np.ndarray, np.ndarray] = attribute()

    @atomic_fit
    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, *, groups: Any = None, time: Any = None
    ) -> Self:
        """Fit models, choose among them, and weigh them.

        Parameters
        ----------
        X : array-like, data frame, dict of columns or sparse matrix of shape (n_rows, n_features)
            NaN means missing. String and category columns of a data frame are categories.
        y : array-like of shape (n_rows,)
            Numbers, or class labels.
        sample_weight : array-like of shape (n_rows,), optional
            Row weights, in fits and in what models are chosen by.
        groups : array-like of shape (n_rows,), optional
            Rows of one group are never divided between training and held-out rows.
        time : array-like of shape (n_rows,), optional
            Numbers or dates. Models are evaluated on rows after those that they were fitted to, and
            in the end fitted to all rows.

        Returns
        -------
        self : estimator
        """
        quality = check_integer("quality", self.quality, 1, 5)
        limit = check_real("time_limit", self.time_limit, 0, closed="right", allow_none=True)
        if not isinstance(self.verbose, bool | np.bool_):
            check_integer("verbose", self.verbose, 0)
        effective_threads(self.n_jobs)
        if time is not None and groups is not None:
            raise ValueError("give groups or time, not both: folds in time order may divide groups")
        deadline = Deadline(limit)
        seeds = seed_sequence(self.random_state)
        values = self._fit_features(X, categorical_features=self.categorical_features)
        table, used = self._read_rows(values, y, sample_weight)
        n_rows = values.shape[0]
        grouped, ordered = check_per_row(groups, "groups", n_rows), check_times(time, n_rows)
        if used is not None:
            grouped = None if grouped is None else grouped[used]
            ordered = None if ordered is None else ordered[used]
        plan = make_plan(
            quality, len(table.target), n_classes=table.n_classes, ordered=ordered is not None
        )
        folds_seed, fit_seed, last_seed = seeds.spawn(3)
        folds = deal_out(plan, table, grouped, ordered, folds_seed)
        is_categorical = self._reader.is_categorical
        candidates = make_candidates(plan, table.values, is_categorical, table.classify)
        audition = Audition(table, folds, fit_seed, self.n_jobs, deadline, bool(self.verbose))
        bags = self._choose(audition.run(candidates), table, folds)
        if ordered is None:
            replay_bags(bags, table, self.n_jobs, deadline)
        else:
            refit_bags(bags, table, last_seed, self.n_jobs, deadline)
        if used is not None:
            self._held_out = used[self._held_out[0]], self._held_out[1]
        self._keep(bags)
        self._record["cut"] = not deadline.was_met
        if not deadline.was_met:
            warnings.warn(
                f"time_limit={self.time_limit} cut the fit of {type(self).__name__} short: the "
                "model depends on the clock; raise the limit or lower quality",
                UserWarning,
                stacklevel=3,
            )
        return self

    def _read_rows(self, values: Any, y: Any, sample_weight: Any) -> tuple[Table, Any]:
        """Return the rows that have a weight, and their numbers, None for all of them."""
        n_rows, name = values.shape[0], type(self).__name__
        n_classes = 0
        if is_classifier(self):
            codes, classes = check_target_classification(
                y, n_rows, at_least_two=True, estimator_name=name
            )
            target = codes.astype(np.int64)
            self.classes_ = classes
            self.n_classes_ = n_classes = len(classes)
        else:
            target = check_target_regression(y, n_rows, estimator_name=name)
        weight = self._weigh_classes(target, check_sample_weight(sample_weight, n_rows))
        used = None
        if weight is not None and not weight.all():
            used = np.flatnonzero(weight)
            values, target, weight = values[used], target[used], weight[used]
        if len(target) < 2:
            raise ValueError(
                f"{name} needs at least 2 rows, to hold some out, got {len(target)} sample(s)"
            )
        if hasattr(values, "tocsr"):
            values = values.tocsr()
        return Table(values, target, weight, n_classes), used

    def _choose(self, bags: list[Bag], table: Table, folds: Folds) -> list[Bag]:
        """Weigh the bags by their held-out predictions, and return those with a weight."""
        done = folds[: len(bags[0].models)]
        by_fold = list(zip(*(bag.answers for bag in bags), strict=True))
        joined, seen = joined_folds(len(table.target), done, by_fold)
        predictions = np.stack([one[seen] for one in joined])
        target = table.target[seen]
        weight = None if table.weight is None else table.weight[seen]
        losses = held_out_losses(predictions, target, weight, table.classify)
        shares = blend(predictions, target, weight, table.classify)
        mixed = weighted_sum(list(predictions), shares)
        self._calibrate(mixed, target, weight)
        final = self._final(mixed)
        self._held_out = np.flatnonzero(seen), final
        loss = float(held_out_losses(final[None], target, weight, table.classify)[0])
        self._record = make_record(bags, shares, losses, loss, len(done), bool(table.n_classes))
        self._shares = shares[shares > 0]
        return [bag for bag, share in zip(bags, shares, strict=True) if share > 0]

    def _calibrate(self, mixed: np.ndarray, target: np.ndarray, weight: Any) -> None:
        """Learn how to turn mixed predictions into final ones."""

    def _final(self, mixed: np.ndarray) -> np.ndarray:
        """Return the final predictions."""
        return mixed

    def _keep(self, bags: list[Bag]) -> None:
        """Keep the models; those of a bag share its weight."""
        self.estimators_ = [model for bag in bags for model in bag.models]
        shares = self.__dict__.pop("_shares")
        parts = [
            np.full(len(bag.models), share / len(bag.models))
            for bag, share in zip(bags, shares, strict=True)
        ]
        self.weights_ = np.concatenate(parts)

    def _mixed(self, X: Any) -> np.ndarray:
        """Return the weighted mean of the predictions of all models."""
        self._check_is_fitted()
        values = self._read_features(X)
        predictions = [self._tell(model, values) for model in self.estimators_]
        return weighted_sum(predictions, self.weights_)

    def _tell(self, model: Any, values: Any) -> np.ndarray:
        raise NotImplementedError

    def _explained_members(self) -> Explained:
        """Return the models as the parts of a weighted mean: see `Explained`."""
        temperature = vars(self).get("temperature_", 1.0)
        if temperature != 1.0:
            raise TypeError(
                f"the {type(self).__name__} divides the logarithms of probabilities by a "
                f"temperature of {temperature:.3g}: they have no exact Shapley values"
            )
        parts = [(w, m, None) for w, m in zip(self.weights_, self.estimators_, strict=True) if w]
        return 0.0, parts, self._read_features

    def summary(self) -> str:
        """Return what was tried, with held-out errors, and what was chosen.

        Returns
        -------
        text : str
        """
        self._check_is_fitted()
        return summary_text(type(self).__name__, self._record)

    def _check_fitted(self) -> None:
        members = check_type(self, "estimators_", list)
        check_arrays(self, {"weights_": ("f8", len(members))})
        check_numbers(self.weights_, "weights_", 0.0, 1.0 + 1e-6)
        check_type(self, "_record", dict)
        name = type(self).__name__
        if not members:
            raise ValueError(f"the {name} has no models")
        for member in members:
            if not hasattr(member, "predict") or is_classifier(member) != is_classifier(self):
                raise ValueError(f"a {type(member).__name__} cannot be a model of the {name}")
            if getattr(member, "n_features_in_", None) != self.n_features_in_:
                raise ValueError(f"a model of the {name} has another number of features")
        check_record(self._record, name)


class AutoRegressor(RegressorMixin, _Auto):
    """A regressor that needs no tuning: it tries models, and averages those that do best.

    Boosted trees with constant leaves and with lines, a ridge regression and a random forest are
    fitted to folds of the rows. Boosting is stopped by the rows held out, whose predictions also
    give the weights of the models, by greedy selection (Caruana et al. 2004) for the squared error.
    In the end the leaves of all boosted trees are fitted once more, to all rows.

    References
    ----------
    Caruana, R., Niculescu-Mizil, A., Crew, G. and Ksikes, A. (2004). Ensemble selection from
    libraries of models. ICML.

    Examples
    --------
    >>> import numpy as np
    >>> from hybridtrees import AutoRegressor
    >>> X = np.random.default_rng(0).normal(size=(300, 3))
    >>> y = X[:, 0] + np.abs(X[:, 1])
    >>> model = AutoRegressor(quality=1, random_state=0).fit(X[:200], y[:200])
    >>> bool(model.score(X[200:], y[200:]) > 0.9)
    True
    """

    _has_held_out = True

    def _predictions(self, X: Any) -> np.ndarray:
        return self._mixed(X)

    def _tell(self, model: Any, values: Any) -> np.ndarray:
        return np.asarray(model.predict(values), dtype=np.float64)


class AutoClassifier(ClassifierMixin, ClassWeightMixin, _Auto):
    """A classifier that needs no tuning: it tries models, and averages those that do best.

    As `AutoRegressor`, with a logistic regression, for the log-loss. Probabilities are calibrated
    by one temperature (Guo, Pleiss, Sun and Weinberger 2017), found on rows that the models have
    not seen.

    Attributes
    ----------
    n_classes_ : int
        Number of classes.
    temperature_ : float
        What the logarithms of probabilities are divided by; above 1, the models were too sure.

    References
    ----------
    Guo, C., Pleiss, G., Sun, Y. and Weinberger, K. Q. (2017). On calibration of modern neural
    networks. ICML.

    Examples
    --------
    >>> from hybridtrees import AutoClassifier
    >>> from hybridtrees.datasets import load_breast_cancer
    >>> data = load_breast_cancer()
    >>> model = AutoClassifier(quality=1, random_state=0).fit(data.data[:400], data.target[:400])
    >>> bool(model.score(data.data[400:], data.target[400:]) > 0.9)
    True
    """

    _has_held_out = True

    temperature_: float = attribute()

    n_classes_: int = attribute()

    def _calibrate(self, mixed: np.ndarray, target: np.ndarray, weight: Any) -> None:
        self.temperature_ = find_temperature(mixed, target, weight)

    def _final(self, mixed: np.ndarray) -> np.ndarray:
        return heated(mixed, self.temperature_)

    def _probabilities(self, X: Any) -> np.ndarray:
        return self._final(self._mixed(X))

    def _check_fitted(self) -> None:
        super()._check_fitted()
        if not check_type(self, "temperature_", float) > 0:
            raise ValueError(f"temperature_ must be positive, got {self.temperature_}")
        for member in self.estimators_:
            if not np.isin(member.classes_, np.arange(len(self.classes_))).all():
                raise ValueError("a model of the AutoClassifier has other classes")

    def _tell(self, model: Any, values: Any) -> np.ndarray:
        return member_probabilities(model, values, np.arange(len(self.classes_)))


def deal_out(
    plan: Plan, table: Table, groups: Any, time: Any, seed: np.random.SeedSequence
) -> Folds:
    """Return the folds of a plan, fewer parts if there are few rows, groups or times."""
    n_rows = len(table.target)
    most = n_rows
    if groups is not None:
        most = len(np.unique(groups))
    elif time is not None:
        most = len(np.unique(time)) - 1
    if most < 2 and groups is not None:
        raise ValueError("groups must hold at least 2 groups: one of them is held out")
    if most < 1:
        raise ValueError("time must hold at least 2 distinct times: the last ones are held out")
    classes = table.target if table.classify else None
    if time is not None:
        n_parts = min(plan.n_parts - 1, most)
        if n_parts < 2:  # two times: the first one trains
            first = time == time.min()
            return [(np.flatnonzero(first), np.flatnonzero(~first))]
        return make_folds(n_parts, n_rows, classes, time=time)[-plan.n_folds :]
    rng = np.random.default_rng(seed)
    n_parts = min(plan.n_parts, most)
    return [
        fold
        for _ in range(plan.n_repeats)
        for fold in make_folds(n_parts, n_rows, classes, groups=groups, rng=rng)[: plan.n_folds]
    ]
