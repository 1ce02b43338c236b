"""Permutation importance against a slow recomputation and against scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest

from hybridtrees import XGBClassifier, XGBRegressor, metrics
from hybridtrees.core.base.random_state import seed_sequence
from hybridtrees.inspection import permutation_importance


def data(rng, n=150):
    X = rng.normal(size=(n, 4))
    X[rng.random(X.shape) < 0.1] = np.nan
    y = 3 * np.nan_to_num(X[:, 1]) + np.nan_to_num(X[:, 2]) ** 2 + 0.1 * rng.normal(size=n)
    return X, y, rng.random(n) + 0.1


def recompute(score, X, seed, n_repeats):
    """The definition: a stream per feature, a permutation per repeat."""
    streams = seed_sequence(seed).spawn(1 + X.shape[1])[1:]
    losses = np.empty((X.shape[1], n_repeats))
    for j, stream in enumerate(streams):
        rng = np.random.default_rng(stream)
        for r in range(n_repeats):
            shuffled = X.copy()
            shuffled[:, j] = shuffled[rng.permutation(len(X)), j]
            losses[j, r] = score(X) - score(shuffled)
    return losses


@pytest.mark.parametrize("weighted", [False, True])
def test_equals_the_definition(rng, weighted):
    X, y, w = data(rng)
    w = w if weighted else None
    model = XGBRegressor(n_estimators=10, n_jobs=1).fit(X, y)
    result = permutation_importance(model, X, y, n_repeats=3, random_state=7, sample_weight=w)
    expected = recompute(lambda t: model.score(t, y, sample_weight=w), X, 7, 3)
    np.testing.assert_allclose(result.importances, expected, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(result.importances_mean, expected.mean(axis=1), atol=1e-14)
    np.testing.assert_allclose(result["importances_std"], expected.std(axis=1), atol=1e-14)
    assert result.baseline_score == model.score(X, y, sample_weight=w)
    assert result.importances_mean.argmax() == 1
    assert set(result) == set(result.keys()) and result.feature_names[2] == "feature_2"


def test_several_scores_share_the_permutations(rng):
    X, y, w = data(rng)
    labels = np.where(y > 1, "yes", "no")
    model = XGBClassifier(n_estimators=8, n_jobs=1).fit(X, labels)
    scoring = ["accuracy", "logloss", "auc", "error"]
    results = permutation_importance(
        model, X, labels, scoring=scoring, n_repeats=2, random_state=1, sample_weight=w
    )
    codes = (labels == "yes").astype(int)
    by_hand = {
        "accuracy": lambda t: metrics.accuracy_score(labels, model.predict(t), sample_weight=w),
        "logloss": lambda t: -metrics.log_loss(codes, model.predict_proba(t), sample_weight=w),
        "auc": lambda t: metrics.roc_auc_score(
            codes, model.predict_proba(t)[:, 1], sample_weight=w
        ),
        "error": lambda t: -metrics.error_rate(labels, model.predict(t), sample_weight=w),
    }
    assert list(results) == scoring
    for name, score in by_hand.items():
        expected = recompute(score, X, 1, 2)
        np.testing.assert_allclose(results[name].importances, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("rmse", metrics.root_mean_squared_error),
        ("neg_mean_squared_error", metrics.mean_squared_error),
        ("mae", metrics.mean_absolute_error),
    ],
)
def test_losses_count_negative(rng, name, function):
    X, y, _ = data(rng)
    model = XGBRegressor(n_estimators=5, n_jobs=1).fit(X, y)
    result = permutation_importance(model, X, y, scoring=name, random_state=0)
    assert result.baseline_score == pytest.approx(-function(y, model.predict(X)))
    assert result.importances_mean[1] > 0
    metric = permutation_importance(
        model, X, y, scoring={"a": name, "b": metrics.METRICS["mae"]}, random_state=0
    )
    np.testing.assert_array_equal(metric["a"].importances, result.importances)


def test_functions_as_scores(rng):
    X, y, w = data(rng)
    model = XGBRegressor(n_estimators=5, n_jobs=1).fit(X, y)
    calls = []

    def score(estimator, table, target, sample_weight=None):
        calls.append(sample_weight is not None)
        return estimator.score(table, target, sample_weight=sample_weight)

    ours = permutation_importance(model, X, y, scoring=score, random_state=3, sample_weight=w)
    default = permutation_importance(model, X, y, random_state=3, sample_weight=w)
    np.testing.assert_allclose(ours.importances, default.importances)
    assert all(calls)


def test_multiclass(rng):
    X, y, _ = data(rng)
    labels = np.digitize(y, [0, 2])
    model = XGBClassifier(n_estimators=5, n_jobs=1).fit(X, labels)
    result = permutation_importance(model, X, labels, scoring="mlogloss", random_state=0)
    assert result.baseline_score == pytest.approx(-metrics.log_loss(labels, model.predict_proba(X)))


def test_a_feature_that_is_not_used_has_none(rng):
    X, y, _ = data(rng)
    X[:, 3] = 1.0
    model = XGBRegressor(n_estimators=5, n_jobs=1).fit(X, y)
    result = permutation_importance(model, X, y, random_state=0)
    np.testing.assert_array_equal(result.importances[3], 0.0)


def test_features_and_rows_are_chosen(rng):
    X, y, w = data(rng)
    model = XGBRegressor(n_estimators=5, n_jobs=1).fit(X, y)
    every = permutation_importance(model, X, y, random_state=5, n_repeats=2)
    some = permutation_importance(model, X, y, random_state=5, n_repeats=2, features=[2, -3])
    np.testing.assert_array_equal(some.importances, every.importances[[2, 1]])
    few = permutation_importance(model, X, y, random_state=5, max_samples=40, sample_weight=w)
    share = permutation_importance(
        model, X, y, random_state=5, max_samples=40 / 150 + 1e-9, sample_weight=w
    )
    np.testing.assert_array_equal(few.importances, share.importances)
    drawn = np.random.default_rng(seed_sequence(5).spawn(5)[0])
    rows = np.sort(drawn.choice(150, 40, replace=False))
    assert few.baseline_score == model.score(X[rows], y[rows], sample_weight=w[rows])
    assert few.baseline_score != every.baseline_score


FRAMES = {
    "dict": lambda frame: {
        "size": frame["size"].tolist(),
        "town": frame["town"],
        "count": frame["count"].to_numpy(),
        "name": frame["name"].tolist(),
    },
    "pandas": lambda frame: frame,
    "polars": lambda frame: pytest.importorskip("polars").from_pandas(frame),
    "pyarrow": lambda frame: pytest.importorskip("pyarrow").Table.from_pandas(frame),
}


@pytest.mark.parametrize("kind", FRAMES)
def test_data_frames_give_what_codes_give(rng, kind):
    pd = pytest.importorskip("pandas")
    n = 200
    frame = pd.DataFrame(
        {
            "size": rng.normal(size=n),
            "town": pd.Categorical(rng.choice(["Ghent", "Bruges", "Mons"], n)),
            "count": rng.integers(0, 9, n),
            "name": rng.choice(["a", "b"], n),
        }
    )
    frame.loc[rng.random(n) < 0.2, "town"] = np.nan
    y = frame["size"].to_numpy() + 2 * (frame["town"] == "Mons") + (frame["name"] == "a")
    y = y.to_numpy()
    table = FRAMES[kind](frame)
    model = XGBRegressor(n_estimators=6, n_jobs=1).fit(table, y)
    result = permutation_importance(model, table, y, random_state=2, n_repeats=2)
    codes = model._reader.read(table).astype(float)
    plain = XGBRegressor(n_estimators=6, n_jobs=1, categorical_features=[1, 3]).fit(codes, y)
    expected = permutation_importance(plain, codes, y, random_state=2, n_repeats=2)
    np.testing.assert_allclose(result.importances, expected.importances, rtol=1e-9, atol=1e-12)
    assert result.feature_names == ["size", "town", "count", "name"]
    one = permutation_importance(model, table, y, random_state=2, n_repeats=2, features=["town"])
    np.testing.assert_array_equal(one.importances[0], result.importances[1])


def test_sparse(rng):
    sparse = pytest.importorskip("scipy.sparse")
    X = rng.normal(size=(120, 5)) * (rng.random((120, 5)) < 0.3)
    y = X[:, 0] + X[:, 4]
    model = XGBRegressor(n_estimators=5, n_jobs=1).fit(X, y)
    expected = permutation_importance(model, X, y, random_state=0)
    result = permutation_importance(model, sparse.csr_array(X), y, random_state=0)
    np.testing.assert_allclose(result.importances, expected.importances, atol=1e-12)


@pytest.mark.peer
def test_agrees_with_sklearn(rng):
    inspection = pytest.importorskip("sklearn.inspection")
    X, y, _ = data(rng, 400)
    model = XGBRegressor(n_estimators=20, n_jobs=1).fit(X, y)
    ours = permutation_importance(model, X, y, random_state=0, n_repeats=40)
    theirs = inspection.permutation_importance(model, X, y, random_state=0, n_repeats=40)
    spread = np.hypot(ours.importances_std, theirs.importances_std) / np.sqrt(40)
    assert np.all(np.abs(ours.importances_mean - theirs.importances_mean) <= 5 * spread + 1e-12)


def test_errors(rng):
    X, y, _ = data(rng)
    model = XGBRegressor(n_estimators=2, n_jobs=1).fit(X, y)
    for options, error, message in [
        ({"n_repeats": 0}, ValueError, "n_repeats must be an integer of at least 1"),
        ({"scoring": "wrong"}, ValueError, "unknown score 'wrong'; the scores are rmse"),
        ({"scoring": "auc"}, ValueError, "needs a classifier"),
        ({"scoring": []}, ValueError, "at least one score"),
        ({"scoring": ["r2", "r2"]}, ValueError, "twice"),
        ({"scoring": 3}, TypeError, "scoring must be"),
        ({"features": ["a"]}, ValueError, "which X does not have|X has no feature names"),
        ({"features": [9]}, ValueError, "but X has 4 features"),
        ({"features": []}, ValueError, "at least one column"),
        ({"max_samples": 0}, ValueError, "max_samples"),
        ({"max_samples": 1.5}, ValueError, "max_samples"),
        ({"sample_weight": [1.0]}, ValueError, "sample_weight"),
    ]:
        with pytest.raises(error, match=message):
            permutation_importance(model, X, y, **options)
    with pytest.raises(ValueError, match="one entry for each of the 150 rows"):
        permutation_importance(model, X, y[:-1])
    with pytest.raises(ValueError, match="minimum of 1 is required"):
        permutation_importance(model, X[:0], y[:0])
