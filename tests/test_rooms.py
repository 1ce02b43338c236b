"""The rooms of the house: which folder may import which."""

from __future__ import annotations

from source_tree import PACKAGE, cython_imports, imports, module_name, source_files, within

FAMILIES = tuple(
    f"models.{f.name}"
    for f in sorted((PACKAGE / "models").iterdir())
    if (f / "__init__.py").exists() and f.name != "shared"
)

# Rooms, lowest first. A room imports rooms of the rows before its own, and none beside it.
ROOMS = (
    ("core.base",),
    ("core.bins", "core.search", "core.tree"),
    ("core.search.lines",),
    ("core.grow",),
    ("input", "datasets"),
    ("metrics", "store", "uncertainty"),
    ("losses",),
    ("linear",),
    ("models.shared",),
    ("models.shared.forest",),
    FAMILIES,
    ("inspection", "exchange"),
    ("selection", "prepare"),
    ("ensembles",),
    ("auto",),
    ("_compare",),
)
RANK = {f"hybridtrees.{room}": rank for rank, row in enumerate(ROOMS) for room in row}


def test_the_walk_sees_imports():
    graph = imports()
    assert "hybridtrees._version" in graph["hybridtrees.cli"]
    assert graph["hybridtrees._compare.files"]["hybridtrees.datasets"]
    assert not graph["hybridtrees.cli"]["hybridtrees._compare.run"]  # inside a function
    assert any(within(m, "hybridtrees.core") and edges for m, edges in graph.items())
    assert cython_imports("cimport a.b\nfrom c.d cimport (\n    e, f as g\n)\n    import h\n") == [
        ("a.b", [], True),
        ("c.d", ["e", "f"], True),
        ("h", [], False),
    ]


def room_of(module: str) -> str | None:
    """Return the room that a module is in, None for modules at the top."""
    return max((room for room in RANK if within(module, room)), key=len, default=None)


def test_every_folder_is_a_room():
    folders = {module_name(f) for f in PACKAGE.rglob("__init__.py")}
    assert folders - {"hybridtrees", "hybridtrees.core", "hybridtrees.models"} == set(RANK)


def test_rooms_import_downward():
    upward = []
    for module, edges in imports().items():
        room = room_of(module)
        for target in edges:
            other = room_of(target)
            if room is not None and other not in (None, room) and RANK[other] >= RANK[room]:
                upward.append(f"{module} imports {target}")
    assert upward == []


def test_the_engine_imports_nothing_else():
    outside = [
        f"{module} imports {target}"
        for module, edges in imports().items()
        for target in edges
        if within(module, "hybridtrees.core") and not within(target, "hybridtrees.core")
    ]
    assert outside == []


def test_models_do_not_cimport():
    models = PACKAGE / "models"
    compiled = [f.name for f in source_files(".pyx", ".pxd") if f.is_relative_to(models)]
    assert compiled == []


def test_no_cycles_between_modules():
    graph = {m: [t for t, top in edges.items() if top] for m, edges in imports().items()}
    done: set[str] = set()

    def visit(module: str, path: tuple[str, ...]) -> None:
        assert module not in path, " -> ".join((*path[path.index(module) :], module))
        if module not in done:
            for target in graph.get(module, ()):
                visit(target, (*path, module))
            done.add(module)

    for module in graph:
        visit(module, ())
