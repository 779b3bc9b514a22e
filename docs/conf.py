"""The documentation site: ``python -m sphinx -W --keep-going docs site`` writes it to the folder ``site``."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

import click
from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator

import aucpr_dask

HERE = Path(__file__).parent
ROOT = HERE.parent

project = "aucpr-dask"
author = "the authors of aucpr-dask"
project_copyright = f"{author}, BSD-3-Clause"
version = release = aucpr_dask.__version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx_click",
    "sphinx_copybutton",
    "sphinx_design",
]
exclude_patterns = ["study", "**.zarr"]

# Markdown
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

# Notebooks with their stored outputs, and a page for each public name: every build writes both, and removes them
NOTEBOOKS = HERE / "generated" / "notebooks"
shutil.rmtree(NOTEBOOKS.parent, ignore_errors=True)
shutil.copytree(
    ROOT / "notebooks", NOTEBOOKS, ignore=lambda folder, names: [n for n in names if not n.endswith(".ipynb")]
)
nb_execution_mode = "off"
suppress_warnings = ["misc.highlighting_failure"]  # lines for the shell among Python

# Docstrings
autosummary_generate = True
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the sections of the docstrings say more
autodoc_preserve_defaults = False  # it reads the source, where options that are passed on have no defaults
napoleon_google_docstring = False
napoleon_use_rtype = False
add_module_names = False

# Looks: the browser loads nothing from elsewhere
html_theme = "furo"
html_title = "aucpr-dask"
html_static_path = ["static"]
html_math_renderer = "mathml"  # which browsers typeset themselves
html_search_scorer = str(HERE / "search.js")
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0072b2", "color-brand-content": "#0072b2"},
    "dark_css_variables": {"color-brand-primary": "#56b4e9", "color-brand-content": "#56b4e9"},
}
copybutton_exclude = ".linenos, .gp, .go"

# Pages next to what they describe, which pages of the site include
ELSEWHERE = {"cluster/README.md": "clusters", "notebooks/README.md": "notebooks", "CHANGELOG.md": "changelog"}
MORE = {"notebooks": "\n\n```{toctree}\n:glob:\n:hidden:\n\ngenerated/notebooks/*\n```\n"}
LINK = re.compile(r"(?<!!)\[(?P<text>[^\]]*)\]\((?P<target>(?!https?:|mailto:|#)[^)\s#]+)(?P<anchor>#[^)\s]*)?\)")


def relink(text: str, folder: Path, shown_in: Path) -> str:
    """Rewrite the links of a page in `folder` for the folder where the site shows it."""

    def moved(found: re.Match[str]) -> str:
        target = (folder / found["target"]).resolve()
        if not target.exists() or not target.is_relative_to(ROOT):
            return found[0]
        page = ELSEWHERE.get(target.relative_to(ROOT).as_posix())
        if target.parent == ROOT / "notebooks" and target.suffix == ".ipynb":
            target = NOTEBOOKS / target.name
        place = os.path.relpath(HERE / f"{page}.md" if page else target, shown_in)
        return f"[{found['text']}]({place}{found['anchor'] or ''})"

    return LINK.sub(moved, text)


def relink_page(app: Sphinx, name: str, source: list[str]) -> None:
    """Relink a page of this folder, or include the page from elsewhere."""
    for original, page in ELSEWHERE.items():
        if page == name:
            source[0] = relink((ROOT / original).read_text(), (ROOT / original).parent, HERE)
            source[0] += MORE.get(name, "")
            return
    shown_in = (HERE / name).parent
    source[0] = relink(source[0], ROOT / "notebooks" if shown_in == NOTEBOOKS else shown_in, shown_in)


def keep_to_the_output(app: Sphinx) -> None:
    """Write the pictures of notebooks into the build folder, not next to the output."""
    app.env.mystnb_config = app.env.mystnb_config.copy(output_folder=str(Path(app.doctreedir) / "notebooks"))


def show_sections(app: Sphinx, page: str, *_: object) -> None:
    """Let the page of the search load what sections say."""
    if page == "search":
        app.add_js_file("sections.js")


def finish(app: Sphinx, failure: Exception | None) -> None:
    """Write the anchor, title, index entries and words of every section, and remove what only the build needed."""
    pages: dict[str, list[tuple[str, str, list[str], set[str]]]] = {}
    for page in () if failure else app.env.found_docs:
        sections = pages[page] = []
        for node in app.env.get_doctree(page).findall():
            if isinstance(node, nodes.section):
                sections.append((node["ids"][0], node[0].astext(), [], set()))
            elif sections and isinstance(node, addnodes.index):
                sections[-1][2].extend(entry[2] for entry in node["entries"])
            elif sections and isinstance(node, nodes.Text):
                sections[-1][3].update(re.findall(r"\w+", node.lower()))
    (Path(app.outdir) / "_static" / "sections.js").write_text(f"var SECTIONS = {json.dumps(pages, default=sorted)};")
    shutil.rmtree(NOTEBOOKS.parent, ignore_errors=True)


def show_example(app: Sphinx, context: click.Context, lines: list[str]) -> None:
    """Show the example below a command's help as a block of code."""
    if lines:
        examples = [line.strip("| ") for line in lines[1:] if line.strip("| ")]
        lines[:] = ["Example:", "", ".. code-block:: bash", "", *(f"    {line}" for line in examples), ""]


def visit_math(translator: HTML5Translator, node: nodes.Element) -> None:
    """Write a formula as MathML."""
    is_block = isinstance(node, nodes.math_block)
    translator.body.append(tex2mathml(node.astext(), as_block=is_block))
    raise nodes.SkipNode


def setup(app: Sphinx) -> None:
    """Register the hooks and the renderer of formulas."""
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_math, None))
    app.connect("source-read", relink_page)
    app.connect("builder-inited", keep_to_the_output, priority=900)  # after MyST-NB has chosen
    app.connect("html-page-context", show_sections)
    app.connect("build-finished", finish)
    app.connect("sphinx-click-process-epilog", show_example)
