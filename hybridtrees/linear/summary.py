"""A fitted linear model as a table to read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hybridtrees.input.labels_text import aligned

Floats = NDArray[np.float64]


@dataclass
class LinearSummary:
    """Coefficients of one output with their standard errors, and facts about the fit.

    Print it for a table. Standard errors, statistics and p-values are NaN where they are not
    defined: under a penalty, and for coefficients that the data do not determine.

    Attributes
    ----------
    title : str
    names : list of str
        The intercept first, where there is one, then the columns.
    coef, std_error, statistic, p_value : ndarrays
        `statistic` is coef / std_error: Student's t with `facts["df_residual"]` degrees of
        freedom in linear regression, normal in logistic regression. `p_value` is two-sided.
    statistic_name : {"t", "z"}
    facts : dict
        Numbers about the whole fit, such as "r2" or "deviance".
    """

    title: str
    names: list[str]
    coef: Floats
    std_error: Floats
    statistic: Floats
    p_value: Floats
    statistic_name: str
    facts: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """Return the columns of the table as a dict of lists."""
        return {
            "name": list(self.names),
            "coef": self.coef.tolist(),
            "std_error": self.std_error.tolist(),
            self.statistic_name: self.statistic.tolist(),
            "p_value": self.p_value.tolist(),
        }

    def to_frame(self) -> Any:
        """Return the table as a pandas data frame, indexed by name."""
        import pandas

        return pandas.DataFrame(self.to_dict()).set_index("name")

    def __str__(self) -> str:
        header = ["", "coef", "std error", self.statistic_name, "p value"]
        columns = (self.coef, self.std_error, self.statistic, self.p_value)
        rows = [
            [name, *(_show(column[i]) for column in columns)] for i, name in enumerate(self.names)
        ]
        facts = [f"{name}: {_show(value)}" for name, value in self.facts.items()]
        return "\n".join([self.title, *aligned([header, *rows]), *facts])


def _show(value: Any) -> str:
    if isinstance(value, float | np.floating):
        return "-" if np.isnan(value) else f"{value:.6g}"
    return str(value)


def student_p_value(t: Floats, degrees: float) -> Floats:
    """Two-sided p-value of Student's t."""
    from scipy.special import stdtr

    return 2.0 * stdtr(degrees, -np.abs(t))


def normal_p_value(z: Floats) -> Floats:
    """Two-sided p-value of a standard normal statistic."""
    from scipy.special import ndtr

    return 2.0 * ndtr(-np.abs(z))


def ratio(coef: Floats, std_error: Floats) -> Floats:
    """Return coef / std_error, infinite where only the error is 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return coef / std_error
