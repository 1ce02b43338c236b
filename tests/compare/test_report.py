"""The page: whole, self-contained, and with every model."""

from __future__ import annotations

import math
import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np
import pytest

import hybridtrees
from hybridtrees._compare import svg
from hybridtrees._compare.fitting import Fit, FitJob, Part
from hybridtrees._compare.helpers import Helpers
from hybridtrees._compare.insight import importances, learning_curves
from hybridtrees._compare.report import make_report, write_report
from hybridtrees._compare.report_models import draw_tree
from hybridtrees._compare.result import number
from hybridtrees.datasets import load_heart_failure, make_house_prices

VOID = {"meta", "br", "wbr", "link", "img", "input", "hr"}
LOADERS = {"script", "link", "img", "iframe", "object", "embed", "video", "audio", "source"}


class Page(HTMLParser):
    """Checks that tags are closed in order, and notes all that could load something."""

    def __init__(self):
        super().__init__()
        self.open, self.loads, self.text, self.ids, self.links = [], [], [], set(), []

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        if tag in LOADERS or any(key in attrs for key in ("src", "srcset", "background", "data")):
            self.loads.append(tag)
        if "href" in attrs:
            self.links.append(attrs["href"])
        if "id" in attrs:
            self.ids.add(attrs["id"])
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_endtag(self, tag):
        assert self.open and self.open.pop() == tag, tag

    def handle_data(self, data):
        self.text.append(data)


@pytest.fixture(scope="module")
def comparisons():
    """Two data sets, the second with every family; only the first setting of each is tried."""
    hearts, houses = load_heart_failure(), make_house_prices(150, random_state=0)
    table = dict(zip(hearts.feature_names, hearts.data.T, strict=True))
    few = {"models": ["cart", "xgb", "baseline"], "budget": 1e-3}
    return [
        hybridtrees.compare(table, hearts.target, name="hearts <&> 'co'", **few),
        hybridtrees.compare(houses.data, houses.target, name="houses", budget=1e-3),
    ]


@pytest.fixture(scope="module")
def report(comparisons):
    return make_report(comparisons)


def test_the_page_is_whole_and_loads_nothing(report):
    page = Page()
    page.feed(report)
    page.close()
    assert page.open == [] and page.loads == []
    assert all(link.startswith("#") and link[1:] in page.ids for link in page.links)
    # No address, import or font of a style sheet, and no namespace either.
    assert not re.search(r"https?:|url\(|@import|@font-face|//", report)
    assert report.startswith("<!doctype html>")


def test_every_model_has_its_row_and_its_piece(report, comparisons):
    for k, (comparison, name) in enumerate(zip(comparisons, ("hearts-co", "houses"), strict=True)):
        for row, result in zip(comparison.table, comparison.results, strict=True):
            anchor = f"{name}-{k + 1}-{result.family.key.replace('_', '-')}"
            link = f"<a href='#{anchor}'>{row['model']}</a></span></th>"
            cells = re.search(re.escape(link) + ".*?</tr>", report, re.DOTALL)[0]
            low, high = row["test_interval"]
            assert f"<b>{number(row['test'])}</b>" in cells
            assert f"{number(low)} – {number(high)}</span>" in cells
            assert f"<details id='{anchor}'" in report
    assert report.count("<svg") > 10
    for title in ("Leaderboard", "The data", "ROC curves", "Importances", "Learning curves"):
        assert f">{title}</h3>" in report
    for title in ("Partial dependence", "The tree", "Rules"):
        assert f">{title}</h4>" in report
    assert ">Times</h3>" in report and ">Model by model</h3>" in report
    for title in ("Predicted against actual", "Residuals", "ROC curve", "Confusion", "Python code"):
        assert f">{title}</" in report
    assert "hearts &lt;&amp;&gt; &#x27;co&#x27;" in report and "<&>" not in report


def test_cells_of_cards_have_labels(report):
    """A phone shows no heads of columns: every cell says what it is."""
    for table in re.findall("<table role='table' class='cards.*?</table>", report, re.DOTALL):
        heads = re.findall("<th role='columnheader'[^>]*>(.*?)</th>", table)
        for row in re.findall("<tr role='row'>(.*?)</tr>", table.split("<tbody")[1], re.DOTALL):
            labels = re.findall("data-label='(.*?)'", row)
            assert len(labels) >= len(heads) - 2 and set(labels) <= set(heads)


def test_drawings_are_well_formed(report):
    found = re.findall(r"<svg.*?</svg>", report, flags=re.DOTALL)
    for drawing in found:
        root = ElementTree.fromstring(drawing)
        if root.get("viewBox"):
            assert float(root.get("width")) > 0 and root.get("aria-label")
        else:  # a row of dots, in per cents of the width, or the axis below such rows
            assert root.get("aria-label") or {child.tag for child in root} == {"text"}
            places = [float(e.get("cx")[:-1]) for e in root.iter("circle")]
            assert all(0 <= place <= 100 for place in places)
        assert "nan" not in drawing.lower().replace("nance", "")


def test_the_page_is_small(report, comparisons):
    """Four data sets with all models are to stay below a megabyte."""
    assert len(make_report(comparisons[1:]).encode()) < 220_000


def test_the_page_says_how_it_was_done(report):
    assert "15 % validation" in report and "(10% for AUC, 100% for RMSE)" in report


def test_files(tmp_path):
    X = np.random.default_rng(0).normal(size=(60, 2))
    few = {"models": ["cart"], "folds": 2, "overfit_limit": 0.25}
    parts = [hybridtrees.compare(X, X[:, j], name=f"x{j}", **few) for j in range(2)]
    parts[1].to_html(tmp_path / "one.html")
    text = (tmp_path / "one.html").read_text(encoding="utf-8")
    assert "All data sets" not in text and "compared: x1" in text
    assert "15 % test and 2 folds" in text and "(25% for RMSE)" in text
    write_report(parts, tmp_path / "two.html")
    assert "mean rank" in (tmp_path / "two.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def curves(comparisons):
    return learning_curves(comparisons[1], Helpers(1))


def test_learning_curves_grow_to_all_rows(curves, comparisons):
    comparison = comparisons[1]
    assert len(curves) == len(comparison.results) - 2  # without baseline and ensemble
    for curve in curves:
        assert curve.n_rows[-1] == len(comparison.plan.folds[0].train)
        assert len(curve.train) == len(curve.validation) == len(curve.n_rows)


def test_the_ends_of_learning_curves_are_those_of_fits_to_all_rows(curves, comparisons):
    """They are taken from the search, whose fits stopped early."""
    comparison = comparisons[1]
    data, fold = comparison.data, comparison.plan.folds[0]
    part = Part(*data.part(fold.train), *data.part(fold.validation))
    job = FitJob([part], data.task, data.categorical, 0, "rmse", comparison.limits.seed, 1)
    by_key = {curve.family.key: curve for curve in curves}
    for result in comparison.results:
        if result.family.stopping is None and result.family.key != "cart":
            continue
        fitted = job.run(Fit(result.family, result.setting, stop=False))
        curve = by_key[result.family.key]
        assert curve.train[-1] == pytest.approx(fitted["train"], rel=1e-12)
        assert curve.validation[-1] == pytest.approx(fitted["validation"], rel=1e-12)


def test_importances_are_shares(comparisons):
    found = importances(comparisons[1], most=5)
    assert len(found.features) == 5 and found.features[0] == "living_area"
    every = importances(comparisons[1], most=99)
    own = every.shares[:, every.families.index(comparisons[1].winner.family)]
    names = comparisons[1].data.feature_names
    assert names[every.of_winner[0]] == every.features[int(own.argmax())]
    assert len(every.of_winner) == np.count_nonzero(own)
    n_apart = 1 + (comparisons[1].winner.family.key != "ensemble")
    assert found.shares.shape == (5, len(comparisons[1].results) - n_apart)
    assert (found.shares >= 0).all() and (found.shares.sum(axis=0) <= 1 + 1e-12).all()


def test_a_tree_is_cut_at_a_depth(rng):
    X = rng.normal(size=(200, 2))
    tree = hybridtrees.CARTRegressor(max_depth=5).fit(X, X[:, 0] * X[:, 1])
    whole, cut = draw_tree(tree, 9), draw_tree(tree, 2)
    assert whole.count("<rect") == tree.tree_.n_nodes and "..." not in whole
    assert cut.count("<rect") <= 7 and ">...<" in cut
    single = hybridtrees.CARTRegressor(max_depth=1).fit(X, np.ones(200))
    assert draw_tree(single).count("<rect") == 1


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [(0, 1, [0, 0.2, 0.4, 0.6, 0.8, 1]), (0.93, 1.0, [0.94, 0.96, 0.98, 1.0]), (5, 5, [5])],
)
def test_ticks_are_round(low, high, ticks):
    np.testing.assert_allclose(svg.nice_ticks(low, high), ticks)


def test_scales():
    linear, log = svg.Scale([0, 10], 0, 110, margin=0.05), svg.Scale([0.002, 3], 0, 100, log=True)
    assert linear(5) == pytest.approx(55) and linear(-99) == 0
    assert log.ticks() == pytest.approx([1e-3, 1e-2, 1e-1, 1, 10])
    assert log(0.1) == pytest.approx(50)
    assert math.isfinite(svg.Scale([math.nan], 0, 1)(3.0))
    assert [svg.seconds_text(v) for v in (2.5, 0.012, 3.1e-5)] == ["2.5 s", "12 ms", "31 µs"]
    assert [svg.seconds_text(v) for v in (167.0, 1e3, 86400.4)] == ["167 s", "1000 s", "86400 s"]


def test_ticks_in_words():
    """Neighbours must differ: 1e6 and 1.5e6 were both 1e+06 or 2e+06 once."""
    assert [svg.tick_text(v) for v in (1e6, 1.5e6, 25_000, 2024, 0.25, -3e9, 2e13)] == [
        "1M", "1.5M", "25k", "2024", "0.25", "-3G", "2e+13",
    ]  # fmt: skip


def test_long_equations_are_folded():
    from hybridtrees._compare.report_models import _folded

    terms = " ".join(f"+ 0.5*(x{k} - 1.25)" for k in range(30))
    line = f"|   |--- y = 3.5 {terms}"
    parts = _folded(line)
    assert len(parts) > 2 and max(map(len, parts)) <= 110
    assert all(part.startswith("|   |    ") for part in parts[1:])
    assert " ".join([parts[0], *(part[1:].strip(" |") for part in parts[1:])]) == line
    assert _folded("|--- x <= 3") == ["|--- x <= 3"]
