"""Parameters of xgboost that have one value here, so that others are refused by name."""

from __future__ import annotations

from typing import Any

from hybridtrees._parameters import check_boolean, check_integer, check_option, check_real

# What xgboost knows, what there is here, and why not the rest.
_ONE_OF = {
    "booster": (
        ("gbtree", "gblinear", "dart"),
        ("gbtree",),
        "only trees are boosted here, none of them dropped; see LinearRegressor and "
        "LogisticClassifier for linear models",
    ),
    "multi_strategy": (
        ("one_output_per_tree", "multi_output_tree"),
        ("one_output_per_tree",),
        "a tree has one output here",
    ),
    "sampling_method": (
        ("uniform", "gradient_based"),
        ("uniform",),
        "every row is as likely to be drawn; give sample_weight",
    ),
}


def check_fixed_parameters(model: Any) -> None:
    """Check the parameters that are here for the sake of their names.

    Parameters
    ----------
    model : XGBModel
    """
    for name, (known, supported, reason) in _ONE_OF.items():
        value = getattr(model, name)
        if value is None:
            continue
        if check_option(name, value, known) not in supported:
            raise ValueError(f"{name}={value!r} is not supported, use {supported[0]!r}: {reason}")
    n_trees = check_integer("num_parallel_tree", model.num_parallel_tree, 1, allow_none=True)
    if n_trees not in (None, 1):
        raise ValueError(
            f"num_parallel_tree={n_trees} is not supported, use 1: a round grows one tree per "
            "output; see RandomForestRegressor and RandomForestClassifier for forests"
        )
    _check_device(model.device)
    check_integer("verbosity", model.verbosity, 0, 3, allow_none=True)
    if model.validate_parameters is not None:
        check_boolean("validate_parameters", model.validate_parameters)
    if model.feature_weights is not None:
        raise ValueError(
            "feature_weights is not supported: features are drawn with equal chances; leave it at "
            "None"
        )
    if model.max_cat_threshold is not None:
        check_integer("max_cat_threshold", model.max_cat_threshold, 1)
        raise ValueError(
            "max_cat_threshold is not supported: a split may send any number of categories to one "
            "side; leave it at None"
        )


def _check_device(device: Any) -> None:
    if device is None or (isinstance(device, str) and device == "cpu"):
        return
    if isinstance(device, str) and device.partition(":")[0] in ("cuda", "gpu", "sycl"):
        raise ValueError(f"device={device!r} is not supported, use 'cpu': there is no other code")
    raise ValueError(f"device must be 'cpu' or None, got {device!r}")


def check_base_score(value: Any) -> list[float]:
    """Check `base_score`: a number, or one per output.

    Parameters
    ----------
    value : float, list of floats or None

    Returns
    -------
    scores : list of float
        Empty for None.
    """
    if value is None:
        return []
    values = list(value) if isinstance(value, list | tuple) else [value]
    if hasattr(value, "tolist") and getattr(value, "ndim", 0) == 1:
        values = value.tolist()
    if not values:
        raise ValueError("base_score must be a number or several, got an empty list")
    return [float(check_real("base_score", one)) for one in values]  # type: ignore[arg-type]
