"""The pages under docs/: their code runs, their links lead somewhere, the reference is complete."""

from __future__ import annotations

import doctest
import importlib
import importlib.util
import inspect
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from source_tree import ROOT

DOCS = ROOT / "docs"
MADE = ("_build", "gallery", "generated", "backreferences")  # by the build
PAGES = sorted(
    page.relative_to(DOCS).as_posix()
    for page in DOCS.rglob("*.md")
    if not set(MADE) & set(page.relative_to(DOCS).parts)
)
PACKAGES = (
    "matplotlib",
    "pandas",
    "polars",
    "pyarrow",
    "sklearn",
    "xgboost",
    "lightgbm",
    "lineartree",
)
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


def load_module(path: str):
    """Import a module of the site."""
    spec = importlib.util.spec_from_file_location(Path(path).stem, DOCS / path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


plot_fences = load_module("_ext/plot_fences.py")
plot_codes = plot_fences.plot_codes


def need_packages(code: str) -> None:
    """Skip where code shows another library that is not installed."""
    for name in PACKAGES:
        if re.search(rf"^(>>> )?(import|from) {name}\b", code, re.MULTILINE):
            pytest.importorskip(name)
    if "as_frame=True" in code:
        pytest.importorskip("pandas")


@pytest.mark.parametrize("page", PAGES)
def test_examples_of_a_page(page, tmp_path, monkeypatch):
    text = (DOCS / page).read_text()
    need_packages(text)
    monkeypatch.chdir(tmp_path)  # for pages that write files
    parsed = doctest.DocTestParser().get_doctest(text, {}, page, str(DOCS / page), 0)
    runner = doctest.DocTestRunner(optionflags=FLAGS)
    runner.run(parsed)
    assert runner.summarize(verbose=False).failed == 0


WITH_PLOTS = [page for page in PAGES if any(plot_codes((DOCS / page).read_text()))]


@pytest.mark.parametrize("page", WITH_PLOTS)
def test_plots_of_a_page(page):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    for code in plot_codes((DOCS / page).read_text()):
        need_packages(code)
        pyplot.close("all")
        exec(compile(code, page, "exec"), {"__name__": "__plot__"})
        assert pyplot.get_fignums(), f"a plot of {page} draws nothing"
    pyplot.close("all")


@pytest.mark.parametrize("page", sorted(p.name for p in DOCS.glob("models/*.md")))
def test_pages_of_models_have_the_same_parts(page):
    if page == "index.md":
        return
    text = (DOCS / "models" / page).read_text()
    heads = re.findall(r"^## (.+)$", text, re.MULTILINE)
    wanted = ["The mathematics", "Parameters that matter", "A worked example", "When it fails"]
    assert [head for head in heads if head in wanted] == wanted
    assert "$" in text and any(plot_codes(text))


def test_plot_fences_are_found():
    long = "````md\n```{plot}\nno()\n```\n````\n"
    page = f"{long}text\n```{{plot}}\n:alt: words\n\nyes()\n```\n```{{plot}}\nagain()\n```\n"
    assert list(plot_codes(page)) == ["yes()\n", "again()\n"]
    made = plot_fences.to_rst(page, "page")
    assert made.startswith(long)
    assert re.findall(r"^   :filename-prefix: (.+)$", made, re.M) == ["page-1", "page-2"]


def anchors(page: Path) -> set[str]:
    """The anchors of the headings of a page, as GitHub and MyST name them."""
    heads = re.findall(r"^#+ +(.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", PAGES)
def test_links_of_a_page(page):
    """Links to files are there, in the tree as on GitHub; Sphinx checks the rest."""
    source = DOCS / page
    text = re.sub(r"^(```+).*?^\1$", "", source.read_text(), flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"`[^`\n]*`", "", text)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        found = source.parent / path if path else source
        assert found.exists() or found.is_relative_to(DOCS / "gallery"), target
        if anchor and found.suffix == ".md":
            assert anchor in anchors(found), target


def test_every_page_is_reached():
    pages = [DOCS / page for page in PAGES] + sorted(DOCS.glob("api/*.rst"))
    entries = set()
    for page in pages:
        for block in re.findall(
            r"\{toctree\}\n(.*?)^```|\.\. toctree::\n(.*)", page.read_text(), re.M | re.S
        ):
            for line in "".join(block).split():
                entries.add((page.parent / line).resolve())
    lost = [p for p in pages if p.with_suffix("") not in entries and p != DOCS / "index.md"]
    assert lost == []


def test_the_reference_names_everything_public():
    listed: dict[str, set[str]] = {}
    for page in DOCS.glob("api/*.rst"):
        module = ""
        for line in page.read_text().splitlines():
            if found := re.match(r"\.\. currentmodule:: (\S+)", line):
                module = found[1]
            elif found := re.fullmatch(r"(?:   |\.\. py:data:: )(\w+)", line):
                listed.setdefault(module, set()).add(found[1])
    for name in ("", ".inspection", ".metrics", ".datasets", ".callbacks"):
        module = importlib.import_module(f"hybridtrees{name}")
        public = {n for n in module.__all__ if not n.startswith("__")}
        public -= {n for n in public if inspect.ismodule(getattr(module, n))}  # has a page
        assert public == listed[f"hybridtrees{name}"], module.__name__


def test_stored_results_are_shown():
    shown = re.findall(r"\{results\} (\w+)", "".join((DOCS / page).read_text() for page in PAGES))
    assert {path.stem for path in DOCS.glob("benchmarks/*.json")} == set(shown) - {"fit_times"}


def test_the_picture_of_the_readme_is_that_of_the_stored_results():
    charts = load_module("make_charts.py")
    assert (DOCS / "_static" / "hero.svg").read_text() == charts.hero()
    for path in DOCS.glob("benchmarks/*.json"):
        picture = charts.chart(charts.read(path.stem))
        assert "nan" not in picture
        ElementTree.fromstring(picture)
