"""`hybridtrees.compare`: tasks, tables, models, drawings."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from fresh_python import check_python

import hybridtrees
from hybridtrees._compare import run as running
from hybridtrees._compare.families import choose_families
from hybridtrees._compare.search import Limits
from hybridtrees.datasets import load_heart_failure, make_house_prices, make_seasonal_series

FEW = ["cart", "xgb", "baseline"]


def classes(n=240, n_classes=3):
    rng = np.random.default_rng(8)
    X = rng.normal(size=(n, 4))
    names = np.array(["one", "two", "three"], dtype=object)[:n_classes]
    return X, names[np.digitize(X[:, 0] + 0.3 * rng.normal(size=n), [-0.5, 0.5][: n_classes - 1])]


def without_times(comparison):
    return [
        {k: v for k, v in row.items() if not k.endswith("_seconds")} for row in comparison.table
    ]


@pytest.mark.parametrize("task", ["regression", "binary", "multiclass"])
def test_all_families_on_every_task(task):
    if task == "regression":
        houses = make_house_prices(180, random_state=1)
        X, y = houses.data, houses.target
    else:
        X, y = classes(n_classes=2 if task == "binary" else 3)
    result = hybridtrees.compare(X, y, budget=1e-3, random_state=1, n_jobs=2)
    assert result.data.task == ("regression" if task == "regression" else "classification")
    table = result.table
    assert [row["error"] for row in table] == [None] * len(table)
    assert {r.family.key for r in result.results} == {f.key for f in choose_families(None)}
    assert [row["rank"] for row in table] == list(range(1, len(table) + 1))
    # The setting of the ensemble has no search.
    table = [row for row in table if row["model"] != "ensemble of the others"]
    scores = [row["choice"] for row in table]
    assert scores == sorted(scores, reverse=task != "regression")
    assert table[-1]["model"] == "baseline (constant)"
    for row in table:
        low, high = row["test_interval"]
        assert low <= row["test"] <= high
        assert row["fit_seconds"] > 0 and row["predict_seconds"] > 0 and row["size_bytes"] > 0
        assert row["delta"] == pytest.approx(
            100 * (row["validation"] - row["train"]) / row["train"], abs=1e-9
        )
    best = result.best_
    assert best is result.models_[result.results[0].family.key]
    said = best.predict(result.data.columns.take(result.plan.test).table)
    if task != "regression":
        assert set(said) <= set(y) and np.mean(said == y[result.plan.test]) > 0.7


def test_the_same_seed_gives_the_same_table_for_any_threads():
    X, y = classes(n=120)
    models = ["cart", "forest", "gb", "rerf"]
    runs = [
        without_times(
            hybridtrees.compare(
                X, y, models=models, random_state=seed, n_jobs=n_jobs, budget=budget
            )
        )
        for seed, n_jobs, budget in ((3, 1, 1e-3), (3, 2, 1e-3), (4, 1, 1e-3))
    ]
    assert runs[0] == runs[1]
    assert runs[0] != runs[2]


def test_the_whole_search_does_not_depend_on_threads():
    X, y = classes(n=100, n_classes=2)
    one, two = (
        hybridtrees.compare(X, y, models=["cart", "xgb"], n_jobs=n_jobs) for n_jobs in (1, 2)
    )
    assert without_times(one) == without_times(two)
    assert [(t.setting, t.validation, t.rounds) for t in one.trials] == [
        (t.setting, t.validation, t.rounds) for t in two.trials
    ]


def test_scores_are_those_of_the_final_models():
    data = load_heart_failure()
    X, y = data.data, data.target
    result = hybridtrees.compare(X, y, models=FEW)
    for r in result.results[:-1]:
        again = type(r.model)(**r.model.get_params()).fit(X[result.plan.rest], y[result.plan.rest])
        rows = result.plan.test
        area = hybridtrees.metrics.roc_auc_score(y[rows], again.predict_proba(X[rows])[:, 1])
        assert r.test["auc"] == pytest.approx(area, abs=1e-12)
        right = hybridtrees.metrics.accuracy_score(y[rows], again.predict(X[rows]))
        assert r.test["accuracy"] == pytest.approx(right, abs=1e-12)


def test_time_orders_the_rows():
    series = make_seasonal_series(300, random_state=0)
    shuffled = np.random.default_rng(0).permutation(300)
    X, y = series.data[shuffled], series.target[shuffled]
    result = hybridtrees.compare(X, y, time=0, models=["linear", "cart"])
    when, fold = X[:, 0], result.plan.folds[0]
    assert when[fold.train].max() < when[fold.validation].min()
    assert when[fold.validation].max() < when[result.plan.test].min()
    assert result.table[0]["model"] == "linear / logistic regression"
    assert "in order of time" in str(result) and result.data.shape == (300, 6)
    other = hybridtrees.compare(X[:, 1:], y, time=X[:, 0], models=["linear"])
    np.testing.assert_array_equal(other.plan.test, result.plan.test)


def test_dates_order_rows_and_become_features():
    days = np.datetime64("2024-01-01") + np.arange(60)
    X = {"day": days.astype(str).astype(object), "x": np.arange(60.0)}
    result = hybridtrees.compare(X, np.arange(60.0) + 0.1, time="day", models=["linear"])
    made = ["day_month", "day_day", "day_weekday", "day_day_of_year", "day_elapsed"]
    assert result.data.feature_names == ["x", *made]
    assert "'day' holds dates, whose features are month, day, weekday" in str(result)
    np.testing.assert_array_equal(result.plan.test, np.arange(51, 60))
    with pytest.raises(ValueError, match="time column 'day' holds 'Monday'"):
        hybridtrees.compare({**X, "day": np.full(60, "Monday", dtype=object)}, X["x"], time="day")
    with pytest.raises(ValueError, match="one entry for each of its 60 rows"):
        hybridtrees.compare(X, X["x"], time=np.arange(3))


@pytest.mark.parametrize("kind", ["pandas", "zoned", "polars", "pyarrow"])
def test_dates_of_frames_order_rows(kind):
    module = pytest.importorskip("pandas" if kind == "zoned" else kind)
    days = (np.datetime64("2024-01-01", "us") + np.arange(60) * np.timedelta64(1, "D"))[::-1]
    columns = {"day": days, "x": np.arange(60.0)}
    if kind == "zoned":
        columns["day"] = module.to_datetime(days).tz_localize("Europe/Rome")
    make = module.table if kind == "pyarrow" else module.DataFrame
    few = {"models": ["cart"], "budget": 1e-3}
    table = make(columns)
    for time in ("day", 0):
        result = hybridtrees.compare(table, np.arange(60.0) + 0.1, time=time, **few)
        assert result.data.feature_names[:3] == ["x", "day_month", "day_day"]
        np.testing.assert_array_equal(result.plan.test, np.arange(9)[::-1])
    # The best model takes the table as it came.
    assert isinstance(result.best_, hybridtrees.prepare.PreparedRegressor)
    plain = result.winner.model.predict(result.data.columns.table)
    np.testing.assert_array_equal(result.best_.predict(table), plain)


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_models_on_dates_are_saved_with_them(task, tmp_path):
    rng = np.random.default_rng(0)
    days = np.datetime64("2023-01-01") + rng.integers(0, 700, 200)
    month = days.astype("datetime64[M]").astype(int) % 12
    kind = rng.choice(["a", "b"], 200).astype(object)
    y = np.where(month < 6, 5.0, 0.0) + rng.normal(size=200)
    X = {"kind": kind, "day": days, "x": rng.normal(size=200)}
    y = y if task == "regression" else np.where(y > 2.5, "warm", "cold")
    result = hybridtrees.compare(X, y, models=["cart", "baseline"], categorical_features=[0])
    assert result.data.categorical == [0] and result.table[0]["model"] == "CART"
    result.best_.save(tmp_path / "model.htree")
    loaded = hybridtrees.load(tmp_path / "model.htree")
    np.testing.assert_array_equal(loaded.predict(X), result.best_.predict(X))
    assert result.best_.score(X, y) > 0.8
    assert result.models_["cart"] is result.winner.model


def test_categories_are_named_by_their_place_before_dates_leave():
    rng = np.random.default_rng(0)
    days = np.datetime64("2023-01-01") + rng.integers(0, 700, 60)
    X = {"day": days, "code": rng.integers(0, 4, 60), "x": rng.normal(size=60)}
    few = {"models": ["cart"], "budget": 1e-3}
    for given in ([1], ["code"], [False, True, False]):
        result = hybridtrees.compare(X, rng.normal(size=60), categorical_features=given, **few)
        assert [result.data.feature_names[j] for j in result.data.categorical] == ["code"]


def test_labels_that_name_rows_are_noted():
    X = {"name": np.array([f"n{i}" for i in range(80)], dtype=object), "x": np.arange(80.0)}
    few = {"models": ["cart"], "budget": 1e-3}
    assert "80 different labels in 80 rows" in hybridtrees.compare(X, X["x"] + 0.5, **few).notes[1]
    X["name"] = X["name"][np.arange(80) // 2]
    assert "labels" not in str(hybridtrees.compare(X, X["x"] + 0.5, **few))


def test_folds_average():
    data = load_heart_failure()
    result = hybridtrees.compare(data.data, data.target, models=["cart"], folds=3)
    assert len(result.plan.folds) == 3 and "3 folds" in str(result)
    trial = next(t for t in result.trials if t.family.key == "cart")
    scores = []
    for fold in result.plan.folds:
        model = hybridtrees.CARTClassifier(**trial.setting, random_state=result.limits.seed)
        model.fit(data.data[fold.train], data.target[fold.train])
        said = model.predict_proba(data.data[fold.validation])[:, 1]
        scores.append(hybridtrees.metrics.roc_auc_score(data.target[fold.validation], said))
    assert trial.validation == pytest.approx(np.mean(scores), abs=1e-12)


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_every_part_has_its_share_of_a_rare_class(seed):
    y = np.repeat(["usual", "rare"], [380, 20])
    X = np.random.default_rng(seed).normal(size=(400, 2))
    few = {"models": ["baseline"], "random_state": seed}

    def rare(rows):
        return np.count_nonzero(y[rows] == "rare")

    plan = hybridtrees.compare(X, y, **few).plan
    (fold,) = plan.folds
    assert [rare(rows) for rows in (fold.train, fold.validation, plan.test)] == [14, 3, 3]
    plan = hybridtrees.compare(X, y, folds=5, **few).plan
    assert rare(plan.test) == 3
    assert sorted(rare(fold.validation) for fold in plan.folds) == [3, 3, 3, 4, 4]


def test_every_argument_reaches_the_comparison(monkeypatch):
    seen = []
    monkeypatch.setattr(running, "compare_data", lambda *args, **more: seen.append((args, more)))
    hybridtrees.compare(
        np.arange(40.0).reshape(20, 2),
        np.arange(20),
        task="regression",
        models=["xgb", "cart"],
        score="mae",
        time=1,
        folds=4,
        search="grid",
        budget=7,
        overfit_limit=0.25,
        categorical_features=[0],
        random_state=5,
        n_jobs=1,
        name="numbers",
    )
    (((data, families, score, limits), more),) = seen
    assert data.task == "regression" and data.name == "numbers" and data.categorical == [0]
    np.testing.assert_array_equal(data.time, np.arange(1, 40, 2))
    assert [family.key for family in families] == ["xgb", "cart"] and score == "mae"
    assert limits == Limits(search="grid", budget=7, overfit=0.25, n_jobs=1, seed=5)
    assert more["folds"] == 4


def test_frames_and_scores_of_choice():
    pd = pytest.importorskip("pandas")
    houses = make_house_prices(150, random_state=0, as_frame=True)
    result = hybridtrees.compare(houses.data, houses.target, models=["cart", "linear"], score="mae")
    assert result.score.name == "mae" and result.data.target_name == "price"
    frame = result.table.to_frame()
    assert isinstance(frame, pd.DataFrame) and list(frame["rank"]) == [1, 2]
    best = result.best_
    assert list(best.feature_names_in_) == list(houses.data.columns)
    assert len(best.predict(houses.data[:3])) == 3


def test_dict_of_results_is_plain_json(tmp_path):
    data = load_heart_failure()
    result = hybridtrees.compare(data.data, data.target, models=FEW, name="hearts")
    result.to_json(tmp_path / "result.json")
    content = json.loads((tmp_path / "result.json").read_text())
    assert content == json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert content["data"] == "hearts" and content["score"] == "auc"
    assert [m["model"] for m in content["models"]] == [row["model"] for row in result.table]
    assert set(content["models"][0]["test_scores"]) == {
        "auc", "logloss", "accuracy", "f1", "brier",
    }  # fmt: skip
    assert sum(content["parts"].values()) == content["rows"] == 299
    assert (content["chosen_by"], content["choice_folds"], content["coverage"]) == (
        "folds",
        5,
        0.95,
    )
    first = content["models"][0]
    assert first["choice"] == pytest.approx(np.mean(first["fold_scores"]))
    low, high = first["test_intervals"]["brier"]
    assert low < first["test_scores"]["brier"] < high


def test_drawings_by_matplotlib():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    data = load_heart_failure()
    result = hybridtrees.compare(data.data, data.target, models=FEW)
    for draw, scale in ((result.plot_ranking, "linear"), (result.plot_times, "log")):
        ax = draw()
        labels = [text.get_text() for text in ax.get_yticklabels()]
        assert sorted(labels) == sorted(row["model"] for row in result.table)
        assert ax.get_xscale() == scale
        assert draw(ax) is ax
    test = result.plot_ranking().collections[-1].get_offsets()
    np.testing.assert_allclose(test[:, 0], [row["test"] for row in result.table])
    plt.close("all")


@pytest.mark.parametrize(
    ("y", "more", "message"),
    [
        (np.ones(40), {}, r"the target 'y' is constant: every row has the class 1\.0$"),
        (np.full(40, 1.5), {"task": "regression"}, "constant: every row is 1.5"),
        (np.array(["a", "b"] * 20), {"task": "regression"}, "holds text, such as 'a'"),
        (np.arange(40) == 3, {}, "the class True of the target 'y' has a single row"),
        (np.array([*"ab" * 19, "c", "d"]), {}, "2 of the 4 classes of .*, such as 'c', have a sin"),
        (np.arange(40.0), {"task": "ranking"}, "task must be 'auto'"),
        (np.arange(40.0), {"score": "auc"}, "score must be one of rmse"),
        (np.arange(40.0), {"models": ["svm"]}, "models must be among"),
        (np.arange(40.0), {"search": "random"}, "search must be"),
        (np.arange(40.0), {"budget": -1}, "budget must be"),
        (np.arange(40.0), {"folds": 1}, "folds must be"),
        (np.arange(39.0), {}, "inconsistent numbers of samples"),
    ],
)
def test_wrong_arguments_are_refused(y, more, message):
    X = np.arange(80.0).reshape(40, 2)
    with pytest.raises(ValueError, match=message):
        hybridtrees.compare(X, y, **more)


def test_the_task_is_guessed():
    from hybridtrees._compare.data import guess_task

    for y in ([0, 1, 1], ["a", "b"], [True, False], [1.0, 2.0, np.nan], ["a", None]):
        assert guess_task(y) == "classification"
    for y in ([0.5, 1.0], np.arange(11), [1e9, 2.5]):
        assert guess_task(y) == "regression"


def test_the_best_is_a_model_though_a_constant_may_lead():
    rng = np.random.default_rng(5)
    X, y = rng.normal(size=(100, 2)), rng.normal(size=100)
    result = hybridtrees.compare(X, y, models=["cart", "baseline"], budget=1e-3)
    assert result.table[0]["model"] == "baseline (constant)"
    assert isinstance(result.best_, hybridtrees.CARTRegressor)
    assert "no model does better than a constant" in str(result)
    # Which leads by the folds or the validation rows, whatever the test rows say.
    assert result.results[0].choice < result.results[1].choice
    alone = hybridtrees.compare(X, y, models=["baseline"])
    assert alone.best_.mean_ == pytest.approx(y[alone.plan.rest].mean())
    assert "no model does better" not in str(alone)


def test_compare_is_a_function_and_loads_late():
    check_python(
        "import sys, hybridtrees; assert 'hybridtrees._compare' not in sys.modules; "
        "assert callable(hybridtrees.compare) and 'compare' in hybridtrees.__all__; "
        "import hybridtrees._compare.run; assert callable(hybridtrees.compare); "
        "assert 'matplotlib' not in sys.modules and 'pandas' not in sys.modules"
    )


def test_undefined_numbers_are_not_written():
    from hybridtrees._compare.data import finite_or_none
    from hybridtrees._compare.text import number, number_range

    assert finite_or_none(math.nan) is None and finite_or_none(2.0) == 2.0
    assert [number(v) for v in (math.nan, 0.12345, -12345.678)] == ["-", "0.1235", "-12346"]
    assert number_range((0.5, 12.0)) == "0.5000 .. 12.000" and number_range((math.nan, 1.0)) == "-"


def test_large_numbers_are_written_in_full():
    from hybridtrees._compare.text import number

    shown = [number(v) for v in (21.65, 300.0, 9999.96, 123456.7, 1.25e13)]
    assert shown == ["21.650", "300.00", "10000", "123457", "1.2500e+13"]
