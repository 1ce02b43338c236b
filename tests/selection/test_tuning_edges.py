"""Search: bad input, settings that fail, the time limit, default values, and how results look."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import numpy as np
import pytest
from search_spy import LEVELS, Spy

import hybridtrees as ht
from hybridtrees import tune
from hybridtrees.selection.spaces import DEFAULT_SPACES


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 4))
    return X, X[:, 0] + 0.1 * rng.standard_normal(80)


class NoSeed:
    def rvs(self):
        return 1


@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        ({"params": {}}, ValueError, "params is an empty dict"),
        ({"params": []}, ValueError, "params is an empty list"),
        ({"params": [{}]}, ValueError, "params is an empty dict"),
        ({"params": "max_depth"}, TypeError, "params must be a dict or a list of dicts"),
        ({"params": ["max_depth"]}, TypeError, "params must hold dicts"),
        ({"params": {"max_dept": [1]}}, ValueError, "'max_dept', which XGBRegressor does not have"),
        ({"params": {"max_dept": [1]}}, ValueError, "did you mean 'max_depth'"),
        ({"params": {"max_depth": []}}, ValueError, r"params\['max_depth'\] is empty"),
        (
            {"params": {"max_depth": 3}},
            TypeError,
            r"params\['max_depth'\] must be a list of values",
        ),
        ({"params": {"max_depth": "auto"}}, TypeError, "must be a list of values"),
        ({"params": {"max_depth": NoSeed()}}, TypeError, r"params\['max_depth'\]: rvs"),
        ({"n_trials": 1}, ValueError, "n_trials must be"),
        ({"n_trials": 2.5}, TypeError, "n_trials must be"),
        ({"max_resource": 0}, ValueError, "max_resource must be"),
        ({"time_limit": 0}, ValueError, "time_limit must be"),
        ({"time_limit": "1 h"}, TypeError, "time_limit must be"),
        ({"refit": 1}, TypeError, "refit must be"),
        ({"verbose": 1}, TypeError, "verbose must be"),
        ({"cv": 1}, ValueError, "cv must be"),
        ({"cv": 100}, ValueError, "cv=100 folds need at least"),
        ({"groups": np.zeros(3)}, ValueError, "groups must have one entry"),
        ({"groups": np.arange(80), "time": np.arange(80)}, ValueError, "groups or time, not both"),
        ({"time": np.arange(80), "cv": [([0], [1])]}, ValueError, "time needs a number of folds"),
        ({"scoring": "nothing"}, ValueError, "scoring names the unknown score 'nothing'"),
        ({"scoring": ["rmse", "mae"]}, ValueError, "scoring must be one score"),
        ({"scoring": "auc"}, ValueError, "needs a classifier, got XGBRegressor"),
        ({"random_state": -1}, ValueError, "random_state must be"),
        ({"sample_weight": -np.ones(80)}, ValueError, "sample_weight"),
    ],
)
def test_bad_input(table, given, error, text):
    with pytest.raises(error, match=text):
        tune(ht.XGBRegressor(), *table, **given)


def test_bad_estimators(table):
    with pytest.raises(TypeError, match="estimator must have the method fit"):
        tune(ht.XGBRegressor, *table)
    with pytest.raises(ValueError, match="no default values for VotingRegressor"):
        tune(ht.VotingRegressor([("a", ht.CARTRegressor())]), *table)


def test_settings_that_fail_are_reported(table):
    space = {"fails": [True], "level": [0.1, 0.2, 0.3]}
    with pytest.warns(UserWarning, match="3 of 4 settings failed.*RuntimeError: of its own"):
        result = tune(Spy(), *table, params=space, cv=2)
    assert [t.error is None for t in result.trials] == [True, False, False, False]
    assert "3 failed, the first one by RuntimeError: of its own accord" in result.summary()
    assert "failed" in result._repr_html_()
    assert result.to_dict()["error"].count(None) == 1
    with pytest.raises(ValueError, match="all 4 settings failed.*RuntimeError: of its own accord"):
        tune(Spy(fails=True), *table, params=space, cv=2)


def test_scores_that_are_no_numbers_are_failures(table):
    space = {"level": [np.nan, 1.0, np.inf]}
    with pytest.warns(UserWarning, match="2 of 4 settings failed"):
        result = tune(Spy(), *table, params=space, cv=2, scoring=lambda m, X, y: m.level)
    assert [t.error for t in result.trials] == [
        None, "the score is nan", None, "the score is inf"
    ]  # fmt: skip
    assert result.best_params_ == {"level": 1.0}


def test_bad_values_of_parameters_are_failures(table):
    with pytest.warns(UserWarning, match="max_depth must be"):
        result = tune(
            ht.XGBRegressor(), *table, params={"max_depth": [-3, 2]}, cv=2, max_resource=20
        )
    assert "max_depth must be" in result.trials[1].error


def test_a_time_limit_says_what_it_cut(table):
    with pytest.warns(UserWarning, match="time_limit=1e-09 ended the search early"):
        result = tune(ht.XGBRegressor(), *table, n_trials=5, cv=2, max_resource=60, time_limit=1e-9)
    assert result.best_trial is result.trials[0]
    assert result.n_cut == 4
    assert "the time limit kept 4 settings from a rung" in result.summary()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = tune(ht.XGBRegressor(), *table, n_trials=2, cv=2, max_resource=20, time_limit=1e6)
    assert not result.n_cut


def test_looks(table, capsys):
    result = tune(Spy(), *table, params=LEVELS, n_trials=4, cv=2, refit=False, verbose=True)
    assert "4 settings, rows 40: best rmse" in capsys.readouterr().out
    assert result.best_estimator_ is None
    assert repr(result) == result.summary()
    assert re.search(r"Spy: 4 settings, 2 folds\nbest rmse", result.summary())
    frame = result.to_dict()
    assert len(frame["score"]) == 4
    assert frame["score"] == sorted(frame["score"])
    assert "param_level" in frame
    html = result._repr_html_()
    assert html.count("<tr>") == 1 + 4 + 2 + len(result.best_params_)
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    ax = result.plot(plt.figure().gca())
    assert ax.get_xlabel() == "rows"
    plt.close("all")


@pytest.mark.parametrize("kind", ["Regressor", "Classifier"])
@pytest.mark.parametrize("family", DEFAULT_SPACES)
def test_every_default_value_is_allowed(table, family, kind):
    if not hasattr(ht, family + kind):
        pytest.skip("no such model")
    X, y = table
    y = y if kind == "Regressor" else (y > 0).astype(int)
    model = getattr(ht, family + kind)()
    small = {"n_estimators": 2, "n_rules": 1, "max_iter": 5, "n_restarts": 1, "alpha": 0.1}
    known = model.get_params()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # two iterations do not converge
        for name, values in DEFAULT_SPACES[family].items():
            for value in values:
                setting = {k: v for k, v in small.items() if k in known} | {name: value}
                if name == "n_estimators":
                    setting[name] = min(value, 3)
                model.set_params(**setting).fit(X, y)
        model = getattr(ht, family + kind)(**{k: v for k, v in small.items() if k in known})
        result = tune(model, X, y, n_trials=3, cv=2, max_resource=20)
    assert not any(trial.error for trial in result.trials)


def test_the_guide_lists_the_default_values():
    page = Path(__file__).parents[2] / "docs/guide/early_stopping_and_tuning.md"
    lines = page.read_text(encoding="utf-8").splitlines()
    for family, space in DEFAULT_SPACES.items():
        values = (f"`{name}` {', '.join(map(repr, v))}" for name, v in space.items())
        assert f"| `{family}*` | {'; '.join(values)} |" in lines
