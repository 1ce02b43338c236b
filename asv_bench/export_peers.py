"""One row through a model: `predict`, the compiled predictor, and the C file.

    python asv_bench/export_peers.py [--trees 100] [--leaves 31] [--features 28] [--repeat 30]

Microseconds of CPU time a row, the smallest of all repeats, with one thread. The C file is compiled
by ``cc -O2``, and its loop is in C. With tl2cgen's figure of 25 microseconds (one row in Python) in
mind, goals are 8, 2 and 0.5.
"""

from __future__ import annotations

import argparse
import ctypes
import pickle
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np

import hybridtrees as ht

_LOOP = """
#include "model.c"
void repeat(const double *x, double *out, long n)
{
    for (long i = 0; i < n; i++)
        model_predict(x, out);
}
"""


def fastest(work, number, repeat):
    """Microseconds of CPU time of a call, the smallest of the repeats."""
    best = float("inf")
    for _ in range(repeat):
        start = time.process_time()
        for _ in range(number):
            work()
        best = min(best, time.process_time() - start)
    return 1e6 * best / number


def c_time(model, x, repeat):
    """Microseconds of a row in C, seconds of the compiler."""
    with tempfile.TemporaryDirectory() as folder:
        model.to_c(Path(folder, "model.c"))
        source, library = Path(folder, "loop.c"), Path(folder, "loop.so")
        source.write_text(_LOOP)
        start = time.perf_counter()
        command = ["cc", "-std=c99", "-O2", "-shared", "-fPIC", source, "-o", library, "-lm"]
        subprocess.run(command, check=True)
        seconds = time.perf_counter() - start
        loaded, out, number = ctypes.CDLL(str(library)), np.zeros(8), 2000
        pointers = [ctypes.c_void_p(array.ctypes.data) for array in (x, out)]
        found = fastest(lambda: loaded.repeat(*pointers, ctypes.c_long(number)), 1, repeat)
        return found / number, seconds


def main():
    """Print a row for each model."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, default in (("trees", 100), ("leaves", 31), ("features", 28), ("repeat", 30)):
        parser.add_argument(f"--{name}", type=int, default=default)
    given = parser.parse_args()
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, given.features))
    y = X[:, 0] * X[:, 1] + X[:, 2] + rng.normal(size=len(X))
    how = {"n_estimators": given.trees, "max_leaves": given.leaves, "n_jobs": 1}
    grow = {"max_depth": 0, "grow_policy": "lossguide"}
    cases = {
        f"XGBRegressor, {given.leaves} leaves": (ht.XGBRegressor(**how, **grow), y),
        f"XGBClassifier, {given.leaves} leaves": (ht.XGBClassifier(**how, **grow), y > 0),
        "XGBRegressor, depth 6": (ht.XGBRegressor(n_estimators=given.trees, n_jobs=1), y),
        "PLGBRegressor": (ht.PLGBRegressor(n_estimators=given.trees, n_jobs=1), y),
        "RandomForestRegressor, full depth": (
            ht.RandomForestRegressor(n_estimators=given.trees, n_jobs=1),
            y,
        ),
    }
    print(f"{'model':36s} predict compiled    C   (cc, s)   pickle / model's")
    for name, (model, target) in cases.items():
        model.fit(X, target)
        compiled, x = model.compile(), np.array(X[:1])
        method = "predict_proba" if hasattr(model, "classes_") else "predict"
        plain = fastest(lambda: getattr(model, method)(x), 500, given.repeat)  # noqa: B023
        quick = fastest(lambda: getattr(compiled, method)(x), 500, given.repeat)  # noqa: B023
        in_c = "    - "
        if shutil.which("cc") and "full depth" not in name:
            micros, seconds = c_time(model, x, given.repeat)
            in_c = f"{micros:6.2f}   {seconds:5.2f}"
        share = len(pickle.dumps(compiled)) / len(pickle.dumps(model))
        print(f"{name:36s} {plain:7.2f} {quick:8.2f} {in_c:>12s}   {share:8.2f}")


if __name__ == "__main__":
    main()
