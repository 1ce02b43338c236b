"""Summary tables of fitted linear models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hybridtrees.input.labels_text import aligned

Floats = NDArray[np.float64]

_HEADERS = {
    "std_error": "std error",
    "p_value": "p value",
    "odds_ratio": "odds ratio",
    "odds_ratio_low": "2.5 %",
    "odds_ratio_high": "97.5 %",
}
# Standard errors from the estimate to the ends of a normal 95 % interval.
_HALF_WIDTH = 1.959963984540054


@dataclass
class LinearSummary:
    """Coefficients of one output with their standard errors, and facts about the fit.

    Printing it shows a table. Standard errors, statistics and p-values are NaN under a penalty, and
    for coefficients that the data do not determine.

    Attributes
    ----------
    title : str
    names : list of str
        The intercept first, if there is one, then the columns.
    coef, std_error, statistic, p_value : ndarrays
        `statistic` is coef / std_error: Student's t with `facts["df_residual"]` degrees of
        freedom in linear regression, normal in logistic regression. `p_value` is two-sided.
    statistic_name : {"t", "z"}
    facts : dict
        Numbers about the whole fit, such as "r2" or "deviance".
    odds_ratio, odds_ratio_low, odds_ratio_high : ndarrays or None
        In logistic regression ``exp(coef)``, the factor by which one unit more of the column
        multiplies the odds, and the limits of its 95 % confidence interval,
        ``exp(coef -+ 1.96 std_error)``. With more than two classes it is the factor of the odds
        of the class against the geometric mean of all classes. None in linear regression.
    """

    title: str
    names: list[str]
    coef: Floats
    std_error: Floats
    statistic: Floats
    p_value: Floats
    statistic_name: str
    facts: dict[str, Any]
    odds_ratio: Floats | None = None
    odds_ratio_low: Floats | None = None
    odds_ratio_high: Floats | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the columns of the table as a dict of lists."""
        columns = {
            "coef": self.coef,
            "std_error": self.std_error,
            self.statistic_name: self.statistic,
            "p_value": self.p_value,
            "odds_ratio": self.odds_ratio,
            "odds_ratio_low": self.odds_ratio_low,
            "odds_ratio_high": self.odds_ratio_high,
        }
        table = {name: values.tolist() for name, values in columns.items() if values is not None}
        return {"name": list(self.names), **table}

    def to_frame(self) -> Any:
        """Return the table as a pandas data frame, indexed by name."""
        import pandas

        return pandas.DataFrame(self.to_dict()).set_index("name")

    def __str__(self) -> str:
        table = self.to_dict()
        names = table.pop("name")
        header = ["", *(_HEADERS.get(name, name) for name in table)]
        rows = [[name, *map(_show, row)] for name, *row in zip(names, *table.values(), strict=True)]
        facts = [f"{name}: {_show(value)}" for name, value in self.facts.items()]
        return "\n".join([self.title, *aligned([header, *rows]), *facts])


def _show(value: Any) -> str:
    if isinstance(value, float | np.floating):
        return "-" if np.isnan(value) else f"{value:.6g}"
    return str(value)


def student_p_value(t: Floats, degrees: float) -> Floats:
    """Return the two-sided p-value of Student's t."""
    from scipy.special import stdtr

    return np.asarray(2.0 * stdtr(degrees, -np.abs(t)), dtype=np.float64)


def normal_p_value(z: Floats) -> Floats:
    """Return the two-sided p-value of a standard normal statistic."""
    from scipy.special import ndtr

    return 2.0 * ndtr(-np.abs(z))


def odds_ratios(coef: Floats, std_error: Floats) -> tuple[Floats, Floats, Floats]:
    """Return odds ratios and the limits of their 95 % confidence intervals."""
    with np.errstate(over="ignore"):  # the odds ratio of a huge coefficient is infinite
        low, high = (np.exp(coef + side * _HALF_WIDTH * std_error) for side in (-1, 1))
        return np.exp(coef), low, high


def ratio(coef: Floats, std_error: Floats) -> Floats:
    """Return coef / std_error without warnings about division by 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return coef / std_error
