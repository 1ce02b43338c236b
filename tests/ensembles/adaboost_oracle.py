"""AdaBoost written down plainly: stumps by trying every cut, then the formulas of the papers."""

from __future__ import annotations

import numpy as np


def cuts(X):
    """Every feature and midpoint between two neighbouring values, in order."""
    for feature in range(X.shape[1]):
        values = np.unique(X[:, feature])
        for low, high in zip(values[:-1], values[1:], strict=True):
            yield feature, (low + high) / 2


class Stump:
    """One split, by the largest decrease of an impurity, and what both sides say."""

    def __init__(self, X, impurity, say):
        best = np.inf
        for feature, threshold in cuts(X):
            left = X[:, feature] <= threshold
            after = impurity(left) + impurity(~left)
            if after < best * (1 - 1e-12):
                best, self.feature, self.threshold = after, feature, threshold
        left = X[:, self.feature] <= self.threshold
        self.said = say(left), say(~left)

    def predict(self, X):
        return np.where(X[:, self.feature] <= self.threshold, *self.said)


def class_stump(X, y, w, n_classes):
    """The stump of the smallest weighted Gini index."""

    def shares(part):
        return np.array([w[part & (y == k)].sum() for k in range(n_classes)])

    def gini(part):
        total = shares(part).sum()
        return total - (shares(part) ** 2).sum() / total

    return Stump(X, gini, lambda part: shares(part).argmax())


def number_stump(X, y, w):
    """The stump of the smallest weighted squared error."""

    def mean(part):
        return (w[part] * y[part]).sum() / w[part].sum()

    return Stump(X, lambda part: (w[part] * (y[part] - mean(part)) ** 2).sum(), mean)


def samme(X, y, n_classes, n_rounds, rate=1.0, weight=None):
    """Rounds of SAMME, as dicts; the weights are those that the member was fitted with."""
    w = np.ones(len(y)) if weight is None else np.array(weight, dtype=float)
    rounds = []
    for _ in range(n_rounds):
        w = w / w.sum()
        stump = class_stump(X, y, w, n_classes)
        missed = stump.predict(X) != y
        error = w[missed].sum()
        if error >= 1 - 1 / n_classes:
            break
        alpha = 1.0
        if error > 0:
            alpha = rate * (np.log((1 - error) / error) + np.log(n_classes - 1))
        rounds.append({"stump": stump, "weight": w, "error": error, "alpha": alpha})
        if error == 0:
            break
        w = w * np.exp(alpha * missed)
    return rounds


def samme_votes(rounds, X, n_classes):
    """Sum of the weights of the members that vote for each class."""
    votes = np.zeros((len(X), n_classes))
    for one in rounds:
        votes[np.arange(len(X)), one["stump"].predict(X)] += one["alpha"]
    return votes


R2_LOSSES = {
    "linear": lambda share: share,
    "square": lambda share: share**2,
    "exponential": lambda share: 1 - np.exp(-share),
}


def r2_update(prediction, y, w, loss, rate):
    """Error, member weight and new row weights of AdaBoost.R2 (Drucker 1997, steps 3 to 8)."""
    share = np.abs(prediction - y) / np.abs(prediction - y)[w > 0].max()
    lost = R2_LOSSES[loss](share)
    error = (w * lost).sum() / w.sum()
    beta = error / (1 - error)
    new = w * beta ** (rate * (1 - lost))
    return error, rate * np.log(1 / beta), new / new.sum()


def r2(X, y, loss, n_rounds, rate=1.0, weight=None):
    """Rounds of AdaBoost.R2 with weighted stumps, as dicts."""
    w = np.ones(len(y)) if weight is None else np.array(weight, dtype=float)
    w, rounds = w / w.sum(), []
    for _ in range(n_rounds):
        stump = number_stump(X, y, w)
        error, alpha, new = r2_update(stump.predict(X), y, w, loss, rate)
        if error >= 0.5:
            break
        rounds.append({"stump": stump, "weight": w, "error": error, "alpha": alpha})
        w = new
    return rounds


def weighted_median(values, weight):
    """Smallest value of each row up to which the weights reach half of their sum."""
    out = []
    for row in values:
        order = np.argsort(row)
        reached = np.cumsum(weight[order])
        out.append(row[order][np.argmax(reached >= 0.5 * reached[-1])])
    return np.array(out)
