"""Category codes as large as a bin mapper takes them, from the bins to the prediction."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from growers import newton_grower, tree_of

from hybridtrees.core.bins.mapper import BinMapper
from hybridtrees.core.grow.params import GrowerParams
from hybridtrees.core.tree.tree import TreeEnsemble

# Sets of more than 32,767 words once trained and then could not predict.
LAST_OF_SHORT_SETS = 32 * 32_767 - 1
LARGEST = 2**24 - 1


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "largest", [LAST_OF_SHORT_SETS, LAST_OF_SHORT_SETS + 1, LAST_OF_SHORT_SETS + 33, LARGEST]
)
def test_large_codes_predict_as_they_train(largest, dtype):
    codes = np.array([0, 31, 32, 70_000, largest - 33, largest - 1, largest], dtype=dtype)
    goes_up = np.array([1, 0, 1, 0, 0, 1, 1], dtype=bool)
    X = np.append(np.repeat(codes, 10), np.full(10, np.nan, dtype=dtype))[:, None]
    y = np.where(np.append(np.repeat(goes_up, 10), np.zeros(10, dtype=bool)), 1.0, -1.0)
    mapper = BinMapper(categorical_features=[0])
    binned = mapper.fit_transform(X)
    raw = np.zeros(len(X))
    params = GrowerParams(max_depth=1, reg_lambda=0.0, max_cat_to_onehot=0)
    with newton_grower(binned, params, 1, mapper.category_to_bin_) as grower:
        tree = tree_of(grower, -y.astype(np.float32), 1.0)
        grower.add_to(tree, raw)
    np.testing.assert_array_equal(raw, y)
    # A list of few codes, not a bit for each.
    assert tree.nodes["category_words"][0] <= 7
    assert tree.first_unknown(0) == largest + 1
    expected_set = codes[goes_up if tree.values[1, 0] > 0 else ~goes_up]
    if not tree.nodes["missing_left"][0]:
        np.testing.assert_array_equal(tree.category_set(0), expected_set)
    # Single rows, a batch, and codes that fit has not seen, which are missing values.
    for trees in (TreeEnsemble([tree], 1), pickle.loads(pickle.dumps(TreeEnsemble([tree], 1)))):
        for rows in (slice(None), slice(60, 61), slice(69, 71)):
            predicted = np.zeros((len(X[rows]), 1))
            trees.add_raw(X[rows], predicted, 1)
            np.testing.assert_array_equal(predicted[:, 0], y[rows])
        unseen = np.array([1, 33, largest - 2, largest + 1, 2.0**24, 2.0**31, 1e30, -1], dtype)
        leaves = trees.apply(unseen[:, None], 1)[:, 0]
        assert set(leaves) == set(trees.apply(X[-1:], 1)[0])
