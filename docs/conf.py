"""The documentation site: ``sphinx-build -W docs docs/_build``.

Nothing is loaded from the network when a page is viewed: the theme brings its fonts along, and
MathJax is copied into the site.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import matplotlib as mpl

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE), str(HERE / "_ext")]

from gallery import STYLE  # noqa: E402

import hybridtrees  # noqa: E402

project = "hybridtrees"
author = "The hybridtrees developers"
copyright = f"2026, {author}"
version = release = hybridtrees.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "numpydoc",
    "matplotlib.sphinxext.plot_directive",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "command_options",
    "plot_fences",
    "stored_results",
]
# The table of run times would load scripts from the network.
exclude_patterns = ["_build", "**/GALLERY_HEADER.rst", "**sg_execution_times.rst"]
templates_path = ["_templates"]
smartquotes = False  # they would join the dashes of options
toc_object_entries_show_parents = "hide"

# Pages
myst_enable_extensions = ["dollarmath", "colon_fence", "deflist", "attrs_inline", "attrs_block"]
myst_heading_anchors = 3
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

# Reference. Members stand on the page of their class; numpydoc's own table would list them twice.
autosummary_generate = True
default_role = "py:obj"
# A role that names something missing is a warning. Docstrings also have single words in backticks,
# most of them parameters, which have no entry.
nitpicky = True
nitpick_ignore_regex = [("py:obj", r"\w+")]
autodoc_typehints = "none"
autodoc_default_options = {"member-order": "groupwise"}
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

# Figures
plot_formats = [("svg", 100)]
plot_html_show_formats = False
plot_html_show_source_link = False
mpl.use("Agg")
plot_rcparams = dict(mpl.rc_params_from_file(STYLE, use_default_template=False))
plot_apply_rcparams = True

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": "/plot_",
    "backreferences_dir": "api/backreferences",
    "doc_module": ("hybridtrees",),
    "reset_modules": ("gallery.use_style",),
    "within_subsection_order": "gallery.position",
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 1e9,
    "remove_config_comments": True,
    "image_srcset": ["2x"],
}

# Look
html_theme = "pydata_sphinx_theme"
html_title = "hybridtrees"
_mathjax = Path(importlib.util.find_spec("sphinx-mathjax-offline").origin).parent
html_static_path = ["_static", str(_mathjax / "static" / "mathjax" / "tex-svg.js")]
mathjax_path = "tex-svg.js"
html_css_files = ["hybridtrees.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "show_prev_next": False,
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_context = {"default_mode": "auto"}
