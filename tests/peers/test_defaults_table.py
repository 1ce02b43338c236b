"""docs/defaults.md lists every default that differs from a peer's, and lists it rightly."""

from __future__ import annotations

import importlib
import inspect
import json
import math
import re
from pathlib import Path

import numpy as np
import pytest

import hybridtrees

pytestmark = pytest.mark.peer

TABLE = Path(__file__).resolve().parents[2] / "docs" / "defaults.md"

TREES = {"DecisionTreeRegressor": "sklearn.tree", "DecisionTreeClassifier": "sklearn.tree"}
FORESTS = {"RandomForestRegressor": "sklearn.ensemble",
           "RandomForestClassifier": "sklearn.ensemble"}  # fmt: skip
EXTRA = {"ExtraTreesRegressor": "sklearn.ensemble", "ExtraTreesClassifier": "sklearn.ensemble"}
BOOSTING = {"GradientBoostingRegressor": "sklearn.ensemble",
            "GradientBoostingClassifier": "sklearn.ensemble"}  # fmt: skip
ADABOOST = {"AdaBoostRegressor": "sklearn.ensemble", "AdaBoostClassifier": "sklearn.ensemble"}
LINEAR = dict.fromkeys(
    ("LinearRegression", "Ridge", "Lasso", "ElasticNet", "LogisticRegression"),
    "sklearn.linear_model",
)
XGBOOST = {"XGBRegressor": "xgboost", "XGBClassifier": "xgboost"}
MODULES = {**TREES, **FORESTS, **EXTRA, **BOOSTING, **ADABOOST, **LINEAR, **XGBOOST}

PAIRS = [
    ("AdaBoostRegressor", "AdaBoostRegressor"),
    ("AdaBoostClassifier", "AdaBoostClassifier"),
    ("CARTRegressor", "DecisionTreeRegressor"),
    ("CARTClassifier", "DecisionTreeClassifier"),
    ("RandomForestRegressor", "RandomForestRegressor"),
    ("RandomForestClassifier", "RandomForestClassifier"),
    ("ExtraTreesRegressor", "ExtraTreesRegressor"),
    ("ExtraTreesClassifier", "ExtraTreesClassifier"),
    ("GradientBoostingRegressor", "GradientBoostingRegressor"),
    ("GradientBoostingClassifier", "GradientBoostingClassifier"),
    ("LinearRegressor", "LinearRegression"),
    ("LinearRegressor", "Ridge"),
    ("LinearRegressor", "Lasso"),
    ("LinearRegressor", "ElasticNet"),
    ("LogisticClassifier", "LogisticRegression"),
    ("LinearTreeRegressor", "DecisionTreeRegressor"),
    ("LinearTreeClassifier", "DecisionTreeClassifier"),
    ("LinearForestRegressor", "RandomForestRegressor"),
    ("LinearForestClassifier", "RandomForestClassifier"),
    ("RERFRegressor", "RandomForestRegressor"),
    ("RERFClassifier", "RandomForestRegressor"),
    ("EBLRRegressor", "DecisionTreeRegressor"),
    ("EBLRClassifier", "DecisionTreeRegressor"),
    ("XGBRegressor", "XGBRegressor"),
    ("XGBClassifier", "XGBClassifier"),
    ("PLGBRegressor", "XGBRegressor"),
    ("PLGBClassifier", "XGBClassifier"),
]

# What a booster learns from the data or the machine where nothing is said, as the models here do.
LEARNED = {"base_score", "n_jobs"}

# Parameters that have one value here, xgboost's default; None stands for it.
ONE_VALUE = {
    "booster", "device", "feature_weights", "multi_strategy",
    "num_parallel_tree", "sampling_method", "validate_parameters", "verbosity",
}  # fmt: skip

# Defaults that newer versions of the peer have changed to the one here.
ADOPTED = {"enable_categorical"}

# Values that are the same word, and mean another thing in scikit-learn.
SAME_WORD = {"n_jobs"}

# Own parameters that leave the model what the peer's is: report, threads, kinds of input that
# the peer refuses, and options of settings that are not the default.
NEUTRAL = {
    "cv", "cv_rule", "missing", "categorical_features", "max_bins", "verbose", "keep_rows",
    "voting", "power", "monotonic_cst", "interaction_cst", "eval_metric", "sketch",
    "quantile_alpha", "expectile_alpha", "huber_slope", "tweedie_variance_power", "class_weight",
    "conformal", "calibrate",
}  # fmt: skip
# Families that do more than their peer by their nature; the table has what they share.
OWN_FAMILIES = ("AdaBoost", "LinearTree", "LinearForest", "RERF", "EBLR", "PLGB")
OWN_LINEAR = {
    "penalty", "alpha", "l1_ratio", "alpha_scaling", "alphas", "missing_indicator", "max_iter",
    "standardize", "n_jobs",
}  # fmt: skip


def value_of(cell):
    return eval(cell.strip("` "), {"__builtins__": {}}, {"nan": math.nan})


def names_of(cell):
    return [name.strip("` ") for name in cell.split(",")]


def read_table():
    """One entry per pair of classes and parameter: defaults here and there, and the reason."""
    rows = {}
    lines = [line for line in TABLE.read_text().splitlines() if line.startswith("| `")]
    for line in lines:
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        assert len(cells) == 6, line
        ours, theirs = names_of(cells[0]), names_of(cells[1])
        if len(ours) == 1:
            ours = ours * len(theirs)
        assert len(ours) == len(theirs), line
        own, _, other = cells[2].partition(" (")
        own = own.strip("`")
        other = other.strip("`)") or own
        missing = cells[4].strip("`") == "-"
        for pair in zip(ours, theirs, strict=True):
            assert (*pair, own) not in rows, f"listed twice: {line}"
            there = None if missing else value_of(cells[4])
            rows[(*pair, own)] = (other, value_of(cells[3]), missing, there, cells[5])
    return rows


def defaults(cls):
    parameters = inspect.signature(cls.__init__).parameters
    return {n: p.default for n, p in parameters.items() if p.default is not p.empty}


def configuration(model, y):
    """What a trained booster has for the parameters that the constructor leaves open."""
    found = {}

    def collect(part):
        for key, value in part.items() if isinstance(part, dict) else enumerate(part):
            if isinstance(value, dict | list):
                collect(value)
            elif isinstance(key, str):
                found.setdefault(key, value)

    fitted = model(n_estimators=1, n_jobs=1).fit(np.eye(4), y)
    collect(json.loads(fitted.get_booster().save_config()))
    return found


def peer_defaults(name):
    """Defaults of a peer; where its constructor leaves them open, those of what it trains."""
    module = importlib.import_module(MODULES[name])
    peer = getattr(module, name)
    if MODULES[name] != "xgboost":
        return defaults(peer)
    known = configuration(peer, [0, 1, 1, 0])
    found = {}
    for parameter, value in peer().get_params().items():
        found[parameter] = value
        if value is None and parameter in known and parameter not in LEARNED:
            found[parameter] = _number(known[parameter])
    found["n_estimators"] = peer().get_num_boosting_rounds()
    return found


def _number(text):
    if text in ("", "()"):  # no constraints
        return None
    try:
        return float(text)
    except ValueError:
        return text


def same(a, b):
    if isinstance(a, float) and isinstance(b, float):
        return a == pytest.approx(b, rel=1e-6) or (math.isnan(a) and math.isnan(b))
    numbers = (int, float)
    if isinstance(a, numbers) and isinstance(b, numbers) and not isinstance(a, bool):
        return float(a) == pytest.approx(float(b), rel=1e-6)
    return a == b and isinstance(a, bool) == isinstance(b, bool)


@pytest.fixture(scope="module")
def table():
    return read_table()


def peer_or_skip(name):
    library = MODULES[name].partition(".")[0]
    peer = pytest.importorskip(library, reason=f"{library} is not installed")
    title = {"sklearn": "scikit-learn"}.get(library, library)
    version = re.search(rf"for .*{title} (\d+)\.(\d+)", TABLE.read_text())
    of_table = tuple(int(part) for part in version.groups())
    installed = tuple(int(part) for part in peer.__version__.split(".")[:2])
    if installed < of_table:
        pytest.skip(f"the table is for {title} {of_table}, installed is {peer.__version__}")
    return peer_defaults(name)


def test_pairs_are_known(table):
    assert {key[:2] for key in table} == set(PAIRS)


@pytest.mark.parametrize(("ours", "theirs"), PAIRS, ids=lambda name: name)
def test_what_is_listed_is_right(table, ours, theirs):
    own, peer = defaults(getattr(hybridtrees, ours)), peer_or_skip(theirs)
    for (a, b, parameter), (other, here, missing, there, why) in table.items():
        if (a, b) != (ours, theirs):
            continue
        assert parameter in own, f"{ours} has no {parameter}"
        assert same(own[parameter], here), f"{ours}.{parameter} is {own[parameter]!r}"
        assert len(why) > 10
        if missing:
            assert other not in peer, f"{theirs} has {other}, with the default {peer[other]!r}"
            continue
        assert other in peer, f"{theirs} has no {other}"
        if parameter in ADOPTED and same(peer[other], here):
            continue
        assert same(peer[other], there), f"{theirs}.{other} is {peer[other]!r}, not {there!r}"
        assert not same(here, there) or parameter in SAME_WORD, f"{parameter} does not differ"


@pytest.mark.parametrize(("ours", "theirs"), PAIRS, ids=lambda name: name)
def test_nothing_is_left_out(table, ours, theirs):
    own, peer = defaults(getattr(hybridtrees, ours)), peer_or_skip(theirs)
    listed = {parameter for a, b, parameter in table if (a, b) == (ours, theirs)}
    for parameter, here in own.items():
        if parameter in peer:
            if isinstance(peer[parameter], str) and peer[parameter] == "deprecated":
                continue  # the peer is about to drop it
            if MODULES[theirs] == "xgboost":
                same_thing = same(here, peer[parameter]) or parameter in ONE_VALUE
            else:
                same_thing = same(here, peer[parameter]) and parameter not in SAME_WORD
            assert same_thing or parameter in listed, (
                f"{ours}.{parameter} is {here!r}, {theirs}'s is {peer[parameter]!r}"
            )
        elif not ours.startswith(OWN_FAMILIES) and parameter not in NEUTRAL | listed:
            linear = MODULES[theirs] == "sklearn.linear_model"
            assert linear and parameter in OWN_LINEAR, f"{ours}.{parameter} is not accounted for"


def test_the_readme_names_the_table():
    assert "(docs/defaults.md)" in (TABLE.parents[1] / "README.md").read_text()
