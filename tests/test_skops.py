"""Estimators in files of skops, which lists the types that a reader must trust."""

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import hybridtrees as ht

skops = pytest.importorskip("skops.io")

X = np.random.default_rng(0).normal(size=(60, 3))
y = X[:, 0] + X[:, 1] ** 2


@pytest.mark.parametrize(
    "model",
    [
        ht.XGBRegressor(n_estimators=3),
        ht.PLGBRegressor(n_estimators=3),
        ht.CARTRegressor(),
        ht.RandomForestRegressor(n_estimators=3),
        ht.EBLRRegressor(n_rules=2),
        make_pipeline(StandardScaler(), ht.XGBRegressor(n_estimators=3)),
    ],
    ids=lambda model: type(model).__name__,
)
def test_files_of_skops(model):
    content = skops.dumps(model.fit(X, y))
    types = skops.get_untrusted_types(data=content)
    assert types and all(name.startswith("hybridtrees.") for name in types)
    read = skops.loads(content, trusted=types)
    np.testing.assert_array_equal(read.predict(X), model.predict(X))
