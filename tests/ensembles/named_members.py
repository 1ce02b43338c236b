"""Members for voting, stacking and averaging, and labels for their classifiers."""

from __future__ import annotations

import numpy as np

import hybridtrees as ht


def labels_of(y, n_classes):
    return np.array(["low", "mid", "top"])[np.digitize(y, [-0.4, 0.6][: n_classes - 1])]


def regressors():
    return [
        ("line", ht.LinearRegressor()),
        ("tree", ht.CARTRegressor(max_depth=4, random_state=0)),
        ("forest", ht.RandomForestRegressor(n_estimators=8, random_state=0)),
    ]


def classifiers(max_depth=4):
    return [
        ("line", ht.LogisticClassifier()),
        ("tree", ht.CARTClassifier(max_depth=max_depth, random_state=0)),
        ("forest", ht.RandomForestClassifier(n_estimators=8, random_state=0)),
    ]
