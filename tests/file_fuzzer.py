"""Load changed model files and ask the models everything, in a process that may crash.

    python file_fuzzer.py FOLDER FIRST LAST

goes through the cases from FIRST to LAST of the models saved in FOLDER, and prints one line for
each that went wrong. What it was at when it died or hung is in the line before.
"""

from __future__ import annotations

import faulthandler
import inspect
import io
import pickle
import sys
import traceback
import warnings
from contextlib import redirect_stdout
from functools import cache
from itertools import islice
from pathlib import Path

import numpy as np
from file_mutations import ModelFile, mutate

from hybridtrees import inspection, load
from hybridtrees._persistence import ModelFileError

# Parameters, where an estimator has them, that make a small model with a bit of everything.
SMALL = {
    "n_estimators": 3,
    "quality": 1,
    "max_rules": 3,
    "max_depth": 3,
    "alpha": 0.1,
    "penalty": "ridge",
    "random_state": 0,
    "n_jobs": 1,
}

# Seconds that a case may take, and bytes that it may add to those of an idle process.
MOST_SECONDS = 20
MOST_BYTES = 2**30

# What a reader may raise: errors about values, not of the interpreter or of the machine.
SANE = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    NotImplementedError,
    TypeError,
    ValueError,
)
INSANE = (RecursionError, SystemError, MemoryError)
# What explanations and exports may raise, of any file: errors that say what is wrong, or that an
# optional package is not installed.
CLEAR = (ArithmeticError, AttributeError, ImportError, NotImplementedError, TypeError, ValueError)
EXPLICIT = ("shap_values", "interactions", "background", "compile", "compiled", "to_")

# Takes memory by the number of rows that a forest says it was fitted to, which nothing else in a
# file bears out.
_BY_STATED_ROWS = ("standard_errors", "estimators_samples_")

# Not readers: they fit, change parameters or write files.
_NO_READERS = ("fit", "set_", "save", "get_metadata_routing", "plot")


@cache
def table(n_columns=3, n_rows=280):
    """A table with missing values and categories, a number and a class to predict.

    The fourth column has so many categories that trees keep their sets as lists.
    """
    import pandas as pd

    rng = np.random.default_rng(5)
    X = pd.DataFrame(
        {
            "a": rng.normal(size=n_rows).round(2),
            "b": rng.normal(size=n_rows),
            "c": pd.Categorical(rng.choice(list("uvwxyz"), n_rows)),
            "d": pd.Categorical(np.arange(n_rows).astype(str)),
        }
    )
    y = X["a"].to_numpy() + X["c"].isin(["u", "v"]) + rng.normal(size=n_rows) / 9
    X.loc[::7, "a"] = np.nan
    return X.iloc[:, :n_columns], y.to_numpy(), np.digitize(y, [0.0, 0.7])


def readers(model):
    """Names and functions of all that a model can be asked with a table, a target or nothing."""
    X, y, labels = table(4 if getattr(model, "n_features_in_", 3) == 4 else 3)
    n_codes = getattr(getattr(model, "_reader", None), "n_codes", None)
    if n_codes is not None and not np.any(n_codes):  # imported, and knows numbers only
        X = X.assign(**{name: X[name].cat.codes for name in X.columns[2:]})
    target = labels if hasattr(model, "classes_") else y
    given = {"X": X, "y": target}
    for name in sorted(dir(type(model))):
        if name.startswith(("_", *_NO_READERS)):
            continue
        if isinstance(getattr(type(model), name), property):
            yield name, lambda name=name: getattr(model, name)
            continue
        if not callable(getattr(type(model), name)) or not hasattr(model, name):
            continue
        needed = [
            p.name
            for p in inspect.signature(getattr(model, name)).parameters.values()
            if p.default is p.empty and p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)
        ]
        if set(needed) <= set(given):
            arguments = [given[key] for key in needed]
            yield name, lambda name=name, a=arguments: consume(getattr(model, name)(*a))
    if hasattr(model, "shap_values"):
        yield "interactions", lambda: model.shap_values(X[:9], interactions=True)
        yield "background", lambda: model.shap_values(X[:9], background=X[:9])
    if hasattr(model, "compile"):
        yield "compiled", lambda: predict_compiled(model, X)
        yield "to_sql nodes", lambda: model.to_sql(layout="nodes")
    yield "attributes", lambda: [getattr(model, name) for name in vars(model)]
    yield "repr", lambda: repr(model)
    yield "export_text", lambda: inspection.export_text(model)
    yield "export_dot", lambda: inspection.export_dot(model)
    yield "pickle", lambda: pickle.loads(pickle.dumps(model))


def predict_compiled(model, X):
    """Predict with a compiled model, and with one from a pickle."""
    compiled = model.compile()
    rows = compiled.encode(X)
    again = pickle.loads(pickle.dumps(compiled))
    for one, values in ((compiled, rows), (again, rows[:1].astype(np.float64))):
        one.predict(values)
        one.predict_raw(values)
        if one.classes_ is not None:
            one.predict_proba(values)


def consume(result):
    """Go through what a generator gives, and write out what can be written."""
    if inspect.isgenerator(result):
        result = list(islice(result, 50))
    if hasattr(result, "to_dict"):
        result.to_dict()
    return str(result)


def ask_everything(model, only=()):
    """Ask a model everything, or some things only; return what went wrong."""
    wrong = []
    for name, ask in readers(model):
        if only and name not in only:
            continue
        try:
            with redirect_stdout(io.StringIO()):
                ask()
        except INSANE as error:
            if not (isinstance(error, MemoryError) and name in _BY_STATED_ROWS):
                wrong.append(f"{name}: {type(error).__name__}: {error}")
        except CLEAR:
            pass
        except SANE as error:
            if name.startswith(EXPLICIT):
                wrong.append(f"{name}: {type(error).__name__}: {error}")
        except Exception as error:
            wrong.append(f"{name}: {type(error).__name__}: {error}")
    return wrong


def run_case(content, path):
    """Load a file and ask the model everything; return what went wrong."""
    path.write_bytes(content)
    try:
        model = load(path)
    except ModelFileError:
        return []
    except Exception:
        return ["load: " + traceback.format_exc(limit=-3)]
    if not hasattr(model, "get_params"):
        return [f"load: {type(model).__name__} is no estimator"]
    return ask_everything(model)


def limit_memory():
    """Let the process take only so much more than it has."""
    try:
        import resource
    except ImportError:  # there is no such limit
        return
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + MOST_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def main(folder, first, last):
    """Go through some cases; each is a model, in turn, and a seed."""
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    folder = Path(folder)
    files = {path.name: ModelFile(path.read_bytes()) for path in sorted(folder.glob("*.model"))}
    for path in folder.glob("*.model"):  # all that is loaded when first needed
        ask_everything(load(path))
    limit_memory()
    for case in range(int(first), int(last)):
        name = list(files)[case % len(files)]
        content, done = mutate(files[name], case)
        print(f"case {case}: {name}: {done}", flush=True)
        faulthandler.dump_traceback_later(MOST_SECONDS, exit=True)
        for wrong in run_case(content, folder / "mutant"):
            print(f"WRONG {wrong}", flush=True)
        faulthandler.cancel_dump_traceback_later()
    print("done", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
