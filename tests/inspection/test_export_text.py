"""Exported text is read back and must predict what the model predicts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tree_texts import LABELS, TreeModel, chain, from_sklearn, parse_text, predict_text, random_tree

from hybridtrees import CARTRegressor, XGBClassifier, XGBRegressor
from hybridtrees.core.base.errors import NotFittedError
from hybridtrees.inspection import export_dot, export_text

pd = pytest.importorskip("pandas")
FULL = {"max_depth": None, "decimals": None, "max_categories": None}


def mixed_table(rng, n=120):
    frame = pd.DataFrame(
        {
            "f0": rng.normal(size=n),
            "f1": pd.Categorical(rng.choice(LABELS, n)),
            "f2": rng.normal(size=n),
            "f3": pd.Categorical(rng.choice([f"c{k:02d}" for k in range(70)], n)),
        }
    )
    frame.iloc[rng.random(n) < 0.2, 0] = np.nan
    frame.iloc[rng.random(n) < 0.2, 1] = np.nan
    return frame


def rows_of(frame):
    # A category that was not seen in fit is read as missing, so it is one for the reader too.
    return frame.to_dict("records")


@given(seed=st.integers(0, 10**6), kind=st.sampled_from(["number", "outputs", "classes", "linear"]))
def test_text_predicts_as_the_tree(seed, kind):
    rng = np.random.default_rng(seed)
    frame = mixed_table(rng)
    n_levels = [None, frame["f1"].nunique(), None, frame["f3"].nunique()]
    n_values = 1 if kind in ("number", "linear") else 3
    tree = random_tree(
        rng, n_levels, n_values=n_values, shares=kind == "classes", linear=kind == "linear"
    )
    classes = ["low", "mid", "high and dry"] if kind == "classes" else None
    model = TreeModel(tree, classes).fit(frame)
    lines = parse_text(export_text(model, **FULL))
    said = [predict_text(lines, row) for row in rows_of(frame)]
    if kind == "classes":
        assert said == model.predict(frame).tolist()
    elif kind == "linear":
        np.testing.assert_allclose(said, model.predict_raw(frame), rtol=1e-12, atol=1e-12)
    else:
        np.testing.assert_array_equal(said, model.predict_raw(frame))


@pytest.mark.parametrize("kind", [XGBRegressor, XGBClassifier])
def test_text_of_boosted_trees_adds_up(kind, rng):
    frame = mixed_table(rng, 600)
    y = np.nan_to_num(frame["f0"]) + (frame["f1"].isin(LABELS[:3])) * 2 + rng.normal(size=600) * 0.1
    y = y if kind is XGBRegressor else (y > 1).astype(int)
    model = kind(n_estimators=4, max_depth=4).fit(frame, y)
    texts = [parse_text(export_text(model, tree_index=k, **FULL)) for k in range(len(model.trees_))]
    frame = mixed_table(rng, 200)
    frame["f3"] = frame["f3"].cat.rename_categories({"c00": "never seen"})
    records = rows_of(frame.assign(f3=frame["f3"].where(frame["f3"] != "never seen")))
    total = [sum((predict_text(t, row)[0] for t in texts), start=0.0) for row in records]
    np.testing.assert_allclose(
        np.array(total) + model._base_raw_[0], model.predict_raw(frame)[:, 0], rtol=0, atol=1e-12
    )


@pytest.mark.parametrize("options", [{}, {"missing": "stop"}])
@pytest.mark.parametrize("name", ["CARTRegressor", "CARTClassifier"])
def test_text_of_cart(name, options, rng):
    cart = pytest.importorskip("hybridtrees.models.cart.estimators")
    frame = mixed_table(rng, 400)
    y = np.nan_to_num(frame["f0"]) + frame["f1"].isin(LABELS[:3]) * 2 + rng.normal(size=400) * 0.1
    y = y if name.endswith("Regressor") else np.digitize(y, [0, 1, 2])
    model = getattr(cart, name)(max_depth=6, categorical_statistics=False, **options).fit(frame, y)
    text = export_text(model, **FULL)
    assert ("is missing" in text) == bool(options)
    lines = parse_text(text)
    said = [predict_text(lines, row) for row in rows_of(frame)]
    if name.endswith("Regressor"):
        np.testing.assert_allclose(np.ravel(said), model.predict(frame), rtol=1e-12)
    else:
        assert said == [str(label) for label in model.predict(frame)]


@pytest.mark.peer
@pytest.mark.parametrize("show_weights", [False, True])
@pytest.mark.parametrize("task", ["classes", "numbers", "outputs"])
def test_text_equals_that_of_sklearn(task, show_weights, rng):
    trees = pytest.importorskip("sklearn.tree")
    # Large numbers: where theirs would write 0.00 for a small one, ours has an exponent.
    X = 1000 * rng.normal(size=(150, 4))
    signal = X[:, 0] + X[:, 1] * X[:, 2] / 1000
    names = ["a", "b b", "c", "d"]
    if task == "classes":
        y, kind = np.digitize(signal, [-500, 500]), trees.DecisionTreeClassifier
    else:
        y, kind = (signal if task == "numbers" else X[:, :2]), trees.DecisionTreeRegressor
        show_weights = False  # theirs shows none for numbers
    theirs = kind(random_state=0).fit(X, y)
    model = TreeModel(from_sklearn(theirs.tree_), [0, 1, 2] if task == "classes" else None)
    model.fit(X)
    for max_depth in (1, 2, 3, 100):
        options = {"max_depth": max_depth, "show_weights": show_weights, "feature_names": names}
        expected = trees.export_text(theirs, **options)
        assert export_text(model, show_missing=False, **options) == expected
    assert export_text(model, show_missing=False, spacing=1, decimals=4) == trees.export_text(
        theirs, spacing=1, decimals=4
    )


def test_rows_without_a_value_stop():
    tree = chain(1)
    tree.nodes["missing_left"][0] = 2
    assert export_text(tree, feature_names=["age"]).splitlines() == [
        "|--- age <= 0.00",
        "|   |--- value: [1.00]",
        "|--- age >  0.00",
        "|   |--- value: [2.00]",
        "|--- age is missing",
        "|   |--- value: [0.00]",
    ]
    assert "missing" not in export_text(tree, show_missing=False)


def test_equations_of_linear_leaves():
    tree = chain(1)
    tree.coef_ptr = np.array([0, 0, 3, 3])
    tree.coef_feature = np.array([0, 1, 2], dtype=np.int32)
    tree.coef = np.array([0.5, -2.0, 0.0004])
    tree.coef_center = np.array([40.0, -3.25, 0.0])
    text = export_text(tree, feature_names=["age", "income", "debt"], show_missing=False)
    assert text.splitlines()[1] == (
        "|   |--- y = 1.00 + 0.50*(age - 40) - 2.00*(income + 3.25) + 4.00e-04*debt"
    )
    assert text.splitlines()[3] == "|   |--- value: [2.00]"


@pytest.mark.parametrize("n_levels", [3000, 40000])
def test_chains_need_no_recursion(n_levels):
    tree = chain(n_levels) if n_levels < 2**15 else _deep(n_levels)
    short = export_text(tree, max_depth=20)
    assert f"truncated branch of depth {n_levels - 20}" in short
    if n_levels == 3000:
        lines = export_text(tree, max_depth=None, spacing=1, show_missing=False).splitlines()
        assert len(lines) == 3 * n_levels + 1  # two conditions and a leaf per level
        assert lines[-1].endswith(f"value: [{2 * n_levels}.00]")


def _deep(n_levels):
    """Return a chain that is deeper than the field `depth` of the nodes can say."""
    tree = chain(2)
    nodes = np.zeros(2 * n_levels + 1, dtype=tree.nodes.dtype)
    nodes["left"] = nodes["right"] = nodes["parent"] = nodes["category_start"] = -1
    inner = np.arange(n_levels) * 2
    nodes["left"][inner], nodes["right"][inner] = inner + 1, inner + 2
    return type(tree)(nodes, np.zeros(len(nodes)))


def test_category_sets_are_shortened(rng):
    frame = mixed_table(rng, 500)
    tree = random_tree(rng, [None, None, None, 70], n_splits=1)
    tree.nodes["feature"][0] = 3
    tree.nodes["category_start"][0], tree.nodes["category_words"][0] = 0, 3
    tree.categories = np.array([2**20 - 1, 0, 0], dtype=np.uint32)
    text = export_text(TreeModel(tree).fit(frame), max_categories=2, show_missing=False)
    assert text.splitlines()[0] == "|--- f3 in {c00, c01, ... 18 more}"
    assert text.splitlines()[2] == "|--- f3 in {c20, c21, ... 48 more}"
    # A tree alone knows codes only, and not how many there are.
    assert "feature_3 not in {0, 1, ... 18 more}" in export_text(tree, max_categories=2)


def test_names_stay_on_their_line():
    text = export_text(chain(1), feature_names=["one\ntwo\r\u2028\x00"])
    assert len(text.splitlines()) == 4
    assert r"one\ntwo\r\u2028\x00 <= 0.00" in text


def test_a_single_leaf():
    assert export_text(chain(0)) == "|--- value: [0.00]\n"
    one = chain(0)
    one.values[:] = 1.0
    model = TreeModel(one, ["only"]).fit(np.zeros((2, 1)))
    assert export_text(model) == "|--- class: only\n"
    assert "class = only" in export_dot(model, filled=True)


def test_errors(rng):
    X = rng.normal(size=(50, 2))
    with pytest.raises(NotFittedError):
        export_text(XGBRegressor())
    model = XGBRegressor(n_estimators=3).fit(X, X[:, 0])
    with pytest.raises(ValueError, match="tree_index must be an integer in"):
        export_text(model, tree_index=3)
    assert export_text(model, tree_index=-1) == export_text(model, tree_index=2)
    with pytest.raises(
        ValueError, match="feature_names must hold a name for each of the 2 features"
    ):
        export_text(model, feature_names=["a", "b", "c"])
    with pytest.raises(ValueError, match="feature_names must hold a name for each"):
        export_text(model, feature_names=["a"])
    with pytest.raises(ValueError, match="max_depth must be an integer of at least 0 or None"):
        export_text(model, max_depth=-1)
    with pytest.raises(ValueError, match="spacing"):
        export_text(model, spacing=0)
    with pytest.raises(TypeError, match="show_weights"):
        export_text(model, show_weights=1)
    with pytest.raises(TypeError, match="with tree_ or trees_"):
        export_text(object())
    tree = chain(2)
    tree.nodes["right"][2] = 0
    with pytest.raises(ValueError, match="do not fit together"):
        export_text(tree)
    model = TreeModel(random_tree(rng, [None] * 2, n_values=3, shares=True), [0, 1, 2]).fit(X)
    with pytest.raises(ValueError, match="class_names must hold 3 names"):
        export_text(model, class_names=["a"])
    with pytest.raises(ValueError, match="tree_index"):
        export_text(model, tree_index=1)
    regressor = CARTRegressor(max_depth=1).fit([[0.0], [1.0]], [0.0, 1.0])
    with pytest.raises(ValueError, match="class_names are for trees of classes"):
        export_text(regressor, class_names=["a", "b"])
