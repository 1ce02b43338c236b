"""Measure one library on one case in this process, and print the figures as JSON.

``peers.py`` starts this file once per measurement, so that no library warms caches, thread
pools or memory for another. Only the chosen library is imported.

Memory: after the data are loaded, the library is imported and a tiny model has been fitted, the
kernel's high-water mark of resident memory is reset (``/proc/self/clear_refs``) and the resident
size is read. The peak above the input is the high-water mark after the fit (VmHWM) minus that
size. Where ``/proc`` is missing the figure is None.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import sys
import time
from abc import ABC, abstractmethod
from pathlib import Path

import numpy as np
from benchmarks.datasets import score

BINS = 255


class Estimator(ABC):
    """A library through an estimator of scikit-learn's manner."""

    def __init__(self, task: str, work: dict, threads: int):
        self.regression = task == "regression"
        kind = "Regressor" if self.regression else "Classifier"
        self.model = self.make_model(kind, work, threads)

    @abstractmethod
    def make_model(self, kind: str, work: dict, threads: int):
        """The estimator with its parameters; `kind` is how the name of its class ends."""

    def fit(self, X, y):
        self.model.fit(X, y)

    def predict(self, X):
        return self.model.predict(X) if self.regression else self.model.predict_proba(X)


class XGBEstimator(Estimator):
    """What hybridtrees and XGBoost have in common: the names of classes and parameters."""

    package: str

    def make_model(self, kind: str, work: dict, threads: int):
        return getattr(importlib.import_module(self.package), f"XGB{kind}")(
            n_estimators=work["trees"],
            max_depth=0,
            max_leaves=work["leaves"],
            max_bin=BINS,
            grow_policy="lossguide",
            tree_method="hist",
            learning_rate=work["learning_rate"],
            reg_lambda=work["l2"],
            min_child_weight=work["min_hessian"],
            n_jobs=threads,
            random_state=0,
        )


class HybridTrees(XGBEstimator):
    """hybridtrees through its estimators."""

    package = "hybridtrees"


class XGBoost(XGBEstimator):
    """XGBoost hist through its scikit-learn interface."""

    package = "xgboost"


class LightGBM:
    """LightGBM through Dataset and Booster, its quickest interface."""

    extra: dict = {}

    def __init__(self, task: str, work: dict, threads: int):
        import lightgbm

        self.lightgbm = lightgbm
        self.rounds = work["trees"]
        self.parameters = dict(
            objective="regression" if task == "regression" else "binary",
            num_leaves=work["leaves"],
            learning_rate=work["learning_rate"],
            lambda_l2=work["l2"],
            min_data_in_leaf=work["min_rows"],
            min_sum_hessian_in_leaf=work["min_hessian"],
            max_bin=BINS,
            num_threads=threads,
            verbose=-1,
            seed=0,
            **self.extra,
        )

    def fit(self, X, y):
        table = self.lightgbm.Dataset(X, y, params=self.parameters)
        self.booster = self.lightgbm.train(self.parameters, table, self.rounds)

    def predict(self, X):
        return self.booster.predict(X, num_threads=self.parameters["num_threads"])


class LightGBMQuantized(LightGBM):
    """LightGBM with quantised gradients, which is also what hybridtrees does."""

    extra = {"use_quantized_grad": True}


class ScikitLearn(Estimator):
    """HistGradientBoosting; its threads come from OMP_NUM_THREADS."""

    def make_model(self, kind: str, work: dict, threads: int):
        from sklearn import ensemble

        return getattr(ensemble, f"HistGradientBoosting{kind}")(
            max_iter=work["trees"],
            max_leaf_nodes=work["leaves"],
            max_depth=None,
            learning_rate=work["learning_rate"],
            l2_regularization=work["l2"],
            min_samples_leaf=work["min_rows"],
            max_bins=BINS,
            early_stopping=False,
            random_state=0,
        )


LIBRARIES = {
    "hybridtrees": HybridTrees,
    "lightgbm": LightGBM,
    "lightgbm-quantized": LightGBMQuantized,
    "xgboost": XGBoost,
    "scikit-learn": ScikitLearn,
}

IMPORT_NAMES = {
    "hybridtrees": "hybridtrees",
    "lightgbm": "lightgbm",
    "xgboost": "xgboost",
    "scikit-learn": "sklearn.ensemble",
}


def resident_mb(field: str) -> float | None:
    """VmRSS or VmHWM of this process in MB, None where the kernel does not say."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith(field + ":"):
                return int(line.split()[1]) / 1024
    return None


def reset_high_water_mark() -> None:
    """Start VmHWM anew at the present resident size, where the kernel allows it."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def seconds(function, *arguments) -> float:
    """Wall time of one call."""
    start = time.perf_counter()
    function(*arguments)
    return time.perf_counter() - start


def load(folder: Path) -> dict[str, np.ndarray]:
    """The arrays of a case, read whole into memory."""
    return {name: np.load(folder / f"{name}.npy") for name in ("X", "y", "X_test", "y_test")}


def warm_up(job: dict, data: dict[str, np.ndarray]) -> None:
    """Fit and predict with a tiny model: lazy imports and thread pools are not fit time."""
    work = dict(job["work"], trees=2)
    model = LIBRARIES[job["library"]](job["task"], work, job["threads"])
    rows = slice(0, 500)
    model.fit(data["X"][rows], data["y"][rows])
    model.predict(data["X_test"][rows])


def measured_fit(make, data: dict) -> tuple:
    """Make and fit a model; returns it with the seconds, and the peak of memory above the input."""
    reset_high_water_mark()
    before = resident_mb("VmRSS")
    model = make()
    figures = {"fit_s": seconds(model.fit, data["X"], data["y"])}
    peak = resident_mb("VmHWM")
    figures["memory_mb"] = None if before is None or peak is None else peak - before
    return model, figures


def measure_fit(job: dict) -> dict:
    """Fit time with binning, predict time on the test part, memory and score."""
    data = load(Path(job["folder"]))
    warm_up(job, data)

    def make():
        return LIBRARIES[job["library"]](job["task"], job["work"], job["threads"])

    model, figures = measured_fit(make, data)
    for _ in range(1, job["inner"]):
        model = make()
        figures["fit_s"] = min(figures["fit_s"], seconds(model.fit, data["X"], data["y"]))
    start = time.perf_counter()
    prediction = model.predict(data["X_test"])
    predict_s = time.perf_counter() - start
    return {
        "fit_s": figures["fit_s"],
        "predict_s": predict_s,
        "memory_mb": figures["memory_mb"],
        "score": score(job["task"], data["y_test"], prediction),
    }


def measure_predict(job: dict) -> dict:
    """Predict time on the test part after an untimed fit."""
    data = load(Path(job["folder"]))
    model = LIBRARIES[job["library"]](job["task"], job["work"], job["threads"])
    model.fit(data["X"], data["y"])
    model.predict(data["X_test"][:500])
    times = [seconds(model.predict, data["X_test"]) for _ in range(job["inner"])]
    return {
        "predict_s": min(times),
        "score": score(job["task"], data["y_test"], model.predict(data["X_test"])),
    }


def measure_latency(job: dict) -> dict:
    """Mean time of predicting one NumPy row, in microseconds: the best of several rounds."""
    data = load(Path(job["folder"]))
    model = LIBRARIES[job["library"]](job["task"], job["work"], job["threads"])
    model.fit(data["X"], data["y"])
    rows = [np.ascontiguousarray(row[None, :]) for row in data["X_test"][:100]]

    def predict_each():
        for row in rows:
            model.predict(row)

    predict_each()
    return {"latency_us": min(seconds(predict_each) for _ in range(10)) / len(rows) * 1e6}


def measure_import(job: dict) -> dict:
    """Import time beyond NumPy and scipy.sparse, in milliseconds."""
    import scipy.sparse  # noqa: F401

    name = IMPORT_NAMES[job["library"]]
    return {"import_ms": seconds(importlib.import_module, name) * 1e3}


MEASURES = {
    "fit": measure_fit,
    "predict": measure_predict,
    "latency": measure_latency,
    "import": measure_import,
}


if __name__ == "__main__":
    task = json.loads(sys.argv[1])
    print(json.dumps(MEASURES[task["kind"]](task)))
