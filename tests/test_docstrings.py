"""Docstrings of estimators: texts are inherited, complete and true."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
import typing

import numpy as np
import pytest
from small_members import small_members

import hybridtrees as ht
from hybridtrees._docstrings import compose
from hybridtrees.base import Estimator
from hybridtrees.callbacks import EarlyStopping

pd = pytest.importorskip("pandas")

ESTIMATORS = [
    value
    for name in ht.__all__
    if isinstance(value := getattr(ht, name), type) and issubclass(value, Estimator)
]

# Settings under which every documented attribute is there.
SETTINGS = {
    "Bagging": {"n_estimators": 40, "oob_score": True},
    "CART": {"ccp_alpha": "cv"},
    "EBLR": {"early_stopping": "validation", "n_rules": 2},
    "ExtraTrees": {"oob_score": True, "bootstrap": True, "n_estimators": 30},
    "GradientBoosting": {"subsample": 0.5, "n_iter_no_change": 2},
    "LinearForest": {"oob_score": True, "n_estimators": 30},
    "LinearRegressor": {"alpha": "cv", "penalty": "ridge", "alphas": 3},
    "LogisticClassifier": {"alpha": "cv", "alphas": 3},
    "PLGB": {"early_stopping_rounds": 2, "n_estimators": 4},
    "ProximityImputer": {"n_estimators": 5},
    "RERF": {"oob_score": True, "n_estimators": 30, "tune": {"max_features": [1, 2]}},
    "RandomForest": {"oob_score": True, "n_estimators": 30},
    "XGBRF": {"n_estimators": 4, "callbacks": [EarlyStopping(1)]},
    "XGB": {"early_stopping_rounds": 2, "n_estimators": 4},
}


def entries(cls: type, title: str) -> dict[str, str]:
    """Return the entries of a section, as numpydoc reads them: header to text."""
    doc = inspect.getdoc(cls)
    body = re.search(rf"\n{title}\n-+\n(.*?)(?=\n\n[\w ]+\n---|\Z)", doc, re.DOTALL).group(1)
    return dict(e.split("\n", 1) for e in re.split(r"\n(?=\S)", body))


def names(cls: type, title: str) -> list[str]:
    return [n for header in entries(cls, title) for n in header.split(" : ")[0].split(", ")]


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_every_parameter_in_the_order_of_the_signature(cls):
    assert names(cls, "Parameters") == list(inspect.signature(cls).parameters)


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_entries_have_type_default_and_text(cls):
    for header, text in entries(cls, "Parameters").items():
        assert re.fullmatch(r"[\w, ]+ : .+, default=.+", header)
        assert text.startswith("    ") and text.rstrip().endswith(".")
    for header, text in entries(cls, "Attributes").items():
        assert re.fullmatch(r"[\w, ]+ : .+", header)
        assert text.startswith("    ") and text.rstrip().endswith(".")


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_annotations_allow_the_documented_options(cls):
    hints = typing.get_type_hints(cls)
    for header in entries(cls, "Parameters"):
        documented = re.search(r" : \{(.*?)\}( or None)?, default", header)
        if documented is None:
            continue
        for name in header.split(" : ")[0].split(", "):
            kinds = (hints[name], *typing.get_args(hints[name]))
            literals = [k for k in kinds if typing.get_origin(k) is typing.Literal]
            literal = {value for kind in literals for value in typing.get_args(kind)}
            options = {o for o in documented[1].split(", ") if o != "None"}
            assert {f'"{value}"' for value in literal} == options, name


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_no_text_sends_the_reader_elsewhere(cls):
    for title in ("Parameters", "Attributes"):
        for header, text in entries(cls, title).items():
            assert not re.search(r"\bas in\b", text, re.IGNORECASE), header
            assert "{friedman" not in text and "{xgboost" not in text
    assert len(set(names(cls, "Attributes"))) == len(names(cls, "Attributes"))


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_documented_attributes_exist_after_fit(cls):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(80, 3)), columns=["a", "b", "c"])
    y = X["a"].to_numpy() + rng.normal(scale=0.1, size=80)
    if cls.__name__.endswith("Classifier"):
        y = y > 0
    given = next((v for prefix, v in SETTINGS.items() if cls.__name__.startswith(prefix)), {})
    model = cls(**given, **small_members(cls))
    if given.keys() & {"early_stopping_rounds", "callbacks"}:
        model.fit(X, y, eval_set=[(X, y)])
    else:
        model.fit(X, y)
    missing = [name for name in names(cls, "Attributes") if not hasattr(model, name)]
    assert missing == []
    assert {"n_features_in_", "feature_names_in_"} <= set(names(cls, "Attributes"))


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_methods_describe_their_arguments(cls):
    for name, method in inspect.getmembers(cls, inspect.isfunction):
        if not name.startswith("_"):
            assert "As in `" not in (method.__doc__ or ""), name


class Base(Estimator):
    """The base.

    Parameters
    ----------
    depth : int
        How deep.
    low, high : float
        The ends.

    Attributes
    ----------
    tree_ : Tree
        What was grown.
    """

    depth: int = 3
    low: float = 0.0
    high: float = 1.0


class Child(Base):
    """The child.

    Parameters
    ----------
    mode : {"a", "b"}
        Which way.

    See Also
    --------
    Base : The base.

    Notes
    -----
    A note.
    """

    mode: str = "a"
    depth: int = 5


def test_texts_are_inherited_and_defaults_are_those_of_the_class():
    compose(Base, Base._parameter_defaults())
    assert (
        compose(Child, Child._parameter_defaults())
        == inspect.cleandoc("""
        The child.

        Parameters
        ----------
        depth : int, default=5
            How deep.
        low, high : float, default=0, 1
            The ends.
        mode : {"a", "b"}, default="a"
            Which way.

        Attributes
        ----------
        n_features_in_ : int
            Number of features of `fit`.
        feature_names_in_ : ndarray of shape (n_features,)
            Their names, if the table has them.
        tree_ : Tree
            What was grown.

        See Also
        --------
        Base : The base.

        Notes
        -----
        A note.
        """)
        + "\n"
    )


def test_classes_of_users_keep_their_docstring():
    assert inspect.cleandoc(Child.__doc__).startswith("The child.\n\nParameters\n----------\nmode")


def test_python_without_docstrings():
    code = "import hybridtrees as ht; print(ht.XGBRegressor.__doc__, ht.XGBRegressor(max_depth=2))"
    done = subprocess.run(
        [sys.executable, "-OO", "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "None XGBRegressor(max_depth=2)"
