"""Rows and outputs of the model files in tests/data/models, as they are stored beside them."""

from __future__ import annotations

import json
import zipfile
from typing import Any

import numpy as np


def readable(table: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the table as estimators take it: an empty name is a missing category."""
    return {
        name: np.where(column == "", None, column.astype(object))
        if column.dtype.kind == "U"
        else column
        for name, column in table.items()
    }


def outputs(model: Any, X: Any) -> dict[str, np.ndarray]:
    """Return what a model says of rows, by method; text of a table that it has filled."""
    methods = ("predict", "predict_proba", "predict_quantiles", "transform", "apply")
    found = {name: getattr(model, name)(X) for name in methods if hasattr(model, name)}
    if isinstance(found.get("transform"), dict):
        columns = [np.asarray(column, dtype=object) for column in found["transform"].values()]
        found["transform"] = np.column_stack(columns)
    if hasattr(model, "feature_importances_"):
        found["importances"] = model.feature_importances_
    return {
        name: value.astype(str) if np.asarray(value).dtype == object else np.asarray(value)
        for name, value in found.items()
    }


def drop_parameter(path, copy, parameter):
    """Copy a model file as a version that did not know a parameter would have written it."""
    with zipfile.ZipFile(path) as new, zipfile.ZipFile(copy, "w") as old:
        for name in new.namelist():
            data = new.read(name)
            if name.endswith(".json"):
                header = json.loads(data)
                del header["model"]["params"][parameter]
                data = json.dumps(header)
            old.writestr(name, data)
