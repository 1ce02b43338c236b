"""The sources of the package, and which module imports which."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "hybridtrees"

CYTHON_IMPORT = re.compile(
    r"^(?P<indent>[ \t]*)"
    r"(?:from[ \t]+(?P<base>[\w.]+)[ \t]+c?import[ \t]+(?P<names>\([^)]*\)|[^\n#]*)"
    r"|c?import[ \t]+(?P<modules>[\w., \t]+))",
    re.MULTILINE,
)


def source_files(*suffixes: str) -> list[Path]:
    return sorted(f for f in PACKAGE.rglob("*") if f.suffix in suffixes)


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def modules() -> frozenset[str]:
    return frozenset(module_name(f) for f in source_files(".py", ".pyx", ".pxd"))


def python_imports(text: str) -> list[tuple[str, list[str], bool]]:
    """(module, names, stands at top level) of each import statement."""
    tree = ast.parse(text)
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(alias.name, [], node in tree.body) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative import: write the whole name"
            found.append((node.module, [a.name for a in node.names], node in tree.body))
    return found


def cython_imports(text: str) -> list[tuple[str, list[str], bool]]:
    found = []
    for match in CYTHON_IMPORT.finditer(text):
        top = not match["indent"]
        if match["base"]:
            names = re.findall(r"(\w+)(?:[ \t]+as[ \t]+\w+)?", match["names"])
            found.append((match["base"], names, top))
        else:
            found += [(m.split()[0], [], top) for m in match["modules"].split(",") if m.strip()]
    return found


def resolve(base: str, names: list[str]) -> set[str]:
    """Modules of this package that an import statement reaches."""
    if base.split(".")[0] != "hybridtrees":
        return set()
    inner = {f"{base}.{name}" for name in names} & modules()
    return inner or {base}


@cache
def imports() -> dict[str, dict[str, bool]]:
    """From module to the modules it imports, and whether one of the imports is at top level."""
    graph: dict[str, dict[str, bool]] = {}
    for path in source_files(".py", ".pyx", ".pxd"):
        read = python_imports if path.suffix == ".py" else cython_imports
        name = module_name(path)
        edges = graph.setdefault(name, {})
        for base, names, top in read(path.read_text()):
            for target in resolve(base, names) - {name}:
                edges[target] = edges.get(target, False) or top
    return graph


def within(module: str, folder: str) -> bool:
    return module == folder or module.startswith(folder + ".")
