"""A model whose parts do not fit together is refused when it is loaded, not when it is asked."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from file_fuzzer import SMALL, table

import hybridtrees
from hybridtrees._persistence import ModelFileError

pytest.importorskip("pandas")


def fitted(name):
    """A small fitted model of a class."""
    X, y, labels = table()
    model = getattr(hybridtrees, name)()
    model.set_params(**{k: v for k, v in SMALL.items() if k in model.get_params()})
    if name.startswith("EBLR"):
        model.set_params(early_stopping=None)  # all its rules
    return model.fit(X, labels if name.endswith("Classifier") else y)


def nodes(model):
    """Nodes of the trees of a model."""
    trees = model.__dict__.get("trees_", model.__dict__.get("_trees"))
    return trees[0].ensemble.nodes if isinstance(trees, list) else trees.nodes


def put(box, field, value, at=0):
    """Replace one entry of a field, the first one by default."""
    box[field][at] = value


def splits_on_sets(model):
    return np.flatnonzero(nodes(model)["category_start"] >= 0)


def last_split(model):
    return np.flatnonzero(nodes(model)["left"] >= 0)[-1]


def sampled(model):
    """The sampler of a forest."""
    return model._sampler


DAMAGE = {
    "leaves only": ("RandomForestRegressor", lambda m: nodes(m)["feature"].fill(-1)),
    "child of a forest": ("RandomForestClassifier", lambda m: put(nodes(m), "right", 10**6)),
    "leaf rows": ("RandomForestRegressor", lambda m: m._leaf_rows.fill(280)),
    "too few leaf rows": ("RandomForestRegressor", lambda m: cut(m, "_leaf_rows")),
    "rows of leaves": ("RandomForestRegressor", lambda m: m._trees.n_samples.fill(255)),
    "rows of a forest": ("RandomForestRegressor", lambda m: setattr(sampled(m), "n_rows", 10**11)),
    "more rows": ("RandomForestRegressor", lambda m: setattr(sampled(m), "n_rows", 10**6)),
    "rows drawn": ("RandomForestRegressor", lambda m: setattr(sampled(m), "n_drawn", -1)),
    "many draws": ("RandomForestRegressor", lambda m: setattr(sampled(m), "n_drawn", 2**32)),
    "seeds": ("RandomForestClassifier", lambda m: cut(m, "_draw_seeds")),
    "trees of a forest": ("RandomForestClassifier", lambda m: put_start(m)),
    "trees": ("XGBRegressor", lambda m: put_start(m)),
    "classes of a forest": ("RandomForestClassifier", lambda m: setattr(m, "n_classes_", 2**40)),
    "parents in a circle": ("LinearTreeRegressor", lambda m: put(nodes(m), "parent", 1)),
    "own parent": ("PLGBRegressor", lambda m: put(nodes(m), "parent", 2, at=2)),
    "children in a circle": ("EBLRRegressor", lambda m: put(nodes(m), "left", 0)),
    "own child": ("CARTRegressor", lambda m: put(nodes(m), "right", last_split(m), last_split(m))),
    "categories": (
        "CARTRegressor",
        lambda m: put(nodes(m), "category_limit", -(2**31), at=splits_on_sets(m)[0]),
    ),
    "categories of rules": (
        "EBLRRegressor",
        lambda m: put(nodes(m), "category_limit", -(2**31), at=splits_on_sets(m)[0]),
    ),
    "codes": ("LogisticClassifier", lambda m: m._design.n_codes.fill(2**40)),
    "codes of rules": ("EBLRClassifier", lambda m: m._design.n_codes.fill(2**40)),
    "outputs": ("GradientBoostingClassifier", lambda m: setattr(m.trees_, "n_outputs", 2**30)),
    "classes of a loss": ("XGBClassifier", lambda m: setattr(m, "classes_", m.classes_[:-1])),
    "rounds": ("PLGBClassifier", lambda m: setattr(m, "n_iter_", 10**9)),
    "best round": ("XGBRegressor", lambda m: setattr(m, "_best_iteration", 10**9)),
    "features": ("CARTClassifier", lambda m: setattr(m, "n_features_in_", 4)),
    "features of trees": ("CARTClassifier", lambda m: setattr(m._trees, "n_features", 5)),
    "training leaves": ("CARTClassifier", lambda m: m._train_leaves.fill(10**6)),
    "coefficients": ("LinearRegressor", lambda m: cut(m, "_coef")),
    "regressors": ("LinearTreeClassifier", lambda m: m._columns.linear.fill(99)),
    "leaves of a linear tree": ("LinearTreeClassifier", lambda m: m._facts.leaves.fill(99)),
    "columns of a rule": ("EBLRRegressor", lambda m: m._trees[0].features.fill(99)),
    "leaves of a rule": ("EBLRRegressor", lambda m: m._trees[0].leaves.fill(0)),
    "features of a regression": ("RERFRegressor", lambda m: m._columns.features.fill(99)),
    "filled codes": ("ProximityImputer", lambda m: m._train_filled.fill(1e9)),
    "order of memory": ("XGBRegressor", lambda m: strided(m.trees_)),
}


def cut(box, name):
    setattr(box, name, getattr(box, name)[:-1])


def put_start(model):
    trees = model.__dict__.get("trees_", model.__dict__.get("_trees"))
    trees.tree_start[1] = 2**62


def strided(trees):
    trees.values = np.asfortranarray(np.hstack([trees.values, trees.values]))


@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_is_refused_when_loaded(kind, tmp_path):
    name, damage = DAMAGE[kind]
    model = fitted(name)
    damage(model)
    model.save(tmp_path / "file")
    with pytest.raises(ModelFileError):
        hybridtrees.load(tmp_path / "file")
    content = pickle.dumps(model)
    with pytest.raises(ValueError):
        pickle.loads(content)


def test_text_that_is_no_text_is_refused(tmp_path):
    X, _, labels = table()
    model = hybridtrees.CARTClassifier().fit(X, np.array(["x", "y", "z"])[labels])
    assert model.classes_.dtype == "<U1"
    model.classes_ = np.array([120, 2**31, 122], dtype=np.uint32).view("<U1")
    model.save(tmp_path / "file")
    with pytest.raises(ModelFileError, match="no character"):
        hybridtrees.load(tmp_path / "file")


OTHER_ORDER = [
    ("CARTRegressor", lambda m: m._trees, "nodes"),
    ("PLGBClassifier", lambda m: m.trees_, "nodes"),
    ("CARTRegressor", lambda m: m._trees, "values"),
    ("RandomForestRegressor", lambda m: m._trees, "nodes"),
    ("RandomForestRegressor", lambda m: m, "_train_target"),
    ("LinearRegressor", lambda m: m, "_coef"),
    ("EBLRRegressor", lambda m: m._trees[0], "leaves"),
]


@pytest.mark.parametrize(("name", "find", "array"), OTHER_ORDER)
def test_the_byte_order_of_other_machines(name, find, array, tmp_path):
    model = fitted(name)
    box = find(model)
    own = getattr(box, array)
    setattr(box, array, own.astype(own.dtype.newbyteorder()))
    if array == "nodes":
        with pytest.raises(ValueError, match="byte order of another kind of machine"):
            pickle.loads(pickle.dumps(model))
    else:  # NumPy itself turns the bytes of plain numbers round when it unpickles them
        pickle.loads(pickle.dumps(model)).predict(table()[0])
    model.save(tmp_path / "file")
    with pytest.raises(ModelFileError, match="byte order of another kind of machine"):
        hybridtrees.load(tmp_path / "file")


@pytest.mark.parametrize("name", ["CARTRegressor", "XGBClassifier", "RandomForestRegressor"])
def test_an_unfitted_model_has_nothing_to_check(name, tmp_path):
    model = getattr(hybridtrees, name)()
    model.save(tmp_path / "file")
    assert type(hybridtrees.load(tmp_path / "file")) is type(model)
    assert type(pickle.loads(pickle.dumps(model))) is type(model)


@pytest.mark.parametrize("fill", [-1.0, 1e9, np.nan])
def test_fills_of_an_imputer(fill, tmp_path):
    X = np.array([["a", 1.0], ["b", 2.0], [None, 3.0], ["b", np.nan]] * 6, dtype=object)
    imputer = hybridtrees.ProximityImputer(
        n_estimators=5, n_rounds=1, random_state=0, categorical_features=[0]
    )
    imputer.fit(X, [0, 1, 0, 1] * 6)
    imputer.save(tmp_path / "imputer")
    hybridtrees.load(tmp_path / "imputer").transform(X)
    imputer.class_statistics_[0, 0] = fill
    imputer.save(tmp_path / "imputer")
    with pytest.raises(ModelFileError):
        hybridtrees.load(tmp_path / "imputer")
    with pytest.raises(ValueError):
        pickle.loads(pickle.dumps(imputer))
