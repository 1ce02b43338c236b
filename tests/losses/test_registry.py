"""The registry of losses agrees with the kernels, the docstrings and the package's names."""

from __future__ import annotations

import numpy as np
import pytest
from loss_cases import CASES, statistics

import hybridtrees as ht
from hybridtrees import losses, metrics
from hybridtrees.losses import _kernels, crossed, registry
from hybridtrees.losses._rules import LogLink

ROWS = registry.LOSSES
EXAMPLES = {case.loss.kind: case for case in CASES.values()}


def test_every_kernel_has_a_row_and_every_row_a_name():
    assert {row.kernel for row in ROWS.values()} == set(_kernels.LOSS_KINDS)
    assert set(_kernels.LOSS_KINDS) <= set(ROWS)
    names = sorted([*registry.__all__, *crossed.__all__])
    assert sorted(row.__name__ for row in ROWS.values()) == names
    assert tuple(ROWS.values()) == losses.STORABLE
    for row in ROWS.values():
        assert getattr(losses, row.__name__) is row
        assert row.friedman or row.xgboost
        assert set(row.metrics) <= set(metrics.METRICS)


def test_every_loss_has_a_case_with_its_formula():
    assert set(EXAMPLES) == set(_kernels.LOSS_KINDS) - {"softmax"}


@pytest.mark.parametrize("kind", sorted(EXAMPLES))
def test_flags_say_what_the_kernels_do(rng, kind):
    case = EXAMPLES[kind]
    y, raw = case.targets(rng, 200), rng.normal(size=200)
    _, hess = statistics(case.loss, y, raw)
    assert np.all(hess == 1) == case.loss.constant_hessian
    grad = np.empty((1, 200), dtype=np.float32)
    arguments = y, raw.reshape(-1, 1), None, grad, None, 1
    if case.loss.constant_hessian:
        case.loss.statistics(*arguments)
    else:
        with pytest.raises(ValueError, match="needs an array"):
            case.loss.statistics(*arguments)
    assert isinstance(case.loss, LogLink) == (case.loss.score_scale == "log")


@pytest.mark.parametrize(
    ("estimator", "names"),
    [
        (ht.GradientBoostingRegressor, losses.FRIEDMAN_LOSSES["regression"]),
        (ht.GradientBoostingClassifier, losses.FRIEDMAN_LOSSES["classification"]),
        (ht.XGBRegressor, losses.XGBOOST_OBJECTIVES["regression"]),
        (ht.XGBClassifier, losses.XGBOOST_OBJECTIVES["classification"]),
        (ht.PLGBRegressor, losses.XGBOOST_OBJECTIVES["regression"]),
        (ht.PLGBClassifier, losses.XGBOOST_OBJECTIVES["classification"]),
    ],
)
def test_docstrings_name_all_losses(estimator, names):
    for name in names:
        assert f'"{name}"' in estimator.__doc__
    assert "{friedman" not in estimator.__doc__
    assert "{xgboost" not in estimator.__doc__
    lines = [line for line in estimator.__doc__.splitlines() if f'"{names[0]}"' in line]
    assert max(map(len, lines)) <= 100


def test_a_class_without_a_docstring_stays_without():
    class Bare:
        pass

    assert losses.lists_losses(Bare).__doc__ is None
