"""The package as a whole: what it imports, how its parts depend on each other, what it promises."""

from __future__ import annotations

import ast
import doctest
import email
import importlib
import importlib.util
import inspect
import os
import pkgutil
import re
import runpy
import shutil
import subprocess
import sys
import tarfile
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from source_tree import PACKAGE, ROOT, imports, module_name, modules, source_files

import hybridtrees

CODE = (".py", ".pyx", ".pxd", ".pyi", ".h")

HEAVY = ("sklearn", "pandas", "polars", "pyarrow", "matplotlib", "xgboost", "lightgbm", "joblib")


def run_python(code: str, **environment: str) -> subprocess.CompletedProcess:
    """Run code in a fresh interpreter that finds the same hybridtrees."""
    parent = str(Path(hybridtrees.__file__).parents[1])
    paths = [parent, *filter(None, [os.environ.get("PYTHONPATH")])]
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), **environment},
    )


# ---------------------------------------------------------------------------------------------
# Importing


def test_import_is_light():
    # What is needed only once something is used, and takes milliseconds to load.
    later = (*HEAVY, "scipy", "zipfile", "hybridtrees._parameters", "hybridtrees.core.bins")
    code = (
        "import sys, numpy; before = set(sys.modules); import hybridtrees; "
        f"found = [m for m in {later!r} if m in set(sys.modules) - before]; "
        "assert not found, found; "
        "assert hybridtrees.load and hybridtrees.BinMapper and 'load' in dir(hybridtrees)"
    )
    done = run_python(code)
    assert done.returncode == 0, done.stderr


def test_import_and_fit_with_optional_packages_hidden():
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({HEAVY!r}))\n"
        "import numpy as np, hybridtrees\n"
        "X = np.random.default_rng(0).random((200, 3)); y = X[:, 0] > 0.5\n"
        "model = hybridtrees.XGBClassifier(n_estimators=5).fit(X, y)\n"
        "assert model.score(X, y) > 0.95\n"
        "assert hybridtrees.XGBRegressor(n_estimators=5).fit(X, X[:, 0]).score(X, X[:, 0]) > 0.3\n"
    )
    done = run_python(code)
    assert done.returncode == 0, done.stderr


def test_every_module_imports():
    names = sorted(m.name for m in pkgutil.walk_packages(hybridtrees.__path__, "hybridtrees."))
    assert len(names) > 10
    done = run_python(f"import importlib\nfor name in {names!r}: importlib.import_module(name)")
    assert done.returncode == 0, done.stderr


# ---------------------------------------------------------------------------------------------
# Sources


def test_files_are_of_readable_length():
    # asv_bench/env and its like are made by asv.
    code = [*PACKAGE.rglob("*"), *(ROOT / "asv_bench").glob("*.py"), ROOT / "setup.py"]
    code += (ROOT / "asv_bench" / "benchmarks").glob("*.py")
    limits = {f: 900 if f.suffix == ".pyx" else 500 for f in code}
    limits |= dict.fromkeys((ROOT / "tests").rglob("*"), 400)
    long = {
        str(f.relative_to(ROOT)): n
        for f, limit in limits.items()
        if f.suffix in CODE and (n := len(f.read_text().splitlines())) > limit
    }
    assert long == {}


def test_kernels_leave_directives_to_the_build():
    for path in source_files(".pyx", ".pxd"):
        text = path.read_text()
        assert not re.search(r"^#\s*(cython|distutils):", text, re.MULTILINE), path.name
        assert "cimport numpy" not in text, path.name


def test_every_parallel_region_asks_how_many_threads_can_be_started():
    # Otherwise OpenMP would end the process where they cannot.
    regions = [
        (f.name, size)
        for f in source_files(".pyx", ".pxd")
        for size in re.findall(r"num_threads=(\S*)", f.read_text())
    ]
    assert regions
    assert [region for region in regions if not region[1].startswith("team_of(")] == []


def test_the_build_knows_every_kernel():
    tree = ast.parse((ROOT / "setup.py").read_text())
    table = next(
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and node.targets[0].id == "EXTENSIONS"
    )
    assert set(ast.literal_eval(table)) == {module_name(f) for f in source_files(".pyx")}


def test_compiled_modules_that_python_imports_have_stubs():
    compiled = {module_name(f) for f in source_files(".pyx")}
    reached = {
        target
        for path in source_files(".py")
        for target in imports()[module_name(path)]
        if target in compiled
    }
    assert reached
    for name in sorted(reached):
        stub = ROOT / (name.replace(".", "/") + ".pyi")
        assert stub.exists(), f"{name} has no stub"
        module = importlib.import_module(name)
        promised = [
            node.name
            for node in ast.parse(stub.read_text()).body
            if isinstance(node, ast.FunctionDef | ast.ClassDef)
        ]
        assert promised and all(hasattr(module, p) for p in promised), name


# ---------------------------------------------------------------------------------------------
# Promises


def read_settings() -> dict:
    """What pyproject.toml says."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_run_time_dependencies():
    project = read_settings()["project"]
    names = {re.match(r"[\w-]+", line)[0] for line in project["dependencies"]}
    assert names == {"numpy", "scipy", "threadpoolctl"}
    assert project["license"] == "BSD-3-Clause"
    assert {"test", "bench", "plot", "lint"} <= set(project["optional-dependencies"])


def test_installed_metadata():
    try:
        installed = metadata.metadata("hybridtrees")
    except metadata.PackageNotFoundError:
        pytest.skip("hybridtrees is imported from its folder, not installed")
    required = [line for line in metadata.requires("hybridtrees") if "extra ==" not in line]
    names = {re.match(r"[\w-]+", line)[0] for line in required}
    assert names == {"numpy", "scipy", "threadpoolctl"}
    assert installed["Version"] == hybridtrees.__version__
    assert installed["License-Expression"] == "BSD-3-Clause"
    scripts = metadata.entry_points(group="console_scripts", name="hybridtrees")
    assert [script.value for script in scripts] == ["hybridtrees.cli:main"]


def test_readme_and_ci_name_the_same_commands():
    readme = (ROOT / "README.md").read_text()
    test_command = "pip install -e '.[test]' && pytest"
    assert "pip install . && hybridtrees compare" in readme and test_command in readme
    ci = ROOT / ".ci" / "run"
    assert test_command in ci.read_text() and os.access(ci, os.X_OK)


def public_objects() -> dict[str, object]:
    """Public names of the package and of its public modules, and the public methods of classes."""
    found: dict[str, object] = {}
    for module_of in ("hybridtrees", "hybridtrees.datasets", "hybridtrees.metrics"):
        module = importlib.import_module(module_of)
        found[module_of] = module
        for name in module.__all__:
            member = getattr(module, name)
            found[f"{module_of}.{name}"] = member
            if inspect.isclass(member):
                for attribute, value in inspect.getmembers(member):
                    if not attribute.startswith("_") and (callable(value) or _is_property(value)):
                        found[f"{module_of}.{name}.{attribute}"] = value
    return found


def _is_property(value: object) -> bool:
    return isinstance(value, property) or inspect.isgetsetdescriptor(value)


def test_every_public_name_has_a_docstring():
    assert "hybridtrees.XGBRegressor.fit" in public_objects()
    bare = [
        name
        for name, member in public_objects().items()
        if not isinstance(member, str | int | float | tuple) and not inspect.getdoc(member)
    ]
    assert bare == []


def test_examples_in_docstrings():
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    tried = 0
    for name in sorted(modules()):
        if (PACKAGE.parent / (name.replace(".", "/") + ".pyx")).exists() or name.endswith(".cli"):
            continue
        if importlib.util.find_spec(name) is None:  # a .pxd alone
            continue
        result = doctest.testmod(importlib.import_module(name), optionflags=flags)
        assert result.failed == 0, name
        tried += result.attempted
    assert tried > 0


def test_examples_in_the_readme(tmp_path, monkeypatch):
    pytest.importorskip("pandas")
    monkeypatch.chdir(tmp_path)  # one saves a model
    result = doctest.testfile(
        str(ROOT / "README.md"),
        module_relative=False,
        optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS,
    )
    assert result.attempted >= 5 and result.failed == 0


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150


# ---------------------------------------------------------------------------------------------
# What is shipped

HOME = "https://github.com/hybridtrees/hybridtrees"


@pytest.fixture(scope="module")
def archive(tmp_path_factory) -> tarfile.TarFile:
    """The source archive, made from a copy of the tree where there is no git."""
    pytest.importorskip("setuptools")
    pytest.importorskip("Cython")
    folder = tmp_path_factory.mktemp("sdist")
    left_out = shutil.ignore_patterns(
        ".git", ".hypothesis", ".*_cache", "build", "_build", "dist", "env", "*.egg-info"
    )
    shutil.copytree(ROOT, folder / "tree", ignore=left_out)
    (folder / "tree" / "hybridtrees" / "_of_another_build.so").touch()
    done = subprocess.run(
        [sys.executable, "setup.py", "-q", "sdist", "--dist-dir", str(folder)],
        cwd=folder / "tree",
        env={**os.environ, "PATH": str(folder)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    with tarfile.open(next(folder.glob("*.tar.gz"))) as opened:
        yield opened


def test_source_archive_has_what_a_build_and_its_tests_need(archive):
    names = {name.partition("/")[2] for name in archive.getnames()}
    wanted = [f for f in source_files(*CODE) if "build" not in f.relative_to(ROOT).parts]
    wanted += [f for f in (ROOT / "tests").rglob("*") if f.suffix in (".py", ".json", ".htree")]
    wanted += [f for f in (PACKAGE / "datasets").iterdir() if f.suffix in (".gz", ".md")]
    wanted += [ROOT / name for name in ("setup.py", "pyproject.toml", "LICENSE", "README.md")]
    wanted += [ROOT / ".ci" / "run", ROOT / "CHANGELOG.md", PACKAGE / "py.typed"]
    assert len(wanted) > 400
    assert {f.relative_to(ROOT).as_posix() for f in wanted} - names == set()
    made = (".c", ".so", ".pyd", ".pyc", ".o")
    assert [name for name in names if name.endswith(made) or name.startswith("build/")] == []


def test_metadata_of_the_source_archive(archive):
    name = next(name for name in archive.getnames() if name.count("/") == 1 and "PKG-INFO" in name)
    read = email.message_from_bytes(archive.extractfile(name).read())
    assert (read["Name"], read["Version"]) == ("hybridtrees", hybridtrees.__version__)
    assert read["Requires-Python"] == ">=3.11"
    addresses = [line.split(", ")[1] for line in read.get_all("Project-URL")]
    assert len(addresses) >= 4 and all(address.startswith(HOME) for address in addresses)
    versions = re.findall(r"Python :: (3\.\d+)", "\n".join(read.get_all("Classifier")))
    wheels = read_settings()["tool"]["cibuildwheel"]["build"]
    assert versions == [f"3.{minor}" for minor in re.findall(r"\bcp3(\d+)-", wheels)]


def test_installed_files():
    try:
        files = {str(file) for file in metadata.files("hybridtrees")}
    except metadata.PackageNotFoundError:
        pytest.skip("hybridtrees is imported from its folder, not installed")
    if not any(name.startswith("hybridtrees/") for name in files):
        pytest.skip("hybridtrees is installed from its folder, which it is imported from")
    wanted = {f.relative_to(ROOT).as_posix() for f in source_files(".py", ".pyi", ".pxd")}
    assert wanted | {"hybridtrees/py.typed"} <= files
    # The OpenMP library of a wheel has a folder of its own.
    allowed = r"hybridtrees(\.libs|-[\d.]+\.dist-info)?/|\.\./"
    assert [name for name in files if not re.match(allowed, name)] == []


def test_the_oldest_versions_are_those_that_are_allowed():
    project = read_settings()["project"]
    lines = [*project["dependencies"], *project["optional-dependencies"]["test"]]
    floors = dict(line.split(">=") for line in lines)
    text = (ROOT / ".ci" / "oldest.txt").read_text()
    oldest = dict(re.findall(r"^([\w-]+)==([\d.]+)$", text, re.MULTILINE))
    assert set(floors) == set(oldest)
    for name, floor in floors.items():
        assert oldest[name].startswith(floor), name
        assert set(oldest[name].removeprefix(floor)) <= {".", "0"}, name
    for extra in ("bench", "plot"):  # the same package has the same floor everywhere
        for line in project["optional-dependencies"][extra]:
            name, _, floor = line.partition(">=")
            assert floors.get(name, floor) == floor, line


def test_version_and_home_are_the_same_everywhere():
    citation = (ROOT / "CITATION.cff").read_text()
    assert f"\nversion: {hybridtrees.__version__}\n" in citation
    texts = [citation, *((ROOT / name).read_text() for name in ("SECURITY.md", "pyproject.toml"))]
    texts += [f.read_text() for f in (ROOT / ".github").rglob("*.yml")]
    homes = set(re.findall(r"https://github\.com/[\w-]+/hybridtrees\b", "".join(texts)))
    assert homes == {HOME}


def test_scripts_can_be_started():
    for path in (ROOT / ".ci").iterdir():
        if path.is_file() and path.read_text().startswith("#!"):
            assert os.access(path, os.X_OK), path.name


def test_the_typed_program_of_a_user_runs(tmp_path):
    program = runpy.run_path(str(ROOT / "tests" / "typing" / "consumer.py"))
    assert program["fit_and_keep"](tmp_path) > 0.9
    assert all(score > 0.3 for score in program["every_family"]())
    assert "class" in program["read_a_tree"]()
