"""Compare linear trees with the package linear-tree.

linear-tree 0.3.5 needs a scikit-learn below 1.6, so it runs under a Python of its own:

    python -m venv peer-env && peer-env/bin/pip install linear-tree==0.3.5 'scikit-learn<1.6'
    python asv_bench/linear_tree_peers.py --peer-python peer-env/bin/python
    python asv_bench/linear_tree_peers.py --case regression --repeats 5
    python asv_bench/linear_tree_peers.py --json result.json

Every measurement is a process of its own with the same data and number of threads; fits are
warmed up by a small one. The minimum over the repeats is reported, in seconds of wall and of
processor time. Ratios are hybridtrees / linear-tree, so less than 1 is better. Without a peer's
Python its columns stay empty. Superconductivity is read from parquet files
``superconductivity_{train,validation,test}`` in a folder beside the repository.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
# Goal and "too little" are ratios to the peer, or seconds where there is none.
CASES = {
    "regression": {"title": "regressor, depth 5, 10k x 20, 25 bins", "goals": (0.005, 0.02)},
    "default": {"title": "the same with our defaults (64 bins, small leaves)", "goals": None},
    "large": {"title": "regressor, depth 5, 200k x 20 (seconds)", "goals": (3.0, 10.0)},
    "classification": {"title": "classifier, depth 5, 10k x 20", "goals": (0.02, 0.06)},
    "class-default": {"title": "the same with our defaults", "goals": None},
    "super": {"title": "regressor, depth 2, superconductivity", "goals": (0.02, 0.05)},
    "super-exact": {"title": "the same, search='exact'", "goals": None},
}
NO_PEER = ("default", "large", "class-default", "super-exact")


def make_data(case: str, folder: Path) -> Path:
    """Save the arrays of a case and return where."""
    case = {"default": "regression", "class-default": "classification"}.get(case, case)
    path = folder / f"{case.removesuffix('-exact')}.npz"
    if path.exists():
        return path
    if case.startswith("super"):
        import pandas

        parts = [
            pandas.read_parquet(DATA / f"superconductivity_{k}.parquet") for k in ("train", "test")
        ]
        X, Xt = (part.drop(columns="critical_temp").to_numpy(float) for part in parts)
        y, yt = (part["critical_temp"].to_numpy(float) for part in parts)
        mean, scale = X.mean(axis=0), np.where(X.std(axis=0) > 0, X.std(axis=0), 1.0)
        np.savez(path, X=(X - mean) / scale, y=y, Xt=(Xt - mean) / scale, yt=yt)
        return path
    rng = np.random.default_rng(0)
    n = 200_000 if case == "large" else 10_000
    X = rng.normal(size=(n + 10_000, 20))
    slopes = rng.normal(size=(4, 20))
    region = 2 * (X[:, 0] > 0.2) + (X[:, 1] > -0.4)
    y = np.einsum("ij,ij->i", X, slopes[region]) + 3 * region
    if case == "classification":
        y = (y + rng.logistic(size=len(y)) > 0).astype(int)
    else:
        y = y + rng.normal(size=len(y))
    np.savez(path, X=X[:n], y=y[:n], Xt=X[n:], yt=y[n:])
    return path


def our_model(case: str, threads: int):
    """Estimator with the peer's limits, bins and penalty.

    The regressor then grows the peer's tree. The classifier does not count errors, as the peer
    does, and is left to prune splits that only follow the noise.
    """
    from hybridtrees import LinearTreeClassifier, LinearTreeRegressor

    peer = {"max_bins": 25, "candidates": "quantiles", "min_samples_leaf": 0.1}
    peer |= {"standardize": False, "n_jobs": threads}
    ridge = {"penalty": "ridge", "alpha": 1.0, "alpha_scaling": "sum"}
    if case == "classification":
        return LinearTreeClassifier(max_depth=5, **peer, **ridge)
    if case == "class-default":
        return LinearTreeClassifier(n_jobs=threads)
    if case in ("default", "large"):
        return LinearTreeRegressor(max_depth=5, n_jobs=threads)
    depth = 2 if case.startswith("super") else 5
    search = "exact" if case == "super-exact" else "auto"
    return LinearTreeRegressor(max_depth=depth, search=search, pruning=None, **peer, **ridge)


def peer_model(case: str):
    """Return linear-tree's estimator."""
    from lineartree import LinearTreeClassifier, LinearTreeRegressor
    from sklearn.linear_model import LogisticRegression, Ridge

    if case == "classification":
        return LinearTreeClassifier(LogisticRegression(max_iter=1000), max_depth=5)
    return LinearTreeRegressor(Ridge(), max_depth=2 if case == "super" else 5)


def work(job: dict) -> None:
    """Fit once in this process and print the figures."""
    data = np.load(job["data"])
    X, y, Xt, yt = (data[name] for name in ("X", "y", "Xt", "yt"))
    ours = job["library"] == "hybridtrees"
    model = our_model(job["case"], job["threads"]) if ours else peer_model(job["case"])
    if ours:  # imports that a first fit makes are not part of a fit
        model.fit(X[:300], y[:300])
    wall, cpu = time.perf_counter(), time.process_time()
    model.fit(X, y)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    said = model.predict(Xt)
    if job["case"].startswith("class"):
        error = float(np.mean(said != yt))
    else:
        error = float(np.sqrt(np.mean((said - yt) ** 2)))
    print(json.dumps({"wall": wall, "cpu": cpu, "error": error}))


def measure(python: str, job: dict) -> dict:
    """Run a process and return its figures."""
    limits = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    environment = {**os.environ, **dict.fromkeys(limits, str(job["threads"]))}
    command = [python, __file__, "--work", json.dumps(job)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        last = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        raise RuntimeError(f"{job['library']}: {last[0]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def best(runs: list[dict]) -> dict:
    """Least times, and the error of the last run."""
    return {
        "wall": min(run["wall"] for run in runs),
        "cpu": min(run["cpu"] for run in runs),
        "error": runs[-1]["error"],
    }


def run_case(case: str, threads: int, repeats: int, peer: str | None, folder: Path) -> dict:
    """Return the figures of both libraries."""
    job = {"case": case, "threads": threads, "data": str(make_data(case, folder))}
    found = {}
    runs = [measure(sys.executable, {**job, "library": "hybridtrees"}) for _ in range(repeats)]
    found["hybridtrees"] = best(runs)
    if peer is not None and case not in NO_PEER:
        runs = [measure(peer, {**job, "library": "linear-tree"}) for _ in range(min(repeats, 2))]
        found["linear-tree"] = best(runs)
    return found


def show(case: str, threads: int, found: dict) -> None:
    """Print a case."""
    title, goals = CASES[case]["title"], CASES[case]["goals"]
    print(f"\n{title}, {threads} thread{'s' if threads > 1 else ''}")
    for library, figures in found.items():
        print(
            f"  {library:<12} wall {figures['wall']:8.3f} s   cpu {figures['cpu']:8.3f} s   "
            f"test error {figures['error']:.6f}"
        )
    if "linear-tree" in found:
        wall, cpu = (found["hybridtrees"][k] / found["linear-tree"][k] for k in ("wall", "cpu"))
        print(f"  ratio        wall {wall:8.4f}     cpu {cpu:8.4f}     goal, too little {goals}")
    elif goals is not None and case in NO_PEER:
        print(f"  goal, too little: {goals} s")


def main() -> None:
    """Read the arguments, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--case", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--threads", nargs="+", type=int, default=[1])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--peer-python", help="the Python that has linear-tree")
    parser.add_argument("--json", type=Path, help="where to write all figures")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work(json.loads(options.work))
        return
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        for case in options.case:
            for threads in options.threads:
                try:
                    found = run_case(
                        case, threads, options.repeats, options.peer_python, Path(folder)
                    )
                except (RuntimeError, FileNotFoundError) as error:
                    print(f"{case}: {error}", file=sys.stderr)
                    continue
                show(case, threads, found)
                results[f"{case} {threads}"] = found
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
