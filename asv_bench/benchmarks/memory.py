"""Peak memory of a fit and size of a fitted model."""

from __future__ import annotations

import pickle

from . import common, estimators


class XGBLossGuidedMemory(estimators.XGBLossGuided, common.PeakMemory):
    pass


class XGBLossGuidedSize(estimators.XGBLossGuided, common.Suite):
    params = (common.N_ROWS[:1], common.TASKS, [1])
    unit = "bytes"

    def track_size(self, n: int, task: str, n_jobs: int) -> int:
        self.estimator.fit(self.data.X, self.data.y)
        return len(pickle.dumps(self.estimator))
