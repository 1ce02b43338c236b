"""Import changed files of other libraries and ask the models everything; see `file_fuzzer`.

    python foreign_fuzzer.py FOLDER KIND FIRST LAST [METHOD...]

goes through the cases from FIRST to LAST of the files of one kind ("xgboost", "ubjson", "lightgbm"
or "catboost") in FOLDER, and prints one line for each that went wrong. With METHODs the models are
asked these only, which is quicker.
"""

from __future__ import annotations

import faulthandler
import json
import sys
import traceback
import warnings
from pathlib import Path

import numpy as np
from file_fuzzer import MOST_SECONDS, ask_everything, limit_memory
from foreign_mutations import mutate, ubjson

import hybridtrees
from hybridtrees._persistence import ModelFileError

READERS = {
    "xgboost": ("xgboost*.json", hybridtrees.from_xgboost),
    "ubjson": ("xgboost*.json", hybridtrees.from_xgboost),
    "lightgbm": ("lightgbm*.txt", hybridtrees.from_lightgbm),
    "catboost": ("catboost*.json", hybridtrees.from_catboost),
}


def run_case(kind, content, only=()):
    """Take a file over and ask the model everything; return what went wrong, None if refused."""
    try:
        model = READERS[kind][1](content)
    except ModelFileError:
        return None
    except Exception:
        return ["import: " + traceback.format_exc(limit=-3)]
    return ask_everything(model, only)


def main(folder, kind, first, last, *only):
    """Go through some cases; each is a file, in turn, and a seed."""
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    files = []
    for path in sorted(Path(folder).glob(READERS[kind][0])):
        content = path.read_bytes()
        document = json.loads(content) if path.suffix == ".json" else None
        name = path.name
        if kind == "ubjson":
            content, name = ubjson(document), path.stem + ".ubj"
        files.append((name, content, document))
        assert run_case(kind, content) == []  # loads all that is needed, too
    limit_memory()
    n_refused = 0
    for case in range(int(first), int(last)):
        name, content, document = files[case % len(files)]
        print(f"case {case}: {name}", flush=True)
        faulthandler.dump_traceback_later(MOST_SECONDS, exit=True)
        wrong = run_case(kind, mutate(name, content, document, case), only)
        faulthandler.cancel_dump_traceback_later()
        n_refused += wrong is None
        for one in wrong or ():
            print(f"WRONG {one}", flush=True)
    print(f"refused {n_refused}\ndone", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
