"""Every family on dense tables: time of fit and prediction, memory, size, score."""

from __future__ import annotations

import pickle

from . import common
from .datasets import score
from .estimators import RECIPES, make_estimator

FAMILIES = list(RECIPES)


class Family:
    """Parameters and data; asv leaves it alone, as it has no benchmark."""

    params: tuple[list, ...] = (common.N_ROWS, FAMILIES, common.TASKS, common.N_JOBS)
    param_names = ["n", "family", "task", "n_jobs"]
    timeout = 600

    def setup_cache(self) -> None:
        common.write_tables(common.TASKS)

    def setup(self, n: int, family: str, task: str, n_jobs: int) -> None:
        recipe = RECIPES[family]
        if n > recipe.max_rows or (task == "multiclass" and not recipe.classes):
            raise NotImplementedError("not measured")
        self.data = common.read_table(n, task)
        self.estimator = make_estimator(family, task, n_jobs)


class Fit(Family):
    """Time of a fit, binning included."""

    def time_fit(self, n: int, family: str, task: str, n_jobs: int) -> None:
        self.estimator.fit(self.data.X, self.data.y)


class Predict(Family):
    """Time of prediction for the training table, and for one row."""

    params = (common.N_ROWS, FAMILIES, ["regression", "binary"], common.N_JOBS)

    def setup(self, n: int, family: str, task: str, n_jobs: int) -> None:
        super().setup(n, family, task, n_jobs)
        # Prediction does not care how many rows the trees were grown on.
        rows = slice(0, 20_000)
        self.estimator.fit(self.data.X[rows], self.data.y[rows])
        self.row = self.data.X[:1].copy()

    def time_predict(self, n: int, family: str, task: str, n_jobs: int) -> None:
        common.predict(self.estimator, self.data.X, task)

    def time_predict_one_row(self, n: int, family: str, task: str, n_jobs: int) -> None:
        common.predict(self.estimator, self.row, task)


class Memory(Family):
    """Peak resident memory of the process, its table included."""

    params = (common.N_ROWS, FAMILIES, ["regression", "binary"], [2])

    def peakmem_fit(self, n: int, family: str, task: str, n_jobs: int) -> None:
        self.estimator.fit(self.data.X, self.data.y)


class Result(Family):
    """Score on unseen rows, as a speed-up that loses score must show; bytes of the model."""

    params = (common.N_ROWS, FAMILIES, common.TASKS, [2])

    def track_score(self, n: int, family: str, task: str, n_jobs: int) -> float:
        self.estimator.fit(self.data.X, self.data.y)
        return score(task, self.data.y_test, common.predict(self.estimator, self.data.X_test, task))

    def track_size(self, n: int, family: str, task: str, n_jobs: int) -> int:
        self.estimator.fit(self.data.X, self.data.y)
        return len(pickle.dumps(self.estimator))


Result.track_score.unit = "RMSE or log loss"  # type: ignore[attr-defined]
Result.track_size.unit = "bytes"  # type: ignore[attr-defined]
