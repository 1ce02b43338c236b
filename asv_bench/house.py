"""Figures of the code itself: modules, binaries, lines, folders, files that a fit goes through.

    python house.py [ROOT ...]

Each ROOT is a tree that is built in place; without one, the tree of this file. The last figure
counts, for one `fit`, how often a call goes to another Python file of the package than the last.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from collections import Counter
from pathlib import Path

TRACE = """
import sys
import numpy as np
import hybridtrees
rng = np.random.default_rng(0)
X = rng.standard_normal((2000, 10)); y = X[:, 0] + np.sin(X[:, 1])
MODELS = {
    "XGB": hybridtrees.XGBRegressor(n_estimators=2),
    "RF": hybridtrees.RandomForestRegressor(n_estimators=2, n_jobs=1),
    "LinearTree": hybridtrees.LinearTreeRegressor(),
    "PLGB": hybridtrees.PLGBRegressor(n_estimators=2),
    "EBLR": hybridtrees.EBLRRegressor(n_rules=1),
}
for name, model in MODELS.items():
    type(model)(**model.get_params()).fit(X, y)  # modules are loaded, caches are filled
    state = [None, 0]
    def trace(frame, event, arg):
        at = frame.f_code.co_filename
        if event == "call" and "hybridtrees" in at and at != state[0]:
            state[0] = at
            state[1] += 1
    sys.setprofile(trace)
    model.fit(X, y)
    sys.setprofile(None)
    print(name, state[1])
"""


def figures(root: Path) -> dict[str, str]:
    """Figures of one tree."""
    package = root / "hybridtrees"
    code = [f for f in package.rglob("*") if f.suffix in (".py", ".pyx", ".pxd", ".pyi", ".h")]
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    binaries = [*package.rglob(f"*{suffix}")]
    generated = [*(root / "build" / "cython").rglob("*.c")]
    folders = Counter(str(f.parent.relative_to(root)) for f in code)
    fullest, files = folders.most_common(1)[0]
    found = {
        "extension modules": str(len(binaries)),
        "binaries, MB": f"{sum(f.stat().st_size for f in binaries) / 1e6:.2f}",
        "lines of generated C": str(sum(len(f.read_bytes().splitlines()) for f in generated)),
        "lines of the package": str(sum(len(f.read_text().splitlines()) for f in code)),
        "fullest folder": f"{files} ({fullest})",
    }
    done = subprocess.run(
        [sys.executable, "-c", TRACE], cwd=root, capture_output=True, text=True, check=True
    )
    for line in done.stdout.splitlines():
        name, count = line.split()
        found[f"changes of file, {name}"] = count
    return found


def main() -> None:
    """Print a table, one column per tree."""
    roots = [Path(a).resolve() for a in sys.argv[1:]] or [Path(__file__).resolve().parents[1]]
    columns = [figures(root) for root in roots]
    for row in columns[0]:
        print(f"{row:28}", *(f"{column[row]:>26}" for column in columns))


if __name__ == "__main__":
    main()
