"""Rules of EBLR as text, as columns, in files; the enriched data and the accounts for people."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from eblr_oracle import read_rule
from hypothesis import given
from hypothesis import strategies as st

import hybridtrees
from hybridtrees.models.eblr.estimators import EBLRClassifier, EBLRRegressor


def rules_from_text(model, table):
    """Columns of all rules from nothing but their texts."""
    found = {}
    for rule in model.rules_:
        found[rule.name] = read_rule(rule.text, table, found)
    return np.column_stack(list(found.values()))


def by_name(X):
    return {f"x{j}": X[:, j] for j in range(X.shape[1])}


@given(st.integers(0, 2**32 - 1), st.sampled_from([np.float32, np.float64]), st.booleans())
def test_texts_reproduce_the_columns(seed, dtype, missing):
    rng = np.random.default_rng(seed)
    X = (rng.integers(-4, 5, (80, 3)) / 7).astype(dtype)
    if missing:
        X[rng.random(X.shape) < 0.2] = np.nan
    y = rng.integers(0, 4, 80).astype(float) + np.nan_to_num(X[:, 0])
    residual = ["linear", "absolute"][seed % 2]
    model = EBLRRegressor(n_rules=5, residual=residual, n_jobs=1).fit(X, y)
    if model.n_rules_ == 0:
        return
    # Thresholds are between float32 values; the columns are read in float64.
    texts = rules_from_text(model, by_name(X.astype(np.float64)))
    np.testing.assert_array_equal(model.transform(X)[:, 3:], texts)


def category_table(rng, n=300):
    pandas = pytest.importorskip("pandas")
    color = rng.choice(["red", "green", "blue", "dark grey"], n)
    size = rng.standard_normal(n)
    y = size + 4.0 * ((color == "blue") & (size > 0)) + 0.1 * rng.standard_normal(n)
    frame = pandas.DataFrame({"color": color, "the size": size})
    frame.loc[:5, "color"] = None
    return frame, y


def test_texts_of_categories(rng):
    frame, y = category_table(rng)
    model = EBLRRegressor(n_rules=4, max_depth=3, n_jobs=1).fit(frame, y)
    table = {"color": frame["color"].to_numpy(object), "the size": frame["the size"].to_numpy()}
    table["color"] = np.array([c if isinstance(c, str) else "?" for c in table["color"]])
    first = model.rules_[0]
    assert "color in {blue}" in first.text and "the size" in first.text
    for k, rule in enumerate(model.rules_):
        if "missing" in rule.text or "rule_" in rule.text:
            continue
        known = np.asarray(table["color"] != "?")
        holds = read_rule(rule.text, table, {})
        column = model.transform(frame)[:, len(model.term_coef_) - model.n_rules_ + k]
        np.testing.assert_array_equal(column[known], holds[known])
    unseen = frame.iloc[10:20].assign(color="violet")
    missing = frame.iloc[10:20].assign(color=None)
    np.testing.assert_array_equal(model.predict(unseen), model.predict(missing))


def test_a_split_between_present_and_missing(rng):
    X = rng.standard_normal((200, 2))
    gone = rng.random(200) < 0.3
    X[gone, 1] = np.nan
    y = X[:, 0] + 5.0 * gone
    model = EBLRRegressor(n_rules=1, max_depth=1, n_jobs=1).fit(X, y)
    assert model.rules_[0].text in ("x1 is missing", "x1 is not missing")
    np.testing.assert_allclose(model.predict(X), y, atol=1e-8)


def test_transform_then_regression_equals_predict(rng):
    X = rng.standard_normal((300, 3))
    X[rng.random(X.shape) < 0.1] = np.nan
    y = np.nan_to_num(X[:, 0]) + 2.0 * (X[:, 1] > 1)
    model = EBLRRegressor(n_rules=3, n_jobs=1, missing_indicator=True).fit(X, y)
    Z = model.transform(X)
    assert Z.shape == (300, 9) and not np.isnan(Z).any()
    scores = Z @ model.term_coef_ + model.intercept_
    np.testing.assert_allclose(scores, model.predict(X), atol=1e-12)
    line = hybridtrees.LinearRegressor(n_jobs=1).fit(Z, y)
    np.testing.assert_allclose(line.predict(Z), model.predict(X), atol=1e-9)
    classifier = EBLRClassifier(n_rules=3, n_jobs=1).fit(X, y > 0)
    scores = classifier.transform(X) @ classifier.term_coef_[0] + classifier.intercept_[0]
    np.testing.assert_allclose(scores, classifier.decision_function(X), atol=1e-10)


def test_sparse_tables(rng):
    scipy_sparse = pytest.importorskip("scipy.sparse")
    X = rng.standard_normal((200, 6)) * (rng.random((200, 6)) < 0.3)
    y = X[:, 0] + 3.0 * (X[:, 1] > 0.2) + 0.1 * rng.standard_normal(200)
    dense = EBLRRegressor(n_rules=3, n_jobs=1).fit(X, y)
    for form in (scipy_sparse.csr_array, scipy_sparse.csc_array):
        model = EBLRRegressor(n_rules=3, n_jobs=1).fit(form(X), y)
        np.testing.assert_allclose(model.predict(form(X)), dense.predict(X), atol=1e-9)
        np.testing.assert_allclose(model.transform(form(X)).toarray(), dense.transform(X))
        assert [r.text for r in model.rules_] == [r.text for r in dense.rules_]


def test_names_and_containers(rng):
    pandas = pytest.importorskip("pandas")
    polars = pytest.importorskip("polars")
    frame, y = category_table(rng)
    model = EBLRRegressor(n_rules=2, n_jobs=1).fit(frame, y)
    names = list(model.get_feature_names_out())
    assert names[0] == "the size" and names[-2:] == ["rule_1", "rule_2"]
    assert "color=blue" not in names and "color=red" in names  # blue is the baseline
    out = model.set_output(transform="pandas").transform(frame)
    assert isinstance(out, pandas.DataFrame) and list(out.columns) == names
    assert out.index.equals(frame.index)
    out = model.set_output(transform="polars").transform(frame)
    assert isinstance(out, polars.DataFrame) and out.columns == names
    assert isinstance(model.set_output(transform="default").transform(frame), np.ndarray)
    with pytest.raises(ValueError, match="transform must be one of"):
        model.set_output(transform="excel")
    plain = EBLRRegressor(n_rules=1, n_jobs=1).fit(rng.standard_normal((50, 2)), y[:50])
    assert list(plain.get_feature_names_out(["a", "b"])) == ["a", "b", "rule_1"]
    with pytest.raises(ValueError, match="input_features should have length"):
        plain.get_feature_names_out(["a"])


def test_rule_names_avoid_those_of_features(rng):
    pandas = pytest.importorskip("pandas")
    X = pandas.DataFrame(rng.standard_normal((60, 2)), columns=["rule_1", "b"])
    model = EBLRRegressor(n_rules=2, early_stopping=None, n_jobs=1).fit(X, rng.standard_normal(60))
    assert model.rule_names_ == ["eblr_rule_1", "eblr_rule_2"]


def test_summary_is_the_equation(rng):
    X = rng.standard_normal((300, 3))
    y = 10 + 2.0 * X[:, 0] + 5.0 * (X[:, 1] > 1.0)
    text = EBLRRegressor(n_rules=1, max_depth=1, n_jobs=1).fit(X, y).summary()
    lines = text.splitlines()
    assert lines[0] == "y = 10"
    assert "    + 2 * x0" in lines
    assert any(line.startswith("    + 5 if x1 > ") for line in lines)
    assert "rule_1: " in lines[-1] and "rows" in lines[-1]
    short = EBLRRegressor(n_rules=1, n_jobs=1).fit(X, y).summary(max_terms=1)
    assert "2 more columns of smaller effect" in short
    labels = np.array(["no", "yes"])[(y > 11).astype(int)]
    classifier = EBLRClassifier(n_rules=1, n_jobs=1).fit(X, labels)
    assert classifier.summary().startswith("log-odds of yes = ")
    three = EBLRClassifier(n_rules=1, n_jobs=1).fit(X, np.digitize(y, [9, 12]))
    assert three.summary(label=2).startswith("score of 2 = ")
    with pytest.raises(ValueError, match="label must be one of"):
        three.summary(label=7)


def test_plot_rules(rng):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    X = rng.standard_normal((200, 3))
    y = X[:, 0] + 5.0 * (X[:, 1] > 1.0)
    model = EBLRRegressor(n_rules=3, n_jobs=1).fit(X, y + rng.standard_normal(200))
    ax = model.plot_rules()
    widths = [bar.get_width() for bar in ax.patches]
    np.testing.assert_allclose(widths, model.term_coef_[3:])
    assert ax.get_yticklabels()[0].get_text().startswith("rule_1: ")
    three = EBLRClassifier(n_rules=2, n_jobs=1).fit(X, np.digitize(y, [0, 3]))
    _, own = plt.subplots()
    assert three.plot_rules(own, label=1) is own
    np.testing.assert_allclose([bar.get_width() for bar in own.patches], three.term_coef_[1, 3:])
    plt.close("all")


@pytest.mark.parametrize("make", [EBLRRegressor, EBLRClassifier])
def test_files_and_pickles(rng, tmp_path, make):
    frame, y = category_table(rng)
    target = y if make is EBLRRegressor else np.digitize(y, [-0.5, 0.5])
    model = make(n_rules=3, n_jobs=1).fit(frame, target)
    model.save(tmp_path / "model.zip")
    for other in (hybridtrees.load(tmp_path / "model.zip"), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(other.predict(frame), model.predict(frame))
        np.testing.assert_array_equal(other.transform(frame), model.transform(frame))
        assert [str(rule) for rule in other.rules_] == [str(rule) for rule in model.rules_]
        assert other.summary() == model.summary()
    without = make(n_rules=0, n_jobs=1).fit(frame, target)
    without.save(tmp_path / "none.zip")
    loaded = hybridtrees.load(tmp_path / "none.zip")
    np.testing.assert_array_equal(loaded.predict(frame), without.predict(frame))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_rules": -1}, "n_rules must be"),
        ({"residual": "cubic"}, "residual must be one of"),
        ({"max_depth": 0}, "max_depth must be"),
        ({"penalty": "l2"}, "penalty must be one of"),
        ({"alpha": -1}, "alpha must be"),
        ({"early_stopping": "cp"}, "early_stopping must be one of"),
        ({"validation_split": "first"}, "validation_split must be one of"),
        ({"validation_fraction": 1.0}, "validation_fraction must be"),
        ({"n_iter_no_change": 0}, "n_iter_no_change must be"),
        ({"tol": 0.0}, "tol must be"),
    ],
)
def test_wrong_parameters_are_refused_before_any_work(parameters, message):
    model = EBLRRegressor(n_rules=1, n_jobs=1).fit([[0.0], [1.0], [3.0]], [0.0, 1.0, 5.0])
    before = model.predict([[2.0]])
    model.set_params(**parameters)
    with pytest.raises(ValueError, match=message):
        model.fit("no table at all", None)
    np.testing.assert_array_equal(model.predict([[2.0]]), before)


def test_validation_arguments_belong_together(rng):
    X, y = rng.standard_normal((20, 2)), rng.standard_normal(20)
    with pytest.raises(ValueError, match="X_val and y_val must be given together"):
        EBLRRegressor().fit(X, y, X_val=X)
    with pytest.raises(ValueError, match="uses training rows only"):
        EBLRRegressor(early_stopping="aic").fit(X, y, X_val=X, y_val=y)
    with pytest.raises(ValueError, match="X_val: X has 1 features"):
        EBLRRegressor().fit(X, y, X_val=X[:, :1], y_val=y)
    with pytest.raises(ValueError, match="validation_fraction=0.5 leaves too few"):
        EBLRClassifier(early_stopping="validation", validation_fraction=0.5).fit(
            X[:3], ["a", "b", "c"]
        )
