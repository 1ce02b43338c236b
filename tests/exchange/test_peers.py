"""Imported models against their owners, on rows with everything unusual."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hybridtrees
from hybridtrees._persistence import ModelFileError

pytestmark = pytest.mark.peer

RNG = np.random.default_rng(0)
N = 600
X = np.round(RNG.normal(size=(N, 4)), 2)
X[RNG.random(X.shape) < 0.1] = np.nan
X[RNG.random(X.shape) < 0.1] = 0
Y = np.nan_to_num(X[:, 0]) * np.nan_to_num(X[:, 1]) + np.nan_to_num(X[:, 2]).clip(0)
LABELS = np.array(list("abc"))[np.digitize(Y, np.quantile(Y, [0.3, 0.6]))]
CODES = np.digitize(Y, np.quantile(Y, [0.3, 0.6]))


def unusual_rows(model, infinite=True):
    """Rows at the thresholds of a model and next to them, in float64 and float32."""
    nodes = model.trees_.nodes
    splits = nodes[(nodes["left"] >= 0) & (nodes["category_start"] < 0)]
    rows = X[np.arange(3 * N) % N].copy()
    for j in range(X.shape[1]):
        own = splits["threshold"][splits["feature"] == j]
        own = own[np.isfinite(own)]
        if len(own):
            with np.errstate(over="ignore"):
                single = own.astype(np.float32).astype(np.float64)
                above = np.nextafter(single.astype(np.float32), np.float32(np.inf))
            near = np.concatenate([own, single, np.nextafter(own, np.inf), above])
            place = RNG.integers(0, len(rows), len(rows))
            rows[place, j] = RNG.choice(near, len(rows))
    wild = [np.nan, 0.0, -0.0, 1e-36, -1e-36, 1e30]
    wild += [np.inf, -np.inf] if infinite else []
    return np.where(RNG.random(rows.shape) < 0.05, RNG.choice(wild, rows.shape), rows)


def close(ours, theirs, tolerance=1e-12):
    np.testing.assert_allclose(
        ours.reshape(len(ours), -1),
        np.asarray(theirs).reshape(len(ours), -1),
        rtol=tolerance,
        atol=tolerance,
    )


XGB_OBJECTIVES = {
    "reg:squarederror": Y, "reg:logistic": (Y > 0) * 0.9, "binary:logistic": Y > 0,
    "binary:logitraw": Y > 0, "binary:hinge": Y > 0, "multi:softprob": CODES,
    "count:poisson": abs(Y) + 0.1, "reg:gamma": abs(Y) + 0.1, "reg:tweedie": abs(Y) + 0.1,
    "reg:absoluteerror": Y, "reg:pseudohubererror": Y, "reg:quantileerror": Y,
    "survival:cox": abs(Y) + 0.1, "reg:squaredlogerror": abs(Y),
}  # fmt: skip


@pytest.mark.parametrize("objective", XGB_OBJECTIVES)
def test_xgboost(objective):
    xgb = pytest.importorskip("xgboost")
    parameters = {"objective": objective, "max_depth": 4}
    if "multi" in objective:
        parameters["num_class"] = 3
    if "quantile" in objective:
        parameters["quantile_alpha"] = [0.1, 0.5, 0.9]
    booster = xgb.train(parameters, xgb.DMatrix(X, XGB_OBJECTIVES[objective]), 8)
    model = hybridtrees.from_xgboost(booster)
    rows = unusual_rows(model, infinite=False)
    table = xgb.DMatrix(rows)
    close(model.predict_raw(rows), booster.predict(table, output_margin=True), 5e-6)
    if objective == "binary:logitraw":
        return  # predicts the raw score
    made = model.predict_proba(rows) if hasattr(model, "classes_") else model.predict(rows)
    theirs = booster.predict(table)
    close(made[:, 1] if theirs.ndim == 1 and made.ndim == 2 else made, theirs, 5e-6)


def test_xgboost_estimators_and_sparse_rows():
    xgb = pytest.importorskip("xgboost")
    import scipy.sparse

    split = N // 2
    owner = xgb.XGBClassifier(n_estimators=60, early_stopping_rounds=2, missing=0.0)
    owner.fit(X[:split], CODES[:split], eval_set=[(X[split:], CODES[split:])], verbose=False)
    model = hybridtrees.from_xgboost(owner)
    assert model.n_iter_ == owner.best_iteration + 1 < owner.get_booster().num_boosted_rounds()
    close(model.predict_proba(X), owner.predict_proba(X), 5e-6)
    sparse = scipy.sparse.csr_matrix(np.nan_to_num(X))
    close(model.predict_proba(sparse), owner.predict_proba(sparse), 5e-6)


@pytest.mark.parametrize("onehot", [1, 500])
def test_xgboost_categories(onehot):
    xgb, pd = pytest.importorskip("xgboost"), pytest.importorskip("pandas")
    frame = pd.DataFrame({"x": X[:, 0], "c": pd.Categorical(RNG.choice(list("uvwé"), N)),
                          "d": pd.Categorical(RNG.integers(0, 200, N))})  # fmt: skip
    target = Y + frame["c"].isin(["u", "é"]) + frame["d"].astype(int) % 3
    table = xgb.DMatrix(frame, target, enable_categorical=True)
    booster = xgb.train({"max_cat_to_onehot": onehot}, table, 8)
    model = hybridtrees.from_xgboost(booster)
    close(model.predict(frame), booster.predict(table), 5e-6)
    few = RNG.choice([0, 1, 3, 4, 31, 32, -1, -0.5, 1e6, np.nan], N)
    many = RNG.choice([0, 1.5, 199, 200, 223, 224, 2.0**25, np.nan], N)
    wild = np.column_stack([X[:, 0], few, many])
    names = {"feature_names": ["x", "c", "d"], "feature_types": ["float", "c", "c"]}
    theirs = booster.predict(xgb.DMatrix(wild, enable_categorical=True, **names))
    with pytest.warns(UserWarning, match="feature names"):
        close(model.predict(wild), theirs, 5e-6)


LGB_CASES = {
    **{name: (Y, {"objective": name}) for name in ("regression", "regression_l1", "huber")},
    **{name: (abs(Y) + 0.1, {"objective": name}) for name in ("poisson", "gamma", "tweedie")},
    "binary": (Y > 0, {"objective": "binary", "sigmoid": 1.7}),
    "multiclass": (CODES, {"objective": "multiclass", "num_class": 3}),
    "multiclassova": (CODES, {"objective": "multiclassova", "num_class": 3, "sigmoid": 0.5}),
    "cross_entropy": ((Y > 0) * 0.9, {"objective": "cross_entropy"}),
    "cross_entropy_lambda": ((Y > 0) * 0.9, {"objective": "cross_entropy_lambda"}),
    "sqrt": (Y, {"reg_sqrt": True}),
    "dart": (Y, {"boosting": "dart"}),
    "forest": (Y, {"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.5}),
    "zeros": (Y, {"zero_as_missing": True}),
    "nothing missing": (Y, {"use_missing": False}),
    "linear": (Y, {"linear_tree": True}),
}


@pytest.mark.parametrize("case", LGB_CASES)
def test_lightgbm(case):
    lgb = pytest.importorskip("lightgbm")
    target, parameters = LGB_CASES[case]
    data = lgb.Dataset(X, target)
    booster = lgb.train({"verbose": -1, "num_leaves": 12, **parameters}, data, 8)
    model = hybridtrees.from_lightgbm(booster)
    rows = unusual_rows(model)
    if case != "forest":  # whose raw scores are sums
        close(model.predict_raw(rows), booster.predict(rows, raw_score=True))
    made = model.predict_proba(rows) if hasattr(model, "classes_") else model.predict(rows)
    theirs = booster.predict(rows)
    close(made[:, 1] if theirs.ndim == 1 and made.ndim == 2 else made, theirs)


@pytest.mark.parametrize("linear", [False, True])
def test_lightgbm_categories(linear):
    lgb, pd = pytest.importorskip("lightgbm"), pytest.importorskip("pandas")
    frame = pd.DataFrame({"x x": X[:, 0], "c": pd.Categorical(RNG.choice(list("uvwé"), N)),
                          "d": pd.Categorical(RNG.integers(0, 200, N)), "z": X[:, 1]})  # fmt: skip
    target = Y + frame["c"].isin(["u", "é"]) + frame["d"].astype(int) % 3
    owner = lgb.LGBMRegressor(
        n_estimators=8, linear_tree=linear, min_data_per_group=2, cat_smooth=1, verbose=-1
    ).fit(frame, target)
    model = hybridtrees.from_lightgbm(owner)
    close(model.predict(frame), owner.predict(frame))
    codes = RNG.choice([0, 1, 3, 31, 32, 200, -1, -0.5, 1.9, 1e300, np.inf, np.nan], (N, 2))
    wild = np.column_stack([X[:, 0], codes, X[:, 1]])
    with pytest.warns(UserWarning, match="feature names"):
        close(model.predict(wild), owner.booster_.predict(wild))


SKLEARN = {
    "DecisionTreeRegressor": (Y, {}), "DecisionTreeClassifier": (LABELS, {"max_depth": 4}),
    "ExtraTreeRegressor": (np.column_stack([Y, -Y]), {"max_depth": 4}),
    "ExtraTreeClassifier": (Y > 0, {"max_depth": 4}),
    "RandomForestRegressor": (Y, {"n_estimators": 5}),
    "RandomForestClassifier": (LABELS, {"n_estimators": 5, "max_depth": 4}),
    "ExtraTreesRegressor": (np.column_stack([Y, -Y]), {"n_estimators": 5}),
    "ExtraTreesClassifier": (Y > 0, {"n_estimators": 5, "max_depth": 4}),
    "GradientBoostingRegressor": (Y, {"n_estimators": 8, "loss": "huber"}),
    "GradientBoostingClassifier": (LABELS, {"n_estimators": 8}),
    "GradientBoostingClassifier exponential": (Y > 0, {"n_estimators": 8, "loss": "exponential"}),
    "HistGradientBoostingRegressor": (abs(Y) + 1, {"max_iter": 8, "loss": "gamma"}),
    "HistGradientBoostingClassifier": (LABELS, {"max_iter": 8}),
    "HistGradientBoostingClassifier binary": (Y > 0, {"max_iter": 8}),
}  # fmt: skip


@pytest.mark.parametrize("case", SKLEARN)
def test_sklearn(case):
    ensemble, tree = pytest.importorskip("sklearn.ensemble"), pytest.importorskip("sklearn.tree")
    name = case.split(" ")[0]
    cls = getattr(ensemble, name, None) or getattr(tree, name)
    target, parameters = SKLEARN[case]
    gaps = not name.startswith("Gradient")
    owner = cls(random_state=0, **parameters).fit(X if gaps else np.nan_to_num(X), target)
    model = hybridtrees.from_sklearn(owner)
    rows = unusual_rows(model, infinite=name.startswith("Hist"))
    rows = rows if gaps else np.nan_to_num(rows)
    if hasattr(owner, "predict_proba"):
        np.testing.assert_array_equal(model.predict(rows), owner.predict(rows))
        close(model.predict_proba(rows), owner.predict_proba(rows))
    else:
        close(model.predict(rows), owner.predict(rows))


def test_sklearn_categories_and_refusals():
    ensemble, pd = pytest.importorskip("sklearn.ensemble"), pytest.importorskip("pandas")
    frame = pd.DataFrame({"x": X[:, 0], "c": pd.Categorical(RNG.choice(list("uvw"), N)),
                          "z": X[:, 1], "d": pd.Categorical(RNG.integers(0, 200, N))})  # fmt: skip
    frame.loc[::9, "c"] = np.nan
    target = Y + frame["c"].isin(["u"]) + frame["d"].astype(int) % 3
    owner = ensemble.HistGradientBoostingRegressor(max_iter=8).fit(frame, target)
    model = hybridtrees.from_sklearn(owner)
    unseen = frame.assign(c=pd.Categorical(RNG.choice(list("uvAB"), N)))
    for rows in (frame, unseen):
        close(model.predict(rows), owner.predict(rows))
    with pytest.raises(TypeError, match="got IsolationForest"):
        hybridtrees.from_sklearn(ensemble.IsolationForest().fit(np.nan_to_num(X)))
    with pytest.raises(ValueError, match="not fitted"):
        hybridtrees.from_sklearn(ensemble.RandomForestRegressor())


@pytest.mark.parametrize("policy", ["SymmetricTree", "Lossguide", "Depthwise"])
@pytest.mark.parametrize("loss", ["RMSE", "Poisson", "Logloss", "MultiClass", "MultiClassOneVsAll"])
def test_catboost(loss, policy):
    catboost = pytest.importorskip("catboost")
    classes = "Log" in loss or "Multi" in loss
    cls = catboost.CatBoostClassifier if classes else catboost.CatBoostRegressor
    target = (LABELS if "Multi" in loss else Y > 0) if classes else abs(Y)
    owner = cls(iterations=8, depth=4, verbose=0, allow_writing_files=False, loss_function=loss,
                grow_policy=policy, nan_mode="Max" if policy == "Depthwise" else "Min")  # fmt: skip
    owner.fit(X, target)
    model = hybridtrees.from_catboost(owner)
    rows = unusual_rows(model)
    close(model.predict_raw(rows), owner.predict(rows, prediction_type="RawFormulaVal"))
    if classes:
        close(model.predict_proba(rows), owner.predict_proba(rows))
        theirs = owner.predict(rows).ravel().astype(str)
        np.testing.assert_array_equal(model.predict(rows).astype(str), theirs)
    else:
        close(model.predict(rows), owner.predict(rows))


def test_catboost_categories():
    catboost, pd = pytest.importorskip("catboost"), pytest.importorskip("pandas")
    frame = pd.DataFrame({"x": X[:, 0], "c": RNG.choice(list("uvwé"), N), "z": X[:, 1],
                          "i": RNG.integers(0, 9, N)})  # fmt: skip
    target = Y + frame["c"].isin(["u", "é"]) + frame["i"] % 3
    pool = catboost.Pool(frame, target, cat_features=["c", "i"])
    common = {"iterations": 8, "depth": 4, "verbose": 0, "allow_writing_files": False}
    owner = catboost.CatBoostRegressor(one_hot_max_size=20, **common).fit(pool)
    model = hybridtrees.from_catboost(owner, pool=pool)
    unseen = frame.assign(c=RNG.choice(list("uAé"), N), i=RNG.integers(-3, 20, N))
    for rows in (frame, unseen, frame.assign(i=frame["i"].astype(str))):
        close(model.predict(rows), owner.predict(rows))
    with pytest.raises(ModelFileError, match="pool"):
        hybridtrees.from_catboost(owner)
    ctr = catboost.CatBoostRegressor(one_hot_max_size=2, **common).fit(pool)
    with pytest.raises(ModelFileError, match="CTR"):
        hybridtrees.from_catboost(ctr, pool=pool)


@settings(max_examples=15)
@given(
    st.integers(1, 6), st.integers(1, 5), st.sampled_from(["gbtree", "lightgbm", "linear"]),
    st.integers(0, 2**31), st.floats(0, 0.9),
)  # fmt: skip
def test_any_table(depth, n_columns, kind, seed, gaps):
    rng = np.random.default_rng(seed)
    table = rng.choice([0, -1, 1, 1e-36, 3e38, 0.1], (80, n_columns)) * rng.normal(size=n_columns)
    table[rng.random(table.shape) < gaps] = np.nan
    y = rng.normal(size=80)
    if kind == "gbtree":
        xgb = pytest.importorskip("xgboost")
        table = np.clip(table, -3e38, 3e38)
        booster = xgb.train({"max_depth": depth}, xgb.DMatrix(table, y), 3)
        close(hybridtrees.from_xgboost(booster).predict(table),
              booster.predict(xgb.DMatrix(table)), 5e-6)  # fmt: skip
        return
    lgb = pytest.importorskip("lightgbm")
    if kind == "linear":
        table = np.clip(table, -9, 9)
    parameters = {"verbose": -1, "max_depth": depth, "min_data_in_leaf": 2}
    booster = lgb.train({**parameters, "linear_tree": kind == "linear"}, lgb.Dataset(table, y), 3)
    close(hybridtrees.from_lightgbm(booster).predict(table), booster.predict(table), 1e-9)
