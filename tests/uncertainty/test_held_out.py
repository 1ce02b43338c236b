"""Parameters, errors, files and copies of models that hold rows out."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import hybridtrees as ht
from hybridtrees._parameters import clone
from hybridtrees.input.folds import make_folds
from hybridtrees.prepare import PreparedRegressor

RNG = np.random.default_rng(0)
X = RNG.normal(size=(150, 3))
Y = X[:, 0] + RNG.normal(size=150) * np.exp(X[:, 1])
LABELS = np.where(Y > 0, "yes", "no")
SMALL = {"n_estimators": 100, "quality": 1, "random_state": 0}


def small(cls, **more):
    known = cls().get_params(deep=False)
    model = cls(**{k: v for k, v in SMALL.items() if k in known}, **more)
    if "estimators" in known:
        kind = "Classifier" if cls.__name__.endswith("Classifier") else "Regressor"
        model.set_params(estimators=[(k, getattr(ht, k + kind)()) for k in ("CART", "LinearTree")])
    if cls.__name__ == "VotingClassifier":
        model.set_params(voting="soft")
    return model


def families(kind):
    return [getattr(ht, name) for name in ht.__all__ if name.endswith(kind)]


def ask(model):
    if hasattr(model, "predict_set"):
        return model.predict_set(X, 0.8, "aps"), model.predict_proba(X)
    return (model.predict_interval(X, 0.8),)


def _tested(group):
    """Rows in the order in which five folds of whole groups test them."""
    return np.concatenate([test for _, test in make_folds(5, len(group), groups=group)])


def same(a, b):
    for one, two in zip(ask(a), ask(b), strict=True):
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("cls", families("Regressor"), ids=lambda c: c.__name__)
def test_every_regressor_has_intervals(cls, tmp_path):
    model = small(cls, conformal="auto").fit(X, Y)
    low, high = model.predict_interval(X).T
    assert np.all(low <= high)
    assert 0.8 < np.mean((low <= Y) & (high >= Y)) <= 1
    model.save(tmp_path / "model.htree")
    same(model, ht.load(tmp_path / "model.htree"))
    same(model, pickle.loads(pickle.dumps(model)))
    again = clone(model)
    assert again.conformal == "auto"
    same(model, again.fit(X, Y))


@pytest.mark.parametrize("cls", families("Classifier"), ids=lambda c: c.__name__)
def test_every_classifier_has_sets_and_calibration(cls, tmp_path):
    model = small(cls, conformal="auto", calibrate="isotonic").fit(X, LABELS)
    member = model.predict_set(X, 0.8)
    assert member.dtype == bool and member.any()
    proba = model.predict_proba(X)
    np.testing.assert_array_equal(model.predict(X), model.classes_[proba.argmax(axis=1)])
    model.save(tmp_path / "model.htree")
    same(model, ht.load(tmp_path / "model.htree"))


@pytest.mark.parametrize("way", ["cv", "cv+"])
def test_kept_copies_are_stored(way, tmp_path):
    for model, y in ((ht.CARTRegressor(max_depth=3), Y), (ht.CARTClassifier(max_depth=3), LABELS)):
        model.set_params(conformal=way).fit(X, y)
        assert len(model._uncertainty.models) == (5 if way == "cv+" else 0)
        model.save(tmp_path / "model.htree")
        same(model, ht.load(tmp_path / "model.htree"))


def test_the_number_of_threads_does_not_matter():
    for cls in (ht.XGBRegressor, ht.RandomForestRegressor, ht.XGBClassifier):
        y = LABELS if cls is ht.XGBClassifier else Y
        one, two = (small(cls, conformal="auto", n_jobs=n).fit(X, y) for n in (1, 3))
        same(one, two)


def test_fits_without_the_parameter_hold_nothing_out():
    model = ht.CARTRegressor().fit(X, Y)
    assert "_uncertainty" not in vars(model)
    with pytest.raises(ValueError, match=r"CARTRegressor\(conformal='auto', ...\).fit\(X, y\), or"):
        model.predict_interval(X)
    with pytest.raises(ValueError, match="not fitted"):
        ht.CARTRegressor().predict_interval(X)
    auto = ht.AutoRegressor(quality=1, random_state=0).fit(X, Y)
    assert "_held_out" not in vars(auto)


def test_a_fit_forgets_what_earlier_rows_said():
    model = ht.CARTRegressor().fit(X, Y).conformalize(X, Y)
    model.predict_interval(X)
    with pytest.raises(ValueError, match="needs rows that the model has not seen"):
        model.fit(X, Y).predict_interval(X)


def test_a_fit_that_fails_leaves_the_model_as_it_was():
    model = ht.XGBRegressor(n_estimators=5, conformal="cv").fit(X, Y)
    before = model.predict_interval(X)
    with pytest.raises(ValueError, match="base_margin cannot be used"):
        model.fit(X, Y, base_margin=np.zeros(150))
    with pytest.raises(ValueError):
        model.conformalize(X, Y[:10])
    np.testing.assert_array_equal(model.predict_interval(X), before)


@pytest.mark.parametrize(
    ("params", "text"),
    [
        ({"conformal": "split"}, "conformal must be one of 'auto', 'oob', 'cv', 'cv\\+', None"),
        ({"conformal": True}, "conformal must be one of"),
        ({"conformal": 5}, "conformal must be one of"),
        ({"conformal": "oob"}, "XGBClassifier has no out-of-bag rows: use 'cv' or 'auto'"),
        ({"calibrate": "platt"}, "calibrate must be one of 'temperature', 'isotonic', None"),
    ],
)
def test_parameters_are_checked(params, text):
    with pytest.raises(ValueError, match=text):
        ht.XGBClassifier(**params).fit(X, LABELS)


def test_arguments_are_checked():
    model = ht.CARTRegressor(conformal="cv").fit(X, Y)
    for coverage in (0, 1, 1.5, np.nan):
        with pytest.raises(ValueError, match=r"coverage must be a real number in \(0, 1\)"):
            model.predict_interval(X, coverage)
    with pytest.raises(TypeError, match="coverage must be a real number"):
        model.predict_interval(X, "0.9")
    with pytest.raises(ValueError, match="method must be one of 'auto', 'constant'"):
        model.predict_interval(X, method="quantiles")
    with pytest.raises(ValueError, match="X has 2 features"):
        model.predict_interval(X[:, :2])
    for wrong in ({"method": "oob"}, {"groups": np.arange(150)}, {"time": np.arange(150)}):
        with pytest.raises(ValueError, match="method"):
            model.conformalize(X, Y, **wrong)
    with pytest.raises(ValueError, match="not both"):
        both = {"groups": np.arange(150), "time": np.arange(150)}
        model.conformalize(X, Y, method="cv", **both)
    with pytest.raises(ValueError, match="at least as many rows, got 1"):
        ht.CARTRegressor(conformal="cv").fit(X[:1], Y[:1])
    classes = ht.CARTClassifier().fit(X, LABELS)
    with pytest.raises(ValueError, match="among the classes"):
        classes.conformalize(X, np.where(Y > 0, "yes", "perhaps"))
    with pytest.raises(ValueError, match="random_state must be"):
        classes.conformalize(X, LABELS).predict_set(X, random_state=-1)


def test_too_few_rows_warn():
    model = ht.LinearRegressor(conformal="cv").fit(X[:8], Y[:8])
    with pytest.warns(UserWarning, match="8 held-out rows are too few for a coverage of 0.9"):
        assert np.isinf(model.predict_interval(X)).all()


def test_no_row_is_out_of_bag():
    with pytest.raises(ValueError, match="needs out-of-bag rows"):
        ht.RandomForestRegressor(conformal="oob", bootstrap=False).fit(X, Y)
    # Then "auto" fits folds, and so with few trees.
    for more in ({"bootstrap": False}, {"n_estimators": 5}):
        model = ht.RandomForestRegressor(conformal="auto", random_state=0, **more).fit(X, Y)
        assert len(model._uncertainty.lower) == 150


def test_level_of_a_forest_is_its_coverage():
    forest = ht.RandomForestRegressor(random_state=0).fit(X, Y)
    plain = forest.predict_interval(X, level=0.8)
    np.testing.assert_array_equal(plain, forest.predict_interval(X, 0.8, "quantiles"))
    with pytest.raises(ValueError, match="needs rows that the model has not seen"):
        forest.predict_interval(X, method="constant")
    forest.set_params(conformal="oob").fit(X, Y)
    np.testing.assert_array_equal(
        forest.predict_interval(X, level=0.8), forest.predict_interval(X, 0.8)
    )
    assert (forest.predict_interval(X, 0.8) != plain).any()


def test_groups_and_time_of_fit_reach_the_folds():
    group = np.arange(150) // 15
    model = ht.ModelAverageRegressor(
        [("a", ht.CARTRegressor(max_depth=2)), ("b", ht.LinearRegressor())], conformal="cv+"
    )
    model.fit(X, Y, groups=group)
    kept = model._uncertainty
    assert kept.forest is None and len(kept.models) == 5
    assert len(set(zip(group[_tested(group)], kept.fold, strict=True))) == 10
    auto = ht.AutoRegressor(quality=1, conformal="auto", random_state=0)
    auto.fit(X, Y, time=np.arange(150))
    assert len(auto._uncertainty.lower) < 150


def test_dates_and_categories():
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame({"c": pd.Categorical(np.where(X[:, 0] > 0, "a", "b")), "x": X[:, 1]})
    table.loc[::5, "x"] = np.nan
    model = ht.CARTRegressor(max_depth=4, conformal="auto").fit(table, Y)
    assert model.predict_interval(table).shape == (150, 2)
    days = np.arange("2024-01-01", "2024-05-30", dtype="datetime64[D]")
    dated = {"day": days, "x": X[:, 1]}
    prepared = PreparedRegressor(
        dates=ht.DateFeatures(), estimator=ht.CARTRegressor(max_depth=4), conformal="cv"
    )
    assert prepared.fit(dated, Y).predict_interval(dated).shape == (150, 2)


def test_pipelines_and_searches_of_scikit_learn():
    pytest.importorskip("sklearn")
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    model = ht.XGBRegressor(n_estimators=5, conformal="cv", n_jobs=1)
    pipe = make_pipeline(StandardScaler(), model).fit(X, Y)
    assert pipe[-1].predict_interval(pipe[:-1].transform(X)).shape == (150, 2)
    search = GridSearchCV(model, {"max_depth": [1, 2]}, cv=2).fit(X, Y)
    assert search.best_estimator_.predict_interval(X).shape == (150, 2)


def test_faulty_states_are_refused(tmp_path):
    model = ht.CARTRegressor(max_depth=2, conformal="cv+").fit(X, Y)
    for name, value in (
        ("lower", np.full((150, 1), np.nan)),
        ("spread", np.zeros((150, 1))),
        ("power", np.array([7.0])),
        ("fold", np.full(150, 9, dtype=np.int32)),
        ("weight", np.zeros(150)),
        ("models", []),
        ("models", [ht.LinearRegressor().fit(X[:, :2], Y)] * 5),
        ("models", [ht.CARTClassifier().fit(X, LABELS)] * 5),
    ):
        faulty = pickle.loads(pickle.dumps(model))
        setattr(faulty._uncertainty, name, value)
        with pytest.raises(ValueError):
            pickle.loads(pickle.dumps(faulty))
    other = ht.CARTClassifier(max_depth=2, conformal="cv", calibrate="isotonic").fit(X, LABELS)
    other._uncertainty = model._uncertainty
    with pytest.raises(ValueError, match="_uncertainty of CARTClassifier is a Intervals"):
        pickle.loads(pickle.dumps(other))
