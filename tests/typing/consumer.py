"""A typed program of a user, checked by mypy against the installed package, and run by the tests.

Lines that mypy must refuse have a ``type: ignore`` with the code of the error: where the types
became too lax, mypy finds that comment unused and fails.
"""

from pathlib import Path
from typing import Any, assert_type

import numpy as np
from numpy.typing import NDArray

import hybridtrees as ht
from hybridtrees import inspection
from hybridtrees.datasets import Dataset, load_breast_cancer, make_house_prices


def fit_and_keep(folder: Path) -> float:
    """Fit a classifier, store it, load it and score it."""
    data = load_breast_cancer()
    assert_type(data, Dataset)
    model = ht.XGBClassifier(n_estimators=20, learning_rate=0.1, max_depth=3, random_state=0)
    fitted = model.fit(data.data, data.target)
    assert_type(fitted, ht.XGBClassifier)
    assert_type(fitted.feature_importances_, NDArray[np.float64])
    proba: NDArray[np.floating[Any]] = fitted.predict_proba(data.data)
    fitted.save(folder / "model.ht")
    again = ht.load(folder / "model.ht")
    assert np.array_equal(again.predict_proba(data.data), proba)
    score = fitted.score(data.data, data.target)
    assert_type(score, float)
    return score


def every_family() -> list[float]:
    """Scores of one estimator per family, which share the protocol of a regressor."""
    houses = make_house_prices(400, random_state=0)
    models = [
        ht.CARTRegressor(max_depth=3),
        ht.RandomForestRegressor(n_estimators=5),
        ht.GradientBoostingRegressor(n_estimators=5, loss="huber"),
        ht.XGBRegressor(n_estimators=5, objective="reg:absoluteerror"),
        ht.PLGBRegressor(n_estimators=5),
        ht.LinearRegressor(penalty="ridge", alpha=0.1),
        ht.LinearTreeRegressor(max_depth=2),
        ht.LinearForestRegressor(n_estimators=2, max_depth=2),
        ht.RERFRegressor(n_estimators=5),
        ht.EBLRRegressor(n_rules=3),
    ]
    X, y = houses.data, houses.target
    return [model.fit(X, y).score(X, y) for model in models]


def read_a_tree() -> str:
    """Text of a tree with names."""
    data = load_breast_cancer()
    tree = ht.CARTClassifier(max_depth=2).fit(data.data, data.target)
    text = inspection.export_text(tree)
    assert_type(text, str)
    return text


def mistakes() -> None:
    """What an editor and mypy must mark."""
    ht.XGBRegressor(n_estimator=5)  # type: ignore[call-arg]
    ht.CARTRegressor(max_depth="three")  # type: ignore[arg-type]
    ht.RandomForestRegressor(5)  # type: ignore[call-arg, arg-type]
    print(ht.no_such_name)  # type: ignore[attr-defined]
