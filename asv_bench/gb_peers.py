"""Compare gradient boosting, in Friedman's form and in XGBoost's, with its peers.

Every measurement runs in a fresh process of this file with the same data, parameters and number
of threads. The order of the libraries changes from repeat to repeat, and the minimum over the
repeats is reported. Ratios are hybridtrees / peer, so less than 1 is better; so are scores, which
may be 0.2 % worse than the peer's at most.

    python asv_bench/gb_peers.py                         # every case, 1 and 2 threads
    python asv_bench/gb_peers.py --case exact-10k --threads 1 --repeats 3
    python asv_bench/gb_peers.py --scale 0.01            # a hundredth of the rows: a smoke test
    python asv_bench/gb_peers.py --cpu                   # CPU time, for a machine that is not idle
    python asv_bench/gb_peers.py --table friedman        # where scores are not a matter of luck
    python asv_bench/gb_peers.py --case classes --draws 5 --repeats 1    # scores of several draws

On the default table one draw of the data moves the score of any library by percents, as
``score_spread.py`` explains; so does one bin fewer on the same draw, by 0.1 to 0.2 %. With
``--draws`` the ratio of the scores is the mean over several draws, and its standard error is
printed with it. The seeds are those that follow the default one.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import measuring
import numpy as np
from benchmarks.datasets import SEED, TABLES, make_data, score
from measuring import US, Figures, ratio, verdict

N_CLASSES = 7
SCORE_GOALS = (1.0, 1.002)


@dataclass(frozen=True)
class Case:
    """One row of the comparison; `goals` are the ratio to reach and the one that is too little."""

    title: str
    n: int
    p: int
    task: str
    peer: str
    grow: str  # how trees are grown: "exact", "hist" (both Friedman's), "leaves" or "levels"
    goals: tuple[float, float]
    loss: str | None = None
    missing: float = 0.0
    repeats: int | None = None  # overrides --repeats


CASES = {
    "exact-10k": Case(
        "exact, 10k x 20", 10_000, 20, "regression", "gb", "exact", (0.10, 0.25)
    ),
    "exact-10k-binary": Case(
        "exact, 10k x 20, two classes", 10_000, 20, "binary", "gb", "exact", (0.10, 0.25)
    ),
    "exact-10k-absolute": Case(
        "exact, 10k x 20, absolute error", 10_000, 20, "regression", "gb", "exact", (0.10, 0.25),
        loss="absolute_error",
    ),
    "exact-100k": Case(
        "exact, 100k x 28", 100_000, 28, "regression", "gb", "exact", (0.10, 0.25), repeats=1
    ),
    "hist-1m": Case(
        "bins, 1M x 28", 1_000_000, 28, "regression", "hgb", "hist", (0.5, 0.8)
    ),
    "hist-1m-binary": Case(
        "bins, 1M x 28, two classes", 1_000_000, 28, "binary", "hgb", "hist", (0.5, 0.8)
    ),
    "hist-1m-absolute": Case(
        "bins, 1M x 28, absolute error", 1_000_000, 28, "regression", "hgb", "hist", (0.5, 0.8),
        loss="absolute_error", repeats=1,
    ),
    "hist-missing": Case(
        "bins, 500k x 28, 30 % missing", 500_000, 28, "binary", "hgb", "hist", (0.5, 0.8),
        missing=0.3,
    ),
    "classes": Case(
        "XGB, 200k x 50, 7 classes, 31 leaves", 200_000, 50, "multiclass", "lightgbm", "leaves",
        (0.6, 0.9),
    ),
    "missing": Case(
        "XGB, 500k x 28, two classes, 30 % missing, 31 leaves", 500_000, 28, "binary", "lightgbm",
        "leaves", (0.5, 0.8), missing=0.3,
    ),
    "levels": Case(
        "XGB, 1M x 28, depth 6 level by level", 1_000_000, 28, "regression", "xgboost", "levels",
        (0.5, 0.8),
    ),
}  # fmt: skip


def friedman_model(case: Case, library: str, threads: int, n_trees: int):
    """Trees of depth 3 at a learning rate of 0.1."""
    kind = "Regressor" if case.task == "regression" else "Classifier"
    loss = {} if case.loss is None else {"loss": case.loss}
    if library == US:
        from hybridtrees.models.gradient_boosting import estimators as gradient_boosting

        cls = getattr(gradient_boosting, f"GradientBoosting{kind}")
        return cls(n_estimators=n_trees, splitter=case.grow, n_jobs=threads, **loss)
    from sklearn import ensemble

    if library == "gb":
        return getattr(ensemble, f"GradientBoosting{kind}")(n_estimators=n_trees, **loss)
    # Their default of 20 rows per leaf is ours of one row here.
    return getattr(ensemble, f"HistGradientBoosting{kind}")(
        max_iter=n_trees, max_depth=3, max_leaf_nodes=None, min_samples_leaf=1,
        early_stopping=False, **loss,
    )  # fmt: skip


class LightGBM:
    """LightGBM through Dataset and Booster, its quickest interface."""

    def __init__(self, task: str, threads: int, n_trees: int):
        import lightgbm

        self.lightgbm = lightgbm
        self.n_trees = n_trees
        self.parameters = dict(
            objective={"regression": "regression", "binary": "binary"}.get(task, "multiclass"),
            num_leaves=31, learning_rate=0.1, lambda_l2=1.0, min_data_in_leaf=1,
            min_sum_hessian_in_leaf=1.0, max_bin=255, num_threads=threads, verbose=-1, seed=0,
        )  # fmt: skip
        if task == "multiclass":
            self.parameters["num_class"] = N_CLASSES

    def fit(self, X, y):
        """Bin and train."""
        table = self.lightgbm.Dataset(X, y, params=self.parameters)
        self.booster = self.lightgbm.train(self.parameters, table, self.n_trees)
        return self

    def predict(self, X):
        """Means or probabilities."""
        return self.booster.predict(X, num_threads=self.parameters["num_threads"])

    predict_proba = predict


def newton_model(case: Case, library: str, threads: int, n_trees: int):
    """Trees of 31 leaves, or of depth 6, at a learning rate of 0.1."""
    if library == "lightgbm":
        return LightGBM(case.task, threads, n_trees)
    if library == US:
        import hybridtrees as package
    else:
        import xgboost as package  # type: ignore[no-redef]
    kind = "Regressor" if case.task == "regression" else "Classifier"
    shape = {"max_depth": 6}
    if case.grow == "leaves":
        shape = {"max_depth": 0, "max_leaves": 31, "grow_policy": "lossguide"}
    # Of K classes LightGBM takes K / (K - 1) p (1 - p) for the hessian, XGBoost's dialect twice
    # p (1 - p). All that is measured in hessians has to follow for the two to do equal work.
    unit = 2.0 * (N_CLASSES - 1) / N_CLASSES if case.task == "multiclass" else 1.0
    return getattr(package, f"XGB{kind}")(
        n_estimators=n_trees, learning_rate=0.1 * unit, reg_lambda=unit, min_child_weight=unit,
        max_bin=255, tree_method="hist", n_jobs=threads, random_state=0, **shape,
    )  # fmt: skip


def make_model(case: Case, library: str, threads: int, n_trees: int):
    """An estimator of a library with the parameters of a case."""
    make = friedman_model if case.grow in ("exact", "hist") else newton_model
    return make(case, library, threads, n_trees)


def work(job: dict) -> Figures:
    """Measure one library in this process."""
    case, folder = CASES[job["case"]], Path(job["folder"])
    data = {name: np.load(folder / f"{name}.npy") for name in ("X", "y", "X_test", "y_test")}
    clock = time.process_time if job["cpu"] else time.perf_counter
    # Lazy imports and thread pools are not fit time.
    warm = make_model(case, job["library"], job["threads"], 2).fit(data["X"][:500], data["y"][:500])
    predict = "predict" if case.task == "regression" else "predict_proba"
    getattr(warm, predict)(data["X_test"][:500])
    model = make_model(case, job["library"], job["threads"], 100)
    times = [clock()]
    model.fit(data["X"], data["y"])
    times.append(clock())
    prediction = getattr(model, predict)(data["X_test"])
    times.append(clock())
    return {
        "fit_s": times[1] - times[0],
        "predict_s": times[2] - times[1],
        "score": score(case.task, data["y_test"], prediction),
    }


def case_data(case: Case, n: int, table: str, seed: int = SEED) -> dict[str, np.ndarray]:
    """Training and test rows of a case."""
    several = case.task == "multiclass"
    task = "regression" if several else case.task
    data = make_data(n, case.p, task, table=table, seed=seed)._asdict()
    if several:  # as many rows of each class
        cuts = np.quantile(data["y"], np.arange(1, N_CLASSES) / N_CLASSES)
        for name in ("y", "y_test"):
            data[name] = np.searchsorted(cuts, data[name]).astype(np.int64)
    return data


def prepare(case: Case, scale: float, table: str, draw: int, folder: Path) -> None:
    """Write the arrays of a draw of a case."""
    n = measuring.shrink(case.n, scale)
    data = case_data(case, n, table, SEED + draw)
    rng = np.random.default_rng(0)
    for name, array in data.items():
        if case.missing and name.startswith("X"):
            array[rng.random(array.shape, dtype=np.float32) < case.missing] = np.nan
        np.save(folder / f"{name}.npy", array)


def measure(name: str, library: str, threads: int, folder: str, cpu: bool) -> Figures:
    """Run this file in a fresh process and return its figures."""
    job = {"case": name, "library": library, "threads": threads, "folder": folder, "cpu": cpu}
    return measuring.run_worker("gb_peers.py", job, "--job")


def run_draw(
    name: str, threads: int, options: argparse.Namespace, folder: Path
) -> dict[str, Figures]:
    """Best figures of every library on one draw of the data."""
    case = CASES[name]
    runs: dict[str, list[Figures]] = {US: [], case.peer: []}
    for library in measuring.rotations(list(runs), case.repeats or options.repeats):
        try:
            runs[library].append(measure(name, library, threads, str(folder), options.cpu))
        except RuntimeError as error:
            print(f"  {error}", file=sys.stderr)
    return {library: measuring.best(found) for library, found in runs.items() if found}


def run_case(
    name: str, threads: int, options: argparse.Namespace, folders: list[Path]
) -> list[list[str]]:
    """Measure and print one case; returns lines of the summary."""
    case = CASES[name]
    draws = [run_draw(name, threads, options, folder) for folder in folders]
    by_library = {
        library: [d[library] for d in draws if library in d] for library in (US, case.peer)
    }
    results = {library: measuring.best(found) for library, found in by_library.items() if found}
    measuring.print_figures(f"{case.title}, {threads} thread(s)", results)
    scores = [ratio(d.get(US, {}), d.get(case.peer, {}), "score") for d in draws]
    scores = [value for value in scores if value is not None]
    if len(scores) > 1:
        error = statistics.stdev(scores) / len(scores) ** 0.5
        each = ", ".join(f"{value:.4f}" for value in scores)
        print(f"score ratio {statistics.fmean(scores):.4f} +- {error:.4f} of the draws {each}")
    lines = []
    found = {
        "fit_s": ratio(results.get(US, {}), results.get(case.peer, {}), "fit_s"),
        "score": statistics.fmean(scores) if scores else None,
    }
    for (figure, value), goals in zip(found.items(), (case.goals, SCORE_GOALS), strict=True):
        if value is not None:
            numbers = [f"{x:.3f}" for x in (value, *goals)]
            lines.append([f"{name} {figure}", str(threads), *numbers, verdict(value, *goals)])
    return lines


def main(arguments: list[str] | None = None) -> int:
    """Run the comparison."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--case", nargs="+", choices=CASES, default=list(CASES), metavar="CASE")
    parser.add_argument("--threads", nargs="+", type=measuring.positive(int), default=[1, 2])
    parser.add_argument("--repeats", type=measuring.positive(int), default=3)
    parser.add_argument(
        "--draws", type=measuring.positive(int), default=1, help="draws of the table"
    )
    parser.add_argument(
        "--scale", type=measuring.positive(float), default=1.0, help="fraction of the rows"
    )
    parser.add_argument(
        "--table", choices=TABLES, default=TABLES[0], help="the second one for scores"
    )
    parser.add_argument("--cpu", action="store_true", help="CPU time in place of wall time")
    parser.add_argument("--job", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.job:
        print(json.dumps(work(json.loads(options.job))))
        return 0
    measuring.print_machine()
    rows = [["target", "threads", "ratio", "goal", "limit", "verdict"]]
    for name in options.case:
        with tempfile.TemporaryDirectory() as folder:
            folders = [Path(folder, str(draw)) for draw in range(options.draws)]
            for draw, own in enumerate(folders):
                own.mkdir()
                prepare(CASES[name], options.scale, options.table, draw, own)
            for threads in options.threads:
                rows += run_case(name, threads, options, folders)
    measuring.print_rows(rows, "targets")
    return 0 if len(rows) > 1 else 1


if __name__ == "__main__":
    sys.exit(main())
