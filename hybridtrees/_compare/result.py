"""What comes of a comparison: a table, models, drawings."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import Any

import numpy as np

from hybridtrees._compare.data import Data, finite_or_none
from hybridtrees._compare.families import ENSEMBLE, Family, Setting
from hybridtrees._compare.resampling import COVERAGE, UNKNOWN, Interval
from hybridtrees._compare.scores import Prediction, Score
from hybridtrees._compare.search import Limits, Trial
from hybridtrees._compare.text import OVERFITS, TIED, number, table_text, terminal_width, wrapped
from hybridtrees._outputs import write_text
from hybridtrees.inspection.plots import pyplot
from hybridtrees.selection.splits import Split

__all__ = ["Comparison", "Result", "Table", "number"]


@dataclass
class Result:
    """What one family achieved."""

    family: Family
    setting: Setting  # The parameters that were chosen
    trial: Trial  # How they did on training and validation rows
    # Whether every setting of the family went beyond the limit, so that this one does
    overfits: bool
    # What ranks the family: the mean of `fold_scores`, or without folds the validation score
    choice: float = np.nan
    choice_interval: Interval = UNKNOWN
    fold_scores: list[float] = field(default_factory=list)
    tied: bool = False  # Not the first, but not shown to be worse either
    # Fitted to all rows but those of the test, on `Data.columns`: dates are features there
    model: Any = None
    # All scores of that model on the test rows and on its own rows, by name
    test: dict[str, float] = field(default_factory=dict)
    train: dict[str, float] = field(default_factory=dict)
    test_intervals: dict[str, Interval] = field(default_factory=dict)
    predicted: Prediction | None = None  # Of the test rows
    # Of that model: the whole fit, and the prediction of the test rows
    fit_seconds: float = np.nan
    predict_seconds: float = np.nan
    size_bytes: int = 0  # Length of its pickle
    error: str | None = None  # Why the family failed

    def describe_setting(self) -> str:
        """Return the parameters as text."""
        return ", ".join(f"{key}={_short(value)}" for key, value in self.setting.items())


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


class Table(Sequence[dict[str, Any]]):
    """Rows of a comparison, each a dict; printed as aligned text."""

    def __init__(self, rows: list[dict[str, Any]], write: Callable[[], str]) -> None:
        self._rows, self._write = rows, write

    def __getitem__(self, index: Any) -> Any:
        return self._rows[index]

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self._rows)

    def __repr__(self) -> str:
        return self._write()

    def to_frame(self) -> Any:
        """Return the rows as a pandas DataFrame."""
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError("to_frame needs pandas, which is not installed") from error
        return pd.DataFrame(self._rows)


@dataclass
class Comparison:
    """Results of all families on one data set, the best first.

    Attributes
    ----------
    data : Data
        What was compared on.
    plan : Split
        Which rows trained, validated and tested.
    score : Score
        What decided.
    results : list of Result
        In the order of `choice`, which no test row has a part in; families that failed last.
    trials : list of Trial
        Every setting that was tried.
    limits : Limits
        How the search went.
    seconds : float
        Of the whole comparison.
    notes : list of str
        What the reader should know.
    n_folds, n_repeats : int
        Folds that ranked the families, and how often rows were divided anew; 0 if the validation
        rows ranked them.
    """

    data: Data
    plan: Split
    score: Score
    results: list[Result]
    trials: list[Trial]
    limits: Limits
    seconds: float
    notes: list[str] = field(default_factory=list)
    n_folds: int = 0
    n_repeats: int = 0

    @property
    def chosen_by(self) -> str:
        """What ranked the families: "folds" or "validation"."""
        return "folds" if self.n_folds else "validation"

    @property
    def table(self) -> Table:
        """Rows with rank, model, scores, delta, times, size and parameters, the best first.

        `choice` is the score that ranks the models, and `tied` marks those that are not shown to
        be worse than the first. `test` is the score of the final model. `train` and `validation`
        are those by which its setting was chosen, and `delta` is their relative difference in per
        cent. Intervals cover 95 % of bootstrap resamples.
        """
        rows = []
        for rank, result in enumerate(self.results, start=1):
            trial = result.trial
            rows.append(
                {
                    "rank": rank,
                    "model": result.family.name,
                    "choice": result.choice,
                    "choice_interval": result.choice_interval,
                    "tied": result.tied,
                    "test": result.test.get(self.score.name, np.nan),
                    "test_interval": result.test_intervals.get(self.score.name, UNKNOWN),
                    "validation": trial.validation,
                    "train": trial.train,
                    "delta": self.score.delta(trial.train, trial.validation),
                    "overfits": result.overfits,
                    "fit_seconds": result.fit_seconds,
                    "predict_seconds": result.predict_seconds,
                    "size_bytes": result.size_bytes,
                    "parameters": dict(result.setting),
                    "error": result.error,
                }
            )
        return Table(rows, lambda: table_text(self, terminal_width())[0])

    @property
    def winner(self) -> Result:
        """The first result; that of the baseline only if it is alone."""
        fitted = [result for result in self.results if result.model is not None]
        if not fitted:
            raise ValueError("every family failed: " + str(self.results[0].error))
        # A constant is there to be beaten; it is no estimator that could be saved.
        return min(fitted, key=lambda result: result.family.key == "baseline")

    @property
    def best_(self) -> Any:
        """The fitted model of the winner, for tables such as the one that was compared on.

        Test rows had no part in choosing it, so that its test score is an honest one.
        """
        return self.data.on_raw_tables(self.winner.model)

    @property
    def models_(self) -> dict[str, Any]:
        """Fitted models by the keys of their families, the best first.

        They are fitted on ``data.columns``, in which dates are features already.
        """
        return {r.family.key: r.model for r in self.results if r.model is not None}

    def heading(self) -> str:
        """Return a line about the data and its parts."""
        n_rows, n_features = self.data.shape
        parts = " / ".join(map(str, self.plan.sizes))
        how = "in order of time, " if self.plan.by_time else ""
        if len(self.plan.folds) > 1:
            how += f"{len(self.plan.folds)} folds, "
        return (
            f"{self.data.name}: {self.data.task}, {n_rows} rows, {n_features} features, "
            f"{how}train / validation / test {parts}"
        )

    def text(self, width: int | None = None) -> str:
        """Return heading, table and remarks.

        Parameters
        ----------
        width : int, optional
            Columns that a line may have; by default those of the terminal.

        Returns
        -------
        text : str
        """
        width = terminal_width() if width is None else width
        table, marks = table_text(self, width)
        lines = [*wrapped(self.heading(), width), "", table]
        remarks = self._remarks(marks)
        return "\n".join(
            lines + [""] * bool(remarks) + sum((wrapped(r, width, "  ") for r in remarks), [])
        )

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return f"<Comparison of {len(self.results)} models on {self.data.name}>\n{self}"

    def _repr_html_(self) -> str:
        """Return the table for notebooks."""
        from hybridtrees._compare.report import comparison_html

        return comparison_html(self)

    def to_dict(self) -> dict[str, Any]:
        """Return all results as numbers, strings, lists and dicts, for JSON."""
        n_rows, n_features = self.data.shape
        rows = []
        for row, result in zip(self.table, self.results, strict=True):
            clean = {k: _plain_numbers(v) for k, v in row.items()}
            clean["parameters"] = {k: _plain(v) for k, v in result.setting.items()}
            clean["key"] = result.family.key
            for part in ("test", "train"):
                scores = getattr(result, part)
                clean[f"{part}_scores"] = {k: finite_or_none(v) for k, v in scores.items()}
            intervals = result.test_intervals
            clean["test_intervals"] = {k: _plain_numbers(v) for k, v in intervals.items()}
            clean["fold_scores"] = _plain_numbers(tuple(result.fold_scores))
            rows.append(clean)
        return {
            "data": self.data.name,
            "task": self.data.task,
            "target": self.data.target_name,
            "rows": n_rows,
            "features": n_features,
            "parts": dict(zip(("train", "validation", "test"), self.plan.sizes, strict=True)),
            "folds": len(self.plan.folds),
            "chosen_by": self.chosen_by,
            "choice_folds": self.n_folds,
            "choice_repeats": self.n_repeats,
            "coverage": COVERAGE,
            "by_time": self.plan.by_time,
            "score": self.score.name,
            "search": self.limits.search,
            "settings_tried": len(self.trials),
            "seconds": self.seconds,
            "notes": self.notes,
            "models": rows,
        }

    def to_json(self, path: str | PathLike[str]) -> None:
        """Write `to_dict` to a file.

        Parameters
        ----------
        path : str or path-like
        """
        write_text(path, json.dumps(self.to_dict(), indent=1) + "\n")

    def to_html(self, path: str | PathLike[str]) -> None:
        """Write a report of one page that needs nothing from elsewhere.

        Parameters
        ----------
        path : str or path-like
        """
        from hybridtrees._compare.report import write_report

        write_report([self], path)

    def plot_ranking(self, ax: Any = None) -> Any:
        """Draw the scores of all models, the best at the top; needs matplotlib.

        Parameters
        ----------
        ax : matplotlib axes, optional

        Returns
        -------
        ax : matplotlib axes
        """
        rows = [row for row in self.table if row["error"] is None]
        ax, places = self._rows_of_plot(ax, rows)
        for name, style in (
            ("train", {"facecolors": "none", "edgecolors": "tab:blue"}),
            ("validation", {"color": "lightsteelblue"}),
            ("test", {"color": "tab:blue"}),
        ):
            ax.scatter([row[name] for row in rows], places, label=name, zorder=3, **style)
        ax.set_xlabel(self.score.label)
        ax.set_title(self.data.name)
        ax.legend()
        return ax

    def plot_times(self, ax: Any = None) -> Any:
        """Draw the times to fit and to predict on a logarithmic axis; see `plot_ranking`."""
        rows = [row for row in self.table if row["error"] is None]
        rows.sort(key=lambda row: row["fit_seconds"])
        ax, places = self._rows_of_plot(ax, rows)
        hollow = {"facecolors": "none", "edgecolors": "tab:blue"}
        times = [row["predict_seconds"] for row in rows]
        ax.scatter(times, places, label=f"predict {len(self.plan.test)} rows", **hollow)
        ax.scatter([row["fit_seconds"] for row in rows], places, label="fit", color="tab:blue")
        ax.set_xscale("log")
        ax.set_xlabel("seconds")
        ax.set_title(self.data.name)
        ax.legend()
        return ax

    @staticmethod
    def _rows_of_plot(ax: Any, rows: list[dict[str, Any]]) -> tuple[Any, np.ndarray]:
        """Return axes, new ones by default, and the place of each row on them."""
        if ax is None:
            size = (7, 1.2 + 0.35 * len(rows))
            ax = pyplot().subplots(figsize=size, layout="constrained")[1]
        places = np.arange(len(rows))
        ax.set_yticks(places, [row["model"] for row in rows])
        ax.invert_yaxis()
        ax.grid(axis="x", alpha=0.3)
        return ax, places

    def _remarks(self, marks: set[str]) -> list[str]:
        """Lines below the table, among them what the marks in it mean."""
        remarks = list(self.notes)
        if self.chosen_by == "folds":
            times = f", up to {self.n_repeats} times" if self.n_repeats > 1 else ""
            remarks.append(
                f"ranked by the mean score on {self.n_folds} folds of the rows that do not "
                f"test{times}; test rows decide nothing"
            )
            by = f"{self.n_folds} folds"
        else:
            by = "test rows"
        if TIED in marks:
            remarks.append(
                f"{TIED} the {by} do not show it to be worse than the first (paired bootstrap, "
                f"{COVERAGE:.0%})"
            )
        if len(self.results) > 1 and self.results[0].family.key == "baseline":
            remarks.append("no model does better than a constant")
        remarks += self._about_ensemble()
        if OVERFITS in marks:
            remarks.append(
                f"{OVERFITS} beyond the limit of overfitting, as are all settings of this family"
            )
        return remarks + [f"{r.family.name} failed: {r.error}" for r in self.results if r.error]

    def _about_ensemble(self) -> list[str]:
        """Return what the ensemble is."""
        sound = any(r.family.key == ENSEMBLE and r.error is None for r in self.results)
        if not sound:
            return []
        rows = "folds" if self.n_folds else "validation rows"
        about = "the ensemble averages final models by the weights listed; its score is by weights"
        about += f" from other {rows}"
        if self.n_folds:
            about += ", and it is first unless a model is better by more than one standard error"
        return [about]


def _plain_numbers(value: Any) -> Any:
    """Return a value of the table as JSON has it."""
    if isinstance(value, tuple):
        return [finite_or_none(number) for number in value]
    return finite_or_none(value) if isinstance(value, float) else value


def _plain(value: Any) -> Any:
    """Return a parameter as JSON has it."""
    return value if isinstance(value, str | int | float | bool | type(None)) else str(value)
