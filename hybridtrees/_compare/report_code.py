"""Python code that makes a model of the report again."""

from __future__ import annotations

from typing import Any

import numpy as np

import hybridtrees
from hybridtrees._compare.result import Comparison, Result
from hybridtrees._parameters import differs
from hybridtrees.input._user_tables import ArrowColumns, DictColumns, PandasColumns

# Bundled data sets: their rows, and the call that makes each.
_BUNDLED = {
    "breast_cancer": (569, "load_breast_cancer()"),
    "heart_failure": (299, "load_heart_failure()"),
    "house_prices": (1500, "make_house_prices(1500, random_state={seed})"),
    "seasonal_series": (1500, "make_seasonal_series(1500, random_state={seed})"),
}
_TAKE = {
    PandasColumns: "X.iloc[{rows}]",
    ArrowColumns: "X.take({rows})",
    DictColumns: "{{name: column[{rows}] for name, column in X.items()}}",
}


def snippet(comparison: Comparison, result: Result) -> str | None:
    """Return code that fits a model to the same rows and scores it; None for the baseline.

    It needs `X` and `y`, which it loads if the data are bundled, and `time` if that orders rows.
    """
    model, data = result.model, comparison.data
    if not hasattr(model, "_parameter_defaults"):
        return None
    metric = "accuracy" if data.n_classes else "r2"
    how = "time=time" if data.time is not None else f"random_state={comparison.limits.seed}"
    if data.time is None and data.n_classes:
        how += ", strata=y"
    take = _TAKE.get(type(data.columns), "X[{rows}]")
    members = [model, *getattr(model, "estimators_", ())]
    lines = [
        "import numpy as np",
        *sorted({f"from {_home(member)} import {type(member).__name__}" for member in members}),
        "from hybridtrees import split_rows",
        *_data_lines(comparison),
        *_date_lines(data.dates),
        "y = np.asarray(y)",
        "",
        "# As in the report: the rows plan.test are held out, plan.rest are all others.",
        f"plan = split_rows(len(y), {how})",
        _constructor(model, "model"),
        f"model.fit({take.format(rows='plan.rest')}, y[plan.rest])",
        f"print(model.score({take.format(rows='plan.test')}, y[plan.test]))"
        f"  # {metric} {result.test[metric]:.6f}",
    ]
    return "\n".join(lines) + "\n"


def _home(model: Any) -> str:
    """Return the module that a class is imported from."""
    known = hasattr(hybridtrees, type(model).__name__)
    return "hybridtrees" if known else type(model).__module__


def _constructor(model: Any, name: str) -> str:
    """Call of the constructor, a parameter per line; threads do not change the model."""
    return f"{name} = {_call(model)}"


def _call(model: Any, indent: str = "") -> str:
    defaults = model._parameter_defaults()
    given = {key: getattr(model, key) for key in defaults if key != "n_jobs"}
    lines = []
    for key, value in given.items():
        if key == "estimators":
            deeper = indent + " " * 8
            calls = (f"{deeper}({one!r}, {_call(member, deeper)}),\n" for one, member in value)
            lines.append(f"{indent}    estimators=[\n{''.join(calls)}{indent}    ],\n")
        elif differs(value, defaults[key]):
            lines.append(f"{indent}    {key}={_literal(value)},\n")
    arguments = "\n" + "".join(lines) + indent if lines else ""
    return f"{type(model).__name__}({arguments})"


def _literal(value: Any) -> str:
    """Write a value so that Python reads it; NumPy's own spelling would need NumPy's names."""
    return repr(value.tolist() if isinstance(value, np.ndarray | np.generic) else value)


def _date_lines(dates: Any) -> list[str]:
    """Lines that make features of dates, if the table has any."""
    if dates is None:
        return []
    made = _constructor(dates, "dates")
    return ["", "from hybridtrees import DateFeatures", "", made, "X = dates.fit_transform(X)"]


def _data_lines(comparison: Comparison) -> list[str]:
    """Lines that load the data, or say what must be there."""
    data = comparison.data
    rows, features = data.shape
    known_rows, call = _BUNDLED.get(data.name, (0, ""))
    if known_rows != rows or not isinstance(data.columns, DictColumns):
        asked = f"# X: the table {data.name!r}, {rows} rows of {features} features; y: the target "
        lines = ["", f"{asked}{data.target_name!r}."]
        return [*lines, "# time: what orders the rows."] if data.time is not None else lines
    lines = [
        f"from hybridtrees.datasets import {call.partition('(')[0]}",
        "",
        f"data = {call.format(seed=comparison.limits.seed)}",
        "X, y = data.data, data.target",
        "if not isinstance(X, dict):",
        "    X = dict(zip(data.feature_names, X.T))",
    ]
    return [*lines, "time = X['time']"] if data.time is not None else lines
