"""First use of an installed hybridtrees: every family is fitted, stored, loaded and read.

    python .ci/smoke.py                   all of it; plots where matplotlib is installed
    python .ci/smoke.py --first-plot      no more than a model and its drawing

It needs nothing but the package, which must be an installed one.
"""

from __future__ import annotations

import argparse
import importlib.util
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import hybridtrees as ht
from hybridtrees.datasets import load_breast_cancer, load_heart_failure, load_house_prices


def rows(data: Any, n: int = 50) -> Any:
    """Return some rows of a table, which is an array or a dict of columns."""
    if isinstance(data, dict):
        return {name: column[:n] for name, column in data.items()}
    return data[:n]


def check_family(name: str, folder: Path) -> None:
    """Fit an estimator on bundled data, store it, load it and compare what both say."""
    classifies = name.endswith("Classifier")
    sets = (load_breast_cancer(), load_heart_failure()) if classifies else (load_house_prices(),)
    begun = time.perf_counter()
    for data in sets:
        model = getattr(ht, name)()
        if "estimators" in model.get_params():
            tree = ht.CARTClassifier if classifies else ht.CARTRegressor
            model.set_params(estimators=[("shallow", tree(max_depth=2)), ("deep", tree())])
        model.fit(data.data, data.target)
        score = model.score(data.data, data.target)
        assert score > (0.75 if classifies else 0.5), f"{name}: {score}"
        model.save(folder / "model.htree")
        loaded = ht.load(folder / "model.htree")
        # A committee that votes by classes, the default of VotingClassifier, has no probabilities.
        method = "predict_proba" if hasattr(model, "predict_proba") else "predict"
        some = rows(data.data)
        assert np.array_equal(getattr(loaded, method)(some), getattr(model, method)(some)), name
    print(f"{name:<28} {score:.3f}  {time.perf_counter() - begun:5.2f} s", flush=True)


def draw(folder: Path) -> None:
    """Draw a tree and the effect of a feature into files."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    data = load_breast_cancer()
    tree = ht.CARTClassifier(max_depth=3).fit(data.data, data.target)
    plt.figure(figsize=(12, 8))
    ht.inspection.plot_tree(tree, feature_names=data.feature_names, filled=True)
    plt.savefig(folder / "tree.png")
    forest = ht.RandomForestClassifier(n_estimators=10, random_state=0).fit(data.data, data.target)
    ht.inspection.plot_partial_dependence(forest, data.data, [0])
    plt.savefig(folder / "effect.png")
    assert (folder / "tree.png").stat().st_size > 10_000
    print("drawn")


def import_milliseconds() -> tuple[float, float]:
    """Return how long a new process takes to import NumPy, and then the package, at best."""
    code = (
        "from time import perf_counter as now; a = now(); import numpy; b = now(); "
        "import hybridtrees; print(1e3 * (b - a), 1e3 * (now() - b))"
    )
    runs = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout
        for _ in range(9)
    ]
    numpy, package = np.min([[float(word) for word in run.split()] for run in runs], axis=0)
    return numpy, package


def main() -> None:
    """Do what the arguments ask for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--first-plot", action="store_true")
    arguments = parser.parse_args()
    home = Path(ht.__file__).resolve().parent
    assert not home.is_relative_to(Path(__file__).resolve().parents[1]), f"{home} is the source"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if arguments.first_plot or importlib.util.find_spec("matplotlib"):
            draw(folder)
        if arguments.first_plot:
            return
        families = [n for n in ht.__all__ if n.endswith(("Regressor", "Classifier"))]
        assert len(families) > 15
        for family in families:
            check_family(family, folder)
    subprocess.run([sys.executable, "-m", "hybridtrees", "info"], check=True)
    numpy, package = import_milliseconds()
    # Told, not judged: machines are noisy. tests/test_packaging.py says what an import may load.
    print(f"import: {package:.1f} ms (at most 30 wanted), beside {numpy:.1f} ms for NumPy")


if __name__ == "__main__":
    main()
