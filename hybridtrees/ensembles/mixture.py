"""Mixtures of experts: a gate divides the rows softly among experts."""

from __future__ import annotations

from typing import Any

import numpy as np

from hybridtrees._class_weight import ClassWeightMixin
from hybridtrees._parameters import attribute, check_real
from hybridtrees.base import ClassifierMixin, RegressorMixin
from hybridtrees.core.base._types import CONSTANT_SCALED
from hybridtrees.ensembles.members import member_numbers, member_probabilities
from hybridtrees.ensembles.mixture_base import MixtureOfExperts, Training
from hybridtrees.ensembles.mixture_em import Experts, Fitted, Floats, Schedule, log_softmax
from hybridtrees.ensembles.mixture_experts import (
    LinearExperts,
    LogisticExperts,
    MemberExperts,
    gaussian_log_density,
    smoothed,
)
from hybridtrees.input.targets import check_target_classification, check_target_regression
from hybridtrees.models.shared.targets import read_regression_target


class MixtureOfExpertsRegressor(RegressorMixin, MixtureOfExperts):
    """A mixture of regressions, each for a region of the features that a gate learns.

    The density of y is ``sum_k g_k(x) N(y; m_k(x), s_k^2)`` (Jacobs, Jordan, Nowlan and Hinton
    1991). The gate g is a softmax regression, and an expert m_k a ridge regression, a small tree
    or another estimator. EM maximises the log-likelihood minus ::

        W gate_alpha / 2 sum_k |c_k|^2 + W alpha / 2 sum_k |b_k|^2 / s_k^2

    with W the sum of the weights, c_k the coefficients of the gate and b_k those of the experts,
    all for standardised columns. One linear expert is a ridge regression. Experts are numbered by
    their shares of the rows.

    Parameters
    ----------
    expert : {"linear", "tree"} or estimator
        Ridge regressions, CART trees of `max_depth` grown with the responsibilities as weights,
        whose leaves have at least a hundredth of the weight, or copies of a regressor whose `fit`
        takes `sample_weight`.
    min_variance : float
        Smallest variance of an expert, as a share of the variance of y. Without a limit the
        likelihood would be unbounded: an expert could shrink to rows that it fits exactly.

    Attributes
    ----------
    expert_variances_ : ndarray of shape (n_experts,)
        Variances of y about the experts.

    Examples
    --------
    >>> import numpy as np
    >>> from hybridtrees import MixtureOfExpertsRegressor
    >>> x = np.linspace(-1, 1, 200)[:, None]
    >>> model = MixtureOfExpertsRegressor(random_state=0, gate_alpha=1e-6).fit(x, np.abs(x[:, 0]))
    >>> model.predict([[-0.5], [0.5]]).round(2)
    array([0.5, 0.5])
    """

    _regression = "linear"

    expert: Any = "linear"
    min_variance: float = 1e-4

    expert_variances_: np.ndarray = attribute()
    _target_scale: tuple[float, float] = attribute()

    def _check_parameters(self) -> Schedule:
        check_real("min_variance", self.min_variance, 0, 1, closed="right")
        return super()._check_parameters()

    def _encode(self, y: Any, n_rows: int) -> tuple[np.ndarray, np.ndarray | None]:
        return read_regression_target(y, n_rows, type(self).__name__, several=False), None

    def _open(self, training: Training, seed: int) -> tuple[Experts, Floats]:
        target = training.rows.target
        mean, scale = self._target_scale = _centre_and_scale(target, training.weight)
        standard = (target - mean) / scale
        n_experts, floor = int(self.n_experts), float(self.min_variance)
        if self._linear:
            strength = float(self.alpha) * len(target)
            return LinearExperts(
                training.blocks, standard, training.weight, n_experts, strength, floor
            ), standard
        return MemberExperts(
            self._template(),
            training.rows,
            training.weight,
            n_experts,
            seed,
            training.n_threads,
            standard,
            lambda predicted: (predicted - mean) / scale,
            floor,
            None,
        ), standard

    def _template(self) -> Any:
        from hybridtrees.models.cart.estimators import CARTRegressor

        if not isinstance(self.expert, str):
            return self.expert
        return CARTRegressor(**self._tree_parameters())

    def _log_unit(self) -> float:
        return float(np.log(self._target_scale[1]))

    def _keep(self, fitted: Fitted, training: Training, order: np.ndarray) -> list[Floats]:
        mean, scale = self._target_scale
        state = fitted.state
        self.expert_variances_ = state.variance[order] * scale**2
        self._members = [] if self._linear else [state.members[k] for k in order]
        if not self._linear:
            return []
        coef = state.coef[order] * scale
        coef[:, -1] += mean
        return list(coef)

    def _n_outputs(self) -> int:
        return 1

    def _check_fitted(self) -> None:
        super()._check_fitted()
        self._check_scalars("expert_variances_")

    def _expert_outputs(self, X: Any, scores: Floats) -> Floats:
        if self._linear:
            return scores
        return np.stack([member_numbers(member, X) for member in self._members])

    def _log_density(self, experts: Floats, y: Any) -> Floats:
        target = check_target_regression(y, experts.shape[1])
        with np.errstate(over="ignore"):
            return gaussian_log_density(target - experts, self.expert_variances_)

    def _predictions(self, X: Any) -> np.ndarray:
        logs, experts = self._gate_and_experts(X)
        return np.asarray((np.exp(logs) * experts).sum(axis=0))

    def _expert_facts(self) -> tuple[list[str], list[list[str]]]:
        return ["sd of y"], [[f"{np.sqrt(v):.4g}"] for v in self.expert_variances_]


class MixtureOfExpertsClassifier(ClassWeightMixin, ClassifierMixin, MixtureOfExperts):
    """A mixture of classifiers, each for a region of the features that a gate learns.

    The probability of class c is ``sum_k g_k(x) p_kc(x)`` (Jacobs, Jordan, Nowlan and Hinton 1991).
    The gate g is a softmax regression, and an expert p_k a logistic regression, a small tree or
    another estimator. EM maximises the log-likelihood minus ::

        W gate_alpha / 2 sum_k |c_k|^2 + W alpha / 2 sum_k |b_k|^2

    with W the sum of the weights, c_k the coefficients of the gate and b_k those of the experts,
    all for standardised columns. One logistic expert is a `LogisticClassifier`. Experts are
    numbered by their shares of the rows. Two classes have one score, more classes one each.

    Parameters
    ----------
    expert : {"logistic", "tree"} or estimator
        Logistic regressions, CART trees of `max_depth` grown with the responsibilities as weights,
        whose leaves have at least a hundredth of the weight, or copies of a classifier whose `fit`
        takes `sample_weight`. To the probabilities of trees
        and other estimators 0.001 is added, shared by the classes: a leaf without a class would
        otherwise rule it out.

    Attributes
    ----------
    n_classes_ : int
        Number of classes.

    Examples
    --------
    >>> import numpy as np
    >>> from hybridtrees import MixtureOfExpertsClassifier
    >>> X = np.random.default_rng(0).uniform(-1, 1, (400, 2))
    >>> y = X[:, 0] * X[:, 1] > 0  # no line separates these classes
    >>> model = MixtureOfExpertsClassifier(random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.95
    True
    """

    _regression = "logistic"

    expert: Any = "logistic"

    n_classes_: int = attribute()

    def _encode(self, y: Any, n_rows: int) -> tuple[np.ndarray, np.ndarray | None]:
        codes, self.classes_ = check_target_classification(
            y, n_rows, at_least_two=True, estimator_name=type(self).__name__
        )
        self.n_classes_ = len(self.classes_)
        return self.classes_[codes], codes

    def _open(self, training: Training, seed: int) -> tuple[Experts, None]:
        rows, weight = training.rows, training.weight
        n_experts, codes = int(self.n_experts), rows.codes
        assert codes is not None
        if self._linear:
            strength = float(self.alpha) * len(codes)
            return LogisticExperts(
                training.blocks, codes, self.n_classes_, weight, n_experts, strength
            ), None
        return MemberExperts(
            self._template(),
            rows,
            weight,
            n_experts,
            seed,
            training.n_threads,
            None,
            np.asarray,
            1.0,
            self.classes_,
        ), None

    def _template(self) -> Any:
        from hybridtrees.models.cart.estimators import CARTClassifier

        if not isinstance(self.expert, str):
            return self.expert
        return CARTClassifier(**self._tree_parameters())

    def _keep(self, fitted: Fitted, training: Training, order: np.ndarray) -> list[Floats]:
        self._members = [] if self._linear else [fitted.state.members[k] for k in order]
        if not self._linear:
            return []
        first = 1 if self.n_classes_ == 2 else 0
        return [fitted.state[k, first:] for k in order]

    def _n_outputs(self) -> int:
        return 1 if len(self.classes_) == 2 else len(self.classes_)

    def _check_fitted(self) -> None:
        if len(self.classes_) < 2:
            raise ValueError("a mixture of classifiers must have at least two classes")
        super()._check_fitted()

    def _expert_outputs(self, X: Any, scores: Floats) -> Floats:
        if not self._linear:
            found = [member_probabilities(member, X, self.classes_) for member in self._members]
            return smoothed(np.stack(found))
        k, n_outputs = len(self.expert_shares_), self._n_outputs()
        scores = scores.reshape(k, n_outputs, -1)
        if n_outputs == 1:
            scores = np.concatenate([np.zeros_like(scores), scores], axis=1)
        return np.stack([np.exp(log_softmax(own.copy())).T for own in scores])

    def _log_density(self, experts: Floats, y: Any) -> Floats:
        n_rows = experts.shape[1]
        codes, _ = check_target_classification(y, n_rows, classes=self.classes_)
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(experts[:, np.arange(n_rows), codes]))

    def _probabilities(self, X: Any) -> np.ndarray:
        logs, experts = self._gate_and_experts(X)
        return np.asarray((np.exp(logs)[:, :, None] * experts).sum(axis=0))


def _centre_and_scale(target: Floats, weight: Floats) -> tuple[float, float]:
    """Return weighted mean and standard deviation; a scale of 1 if the target is constant."""
    total = float(weight.sum())
    mean = float(weight @ target) / total
    # In this unit squares of very small numbers do not vanish.
    unit = float(np.abs(target - mean).max()) or 1.0
    spread = unit * float(np.sqrt(weight @ ((target - mean) / unit) ** 2 / total))
    return mean, spread if spread > CONSTANT_SCALED * abs(mean) else 1.0
