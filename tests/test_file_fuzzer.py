"""Faulty model files are refused or give a model that answers: no crash, no hang, no huge memory.

`HYBRIDTREES_FUZZ=5000 pytest -n 0 tests/test_file_fuzzer.py` tries so many files.
"""

from __future__ import annotations

import os
import re
import sys
import warnings
from pathlib import Path

import file_fuzzer
import numpy as np
import pytest
from fresh_python import run_python
from small_members import small_members

import hybridtrees

pytest.importorskip("pandas")

# Parameters by which models hold more, or other things, than by default.
VARIANTS = {
    "AdaBoostRegressor": (
        {"missing": "stop"},
        {"estimator": hybridtrees.CARTRegressor(max_depth=2), "max_depth": 3},
    ),
    "AdaBoostClassifier": (
        {"resample": True},
        {"estimator": hybridtrees.CARTClassifier(max_depth=2), "max_depth": 1},
    ),
    "AutoClassifier": ({"quality": 2},),
    "BaggingRegressor": ({"estimator": hybridtrees.LinearRegressor(), "max_features": 3},),
    "BaggingClassifier": ({"prune": True, "bootstrap_features": True},),
    "PastingRegressor": ({"votes": "importance", "precinct_size": 50},),
    "PastingClassifier": ({"estimator": hybridtrees.LogisticClassifier()},),
    "RandomForestRegressor": ({"missing": "stop"}, {"criterion": "absolute_error"}),
    "RandomForestClassifier": ({"keep_rows": True, "class_weight": "balanced"},),
    "CARTRegressor": ({"missing": "stop"}, {"conformal": "cv+"}),
    "CARTClassifier": ({"conformal": "cv+", "calibrate": "temperature"},),
    "LinearTreeRegressor": ({"categorical_effects": True, "extrapolate": "bounded"},),
    "RERFRegressor": ({"categorical_encoding": "target_mean"},),
    "LinearRegressor": ({"missing_indicator": True}, {"conformal": "cv"}),
    "LogisticClassifier": ({"conformal": "cv", "calibrate": "isotonic"},),
    "GradientBoostingRegressor": ({"loss": "huber"},),
    "ModelAverageRegressor": ({"weights": "bic"},),
    "StackingClassifier": ({"passthrough": True},),
    "VotingClassifier": ({"voting": "soft"},),
    "MixtureOfExpertsRegressor": ({"expert": "tree"},),
    "MixtureOfExpertsClassifier": ({"expert": "tree"}, {"n_experts": 3}),
    "XGBRegressor": ({"objective": "reg:quantileerror", "quantile_alpha": [0.1, 0.9]},),
}


def models():
    """A small fitted model of every public estimator, and of some variants."""
    for name in hybridtrees.__all__:
        cls = getattr(hybridtrees, name)
        if not isinstance(cls, type) or not hasattr(cls, "save"):
            continue
        for number, variant in enumerate(({}, *VARIANTS.get(name, ()))):
            model = cls()
            small = {k: v for k, v in file_fuzzer.SMALL.items() if k in model.get_params()}
            model.set_params(**{**small, **variant, **small_members(cls)})
            X, y, labels = file_fuzzer.table(4 if number else 3)
            target = labels if name.endswith("Classifier") else y
            if number and name.endswith("Classifier"):
                target = target > 0
            yield f"{name}{number}", model.fit(X, target)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the files of all models."""
    made = tmp_path_factory.mktemp("models")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, model in models():
            model.save(made / f"{name}.model")
    return made


def test_every_estimator_is_there(folder):
    names = {re.sub(r"\d", "", path.stem) for path in folder.glob("*.model")}
    public = [getattr(hybridtrees, name) for name in hybridtrees.__all__]
    assert names == {c.__name__ for c in public if isinstance(c, type) and hasattr(c, "save")}


def test_readers_of_whole_files(folder):
    asked = set()
    for path in folder.glob("*.model"):
        model = hybridtrees.load(path)
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            assert file_fuzzer.ask_everything(model) == []
        asked |= {name for name, _ in file_fuzzer.readers(model)}
    some = "predict predict_proba predict_raw apply decision_path leaf_weights leaf_table summary"
    assert asked >= set(some.split()) | {"oob_permutation_importance", "predict_quantiles"}


@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory are Linux's")
def test_faulty_files(folder):
    n_cases = int(os.environ.get("HYBRIDTREES_FUZZ", 250))
    script = str(Path(file_fuzzer.__file__))
    first, wrong = 0, []
    while first < n_cases:
        done = run_python(script, str(folder), str(first), str(n_cases))
        cases = re.findall(r"^case (\d+):", done.stdout, re.MULTILINE)
        wrong += re.findall(r"^case .*\nWRONG(?:.*\n(?!case|done))*.*", done.stdout, re.MULTILINE)
        if done.stdout.endswith("done\n"):
            break
        assert cases, done.stderr
        wrong.append(f"died in {done.stdout.splitlines()[-1]}\n{done.stderr[-3000:]}")
        first = int(cases[-1]) + 1
    assert not wrong, "\n".join(wrong)
