"""Model files: what goes in comes out, and nothing in them is executed."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import re
import zipfile

import numpy as np
import pytest
from fresh_python import run_python
from toy_estimators import Holder, MajorityClassifier, MeanRegressor

from hybridtrees import _persistence
from hybridtrees._persistence import ModelFileError, load, register, save

X = np.arange(20.0).reshape(10, 2)
y = np.arange(10.0)


@register
class Vault:
    """An object that says itself what to keep."""

    def __init__(self, gold):
        self.gold = gold
        self.dust = lambda: None

    def to_state(self):
        return {"gold": self.gold}

    @classmethod
    def from_state(cls, state):
        return cls(state["gold"])


def round_trip(value, path):
    save(Holder(value), path)
    return load(path).value


@pytest.mark.parametrize("compress", [True, False])
def test_estimators(tmp_path, compress):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"a": y, "c": pd.Categorical(["u", "v"] * 5)})
    model = MeanRegressor(shift=2.5, inner=MeanRegressor()).fit(frame, y)
    model.save(tmp_path / "model", compress=compress)
    again = load(str(tmp_path / "model"))
    assert type(again) is MeanRegressor
    assert again.get_params()["shift"] == 2.5
    assert np.isnan(again.missing)
    assert isinstance(again.inner, MeanRegressor)
    np.testing.assert_array_equal(again.predict(frame), model.predict(frame))
    assert again.feature_names_in_.tolist() == ["a", "c"]
    np.testing.assert_array_equal(again._reader.read(frame), model._reader.read(frame))
    with pytest.raises(ValueError, match="feature names should match"):
        again.predict(frame.rename(columns={"a": "b"}))
    classifier = MajorityClassifier().fit(X, np.array(["x", "y"], dtype=object).repeat(5))
    classifier.save(tmp_path / "classifier")
    assert load(tmp_path / "classifier").classes_.tolist() == ["x", "y"]
    MeanRegressor().save(tmp_path / "unfitted")
    assert not load(tmp_path / "unfitted").__sklearn_is_fitted__()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["classifier", "model", "unfitted"]


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        3,
        2**80,
        0.1,
        1e-320,
        float("inf"),
        "naïve ∑",
        [1, [2.5, None], "x"],
        (1, (2, [3])),
        {"a": 1, "b": {"c": [1.5]}},
        {1: "one", (2, 3): "pair", None: 4},
        {"$": "a dollar"},
        np.float32(0.1),
        np.int8(-3),
        np.bool_(True),
        np.float64(np.inf),
        np.dtype("f4"),
        np.dtype([("a", "<f8"), ("b", "<i4", (2,))]),
    ],
    ids=repr,
)
def test_values(value, tmp_path):
    again = round_trip(value, tmp_path / "file")
    assert again == value
    assert type(again) is type(value)


def test_nan_stays_nan(tmp_path):
    assert np.isnan(round_trip(float("nan"), tmp_path / "file"))
    again = round_trip(np.float32(np.nan), tmp_path / "file")
    assert np.isnan(again)
    assert again.dtype == np.float32


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6.0).reshape(2, 3),
        np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3)),
        np.arange(12)[::3],
        np.array(5),
        np.zeros((0, 3)),
        np.array([True, False]),
        np.array(["a", "ab"]),
        np.array([["a"], ["b"]], dtype=object),
        np.array([(1, 2.5)], dtype=[("left", "<i4"), ("value", "<f8")]),
        np.arange(3, dtype=">i4"),
    ],
    ids=lambda array: f"{array.dtype}{array.shape}",
)
def test_arrays(array, tmp_path):
    again = round_trip({"deep": [array]}, tmp_path / "file")["deep"][0]
    np.testing.assert_array_equal(again, array)
    assert again.dtype == array.dtype
    assert again.shape == array.shape
    assert again.flags.writeable
    assert again.flags.aligned


def test_an_array_that_is_shared_stays_shared(tmp_path):
    array = np.arange(3)
    first, second = round_trip([array, array], tmp_path / "file")
    assert first is second


def test_own_state(tmp_path):
    vault = round_trip([Vault(np.arange(3))], tmp_path / "file")[0]
    assert type(vault) is Vault
    assert vault.gold.tolist() == [0, 1, 2]
    assert callable(vault.dust)


@pytest.mark.parametrize("value", [len, object(), {1, 2}, 1j, np.array([{}]), np.complex64(1)])
def test_what_cannot_be_saved_leaves_no_file(value, tmp_path):
    (tmp_path / "file").write_text("the file of yesterday")
    with pytest.raises(TypeError, match=r"Holder\.value\['x'\]\[0\] is "):
        save(Holder({"x": [value]}), tmp_path / "file")
    assert [p.name for p in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_text() == "the file of yesterday"


def test_cycles_and_unregistered_classes(tmp_path):
    loop = []
    loop.append(loop)
    with pytest.raises(TypeError, match="refers to itself"):
        save(Holder(loop), tmp_path / "file")

    class Unknown(Holder):
        pass

    with pytest.raises(TypeError, match="of the type Unknown, which cannot be saved"):
        save(Unknown(), tmp_path / "file")
    with pytest.raises(ValueError, match="'Holder' is registered for"):
        register(type("Holder", (), {"__module__": "elsewhere"}))


def test_generators_are_dropped_with_a_warning(tmp_path):
    for generator in (np.random.default_rng(0), np.random.RandomState(0)):
        with pytest.warns(UserWarning, match=r"Holder\.value is a .* None after loading"):
            assert round_trip(generator, tmp_path / "file") is None


def test_no_pickle_is_read(tmp_path):
    class Trap:
        def __reduce__(self):
            return (pytest.fail, ("code of the file was executed",))

    with open(tmp_path / "pickle", "wb") as file:
        pickle.dump([1], file)
    with pytest.raises(ModelFileError, match="not a hybridtrees model file"):
        load(tmp_path / "pickle")
    save(Holder(np.arange(3)), tmp_path / "file")
    with zipfile.ZipFile(tmp_path / "file") as archive:
        header = archive.read("hybridtrees.json")
    with zipfile.ZipFile(tmp_path / "trap", "w") as archive:
        archive.writestr("hybridtrees.json", header)
        with archive.open("arrays/0.npy", "w") as member:
            np.lib.format.write_array(member, np.array([Trap()], dtype=object), allow_pickle=True)
    with pytest.raises(ModelFileError):
        load(tmp_path / "trap")


def edit_header(path, edit):
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    header = json.loads(members["hybridtrees.json"])
    edit(header)
    members["hybridtrees.json"] = json.dumps(header).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda h: h.update(format_version=2), "format version 2, made by hybridtrees"),
        (lambda h: h.update(format="other"), "not a hybridtrees model file"),
        (lambda h: h.pop("model"), "damaged"),
        (lambda h: h["model"].update({"class": "os.system"}), "'os.system', which is not known"),
        (lambda h: h["model"]["params"].update(extra=1), "made by another version"),
        (lambda h: h["model"]["params"].update(value={"$": "eval"}), "unknown kind of value"),
        (lambda h: h["model"]["params"]["value"].update(number=7), "damaged"),
        (
            lambda h: h["model"]["params"].update(value={"$": "dtype", "value": "|O"}),
            "Python objects",
        ),
    ],
)
def test_strange_headers(edit, message, tmp_path):
    save(Holder(np.arange(3)), tmp_path / "file")
    edit_header(tmp_path / "file", edit)
    with pytest.raises(ModelFileError, match=message):
        load(tmp_path / "file")


def test_an_array_that_lies_about_its_size(tmp_path):
    save(Holder(np.arange(3.0)), tmp_path / "file", compress=False)
    with zipfile.ZipFile(tmp_path / "file") as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    lie = members["arrays/0.npy"].replace(b"(3,), }", b"(9999999999999,), }")
    with zipfile.ZipFile(tmp_path / "file", "w") as archive:
        archive.writestr("hybridtrees.json", members["hybridtrees.json"])
        archive.writestr("arrays/0.npy", lie)
    with pytest.raises(ModelFileError):
        load(tmp_path / "file")


def test_wrong_truncated_and_damaged_files(tmp_path, rng):
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "nothing")
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "text").write_text("a model, honestly")
    with zipfile.ZipFile(tmp_path / "zip", "w") as archive:
        archive.writestr("other.txt", "x")
    for name in ("empty", "text", "zip"):
        with pytest.raises(ModelFileError, match="not a hybridtrees model file"):
            load(tmp_path / name)
    path = tmp_path / "file"
    save(Holder({"a": rng.random(50), "b": list(range(50))}), path)
    whole = path.read_bytes()
    for size in range(4, len(whole), 37):
        path.write_bytes(whole[:size])
        with pytest.raises(ModelFileError):
            load(path)
    for place in rng.integers(4, len(whole), 600):
        damaged = bytearray(whole)
        damaged[place] ^= int(rng.integers(1, 256))
        path.write_bytes(bytes(damaged))
        # Some bytes, such as the time of a member, may change without harm.
        with contextlib.suppress(ModelFileError):
            load(path)


@pytest.mark.parametrize("path", [0, True, None, 1.5, ["model"]])
def test_only_paths_name_a_file(path, tmp_path):
    message = rf"path must be a string or a path-like object, got {re.escape(repr(path))}"
    with pytest.raises(TypeError, match=message):
        load(path)
    with pytest.raises(TypeError, match=message):
        save(Holder(), path)


def test_open_files_are_refused_and_stay_open(tmp_path):
    save(Holder(3), tmp_path / "model")
    with open(tmp_path / "model", "rb") as file:
        for given in (file, file.fileno()):
            with pytest.raises(TypeError, match="path must be"):
                load(given)
        assert file.read(2) == b"PK"
    assert load(os.fsencode(tmp_path / "model")).value == 3


def test_classes_of_the_package_are_registered():
    assert _persistence._registry["FeatureReader"].__name__ == "FeatureReader"


SAVE_ALONE = """
import os, sys
import numpy as np
import scipy.linalg, scipy.optimize, scipy.sparse, scipy.special
import hybridtrees

rng = np.random.default_rng(0)
X = rng.normal(size=(60, 3))
y = X[:, 0] + 0.1 * rng.normal(size=60)
failed = []
for name in hybridtrees.__all__:
    if not name.endswith(("Regressor", "Classifier")):
        continue
    child = os.fork()  # nothing but what the class itself loads is there
    if child == 0:
        try:
            model = getattr(hybridtrees, name)()
            fast = {"n_estimators": 2, "random_state": 0, "n_jobs": 1}
            model.set_params(**{k: v for k, v in fast.items() if k in model.get_params()})
            target = np.where(y > 0, 1, 0) if name.endswith("Classifier") else y
            if "estimators" in model.get_params():
                kind = "Classifier" if name.endswith("Classifier") else "Regressor"
                tree = getattr(hybridtrees, "CART" + kind)
                model.set_params(estimators=[("tree", tree(max_depth=2, n_jobs=1))], cv=2)
            model.fit(X, target)
            model.save(sys.argv[1] + name)
            os._exit(0)
        finally:
            import traceback
            traceback.print_exc()
            os._exit(1)
    if os.waitpid(child, 0)[1]:
        failed.append(name)
sys.exit(f"could not be saved: {failed}" if failed else 0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_every_model_can_be_saved_where_nothing_else_is_loaded(tmp_path):
    done = run_python("-c", SAVE_ALONE, f"{tmp_path}/")
    assert done.returncode == 0, done.stderr
    names = {path.name for path in tmp_path.iterdir()}
    assert len(names) >= 20
    assert all(type(load(path)).__name__ == path.name for path in tmp_path.iterdir())
