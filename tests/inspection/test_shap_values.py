"""Shapley values of models: they add up to the score, and refuse what they cannot explain."""

import numpy as np
import pytest

import hybridtrees as ht
from hybridtrees.inspection import shap_values

pd = pytest.importorskip("pandas")

N = 200
ROWS = 12


@pytest.fixture(scope="module")
def frame():
    """Numbers with missing values, few categories, and many that become statistics."""
    rng = np.random.default_rng(3)
    table = pd.DataFrame(
        {
            "a": rng.normal(size=N),
            "b": np.where(rng.random(N) < 0.1, np.nan, rng.normal(size=N)),
            "few": pd.Categorical.from_codes(rng.integers(-1, 4, N), list("pqrs")),
            "many": pd.Categorical.from_codes(rng.integers(-1, 40, N), list(map(str, range(40)))),
        }
    )
    effect = np.append(0, rng.normal(size=40))[table["many"].cat.codes + 1]
    y = 2 * table["a"] * (table["few"] == "q") + effect + 0.1 * rng.normal(size=N)
    return table, np.asarray(y, dtype=float)


REGRESSORS = {
    "cart": ht.CARTRegressor(max_depth=4),
    "stopped": ht.CARTRegressor(max_depth=4, missing="stop"),
    "forest": ht.RandomForestRegressor(n_estimators=4, random_state=0),
    "boosting": ht.GradientBoostingRegressor(n_estimators=5),
    "xgb": ht.XGBRegressor(n_estimators=6, max_depth=4),
    "plgb": ht.PLGBRegressor(n_estimators=6),
    "linear tree": ht.LinearTreeRegressor(max_depth=3),
    "clipped tree": ht.LinearTreeRegressor(max_depth=3, extrapolate="clip"),
    "linear forest": ht.LinearForestRegressor(n_estimators=3, random_state=0),
    "rerf": ht.RERFRegressor(n_estimators=3, random_state=0),
    "eblr": ht.EBLRRegressor(n_rules=5, max_depth=2),
    "line": ht.LinearRegressor(missing_indicator=True),
    "voting": ht.VotingRegressor(
        [("a", ht.LinearRegressor()), ("b", ht.XGBRegressor(n_estimators=3))], weights=[1, 3]
    ),
    "stacking": ht.StackingRegressor(
        [("a", ht.CARTRegressor(max_depth=2)), ("b", ht.PLGBRegressor(n_estimators=3))]
    ),
    "bagging": ht.BaggingRegressor(
        ht.PLGBRegressor(n_estimators=3), n_estimators=3, max_features=0.6, random_state=0
    ),
    "bagged trees": ht.BaggingRegressor(n_estimators=3, random_state=0),
    "pasting": ht.PastingRegressor(n_estimators=3, random_state=0),
    "pasted lines": ht.PastingRegressor(ht.LinearRegressor(), n_estimators=3, random_state=0),
    "auto": ht.AutoRegressor(quality=1, random_state=0),
}
CLASSIFIERS = {
    "cart": ht.CARTClassifier(max_depth=3),
    "forest": ht.RandomForestClassifier(n_estimators=4, random_state=0),
    "votes": ht.RandomForestClassifier(n_estimators=4, random_state=0, voting="hard"),
    "boosting": ht.GradientBoostingClassifier(n_estimators=3),
    "xgb": ht.XGBClassifier(n_estimators=3),
    "plgb": ht.PLGBClassifier(n_estimators=3),
    "linear tree": ht.LinearTreeClassifier(max_depth=2),
    "eblr": ht.EBLRClassifier(n_rules=3),
    "logistic": ht.LogisticClassifier(),
    "voting": ht.VotingClassifier(
        [("a", ht.CARTClassifier(max_depth=2)), ("b", ht.CARTClassifier(max_depth=3))],
        voting="soft",
    ),
}


def check_sums(model, X, score, explained):
    for background in (None, X.iloc[:7]):
        found = model.shap_values(X.iloc[:ROWS], background=background)
        assert found.explained == explained
        np.testing.assert_allclose(
            found.values.sum(axis=1) + found.base_values, score, rtol=1e-9, atol=1e-9
        )
        both = model.shap_values(X.iloc[:ROWS], background=background, interactions=True)
        np.testing.assert_allclose(both.values.sum(axis=1), found.values, atol=1e-9)
        swapped = np.moveaxis(both.values, 1, 2)
        np.testing.assert_allclose(both.values, swapped, atol=1e-12)
    return found


@pytest.mark.parametrize("name", REGRESSORS)
def test_regressors(name, frame):
    X, y = frame
    model = REGRESSORS[name].fit(X, y)
    found = check_sums(model, X, model.predict(X.iloc[:ROWS]), "prediction")
    assert found.values.shape == (ROWS, 4) and found.feature_names == list(X.columns)
    assert set(found.display_data[:, 2]) <= {"p", "q", "r", "s", None} or name in (
        "voting", "stacking", "bagging", "bagged trees", "pasted lines",
    )  # fmt: skip


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_classifiers(name, n_classes, frame):
    X, y = frame
    y = np.digitize(y, np.quantile(y, np.arange(1, n_classes) / n_classes))
    model = CLASSIFIERS[name].fit(X, y)
    if hasattr(model, "predict_raw"):
        score, explained = model.predict_raw(X.iloc[:ROWS]), "score (log-odds)"
        explained = "scores of the classes" if n_classes == 3 else explained
    else:
        score, explained = model.predict_proba(X.iloc[:ROWS]), "probability"
    score = score[:, -1] if n_classes == 2 else score
    found = check_sums(model, X, score, explained)
    assert found.output_names == (None if n_classes == 2 else ["0", "1", "2"])


def test_line_by_hand():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 3))
    model = ht.LinearRegressor().fit(X, X @ [1.0, -2.0, 0.5] + 3)
    found = model.shap_values(X)
    np.testing.assert_allclose(found.values, (X - X.mean(axis=0)) * model.coef_, atol=1e-10)
    other = model.shap_values(X, background=X[:5])
    np.testing.assert_allclose(other.values, (X - X[:5].mean(axis=0)) * model.coef_, atol=1e-10)


def test_early_stopping_and_links(frame):
    X, y = frame
    X = X[["a", "b"]]
    model = ht.XGBRegressor(n_estimators=80, early_stopping_rounds=2)
    model.fit(X[:120], y[:120], eval_set=[(X[120:], y[120:])])
    check_sums(model, X, model.predict(X[:ROWS]), "prediction")
    model = ht.XGBRegressor(n_estimators=5, objective="count:poisson").fit(X, np.exp(y / 3))
    check_sums(model, X, np.log(model.predict(X[:ROWS])), "logarithm of the prediction")


def test_several_targets(frame):
    X, y = frame
    two = np.column_stack([y, -y + X["a"]])
    for name in ("forest", "xgb", "rerf", "linear tree"):
        model = REGRESSORS[name].fit(X, two)
        found = check_sums(model, X, model.predict(X.iloc[:ROWS]), "prediction")
        assert found.values.shape == (ROWS, 4, 2)


@pytest.mark.parametrize("kind", ["float32", "sparse", "list"])
def test_kinds_of_tables(kind):
    from scipy import sparse

    rng = np.random.default_rng(0)
    X = np.round(rng.normal(size=(80, 3)), 1)
    X[rng.random(X.shape) < 0.4] = 0
    table = {"float32": X.astype(np.float32), "sparse": sparse.csr_array(X), "list": X.tolist()}
    model = ht.XGBRegressor(n_estimators=4).fit(table[kind], X[:, 0] + X[:, 1] ** 2)
    found = shap_values(model, table[kind], n_jobs=1)
    total = found.values.sum(axis=1) + found.base_values
    np.testing.assert_allclose(total, model.predict(table[kind]), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found.data, X, atol=1e-6)


def test_refusals(frame):
    X, y = frame
    X = X[["a", "b"]].fillna(0)
    classes = (y > 0).astype(int)
    for model, message in (
        (ht.RERFClassifier(n_estimators=2), "RERFClassifier adds up probabilities"),
        (ht.LinearForestClassifier(n_estimators=2), "LinearForestClassifier adds up"),
        (ht.AdaBoostClassifier(n_estimators=2), "AdaBoostClassifier is not a sum"),
        (ht.VotingClassifier([("a", ht.CARTClassifier())]), "counted votes"),
        (ht.VotingClassifier([("a", ht.XGBClassifier())], voting="soft"), "do not add up"),
        (ht.StackingClassifier([("a", ht.CARTClassifier())]), "StackingClassifier have no exact"),
        (ht.MixtureOfExpertsClassifier(), "is not a sum of trees"),
    ):
        with pytest.raises(TypeError, match=message):
            model.fit(X, classes).shap_values(X)
    model = ht.XGBRegressor(n_estimators=2)
    with pytest.raises(ht.NotFittedError if hasattr(ht, "NotFittedError") else Exception):
        model.shap_values(X)
    model.fit(X, y)
    with pytest.raises(TypeError, match="fitted hybridtrees estimator"):
        shap_values(object(), X)
    with pytest.raises(TypeError, match="fitted hybridtrees estimator"):
        shap_values(ht.XGBRegressor, X)
    with pytest.raises(ValueError, match="background"):
        model.shap_values(X, background=X[["a"]])
    with pytest.raises(ValueError, match="background"):
        model.shap_values(X, background=X[:0])
    with pytest.raises((TypeError, ValueError), match="interactions"):
        model.shap_values(X, interactions="yes")
    with pytest.raises(ValueError, match="n_jobs"):
        shap_values(model, X, n_jobs=0)


def test_to_shap_refuses(frame):
    X, y = frame
    for model, columns, message in (
        (ht.PLGBRegressor(n_estimators=3), ["a", "b"], "linear leaves"),
        (ht.XGBRegressor(n_estimators=3), ["few", "a"], "splits of categories"),
        (ht.XGBRegressor(n_estimators=3, categorical_statistics=True), ["few"], "no form"),
        (ht.CARTRegressor(missing="stop"), ["b"], "rows that end at inner nodes"),
    ):
        with pytest.raises(TypeError, match=message):
            model.fit(X[columns], y).to_shap()
