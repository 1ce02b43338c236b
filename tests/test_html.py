"""What notebooks show of estimators and comparisons."""

from __future__ import annotations

import subprocess
import sys
from html.parser import HTMLParser

import numpy as np
import pytest

import hybridtrees
from hybridtrees.base import Estimator
from hybridtrees.datasets import load_heart_failure

HOSTILE = "<script>alert(1)</script>"


def estimators() -> list[type[Estimator]]:
    found = (getattr(hybridtrees, name) for name in hybridtrees.__all__)
    return [kind for kind in found if isinstance(kind, type) and issubclass(kind, Estimator)]


class Tags(HTMLParser):
    """Checks that tags are closed in order."""

    def __init__(self, page: str):
        super().__init__()
        self.open, self.seen, self.text = [], set(), []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.seen.add(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


@pytest.mark.parametrize("kind", estimators(), ids=lambda kind: kind.__name__)
def test_every_estimator_has_a_view(kind):
    page = kind()._repr_html_()
    words = Tags(page).text
    assert kind.__name__ in words and "not fitted" in words
    name = next(iter(kind._parameter_defaults()))
    changed = kind(**{name: HOSTILE})._repr_html_()
    assert f"<th scope='row'>{name}</th><td><code>&#x27;&lt;script&gt;" in changed
    assert "script" not in Tags(changed).seen


@pytest.mark.parametrize(
    ("model", "facts"),
    [
        (hybridtrees.CARTClassifier(max_depth=1), {"depth": "1", "leaves": "2"}),
        (hybridtrees.RandomForestClassifier(n_estimators=7), {"trees": "7"}),
        (hybridtrees.XGBClassifier(n_estimators=5), {"rounds": "5"}),
        (hybridtrees.GradientBoostingClassifier(n_estimators=4), {"trees": "4"}),
        (
            hybridtrees.EBLRClassifier(n_rules=2, alpha=0.5, early_stopping=None),
            {"rules": "2", "alpha": "0.5"},
        ),
        (hybridtrees.LogisticClassifier(alpha=0.25), {"alpha": "0.25"}),
    ],
)
def test_facts_of_fitted_models(model, facts):
    rng = np.random.default_rng(0)
    X = {HOSTILE: rng.normal(size=150), "b": rng.normal(size=150)}
    y = np.where(X[HOSTILE] + 0.3 * rng.normal(size=150) > 0, HOSTILE, "no")
    page = model.fit(X, y)._repr_html_()
    tags = Tags(page)
    assert "fitted" in tags.text and "script" not in tags.seen and "<script" not in page
    for name, value in {"features": "2", "classes": "2: &lt;script&gt;", **facts}.items():
        assert f"<th scope='row'>{name}</th><td><code>{value}" in page


def test_only_parameters_that_were_set_stand_in_front():
    page = hybridtrees.XGBRegressor(max_depth=3)._repr_html_()
    front, behind = page.split("<details>")
    assert "max_depth" in front and "learning_rate" not in front and "learning_rate" in behind


def test_the_view_of_a_comparison():
    hearts = load_heart_failure()
    few = {"models": ["cart", "linear", "baseline"], "budget": 1e-3, "name": f"hearts {HOSTILE}"}
    result = hybridtrees.compare(hearts.data, hearts.target, **few)
    page = result._repr_html_()
    assert "script" not in Tags(page).seen and len(page) < 6000
    for row in result.table:
        assert f"<td>{row['model']}</td><td>{row['test']:.4f}</td>" in page


def test_the_import_of_the_package_does_not_load_the_views():
    code = (
        "import sys, hybridtrees; hybridtrees.XGBRegressor()\n"
        "assert 'hybridtrees._html' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
