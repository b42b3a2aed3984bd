"""The documentation site: ``uv run --all-extras --group docs sphinx-build -W docs site``."""

import os
import sys
from importlib.metadata import version as installed_version
from pathlib import Path

os.environ.setdefault("MPLBACKEND", "Agg")
sys.path[:0] = [str(Path(__file__).parent / "_extensions"), str(Path(__file__).parents[1])]

project = "ppdinf"
author = "The ppdinf developers"
copyright = "the ppdinf developers"  # noqa: A001
release = version = installed_version("ppdinf")

extensions = [
    "generated_pages",  # API reference and case studies
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx-mathjax-offline",
    "sphinx.ext.mathjax",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["examples", "r"]
default_role = "py:obj"  # single backticks in docstrings
nitpicky = False

myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath", "fieldlist"]
myst_heading_anchors = 3

autosummary_generate = False  # `generated_pages` writes the pages
autosummary_imported_members = True
autodoc_typehints = "none"  # numpydoc sections give the types; `generated_pages` adds results without a section
autodoc_member_order = "bysource"
toc_object_entries_show_parents = "hide"  # the navigation of a class page lists "release()" alone
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

sphinx_gallery_conf = {
    "examples_dirs": "examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",
    "plot_gallery": True,
    "capture_repr": (),  # examples print what they show
    "abort_on_example_error": True,
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "doc_module": ("ppdinf",),
    "backreferences_dir": "api/examples",
    "inspect_global_variables": False,
    "remove_config_comments": True,
    "reset_modules": ("matplotlib",),
    "show_memory": False,
    "min_reported_time": 1e6,
    "write_computation_times": False,  # these pages would be found by the search
}

templates_path = ["_templates"]
html_theme = "pydata_sphinx_theme"
html_title = "ppdinf"
html_favicon = "_static/favicon.svg"
html_context = {"default_mode": "auto"}
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_sidebars = {page: [] for page in ("index", "how_to", "comparison", "glossary", "errata", "changelog")}
html_theme_options = {
    "navbar_align": "left",
    "header_links_before_dropdown": 7,
    "show_nav_level": 1,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": ["sphinx-version"],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
