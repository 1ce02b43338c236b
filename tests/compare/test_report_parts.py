"""Parts of the page: colours, curves of the test rows, the profile, and code that runs."""

from __future__ import annotations

import re
from itertools import combinations

import numpy as np
import pytest

import hybridtrees
from hybridtrees._compare import svg
from hybridtrees._compare.data import make_data
from hybridtrees._compare.families import FAMILIES, Family
from hybridtrees._compare.insight import calibration, confusion, effects, roc_curves
from hybridtrees._compare.report import comparison_html, make_report
from hybridtrees._compare.report_code import snippet
from hybridtrees._compare.report_data import data_part, profile
from hybridtrees._compare.report_style import (
    COLORS,
    DARK,
    LIGHT,
    N_SHADES,
    SHADES,
    STYLE,
    color_class,
)
from hybridtrees._compare.scores import SCORES, Prediction
from hybridtrees.datasets import load_heart_failure, make_house_prices

HOSTILE = "<script>alert('x')</script>"


# ---- Colours ------------------------------------------------------------------------------------


def luminance(color: str) -> float:
    """Relative luminance as WCAG 2 defines it."""
    channels = [int(color[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    red, green, blue = (
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def mixed(one: str, other: str, share: float) -> str:
    pairs = [(int(one[k : k + 2], 16), int(other[k : k + 2], 16)) for k in (1, 3, 5)]
    return "#" + "".join(f"{round(share * a + (1 - share) * b):02x}" for a, b in pairs)


@pytest.mark.parametrize(("page", "which"), [(LIGHT, 0), (DARK, 1)])
def test_all_can_be_read(page, which):
    for text in ("ink", "muted", "link", "bad"):
        assert contrast(page[text], page["paper"]) >= 4.5
    for name, pair in COLORS.items():
        assert contrast(pair[which], page["paper"]) >= 3, name
        # Numbers of a matrix stand on the colour of a family.
        strongest = mixed(pair[which], page["paper"], float(page["heat"].strip("%")) / 100)
        assert contrast(page["ink"], strongest) >= 4.5, name
    low, high = (pair[which] for pair in SHADES)
    for k in range(N_SHADES):
        assert contrast(mixed(high, low, k / (N_SHADES - 1)), page["paper"]) >= 3
        assert STYLE.count(f".v{k}{{--c:") == 2


def test_every_family_has_a_colour_of_its_own():
    assert set(COLORS) == {family.key for family in FAMILIES}
    for which in (0, 1):
        for (one, a), (other, b) in combinations(COLORS.items(), 2):
            steps = [int(a[which][k : k + 2], 16) - int(b[which][k : k + 2], 16) for k in (1, 3, 5)]
            assert np.linalg.norm(steps) > 35, (one, other)
    assert all(f".m-{key}{{--c:{pair[0]}}}" in STYLE for key, pair in COLORS.items())
    users = Family("mine </style>", "mine", "CARTRegressor", "CARTClassifier")
    assert re.fullmatch("m-other[0-9]", color_class(users))
    assert f".{color_class(users)}{{--c:" in STYLE


# ---- Curves of the test rows --------------------------------------------------------------------


def predictions(n_classes: int, n_rows: int = 400) -> tuple[np.ndarray, Prediction]:
    rng = np.random.default_rng(n_classes)
    y = rng.integers(n_classes, size=n_rows)
    raw = rng.random((n_rows, n_classes)).round(1) + 0.6 * (y[:, None] == np.arange(n_classes))
    proba = raw / raw.sum(axis=1, keepdims=True)
    return y, Prediction(proba.argmax(axis=1), proba, proba[:, -1])


@pytest.mark.parametrize("n_classes", [2, 4])
def test_the_area_under_the_curve_is_the_auc_of_the_table(n_classes):
    y, predicted = predictions(n_classes, 40)
    curves = roc_curves(y, predicted)
    assert len(curves) == (1 if n_classes == 2 else n_classes + 1)
    for false, true in curves:
        assert (false[0], true[0], false[-1], true[-1]) == (0, 0, 1, 1)
        assert (np.diff(false) >= 0).all() and (np.diff(true) >= 0).all()
    area = np.trapezoid(curves[-1][1], curves[-1][0])
    assert area == pytest.approx(SCORES["auc"](y, predicted), abs=1e-9)


def test_rows_of_one_class_have_no_curve():
    y, predicted = predictions(2)
    assert roc_curves(np.ones_like(y), predicted) == []


def test_long_curves_are_thinned():
    rng = np.random.default_rng(0)
    y, score = rng.integers(2, size=20_000), rng.random(20_000)
    found = Prediction(y, np.column_stack([1 - score, score]), score)
    assert len(roc_curves(y, found)[0][0]) <= 120


def test_calibration_groups_rows_by_their_probability():
    y, predicted = predictions(2)
    found = calibration(y, predicted)
    assert 5 <= len(found.predicted) <= 10 and (np.diff(found.predicted) > 0).all()
    assert (found.low <= found.observed).all() and (found.observed <= found.high).all()
    assert (found.low < found.high).all() and found.low.min() >= 0 and found.high.max() <= 1
    # One probability for all: one group, whatever the order of the rows.
    same = Prediction(y, np.full((len(y), 2), 0.5), np.zeros(len(y)))
    single = calibration(y, same)
    assert single.predicted.tolist() == [0.5] and single.observed.tolist() == [y.mean()]


def test_calibration_of_perfect_probabilities():
    """Where the shares are true, nearly all intervals hold the prediction."""
    rng = np.random.default_rng(3)
    share = rng.random(5000)
    y = (rng.random(5000) < share).astype(int)
    found = calibration(y, Prediction(y, np.column_stack([1 - share, share]), share))
    inside = (found.low <= found.predicted) & (found.predicted <= found.high)
    assert inside.sum() >= 9


def test_confusion_counts():
    y, predicted = predictions(4)
    slow = np.zeros((4, 4), dtype=int)
    for actual, said in zip(y, predicted.value, strict=True):
        slow[actual, said] += 1
    np.testing.assert_array_equal(confusion(y, predicted), slow)


# ---- The page of a hostile table ----------------------------------------------------------------


@pytest.fixture(scope="module")
def hostile():
    """Four classes, categories, gaps; all names try to break out of the page."""
    rng = np.random.default_rng(0)
    n = 160
    table = {
        HOSTILE: rng.normal(size=n),
        "quotes \"'&": np.where(rng.random(n) < 0.25, np.nan, rng.normal(size=n)),
        "kind": rng.choice([HOSTILE, "</td>", "c"], n).astype(object),
        "flag": rng.integers(2, size=n).astype(float),
    }
    place = np.digitize(2 * table[HOSTILE] + rng.normal(size=n), [-1.5, 0, 1.5])
    y = np.array([HOSTILE, "</style>", "b & c", "'\""], dtype=object)[place]
    return hybridtrees.compare(
        table, y, name=f"</title>{HOSTILE}", models=["linear", "cart", "eblr"], budget=1e-3
    )


def test_names_cannot_break_out(hostile):
    for page in (make_report([hostile]), comparison_html(hostile)):
        assert "<script" not in page and "alert(&#x27;x&#x27;)" in page
        assert page.count("</style>") == 1 and page.count("</title>") == page.count("<title>")
        # What stands between single quotes in a tag holds none of the names' own quotes.
        assert not re.search(r"<[a-z][^<>]*alert\('", page)


def test_the_profile(hostile):
    numbers, gaps, labels, flag = profile(hostile.data)
    assert [c.kind for c in (numbers, gaps, labels, flag)] == [
        "number", "number", "category", "0 / 1",
    ]  # fmt: skip
    assert numbers.missing == 0 and 0.1 < gaps.missing < 0.4
    assert (numbers.distinct, labels.distinct, flag.distinct) == (160, 3, 2)
    assert sum(numbers.counts) == 160 and sum(labels.counts) == 160
    assert sum(gaps.counts) == round(160 * (1 - gaps.missing))
    low, middle, high = map(float, numbers.values.split(" · "))
    values = hostile.data.columns.column(0)
    np.testing.assert_allclose(
        [low, middle, high], [values.min(), np.median(values), values.max()], rtol=1e-3
    )


def test_long_names_are_broken_where_words_end():
    table = {"creatinine_phosphokinase": np.arange(20.0), "age": np.arange(20.0)}
    page = data_part(make_data(table, np.arange(20.0)), "x")
    assert "creatinine_<wbr>phosphokinase" in page
    assert "2 features; missing values in no columns" in page and "categories" not in page


def test_scores_beside_dots_line_up_and_counts_are_whole():
    marks = [svg.Mark("test", "")]
    scores = [svg.Row(str(k), [value], "m") for k, value in enumerate((1.0, 0.85, 0.9119, 2534.4))]
    drawn = svg.dot_rows("scores", scores, marks)
    assert re.findall("<span class='num'>(.*?)</span>", drawn) == [
        "1.000",
        "0.8500",
        "0.9119",
        "2534",
    ]
    counts = [svg.Row("a", [np.int64(357)], "m"), svg.Row("b", [np.int64(12)], "m")]
    drawn = svg.dot_rows("counts", counts, marks, bars=True)
    assert re.findall("<span class='num'>(.*?)</span>", drawn) == ["357", "12"]


def test_effects_of_the_winner(hostile):
    number, category = effects(hostile, [0, 2])
    assert not number.is_categorical[0] and category.is_categorical[0]
    assert number.feature_names == [HOSTILE]
    np.testing.assert_allclose(number.average.sum(axis=0), 1.0)  # probabilities of all classes


def test_a_page_about_nothing_but_failures():
    class Broken:
        def fit(self, X, y):
            raise RuntimeError(f"no {HOSTILE}")

    X = np.random.default_rng(0).normal(size=(40, 2))
    broken = Family("broken", f"broken {HOSTILE}", Broken, Broken)
    result = hybridtrees.compare(X, X[:, 0], models=[broken])
    page = make_report([result])
    assert "failed: RuntimeError" in page and "<script" not in page
    assert "failed" in comparison_html(result) and "<script" not in comparison_html(result)


# ---- Code that makes a model again --------------------------------------------------------------


def run(code: str, **given) -> dict:
    """Run code as a user would, and return its names."""
    space = {"__name__": "snippet", **given}
    exec(compile(code, "snippet", "exec"), space)
    return space


def held_out(comparison):
    return comparison.data.columns.take(comparison.plan.test).table


def check_snippets(comparison, printed, **given):
    """Every snippet runs, and its model predicts what the model of the comparison does."""
    n_run = 0
    for result in comparison.results:
        code = snippet(comparison, result)
        if result.family.key == "baseline":
            assert code is None
            continue
        assert "hybridtrees._" not in code and "._" not in code  # public names alone
        model = run(code, **given)["model"]
        X = held_out(comparison)
        np.testing.assert_array_equal(model.predict(X), result.model.predict(X))
        metric = "accuracy" if comparison.data.n_classes else "r2"
        assert float(printed().out) == pytest.approx(result.test[metric], abs=1e-12)
        assert f"{result.test[metric]:.6f}" in code
        n_run += 1
    assert n_run == len(comparison.results) - 1


def test_code_of_every_family_makes_the_model_again(capsys):
    houses = make_house_prices(150, random_state=0)
    X, y = houses.data, houses.target
    check_snippets(hybridtrees.compare(X, y, budget=1e-3), capsys.readouterr, X=X, y=y)


def test_code_for_classes_and_frames(capsys):
    pd = pytest.importorskip("pandas")
    hearts = load_heart_failure()
    X = pd.DataFrame(hearts.data, columns=hearts.feature_names)
    y = np.where(hearts.target == 1, "it's", "no")
    few = {"models": ["linear", "cart", "xgb", "baseline"], "budget": 1e-3, "random_state": 7}
    check_snippets(hybridtrees.compare(X, y, **few), capsys.readouterr, X=X, y=pd.Series(y))


def test_code_for_rows_in_the_order_of_time(capsys):
    rng = np.random.default_rng(1)
    X, time = rng.normal(size=(120, 3)), rng.permutation(120)
    result = hybridtrees.compare(X, X[:, 0] + 0.1 * time, time=time, models=["linear", "baseline"])
    check_snippets(result, capsys.readouterr, X=X, y=X[:, 0] + 0.1 * time, time=time)


def test_code_for_bundled_data_loads_it(capsys):
    from hybridtrees._compare.files import load_bundled
    from hybridtrees._compare.run import compare_data
    from hybridtrees._compare.search import Limits

    families = [f for f in FAMILIES if f.key in ("cart", "baseline")]
    for name in ("heart_failure", "seasonal_series", "breast_cancer", "house_prices"):
        data = load_bundled(name, 3)
        result = compare_data(data, families, None, Limits(budget=1e-3, seed=3))
        check_snippets(result, capsys.readouterr)
