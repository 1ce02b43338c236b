"""What comes of a comparison: a table, models, drawings."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import Any

import numpy as np

from hybridtrees._compare.data import Data, finite_or_none
from hybridtrees._compare.families import Family, Setting
from hybridtrees._compare.scores import Score
from hybridtrees._compare.search import Limits, Trial
from hybridtrees._compare.splits import Split
from hybridtrees._outputs import write_text
from hybridtrees.input.labels_text import aligned
from hybridtrees.inspection.plots import pyplot


@dataclass
class Result:
    """What one family achieved."""

    family: Family
    setting: Setting  # The parameters that were chosen
    trial: Trial  # How they did on training and validation rows
    # Whether every setting of the family went beyond the limit, so that this one does
    overfits: bool
    model: Any = None  # Fitted to all rows but those of the test
    # All scores of that model on the test rows and on its own rows, by name
    test: dict[str, float] = field(default_factory=dict)
    train: dict[str, float] = field(default_factory=dict)
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


class Table(Sequence):
    """Rows of a comparison, each a dict; printed as aligned text."""

    def __init__(self, rows: list[dict[str, Any]], text: str) -> None:
        self._rows, self._text = rows, text

    def __getitem__(self, index: Any) -> Any:
        return self._rows[index]

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self._rows)

    def __repr__(self) -> str:
        return self._text

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
        In the order of their test scores; families that failed last.
    trials : list of Trial
        Every setting that was tried.
    limits : Limits
        How the search went.
    seconds : float
        Of the whole comparison.
    notes : list of str
        What the reader should know.
    """

    data: Data
    plan: Split
    score: Score
    results: list[Result]
    trials: list[Trial]
    limits: Limits
    seconds: float
    notes: list[str] = field(default_factory=list)

    @property
    def table(self) -> Table:
        """Rows with rank, model, scores, delta, times, size and parameters, the best first.

        `test` is the score of the final model; `train` and `validation` are those by which its
        setting was chosen, and `delta` is their relative difference in per cent.
        """
        rows = []
        for rank, result in enumerate(self.results, start=1):
            trial = result.trial
            rows.append(
                {
                    "rank": rank,
                    "model": result.family.name,
                    "test": result.test.get(self.score.name, np.nan),
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
        return Table(rows, self._text(rows))

    @property
    def best_(self) -> Any:
        """The fitted model at the head of the table; the baseline only if it is alone.

        Its test score is the best of several, and so a little too good on average.
        """
        fitted = [result for result in self.results if result.model is not None]
        if not fitted:
            raise ValueError("every family failed: " + str(self.results[0].error))
        # A constant is there to be beaten; it is no estimator that could be saved.
        return min(fitted, key=lambda result: result.family.key == "baseline").model

    @property
    def models_(self) -> dict[str, Any]:
        """Fitted models by the keys of their families, the best first."""
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

    def __str__(self) -> str:
        return "\n".join([self.heading(), "", str(self.table), *self._remarks()])

    def __repr__(self) -> str:
        return f"<Comparison of {len(self.results)} models on {self.data.name}>\n{self}"

    def to_dict(self) -> dict[str, Any]:
        """Return all results as numbers, strings, lists and dicts, for JSON."""
        n_rows, n_features = self.data.shape
        rows = []
        for row, result in zip(self.table, self.results, strict=True):
            clean = {k: finite_or_none(v) if isinstance(v, float) else v for k, v in row.items()}
            clean["parameters"] = {k: _plain(v) for k, v in result.setting.items()}
            clean["key"] = result.family.key
            for part in ("test", "train"):
                scores = getattr(result, part)
                clean[f"{part}_scores"] = {k: finite_or_none(v) for k, v in scores.items()}
            rows.append(clean)
        return {
            "data": self.data.name,
            "task": self.data.task,
            "target": self.data.target_name,
            "rows": n_rows,
            "features": n_features,
            "parts": dict(zip(("train", "validation", "test"), self.plan.sizes, strict=True)),
            "folds": len(self.plan.folds),
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

    def _text(self, rows: list[dict[str, Any]]) -> str:
        label = self.score.label
        head = ["rank", "model", f"test {label}", "validation", "train", "delta %"]
        cells = [[*head, "fit s", "predict ms", "size KB", "parameters"]]
        for row, result in zip(rows, self.results, strict=True):
            if result.error is not None:
                cells.append(["-", row["model"], *["-"] * 7, "failed"])
                continue
            mark = "*" if row["overfits"] else ""
            cells.append(
                [
                    str(row["rank"]),
                    row["model"],
                    number(row["test"]),
                    number(row["validation"]),
                    number(row["train"]),
                    f"{row['delta']:+.1f}{mark}",
                    f"{row['fit_seconds']:.3f}",
                    f"{1e3 * row['predict_seconds']:.2f}",
                    f"{row['size_bytes'] / 1024:.1f}",
                    result.describe_setting(),
                ]
            )
        lines = aligned(cells, left={1, 9})
        lines.insert(1, "-" * max(map(len, lines)))
        return "\n".join(lines)

    def _remarks(self) -> list[str]:
        remarks = list(self.notes)
        if len(self.results) > 1 and self.results[0].family.key == "baseline":
            remarks.append("no model does better than a constant on the test rows")
        if any(result.overfits for result in self.results):
            remarks.append("* beyond the limit of overfitting, as are all settings of this family")
        remarks += [f"{r.family.name} failed: {r.error}" for r in self.results if r.error]
        return ["", *remarks] if remarks else []


def _plain(value: Any) -> Any:
    """Return a parameter as JSON has it."""
    return value if isinstance(value, str | int | float | bool | type(None)) else str(value)


def number(value: float) -> str:
    """Write a score with four decimals, or five digits where it is large."""
    if not np.isfinite(value):
        return "-"
    return f"{value:.4f}" if abs(value) < 10 else f"{value:.5g}"
