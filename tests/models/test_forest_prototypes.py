"""Prototypes and outlier scores: groups of unequal sizes, categories, bad labels."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

from hybridtrees.models.forest.estimators import RandomForestClassifier, RandomForestRegressor
from hybridtrees.models.shared.forest.prototypes import dense_places, nearest_rows


def unequal_classes(rng):
    X = np.r_[rng.normal(0, 0.8, (80, 2)), rng.normal(3, 0.8, (40, 2)), rng.normal(9, 0.1, (3, 2))]
    return X, np.repeat(["large", "middle", "rare"], [80, 40, 3])


def test_a_rare_class_leaves_the_others_their_neighbours(rng):
    X, labels = unequal_classes(rng)
    model = RandomForestClassifier(40, random_state=0, n_jobs=1).fit(X, labels)
    found = model.prototypes(X, labels)
    assert found.labels.tolist() == ["large", "middle", "rare"]
    for place, n_neighbors in enumerate((40, 20, 1)):
        alone = model.prototypes(X, labels, n_neighbors=n_neighbors)
        np.testing.assert_array_equal(found.values[place], alone.values[place])
        assert found.rows[place] == alone.rows[place]
    assert (found.lower[:2] < found.upper[:2]).all()


def test_more_neighbours_than_rows_are_all_rows(rng):
    X, labels = unequal_classes(rng)
    model = RandomForestClassifier(10, random_state=0, n_jobs=1).fit(X, labels)
    every = model.prototypes(X, labels, n_neighbors=len(X))
    np.testing.assert_array_equal(
        model.prototypes(X, labels, n_neighbors=10**12).values, every.values
    )


def test_rows_that_are_all_alike_have_more_than_one_prototype():
    X, labels = np.repeat([[0.0], [1.0]], 30, axis=0), np.repeat(["a", "b"], 30)
    model = RandomForestClassifier(30, random_state=0, n_jobs=1).fit(X, labels)
    found = model.prototypes(X, labels, n_neighbors=5, n_prototypes=2)
    assert found.labels.tolist() == ["a", "a", "b", "b"]
    assert found.values.ravel().tolist() == [0, 0, 1, 1]
    assert len(set(found.rows.tolist())) == 4


def test_each_row_is_its_own_nearest():
    near = scipy.sparse.csr_array(np.array([[1.0, 1.0, 0.5], [1.0, 1.0, 0.0], [0.5, 0.0, 1.0]]))
    assert nearest_rows(near, 2).tolist() == [[0, 1], [1, 0], [2, 0]]
    assert nearest_rows(near[1:], 3, 1).tolist() == [[1, 0, -1], [2, 0, -1]]


def test_a_row_makes_one_prototype_only():
    """The members of a prototype, and not its own row alone, are gone for the next ones."""
    nearest = np.array([[0, 1, 2], [1, 0, 2], [2, 1, 3], [3, 2, 4], [4, 3, 5], [5, 4, -1]])
    group = np.zeros(6, dtype=np.intp)
    places = dense_places(nearest, group, 0, 5)
    assert [(row, members.tolist()) for row, members in places] == [(0, [0, 1, 2]), (4, [4, 3, 5])]
    # Rows of another class are not members, and stay.
    group[3] = 1
    places = dense_places(nearest, group, 0, 5)
    assert [(row, members.tolist()) for row, members in places] == [(0, [0, 1, 2]), (4, [4, 5])]


def test_further_prototypes_are_other_places(rng):
    """Two clusters of one class: each is the place of one prototype."""
    X = np.r_[rng.normal(0, 0.3, (60, 2)), rng.normal(8, 0.3, (50, 2)), rng.normal(4, 0.3, (55, 2))]
    labels = np.repeat(["outer", "outer", "inner"], [60, 50, 55])
    model = RandomForestClassifier(40, random_state=0, n_jobs=1).fit(X, labels)
    found = model.prototypes(X, labels, n_neighbors=40, n_prototypes=2)
    outer = found.values[found.labels == "outer"]
    assert sorted(outer.mean(axis=1).round().astype(int).tolist()) == [0, 8]


def test_categories_of_prototypes_are_decoded(rng):
    pandas = pytest.importorskip("pandas")
    kind = rng.choice(["a", "b"], 80)
    x = np.where(kind == "a", 0.0, 3.0) + 0.3 * rng.normal(size=80)
    frame = pandas.DataFrame({"x": x, "kind": kind, "none": pandas.Categorical([None] * 80)})
    model = RandomForestClassifier(20, random_state=0, n_jobs=1).fit(frame, kind)
    found = model.prototypes(frame, kind)
    table = found.decoded()
    assert table[:, 1].tolist() == ["a", "b"]
    assert table[:, 2].tolist() == [None, None]
    np.testing.assert_array_equal(table[:, 0].astype(float), found.values[:, 0])
    assert found.categories[0] is None and found.categories[1].tolist() == ["a", "b"]


@pytest.mark.parametrize("method", ["outlier_scores", "prototypes"])
@pytest.mark.parametrize(
    "labels", [[None] * 30, [1, "a"] * 15, np.arange(29), np.zeros((30, 2)), [np.nan] * 30]
)
def test_labels_that_cannot_be_groups(rng, method, labels):
    X = rng.normal(size=(30, 2))
    model = RandomForestRegressor(3, random_state=0, n_jobs=1).fit(X, X[:, 0])
    with pytest.raises((ValueError, TypeError), match=r"\by\b"):
        getattr(model, method)(X, labels)
