"""Bagged trees: against random forests, scikit-learn, oracles of out-of-bag scores and pruning."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import hybridtrees as ht
from hybridtrees.ensembles import bagging_trees
from hybridtrees.ensembles.bagging_trees import best_alpha

pytestmark = pytest.mark.filterwarnings("ignore:Some rows are in the sample of every tree")


def make_table(n=400, seed=0, missing=True):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 6))
    y = X[:, 0] * X[:, 1] + X[:, 2] + 0.2 * rng.normal(size=n)
    if missing:
        X[::9, 3] = np.nan
    return X, y, np.array(["low", "mid", "top"])[np.digitize(y, [-0.5, 0.7])]


def pairs():
    X, y, labels = make_table()
    return [(ht.BaggingRegressor, X, y), (ht.BaggingClassifier, X, labels)]


def same_trees(one, other):
    assert len(one) == len(other)
    for a, b in zip(one, other, strict=True):
        assert np.array_equal(a.nodes["feature"], b.nodes["feature"])
        assert np.array_equal(a.nodes["threshold"], b.nodes["threshold"])
        assert np.array_equal(a.values, b.values)


@pytest.mark.parametrize("splitter", ["exact", "hist"])
@pytest.mark.parametrize("weighted", [False, True])
def test_trees_are_those_of_a_forest_that_tries_all_features(splitter, weighted):
    X, y, labels = make_table()
    weight = np.random.default_rng(1).integers(0, 3, len(y)) * 1.0 if weighted else None
    tree = {"splitter": splitter, "min_samples_leaf": 2, "max_features": None}
    shared = {"n_estimators": 7, "random_state": 3, "oob_score": True}
    bag = ht.BaggingRegressor(ht.CARTRegressor(**tree), **shared).fit(X, y, weight)
    forest = ht.RandomForestRegressor(**tree, **shared).fit(X, y, weight)
    same_trees(bag._forest.trees_, forest.trees_)
    assert np.array_equal(bag.predict(X), forest.predict(X))
    assert bag.oob_score_ == forest.oob_score_
    assert np.array_equal(bag.oob_prediction_, forest.oob_prediction_, equal_nan=True)
    bag = ht.BaggingClassifier(ht.CARTClassifier(**tree), voting="hard", **shared)
    forest = ht.RandomForestClassifier(**tree, voting="hard", **shared).fit(X, labels, weight)
    same_trees(bag.fit(X, labels, weight)._forest.trees_, forest.trees_)
    assert np.array_equal(bag.predict_proba(X), forest.predict_proba(X))
    assert bag.oob_score_ == forest.oob_score_


@pytest.mark.peer
def test_scores_are_those_of_scikit_learn():
    sklearn = pytest.importorskip("sklearn.ensemble")
    X, y, labels = make_table(1200, missing=False)
    half = slice(0, 600), slice(600, None)
    for ours, theirs, target in (
        (ht.BaggingRegressor, sklearn.BaggingRegressor, y),
        (ht.BaggingClassifier, sklearn.BaggingClassifier, labels),
    ):
        for options in ({}, {"max_features": 0.7}, {"max_samples": 0.3, "bootstrap": False}):
            scores = [
                np.mean(
                    [
                        cls(n_estimators=40, random_state=seed, **options)
                        .fit(X[half[0]], target[half[0]])
                        .score(X[half[1]], target[half[1]])
                        for seed in range(4)
                    ]
                )
                for cls in (ours, theirs)
            ]
            assert abs(scores[0] - scores[1]) < 0.02, (options, scores)


@pytest.mark.parametrize("options", [{}, {"max_features": 0.5}, {"prune": True}])
def test_out_of_bag_scores_by_an_oracle(options):
    for cls, X, target in pairs():
        model = cls(n_estimators=12, oob_score=True, random_state=0, **options).fit(X, target)
        sums, counts = None, np.zeros(len(X))
        for member, rows in zip(model.estimators_, model.estimators_samples_, strict=True):
            outside = np.setdiff1d(np.arange(len(X)), rows)
            ask = member.predict_proba if hasattr(member, "predict_proba") else member.predict
            found = ask(X[outside])
            sums = np.zeros((len(X), *found.shape[1:])) if sums is None else sums
            sums[outside] += found
            counts[outside] += 1
        seen = counts > 0
        mean = sums[seen] / (counts[seen][:, None] if sums.ndim == 2 else counts[seen])
        if hasattr(model, "classes_"):
            assert np.allclose(model.oob_decision_function_[seen], mean)
            best = model.classes_[mean.argmax(axis=1)]
            assert model.oob_score_ == pytest.approx(np.mean(best == target[seen]))
        else:
            assert np.allclose(model.oob_prediction_[seen], mean)
            expected = 1 - np.sum((target[seen] - mean) ** 2) / np.sum(
                (target[seen] - target[seen].mean()) ** 2
            )
            assert model.oob_score_ == pytest.approx(expected)


def test_members_add_up_to_the_ensemble():
    for cls, X, target in pairs():
        for options in ({}, {"max_features": 3}, {"bootstrap_features": True}):
            model = cls(n_estimators=6, random_state=1, **options).fit(X, target)
            ask = "predict_proba" if hasattr(model, "classes_") else "predict"
            parts = [getattr(member, ask)(X) for member in model.estimators_]
            assert np.allclose(np.mean(parts, axis=0), getattr(model, ask)(X))
            for member, features in zip(model.estimators_, model.estimators_features_, strict=True):
                used = np.flatnonzero(member.feature_importances_)
                assert set(used) <= set(features)
                assert member.n_estimators_ == len(member.trees_) == 1
            total = np.mean([m.feature_importances_ for m in model.estimators_], axis=0)
            assert np.allclose(model.feature_importances_, total)


def test_features_drawn():
    X, y, _ = make_table()
    model = ht.BaggingRegressor(n_estimators=200, max_features=3, random_state=0).fit(X, y)
    drawn = np.array(model.estimators_features_)
    assert drawn.shape == (200, 3) and all(len(set(row)) == 3 for row in drawn)
    share = np.bincount(drawn.ravel(), minlength=6) / 200
    assert np.all(np.abs(share - 0.5) < 4 * np.sqrt(0.25 / 200))
    model.set_params(bootstrap_features=True, max_features=9).fit(X, y)
    assert {len(row) for row in model.estimators_features_} == {9}


def weakest_links(tree, sample_cost):
    """Yield the inner nodes of each subtree: the weakest link is cut until the root is left."""
    left, right = tree.nodes["left"], tree.nodes["right"]

    def leaves(node, inner):
        return (
            [node] if node not in inner else leaves(left[node], inner) + leaves(right[node], inner)
        )

    inner = set(np.flatnonzero(left >= 0))
    yield inner
    while inner:
        links = {}
        for node in inner:
            below = leaves(node, inner)
            links[node] = (sample_cost[node] - sample_cost[below].sum()) / (len(below) - 1)
        weakest = min(links.values())
        for node in [node for node, link in links.items() if link <= weakest + 1e-12]:
            gone, todo = {node}, [node]
            while todo:
                at = todo.pop()
                if at in inner:
                    gone.add(at)
                    todo += [left[at], right[at]]
            inner = inner - gone
        yield inner


@pytest.mark.parametrize("kind", ["Regressor", "Classifier"])
def test_pruned_trees_by_an_oracle(kind, monkeypatch):
    """Each tree is the best of its cost-complexity sequence on the training set."""
    X, y, labels = make_table(90, missing=False)
    X = X[:, 2:]  # most is noise: pruning pays
    codes = np.unique(labels, return_inverse=True)[1]
    options = {"n_estimators": 4, "max_samples": 0.4, "random_state": 0, "prune": True}
    model = getattr(ht, f"Bagging{kind}")(**options)
    target = y if kind == "Regressor" else labels
    pruned = model.fit(X, target)._forest.trees_
    samples = model.estimators_samples_
    with monkeypatch.context() as patch:
        patch.setattr(bagging_trees, "best_alpha", lambda *given: -np.inf)
        full = model.fit(X, target)._forest.trees_
    for k, tree in enumerate(full):
        counts = np.bincount(samples[k], minlength=len(X))
        paths = np.zeros((len(X), tree.n_nodes), dtype=bool)
        for row in range(len(X)):
            node = 0
            while node >= 0:
                paths[row, node] = True
                at = tree.nodes[node]
                side = "left" if X[row, at["feature"]] <= at["threshold"] else "right"
                node = at[side] if at["left"] >= 0 else -1
        if kind == "Regressor":
            errors = (y[:, None] - tree.values[:, 0]) ** 2
            impurity = errors
        else:
            errors = codes[:, None] != tree.values.argmax(axis=1)
            impurity = 1.0 - tree.values[:, codes].T  # the Gini index is its mean over the rows
        cost = np.sum(paths * impurity * counts[:, None], axis=0)
        best, found = np.inf, None
        for inner in weakest_links(tree, cost):
            mask = np.array([node in inner for node in range(tree.n_nodes)])
            ends = paths & ~mask
            # The first node on the path that is no split.
            at = [row.argmax() for row in ends]
            error = errors[np.arange(len(X)), at].sum()
            if error <= best + 1e-9:
                best, found = error, len(inner) + 1
        assert pruned[k].n_leaves == found
    assert sum(tree.n_leaves for tree in pruned) < sum(tree.n_leaves for tree in full)


def test_best_alpha_by_trying_all_subtrees():
    X, y, _ = make_table(150, missing=False)
    tree = ht.CARTRegressor(min_samples_leaf=3).fit(X[::2], y[::2]).tree_
    rng = np.random.default_rng(0)
    alphas, cost = np.full(tree.n_nodes, -np.inf), rng.random(tree.n_nodes)
    inner = tree.nodes["left"] >= 0
    for node in np.flatnonzero(inner):  # an alpha never exceeds that of the parent
        parent = tree.nodes["parent"][node]
        top = 1.0 if parent < 0 else alphas[parent]
        alphas[node] = round(top * rng.uniform(0.5, 1.0), 2)
    own = np.zeros(tree.n_nodes)

    def total(alpha):
        def below(node):
            if not inner[node] or alphas[node] <= alpha:
                return cost[node]
            return below(tree.nodes["left"][node]) + below(tree.nodes["right"][node])

        return below(0)

    found = best_alpha(tree, alphas, cost, own)
    tried = {alpha: total(alpha) for alpha in [-np.inf, *alphas[inner]]}
    assert total(found) == pytest.approx(min(tried.values()))
    assert found == max(a for a, t in tried.items() if t <= min(tried.values()) + 1e-9)
    # Of equally good subtrees, the smallest.
    assert best_alpha(tree, alphas, own, own) == alphas.max()


@pytest.mark.parametrize("options", [{}, {"max_features": 0.5}, {"prune": True}])
def test_any_number_of_threads(options):
    for cls, X, target in pairs():
        shared = {"n_estimators": 8, "random_state": 5, "oob_score": True, **options}
        one, three = (cls(n_jobs=n, **shared).fit(X, target) for n in (1, 3))
        assert np.array_equal(one.predict(X), three.predict(X))
        assert one.oob_score_ == three.oob_score_


def test_files(tmp_path):
    for cls, X, target in pairs():
        for options in ({}, {"max_features": 0.5}, {"prune": True}):
            model = cls(n_estimators=4, random_state=0, **options).fit(X, target)
            model.save(tmp_path / "model.htree")
            for again in (ht.load(tmp_path / "model.htree"), pickle.loads(pickle.dumps(model))):
                assert np.array_equal(again.predict(X), model.predict(X))
                for a, b in zip(again.estimators_samples_, model.estimators_samples_, strict=True):
                    assert np.array_equal(a, b)
                assert np.array_equal(again.feature_importances_, model.feature_importances_)


@pytest.mark.peer
def test_a_fifth_of_the_file(tmp_path):
    sklearn = pytest.importorskip("sklearn.ensemble")
    X, _, labels = make_table(600, missing=False)
    ours = ht.BaggingClassifier(n_estimators=500, random_state=0).fit(X, labels)
    theirs = sklearn.BaggingClassifier(n_estimators=500, random_state=0).fit(X, labels)
    ours.save(tmp_path / "model.htree")
    size = (tmp_path / "model.htree").stat().st_size
    assert size < 0.2 * len(pickle.dumps(theirs))


def test_weight_zero_and_missing_values():
    X, y, _ = make_table()
    weight = np.ones(len(y))
    weight[::4] = 0
    model = ht.BaggingRegressor(n_estimators=5, random_state=0, oob_score=True).fit(X, y, weight)
    assert not np.isin(np.concatenate(model.estimators_samples_), np.arange(0, len(y), 4)).any()
    same = ht.BaggingRegressor(n_estimators=5, random_state=0).fit(X, y, np.full(len(y), 3.0))
    none = ht.BaggingRegressor(n_estimators=5, random_state=0).fit(X, y)
    assert np.array_equal(same.predict(X), none.predict(X))


def test_categories_of_data_frames():
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    colour = rng.choice(["blue", "green", "red"], 300)
    frame = pandas.DataFrame({"colour": colour, "size": rng.normal(size=300)})
    y = (colour == "red") * 2.0 + frame["size"].to_numpy() * 0.1
    for options in ({}, {"max_features": 1}, {"prune": True}):
        model = ht.BaggingRegressor(n_estimators=20, random_state=0, **options).fit(frame, y)
        assert model.score(frame, y) > 0.5
        assert list(model.feature_names_in_) == ["colour", "size"]
    linear = ht.BaggingRegressor(ht.LinearRegressor(), 5, max_features=1, random_state=0)
    assert linear.fit(frame, y).predict(frame).shape == (300,)
    with pytest.raises(ValueError, match="feature names should match"):
        linear.predict(frame.rename(columns={"size": "age"}))


def test_sparse_tables_and_several_outputs():
    from scipy import sparse

    X, y, labels = make_table(missing=False)
    X[np.abs(X) < 0.5] = 0
    for options in ({}, {"max_features": 4}, {"prune": True, "oob_score": True}):
        dense, thin = (
            ht.BaggingClassifier(n_estimators=5, random_state=0, **options).fit(table, labels)
            for table in (X, sparse.csr_array(X))
        )
        assert np.array_equal(dense.predict_proba(X), thin.predict_proba(sparse.csc_array(X)))
    two = np.column_stack([y, -y])
    for estimator in (None, ht.XGBRegressor(n_estimators=3)):
        model = ht.BaggingRegressor(estimator, 4, random_state=0, oob_score=True)
        with pytest.warns(UserWarning, match="too few"):
            model.fit(X, two)
        assert model.predict(X).shape == model.oob_prediction_.shape == (len(y), 2)
