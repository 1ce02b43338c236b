"""Fixtures of tests of ensembles."""

from __future__ import annotations

import numpy as np
import pytest

from hybridtrees.ensembles.adaboost_members import TreeMembers


@pytest.fixture
def rows(rng):
    X = rng.normal(size=(240, 4))
    return X, X[:, 0] + np.sin(3 * X[:, 1]) + 0.2 * rng.normal(size=240)


@pytest.fixture
def rounds(monkeypatch):
    """The weights that members of AdaBoost were fitted with, and their predictions."""
    seen = []
    plain = TreeMembers.fit_next

    def fit_next(self, weight, seed):
        member, prediction = plain(self, weight, seed)
        seen.append((weight.copy(), prediction.copy()))
        return member, prediction

    monkeypatch.setattr(TreeMembers, "fit_next", fit_next)
    return seen
