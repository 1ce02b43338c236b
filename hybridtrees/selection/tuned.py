"""What a search has found."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hybridtrees._parameters import short_repr
from hybridtrees.inspection.plots import pyplot
from hybridtrees.selection.spaces import Setting

if TYPE_CHECKING:
    from hybridtrees.selection.resources import Resource

_SHOWN = 10  # trials that a notebook shows
_PATIENCE = 10  # rounds without gain, at least, after which a trial is not continued


@dataclass
class Trial:
    """One setting, and how it did.

    Attributes
    ----------
    number : int
        Position among the settings; 0 is the estimator as it was given.
    params : dict
        The parameters that were set.
    rung : int
        Last rung that it took part in, -1 if none.
    score, std : float
        Mean and standard deviation of the score over the folds, at the best number of rounds.
    amount : int
        The best number of rounds; otherwise the trees or training rows that it had last.
    curve : dict of int to float
        Mean score by the number of rounds, trees or rows.
    fold_scores : ndarray of shape (n_folds,)
        The scores that `score` is the mean of.
    seconds : float
        Time of fits and scores, added up over the folds.
    error : str or None
        Why it failed.
    """

    number: int
    params: Setting
    rung: int = -1
    score: float = math.nan
    std: float = math.nan
    amount: int = 0
    curve: dict[int, float] = field(default_factory=dict)
    fold_scores: np.ndarray = field(default_factory=lambda: np.empty(0))
    seconds: float = 0.0
    error: str | None = None

    def take(
        self,
        scores: list[dict[int, float]],
        rung: int,
        resource: Resource,
        best_of: Callable[[np.ndarray], int],
    ) -> None:
        """Take the scores of all folds on a rung."""
        # Callbacks may have ended the training of some folds.
        amounts = sorted(set.intersection(*map(set, scores)))
        table = np.array([[fold[amount] for amount in amounts] for fold in scores])
        means = table.mean(axis=0)
        self.rung = rung
        self.curve = dict(zip(amounts, means.tolist(), strict=True))
        places = np.flatnonzero(np.isfinite(means))
        if not resource.stages:
            places = places[places == len(amounts) - 1]
        if not len(places):
            self.error = f"the score is {means[-1] if len(means) else math.nan}"
            return
        best = int(places[best_of(means[places])])
        self.amount, self.score = amounts[best], float(means[best])
        self.std, self.fold_scores = float(table[:, best].std()), table[:, best].copy()

    def has_peaked(self, resource: Resource) -> bool:
        """Whether more rounds would be of no use: none of the last fifth has helped."""
        last = max(self.curve, default=0)
        return resource.stages and last - self.amount >= max(_PATIENCE, 0.2 * last)


class Rung(NamedTuple):
    """What a rung of the search did."""

    n_trials: int
    amount: int
    score: float
    seconds: float


@dataclass(repr=False)
class Tuning:
    """What `tune` has found.

    Attributes
    ----------
    estimator_name : str
        Class of the estimator.
    best_estimator_ : estimator or None
        A copy with the best parameters, fitted to all rows; None with ``refit=False``.
    best_params_ : dict
        What was set in it, with the number of rounds or trees.
    best_score_ : float
        Its mean score over the folds. It has been chosen by them: rows that nothing was chosen by
        give a fairer number.
    best_trial : Trial
        Its trial.
    trials : list of Trial
        All settings, the estimator's own first.
    rungs : list of Rung
        Number of trials, resource, best score and seconds of each rung.
    resource : {"rounds", "trees", "rows"}
        What the rungs have more and more of.
    scoring : str
        Name of the score.
    larger_is_better : bool
        Whether larger scores are better.
    n_folds : int
        Number of folds.
    n_cut : int
        Trials that the time limit kept from a rung; 0 if it cut nothing.
    """

    estimator_name: str
    best_estimator_: Any
    best_params_: Setting
    best_score_: float
    best_trial: Trial
    trials: list[Trial]
    rungs: list[Rung]
    resource: str
    scoring: str
    larger_is_better: bool
    n_folds: int
    n_cut: int = 0

    @property
    def ranking(self) -> list[Trial]:
        """Trials from the best: those of the last rungs first, those that failed last."""
        sign = -1 if self.larger_is_better else 1

        def key(trial: Trial) -> tuple[bool, bool, int, float, int]:
            is_best = trial is self.best_trial
            score = math.inf if math.isnan(trial.score) else sign * trial.score
            return not is_best, trial.error is not None, -trial.rung, score, trial.number

        return sorted(self.trials, key=key)

    def to_dict(self) -> dict[str, list[Any]]:
        """Return the trials as a table, a list for each column, the best first."""
        ranking = self.ranking
        names = list(dict.fromkeys(name for trial in ranking for name in trial.params))
        own = ("number", "rung", "score", "std", "amount", "seconds", "error")
        table = {name: [getattr(trial, name) for trial in ranking] for name in own}
        return table | {
            f"param_{name}": [trial.params.get(name) for trial in ranking] for name in names
        }

    def to_frame(self) -> Any:
        """Return the trials as a pandas data frame, the best first."""
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError("to_frame needs pandas, which is not installed") from error
        return pd.DataFrame(self.to_dict())

    def summary(self) -> str:
        """Say what was tried, and what was best.

        Returns
        -------
        text : str
        """
        best, own = self.best_trial, self.trials[0]
        as_given = f", as given {own.score:.5g} after {own.amount} {self.resource}"
        by_score = f"best {self.scoring}"
        lines = [
            f"{self.estimator_name}: {len(self.trials)} settings, {self.n_folds} folds",
            f"best {self.scoring} {best.score:.5g} (standard deviation {best.std:.3g})"
            + ("" if own.error else as_given),
            *(f"    {name} = {short_repr(value)}" for name, value in self.best_params_.items()),
            f"{'rung':<6}{'settings':>9}{self.resource:>9}{by_score:>16}{'seconds':>9}",
        ]
        lines += [
            f"{k:<6}{rung.n_trials:>9}{rung.amount:>9}{rung.score:>16.5g}{rung.seconds:>9.1f}"
            for k, rung in enumerate(self.rungs)
        ]
        failed = [trial for trial in self.trials if trial.error is not None]
        if failed:
            lines.append(f"{len(failed)} failed, the first one by {failed[0].error}")
        if self.n_cut:
            lines.append(f"the time limit kept {self.n_cut} settings from a rung")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return self.summary()

    def plot(self, ax: Any = None) -> Any:
        """Draw the score of every trial against its rounds, trees or rows; needs matplotlib.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            By default the current ones.

        Returns
        -------
        ax : matplotlib Axes
        """
        ax = pyplot().gca() if ax is None else ax
        for trial in self.trials:
            if trial is not self.best_trial and trial.curve:
                ax.plot(
                    *_points(trial), color="0.7", lw=0.8, marker="." if len(trial.curve) < 6 else ""
                )
        ax.plot(*_points(self.best_trial), color="C0", label="best", marker=".")
        ax.plot([self.best_trial.amount], [self.best_trial.score], "o", color="C1")
        ax.set_xscale("log")
        ax.set_xlabel(self.resource)
        ax.set_ylabel(self.scoring)
        ax.legend()
        return ax

    def _repr_html_(self) -> str:
        from hybridtrees._html import box, two_columns

        best = [(name, short_repr(value)) for name, value in self.best_params_.items()]
        about = f"{len(self.trials)} settings, {self.n_folds} folds"
        score = [(f"best {self.scoring}", f"{self.best_score_:.5g}")]
        if self.trials[0].error is None:
            score.append(("as given", f"{self.trials[0].score:.5g}"))
        return box(
            f"{self.estimator_name}, tuned", about, two_columns([*score, *best]) + self._table()
        )

    def _table(self) -> str:
        """Return the first trials as an HTML table."""
        names = list(dict.fromkeys(name for trial in self.trials for name in trial.params))
        head = [self.scoring, self.resource, *names]
        rows = [
            [f"{t.score:.5g}", str(t.amount), *(short_repr(t.params[n]) if n in t.params else ""
             for n in names)]
            if t.error is None
            else ["failed", "", *(short_repr(t.params.get(n)) for n in names)]
            for t in self.ranking[:_SHOWN]
        ]  # fmt: skip
        cells = ["".join(f"<td>{escape(cell)}</td>" for cell in row) for row in rows]
        top = "".join(f"<th scope='col'>{escape(name)}</th>" for name in head)
        body = "".join(f"<tr>{row}</tr>" for row in cells)
        return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


def _points(trial: Trial) -> tuple[list[int], list[float]]:
    return list(trial.curve), list(trial.curve.values())
