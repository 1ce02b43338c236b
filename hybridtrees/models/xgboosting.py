"""XGBoost-style boosting: Newton steps, regularised leaves, xgboost's parameter names."""

from __future__ import annotations

from typing import Any

import numpy as np

from hybridtrees._parameters import check_option
from hybridtrees._validation import check_target_classification, check_target_regression
from hybridtrees.base import ClassifierMixin, RegressorMixin
from hybridtrees.losses import Logistic, Softmax, SquaredError
from hybridtrees.models._xgb_base import XGBModel


class XGBRegressor(RegressorMixin, XGBModel):
    """Gradient boosting as in XGBoost, for a number.

    Newton boosting with regularised leaves on binned features (Chen and Guestrin 2016). Takes
    the parameters of ``xgboost.XGBRegressor`` that the two share, with the same defaults.

    Parameters
    ----------
    objective : {"reg:squarederror"}, optional
        Loss to minimise.
    n_estimators : int, default=100
        Boosting rounds.
    max_depth : int or None, default=6
        Largest depth of a tree; 0 or None for no limit.
    max_leaves : int, default=0
        Most leaves of a tree; 0 for no limit.
    max_bin : int, default=256
        Bins of a feature, at most 256; one of 256 is kept for missing values.
    grow_policy : {"depthwise", "lossguide"}, default="depthwise"
        Split level by level, or where the gain is largest.
    learning_rate : float, default=0.3
        Factor on every tree.
    tree_method : {"hist", "auto"}, default="hist"
        How splits are searched: over the bins of each feature.
    gamma : float, default=0
        Least gain of a split.
    min_child_weight : float, default=1
        Least sum of hessians in a child.
    max_delta_step : float, default=0
        Largest leaf value before the learning rate; 0 for no limit.
    subsample : float, default=1
        Share of the rows drawn for each round.
    colsample_bytree, colsample_bylevel, colsample_bynode : float, default=1
        Share of the features drawn for each tree, of these for each level, of these for each
        node.
    reg_alpha, reg_lambda : float, default=0 and 1
        L1 and L2 penalty of leaf values.
    scale_pos_weight : float, default=1
        Not used in regression.
    base_score : float, optional
        Prediction to start from; the mean of y by default.
    missing : float, default=nan
        A value that means missing, beside NaN.
    categorical_features : array-like, optional
        Columns that hold categories (names, numbers or a mask), beside the string and category
        columns of a data frame.
    max_cat_to_onehot : int, default=4
        A feature of fewer categories is split one category against the rest, others by sets of
        categories.
    importance_type : {"gain", "weight", "cover", "total_gain", "total_cover"}, default="gain"
        What `feature_importances_` measures.
    early_stopping_rounds : int, optional
        Stop when the last metric on the last validation table has not improved for so many
        rounds; `predict` then uses the best round.
    eval_metric : str or list of str, optional
        Metrics for the validation tables: "rmse", "mae", "mse", "r2"; "rmse" by default.
    random_state : int, Generator, RandomState or None
        Seed of the row and feature draws. The same seed gives the same model for any `n_jobs`.
    n_jobs : int, optional
        Threads; all usable CPUs by default.
    verbose : int, default=0
        Print a line every so many rounds.

    Attributes
    ----------
    trees_ : TreeEnsemble
        The fitted trees.
    n_iter_ : int
        Rounds that were run.
    feature_importances_ : ndarray of shape (n_features,)
    best_iteration, best_score : int, float
        With early stopping.
    n_features_in_, feature_names_in_ : int, ndarray
        The features of `fit`; names only where the table had them.

    Examples
    --------
    >>> import numpy as np
    >>> from hybridtrees import XGBRegressor
    >>> X = np.arange(200.0).reshape(100, 2)
    >>> model = XGBRegressor(n_estimators=20).fit(X, X[:, 0] > 100)
    >>> model.predict(X[:1]).round(2)
    array([0.])
    """

    _objectives = {"reg:squarederror": SquaredError}

    def _encode_target(self, y, n_rows):
        name = self.objective or "reg:squarederror"
        loss = self._objectives[check_option("objective", name, self._objectives)]()
        target = check_target_regression(y, n_rows, estimator_name=type(self).__name__)
        largest, limit = np.abs(target).max(), float(np.finfo(np.float32).max)
        if largest > limit:  # gradients are float32
            raise ValueError(f"y must not exceed {limit:.3g} in magnitude, got {largest:.3g}")
        return target, loss

    def _encode_eval_target(self, y, n_rows, name):
        return check_target_regression(y, n_rows, name=name, estimator_name=type(self).__name__)

    def predict(self, X: Any, output_margin: bool = False) -> np.ndarray:
        """Predict a number per row.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)
        output_margin : bool
            Return the raw scores instead, before the link.

        Returns
        -------
        prediction : ndarray of shape (n_rows,)
        """
        raw = self.predict_raw(X)
        return raw[:, 0] if output_margin else self._loss.predict(raw)


class XGBClassifier(ClassifierMixin, XGBModel):
    """Gradient boosting as in XGBoost, for classes.

    Newton boosting with regularised leaves on binned features (Chen and Guestrin 2016): one tree
    per round for two classes, one per class and round for more. Takes the parameters of
    ``xgboost.XGBClassifier`` that the two share, with the same defaults; see `XGBRegressor` for
    those not described here.

    Parameters
    ----------
    objective : {"binary:logistic", "multi:softprob"}, optional
        Chosen by the number of classes where it is not given.
    n_estimators, max_depth, max_leaves, max_bin, grow_policy, learning_rate, tree_method, gamma, \
min_child_weight, max_delta_step, subsample, colsample_bytree, colsample_bylevel, \
colsample_bynode, reg_alpha, reg_lambda, missing, categorical_features, max_cat_to_onehot, \
importance_type, early_stopping_rounds, random_state, n_jobs, verbose
        As in `XGBRegressor`.
    scale_pos_weight : float, default=1
        Factor on the weights of the second class, for two classes.
    base_score : float, optional
        Probability of the second class to start from (two classes), or raw score of every class
        (more); by default the shares of the classes.
    eval_metric : str or list of str, optional
        "logloss", "error", "auc" for two classes, "mlogloss", "merror" for more; the log-loss by
        default.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, sorted.
    n_classes_ : int
    trees_, n_iter_, feature_importances_, best_iteration, best_score, n_features_in_, \
feature_names_in_
        As in `XGBRegressor`.

    Examples
    --------
    >>> import numpy as np
    >>> from hybridtrees import XGBClassifier
    >>> X = np.arange(200.0).reshape(100, 2)
    >>> model = XGBClassifier(n_estimators=20).fit(X, np.where(X[:, 0] > 100, "high", "low"))
    >>> model.predict(X[-1:])
    array(['high'], dtype='<U4')
    """

    _objectives = {"binary:logistic": Logistic, "multi:softprob": Softmax}

    def _encode_target(self, y, n_rows):
        codes, classes = check_target_classification(y, n_rows, estimator_name=type(self).__name__)
        if len(classes) < 2:
            raise ValueError(
                f"{type(self).__name__} needs at least two classes, but y holds the one class "
                f"{classes[0]!r}"
            )
        self.classes_ = classes
        self.n_classes_ = len(classes)
        name = self.objective
        if name is None:
            name = "binary:logistic" if len(classes) == 2 else "multi:softprob"
        check_option("objective", name, self._objectives)
        if name == "binary:logistic" and len(classes) > 2:
            raise ValueError(
                f"objective='binary:logistic' is for two classes, but y holds {len(classes)}; "
                "use 'multi:softprob'"
            )
        loss = self._objectives[name]
        target = codes.astype(np.float64)
        return target, loss() if name == "binary:logistic" else loss(len(classes))

    def _encode_eval_target(self, y, n_rows, name):
        codes, _ = check_target_classification(
            y, n_rows, classes=self.classes_, name=name, estimator_name=type(self).__name__
        )
        return codes.astype(np.float64)

    def _class_weight(self, loss, target, weight):
        if self.scale_pos_weight == 1 or loss.n_outputs > 1:
            return weight
        factor = np.where(target == 1, float(self.scale_pos_weight), 1.0)
        return factor if weight is None else weight * factor

    def _base_raw(self, loss, target, weight):
        if self.base_score is not None or self.scale_pos_weight == 1 or loss.n_outputs > 1:
            return super()._base_raw(loss, target, weight)
        # With scale_pos_weight xgboost starts after one Newton step from even odds.
        return np.array([4 * np.average(target, weights=weight) - 2])

    def predict_proba(self, X: Any) -> np.ndarray:
        """Predict the probability of every class.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)

        Returns
        -------
        proba : ndarray of shape (n_rows, n_classes)
            Columns in the order of `classes_`.
        """
        raw = self.predict_raw(X)
        return self._loss.predict(raw)

    def decision_function(self, X: Any) -> np.ndarray:
        """Raw scores: log-odds of the second class, or one score per class.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)

        Returns
        -------
        scores : ndarray of shape (n_rows,) for two classes, else (n_rows, n_classes)
        """
        raw = self.predict_raw(X)
        return raw[:, 0] if raw.shape[1] == 1 else raw

    def predict(self, X: Any, output_margin: bool = False) -> np.ndarray:
        """Predict the most probable class.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)
        output_margin : bool
            Return the raw scores instead.

        Returns
        -------
        labels : ndarray of shape (n_rows,)
        """
        scores = self.decision_function(X)
        if output_margin:
            return scores
        codes = (scores > 0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)
        return self.classes_[codes]
