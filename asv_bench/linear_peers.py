"""Compare the linear models of hybridtrees with scikit-learn's.

Each measurement runs in a fresh process on the same arrays, as in ``peers.py``, and reports the
processor's time of the fit, with the thread pools limited, and the objective that it reached,
computed from its coefficients in float64. A peer counts as equal where its objective exceeds ours
by no more than ``SLACK`` of it; its tolerance is tightened until it does.

    python asv_bench/linear_peers.py
    python asv_bench/linear_peers.py --case ridge --repeats 5
    python asv_bench/linear_peers.py --scale 0.01
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
from measuring import US, run_worker, verdict

SEED = 20260101
SLACK = 1e-8
ALPHA = {"ridge": 1e-3, "logistic": 1e-5}
N_ALPHAS = 100
L1_RATIO = {"lasso": 1.0, "elasticnet": 0.5}

# case: (title, rows, columns, goal, limit)
CASES = {
    "ridge": ("LinearRegressor ridge, 1M x 28", 1_000_000, 28, 0.7, 1.2),
    "lasso": ("lasso path of 100 alphas, 50k x 500", 50_000, 500, 0.7, 1.2),
    "elasticnet": ("elastic net path of 100 alphas, 50k x 500", 50_000, 500, 0.7, 1.2),
    "logistic": ("LogisticClassifier ridge, 1M x 28", 1_000_000, 28, 0.5, 1.0),
}
PEERS = {
    "ridge": ["scikit-learn cholesky"],
    "lasso": ["scikit-learn path"],
    "elasticnet": ["scikit-learn path"],
    "logistic": ["scikit-learn lbfgs", "scikit-learn newton-cholesky"],
}
# Tolerances of a peer, loose to tight: the first that reaches the objective is its time.
TOLERANCES = {
    "scikit-learn cholesky": [None],
    "scikit-learn path": [1e-4, 1e-6, 1e-8],
    "scikit-learn lbfgs": [1e-4, 1e-6, 1e-8],
    "scikit-learn newton-cholesky": [1e-4, 1e-6, 1e-8],
    US: [None],
}


def make_table(case: str, n: int, p: int, dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """Correlated columns, standardised so that every library solves the same problem."""
    rng = np.random.default_rng(SEED)
    factors = rng.standard_normal((n, max(3, p // 10)))
    X = rng.standard_normal((n, p)) + 0.7 * factors @ rng.standard_normal((factors.shape[1], p))
    X -= X.mean(axis=0)
    X /= X.std(axis=0)
    coef = np.where(rng.random(p) < 0.2, rng.standard_normal(p), 0.0)
    signal = X @ coef
    signal /= signal.std()
    if case == "logistic":
        y = (2.0 * signal + rng.logistic(size=n) > 0).astype(np.int64)
    else:
        y = signal + rng.standard_normal(n)
    return X.astype(dtype), y


def alphas_of(X: np.ndarray, y: np.ndarray, l1_ratio: float) -> np.ndarray:
    steepest = np.abs(X.T.astype(np.float64) @ (y - y.mean())).max() / len(y)
    return steepest / l1_ratio * np.geomspace(1.0, 1e-3, N_ALPHAS)


def objective(case: str, X: np.ndarray, y: np.ndarray, fitted: list) -> list[float]:
    """Objective of each (alpha, coef, intercept), on the standardised columns."""
    values = []
    l1_ratio = L1_RATIO.get(case, 0.0)
    for alpha, coef, intercept in fitted:
        score = X.astype(np.float64) @ coef + intercept
        if case == "logistic":
            loss = np.mean(np.logaddexp(0.0, np.where(y == 1, -score, score)))
        else:
            loss = np.mean((y - score) ** 2) / 2
        penalty = l1_ratio * np.abs(coef).sum() + (1 - l1_ratio) / 2 * (coef**2).sum()
        values.append(float(loss + alpha * penalty))
    return values


def fit_ours(
    case: str, X: np.ndarray, y: np.ndarray, grid: np.ndarray | None, threads: int
) -> list:
    from hybridtrees.linear.classifier import LogisticClassifier
    from hybridtrees.linear.regressor import LinearRegressor, linear_path

    alpha = ALPHA.get(case)
    if case == "ridge":
        model = LinearRegressor(penalty="ridge", alpha=alpha, n_jobs=threads).fit(X, y)
        return [(alpha, model.coef_, model.intercept_)]
    if case == "logistic":
        model = LogisticClassifier(penalty="ridge", alpha=alpha, n_jobs=threads).fit(X, y)
        return [(alpha, model.coef_[0], model.intercept_[0])]
    ratio = L1_RATIO[case]
    path = linear_path(X, y, penalty=case, l1_ratio=ratio, alphas=grid, n_jobs=threads)
    return list(zip(path.alphas, path.coefs, path.intercepts, strict=True))


def fit_sklearn(
    case: str, X: np.ndarray, y: np.ndarray, grid: np.ndarray | None, solver: str, tol: float | None
) -> list:
    from sklearn.linear_model import LogisticRegression, Ridge, enet_path

    warnings.simplefilter("ignore")
    alpha = ALPHA.get(case)
    if case == "ridge":
        model = Ridge(alpha=alpha * len(y), solver=solver).fit(X, y)
        return [(alpha, model.coef_, model.intercept_)]
    if case == "logistic":
        model = LogisticRegression(C=1 / (alpha * len(y)), solver=solver, tol=tol, max_iter=1000)
        model.fit(X, y)
        return [(alpha, model.coef_[0], model.intercept_[0])]
    ratio = L1_RATIO[case]
    # The path has no intercept of its own: columns are centred already, y has to be.
    mean = y.mean()
    alphas, coefs, _ = enet_path(
        X, (y - mean).astype(X.dtype), l1_ratio=ratio, alphas=grid, tol=tol
    )
    return [(a, c, mean) for a, c in zip(alphas, coefs.T.astype(np.float64), strict=True)]


def work(job: dict) -> dict:
    """Measure one library in this process."""
    X = np.load(Path(job["folder"], "X.npy"))
    y = np.load(Path(job["folder"], "y.npy"))
    case, library, threads = job["case"], job["library"], job["threads"]
    part = slice(0, 2000)
    grid = alphas_of(X, y, L1_RATIO[case]) if case in L1_RATIO else None

    def run(X, y):
        if library == US:
            return fit_ours(case, X, y, grid, threads)
        return fit_sklearn(case, X, y, grid, library.split()[1], job["tol"])

    run(X[part], y[part])  # imports and thread pools
    start, used = time.perf_counter(), time.process_time()
    fitted = run(X, y)
    wall, cpu = time.perf_counter() - start, time.process_time() - used
    return {"fit_s": wall, "cpu_s": cpu, "objective": objective(case, X, y, fitted)}


def measure(case: str, library: str, tol: float | None, threads: int, folder: str) -> dict:
    job = {"case": case, "library": library, "tol": tol, "threads": threads, "folder": folder}
    return run_worker("linear_peers.py", job, "--job")


def run_case(case: str, options, folder: str) -> None:
    """Each peer with ever tighter tolerances; runs of the two sides take turns."""
    title, _, _, goal, limit = CASES[case]
    print(f"\n{title}, {options.dtype}, {options.threads} thread(s)", flush=True)
    best = None
    for peer in PEERS[case]:
        for tol in TOLERANCES[peer]:
            ours, theirs = [], []
            for _ in range(options.repeats):
                ours.append(measure(case, US, None, options.threads, folder))
                theirs.append(measure(case, peer, tol, options.threads, folder))
            mine, other = (min(run["cpu_s"] for run in runs) for runs in (ours, theirs))
            pairs = zip(ours[0]["objective"], theirs[0]["objective"], strict=True)
            excess = max((b - a) / abs(a) for a, b in pairs)
            label = peer if tol is None else f"{peer} tol={tol:g}"
            print(
                f"  {label:38s} {other:7.3f} s, ours {mine:7.3f} s, ratio {mine / other:.3f}, "
                f"objective above ours by {excess:+.1e}",
                flush=True,
            )
            if excess <= SLACK or tol == TOLERANCES[peer][-1]:
                best = max(best or 0.0, mine / other)
                break
    end = verdict(best, goal, limit)
    print(f"  ratio at equal objective {best:.3f}, goal {goal}, limit {limit}: {end}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--case", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0, help="fraction of the rows")
    parser.add_argument("--dtype", choices=("float32", "float64"), default="float64")
    parser.add_argument("--job", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.job:
        print(json.dumps(work(json.loads(options.job))))
        return 0
    for case in options.case:
        _, n, p, _, _ = CASES[case]
        with tempfile.TemporaryDirectory() as folder:
            X, y = make_table(case, max(3000, int(n * options.scale)), p, options.dtype)
            np.save(Path(folder, "X.npy"), X)
            np.save(Path(folder, "y.npy"), y)
            del X
            run_case(case, options, folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
