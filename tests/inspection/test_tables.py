"""Models as tables: the nodes predict what the model predicts."""

import sys

import numpy as np
import pytest

import hybridtrees as ht
from hybridtrees.inspection import to_dataframe
from hybridtrees.inspection.tables import COLUMNS

pd = pytest.importorskip("pandas")


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=150), "city": rng.choice(["Oslo", "Rome", "Bonn"], 150)})
    return X, np.asarray(2 * X["a"] + 3 * (X["city"] == "Oslo"), dtype=float)


def walk(table, row):
    """Value of a tree for a row, read from its table alone."""
    nodes = table.set_index("node")
    at = 0
    while nodes.at[at, "left"] >= 0:
        value = row[nodes.at[at, "feature"]]
        sets = nodes.at[at, "categories"]
        goes_left = value <= nodes.at[at, "threshold"] if sets is None else value in sets
        at = nodes.at[at, "left" if goes_left else "right"]
    line = nodes.at[at, "coefficients"] or {}
    return nodes.at[at, "value"] + sum(
        coef * ((float(row[name]) if name in row else row["city"] == name[5:]) - center)
        for name, (coef, center) in line.items()
    )


@pytest.mark.parametrize("name", ["xgb", "plgb", "linear tree", "cart"])
def test_nodes_predict(name, frame):
    X, y = frame
    model = {
        "xgb": ht.XGBRegressor(n_estimators=3, base_score=0.0),
        "plgb": ht.PLGBRegressor(n_estimators=3, base_score=0.0, extrapolation="linear"),
        "linear tree": ht.LinearTreeRegressor(max_depth=2, extrapolate="linear"),
        "cart": ht.CARTRegressor(max_depth=4),
    }[name].fit(X, y)
    table = model.to_dataframe()
    assert tuple(table.columns) == COLUMNS
    for k in range(6):
        row = X.iloc[k].to_dict()
        found = sum(walk(own, row) for _, own in table.groupby("tree"))
        np.testing.assert_allclose(found, model.predict(X.iloc[k : k + 1])[0], atol=1e-9)


def test_terms(frame):
    X, y = frame
    model = ht.LinearRegressor().fit(X, y)
    table = model.to_dataframe()
    assert table["feature"].tolist() == ["intercept", *model.term_names_]
    np.testing.assert_allclose(table["value"].iloc[1:].astype(float), model.term_coef_)
    for model in (ht.RERFRegressor(n_estimators=2), ht.EBLRRegressor(n_rules=2)):
        table = model.fit(X, np.abs(y)).to_dataframe()
        assert table["tree"].min() == -1 and table["tree"].max() == 1
        assert set(table.loc[table["tree"] == -1, "feature"]) == {"intercept", *model.term_names_}


def test_classes(frame):
    X, y = frame
    codes = np.digitize(y, [0.0, 2.0])
    table = ht.XGBClassifier(n_estimators=2).fit(X, codes).to_dataframe()
    assert set(table["output"]) == {0, 1, 2}
    table = ht.RandomForestClassifier(n_estimators=2).fit(X, codes).to_dataframe()
    assert all(len(value) == 3 for value in table["value"]) and set(table["output"]) == {-1}


def test_without_pandas(frame, monkeypatch):
    X, y = frame
    model = ht.CARTRegressor(max_depth=1).fit(X[["a"]].to_numpy(), y)
    monkeypatch.setitem(sys.modules, "pandas", None)
    table = to_dataframe(model)
    assert isinstance(table, dict) and len(table["node"]) == 3


def test_refusals():
    with pytest.raises(TypeError, match="trees or terms, got int"):
        to_dataframe(3)
    with pytest.raises(Exception, match="not fitted"):
        to_dataframe(ht.XGBRegressor())
