"""The booster of XGB models: what it shows and writes is what xgboost shows of that file."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest

import hybridtrees as ht

xgboost = pytest.importorskip("xgboost")
pandas = pytest.importorskip("pandas")
pytestmark = pytest.mark.peer

rng = np.random.default_rng(5)
N = 140
FRAME = pandas.DataFrame(
    {
        "size": rng.normal(size=N).round(2),
        "kind": pandas.Categorical(rng.choice(list("uvwxyz"), N)),
        "count": rng.integers(0, 9, N).astype(float),
    }
)
Y = FRAME["size"].to_numpy() + FRAME["kind"].cat.codes.to_numpy() + 0.1 * FRAME["count"].to_numpy()
FRAME.loc[3, "size"] = np.nan
X = FRAME[["size", "count"]].to_numpy()
TWO, THREE = (Y > 2.5) * 1, np.digitize(Y, [2.0, 3.5])
SMALL = dict(n_estimators=4, max_depth=3, n_jobs=1)

MODELS = {
    "frame with categories": (ht.XGBRegressor, FRAME, Y, {}),
    "parallel": (ht.XGBRegressor, X, Y, {"num_parallel_tree": 3, "subsample": 0.7}),
    "two targets": (ht.XGBRegressor, X, np.column_stack([Y, -Y]), {}),
    "two classes": (ht.XGBClassifier, X, TWO, {}),
    "three classes": (ht.XGBClassifier, X, THREE, {}),
    "forest": (ht.XGBRFClassifier, X, THREE, {"random_state": 0}),
    "labels": (ht.XGBClassifier, X, np.where(TWO, "yes", "no"), {}),
    "two levels": (ht.XGBRegressor, X, Y, {"objective": "reg:quantileerror",
                                           "quantile_alpha": [0.2, 0.8]}),
    **{
        name: (ht.XGBRegressor, X, y, {"objective": name})
        for name, y in [
            ("reg:squaredlogerror", abs(Y)), ("reg:pseudohubererror", Y), ("count:poisson", abs(Y)),
            ("reg:absoluteerror", Y), ("reg:gamma", abs(Y) + 1), ("reg:tweedie", abs(Y)),
            ("reg:logistic", TWO), ("binary:logistic", TWO), ("binary:logitraw", TWO),
            ("binary:hinge", TWO), ("multi:softprob", THREE), ("multi:softmax", THREE),
        ]
    },
}  # fmt: skip


@pytest.fixture(scope="module", params=MODELS, name="both")
def _both(request, tmp_path_factory):
    """Our model and its table; xgboost's Booster of the file that it writes, and its table."""
    cls, table, y, params = MODELS[request.param]
    model = cls(**SMALL, **params).fit(table, y)
    path = tmp_path_factory.mktemp("booster") / "model.json"
    model.save_model(path)
    theirs = xgboost.Booster(model_file=str(path))
    codes = table.copy() if isinstance(table, pandas.DataFrame) else table
    if isinstance(codes, pandas.DataFrame):
        codes["kind"] = codes["kind"].cat.codes.astype(float)
    kinds = [{"float": "q"}.get(kind, kind) for kind in theirs.feature_types]
    theirs.feature_types = kinds
    matrix = xgboost.DMatrix(codes, feature_names=theirs.feature_names, feature_types=kinds)
    return model, table, theirs, matrix, path


def test_predictions(both):
    model, table, theirs, matrix, _ = both
    ours = model.get_booster()
    for how in ({}, {"output_margin": True}, {"iteration_range": (0, 1)}):
        expected = theirs.predict(matrix, **how)
        found = ours.predict(table, **how)
        assert found.shape == expected.shape
        np.testing.assert_allclose(found, expected, atol=3e-5, rtol=1e-5)
    leaves = theirs.predict(matrix, pred_leaf=True)
    np.testing.assert_array_equal(ours.predict(table, pred_leaf=True).ravel(), leaves.ravel())
    margin = ours.inplace_predict(table, predict_type="margin")
    np.testing.assert_array_equal(margin, ours.predict(table, output_margin=True))


def plain(frame):
    """Values of a table of nodes.

    XGBoost 3.4 has another column, types that allow for NA, and numbers for codes of categories.
    """
    values = frame.drop(columns="Target", errors="ignore").astype(object)
    values["Category"] = [
        [str(code) for code in codes] if isinstance(codes, list) else None
        for codes in values["Category"]
    ]
    return values.where(values.notna(), None)


def test_dumps_tables_and_importances(both, tmp_path):
    model, _, theirs, _, _ = both
    ours = model.get_booster()
    for with_stats in (False, True):
        for kind in ("text", "json"):
            dumps = [
                one.get_dump(with_stats=with_stats, dump_format=kind) for one in (ours, theirs)
            ]
            assert dumps[0] == dumps[1]
            for name, one in (("ours", ours), ("theirs", theirs)):
                one.dump_model(tmp_path / name, with_stats=with_stats, dump_format=kind)
            assert (tmp_path / "ours").read_text() == (tmp_path / "theirs").read_text()
    pandas.testing.assert_frame_equal(*(plain(one.trees_to_dataframe()) for one in (ours, theirs)))
    for kind in ("weight", "gain", "cover", "total_gain", "total_cover"):
        expected = theirs.get_score(importance_type=kind)
        assert ours.get_score(importance_type=kind) == pytest.approx(expected, rel=1e-5)
    assert ours.get_fscore() == theirs.get_fscore()


def test_what_it_says_of_the_model(both):
    model, _, theirs, _, _ = both
    ours = model.get_booster()
    assert ours.num_features() == theirs.num_features()
    assert ours.num_boosted_rounds() == theirs.num_boosted_rounds() == model.n_iter_
    assert ours.attributes() == theirs.attributes()
    assert ours.feature_names == theirs.feature_names
    config, known = (json.loads(one.save_config())["learner"] for one in (ours, theirs))
    assert config["objective"]["name"] == known["objective"]["name"]
    for name in ("num_class", "num_feature", "num_target"):
        expected = known["learner_model_param"][name]
        assert config["learner_model_param"][name] == expected
    model_param = "gbtree_model_param"
    parallel = [c["gradient_booster"][model_param]["num_parallel_tree"] for c in (config, known)]
    assert parallel[0] == parallel[1]


def test_files_are_read_by_both_libraries(both):
    model, table, theirs, matrix, path = both
    read = type(model)()
    read.load_model(path)
    codes = matrix.get_data().toarray() if "kind" not in str(theirs.feature_names) else None
    given = table if codes is None else X
    if codes is None:
        given = table.assign(kind=table["kind"].cat.codes).to_numpy(dtype=float)
    expected = model.predict(table)
    found = read.predict(given)
    if expected.dtype.kind == "f":
        np.testing.assert_allclose(found, expected, atol=3e-5, rtol=1e-5)
    else:
        np.testing.assert_array_equal(found, expected)
    assert read.n_iter_ == model.n_iter_
    kinds = theirs.feature_types
    assert read.feature_types == (kinds if "c" in kinds else None)
    assert read.objective == json.loads(path.read_text())["learner"]["objective"]["name"]
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(read)).predict(given), found)
    model.save_model(path.with_suffix(".ubj"))
    in_ubj = xgboost.Booster(model_file=str(path.with_suffix(".ubj")))
    assert in_ubj.save_raw("json") == xgboost.Booster(model_file=str(path)).save_raw("json")
    kind = type(model).__name__
    estimator = getattr(xgboost, kind)()
    estimator.load_model(path)
    assert estimator.n_features_in_ == model.n_features_in_


@pytest.mark.parametrize("ending", ["json", "ubj"])
@pytest.mark.parametrize("name", ["XGBRegressor", "XGBClassifier"])
def test_training_goes_on_from_models_of_xgboost(name, ending, tmp_path):
    y = Y if name == "XGBRegressor" else THREE
    coarse = np.nan_to_num(X).round(1)
    first = getattr(xgboost, name)(**SMALL, base_score=None).fit(coarse, y)
    expected = getattr(xgboost, name)(**SMALL).fit(coarse, y, xgb_model=first.get_booster())
    path = tmp_path / f"first.{ending}"
    first.save_model(path)
    for given in (first, first.get_booster(), path, str(path)):
        ours = getattr(ht, name)(**SMALL).fit(coarse, y, xgb_model=given)
        assert ours.n_iter_ == 8
        margins = [m.predict(coarse, output_margin=True) for m in (ours, expected)]
        np.testing.assert_allclose(*margins, atol=1e-4)
    ours.save(tmp_path / "ours")
    again = ht.load(tmp_path / "ours")
    np.testing.assert_array_equal(again.predict(coarse), ours.predict(coarse))
    longer = getattr(ht, name)(**SMALL).fit(coarse, y, xgb_model=ours.get_booster())
    assert longer.n_iter_ == 12


def test_predictions_of_a_dmatrix():
    model = ht.XGBRegressor(**SMALL).fit(X, Y)
    booster, margin = model.get_booster(), np.linspace(0, 1, N)
    np.testing.assert_array_equal(booster.predict(xgboost.DMatrix(X)), model.predict(X))
    np.testing.assert_allclose(
        booster.predict(xgboost.DMatrix(X, base_margin=margin), output_margin=True),
        model.predict(X, base_margin=margin),
        atol=1e-6,
    )


def test_the_best_round_is_kept(tmp_path):
    model = ht.XGBRegressor(n_estimators=60, max_depth=2, early_stopping_rounds=3)
    model.fit(X[:90], Y[:90], eval_set=[(X[90:], Y[90:])])
    model.save_model(tmp_path / "model.json")
    read, theirs = ht.XGBRegressor(), xgboost.XGBRegressor()
    for one in (read, theirs):
        one.load_model(tmp_path / "model.json")
        assert one.best_iteration == model.best_iteration < model.n_iter_ - 1
        assert one.best_score == pytest.approx(model.best_score)
        np.testing.assert_allclose(one.predict(X), model.predict(X), atol=1e-5)
    assert read.get_booster().num_boosted_rounds() == model.n_iter_


def test_base_scores():
    for cls, y, params in [
        (ht.XGBRegressor, Y, {}), (ht.XGBClassifier, TWO, {}), (ht.XGBClassifier, THREE, {}),
        (ht.XGBRegressor, abs(Y), {"objective": "count:poisson"}),
        (ht.XGBRegressor, TWO, {"objective": "binary:logitraw"}),
    ]:  # fmt: skip
        ours = cls(**SMALL, **params).fit(X, y).intercept_
        theirs = getattr(xgboost, cls.__name__)(**SMALL, **params).fit(X, y).intercept_
        assert ours.dtype == np.float32
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)


def test_parameters_of_the_training():
    model = ht.XGBClassifier(eta=0.2, random_state=np.random.RandomState(3), n_estimators=7)
    params = model.get_xgb_params()
    assert params["learning_rate"] == 0.2
    assert isinstance(params["random_state"], int)
    assert not {"n_estimators", "missing", "callbacks"} & set(params)


def test_refusals(tmp_path):
    reg = ht.XGBRegressor(**SMALL).fit(X, Y)
    reg.save_model(tmp_path / "reg.json")
    with pytest.raises(TypeError, match="is a regressor, and XGBClassifier a classifier"):
        ht.XGBClassifier().load_model(tmp_path / "reg.json")
    model = ht.XGBRegressor().fit(X, Y)
    state = dict(vars(model))
    (tmp_path / "bad.json").write_text('{"learner": {}}')
    with pytest.raises(ValueError, match="gradient_booster"):
        model.load_model(tmp_path / "bad.json")
    assert vars(model) == state
    with pytest.raises(ValueError, match="use shap_values"):
        reg.get_booster().predict(X, pred_contribs=True)
    with pytest.raises(ValueError, match="dump_format must be one of"):
        reg.get_booster().get_dump(dump_format="dot")
    with pytest.raises(ValueError, match="fmap"):
        reg.get_booster().get_score("names.txt")
    with pytest.raises(TypeError, match="no objective 'reg:logcosh': use save"):
        ht.XGBRegressor(objective="reg:logcosh").fit(X, Y).save_model(tmp_path / "x.json")
    with pytest.raises(Exception, match="not fitted"):
        ht.XGBRegressor().get_booster()
    linear = xgboost.XGBRegressor(booster="gblinear").fit(np.nan_to_num(X), Y)
    with pytest.raises(ValueError, match="'gblinear', which has no trees"):
        ht.XGBRegressor().fit(X, Y, xgb_model=linear)
    one = ht.XGBRegressor(n_estimators=2).fit(X, Y)
    with pytest.raises(ValueError, match="1 trees, but one of this training has 4"):
        ht.XGBRegressor(num_parallel_tree=4).fit(X, Y, xgb_model=one)
