"""Settings of the documentation site: `make site` builds it into site/ with Sphinx.

The pages are Markdown (MyST) and read well in the repository too. The API page takes its text from docstrings, which
are plain prose with backticks around names. The site needs nothing from the network, neither to build nor to read.
"""

import inspect
import re

import hedgerow

project = "hedgerow"
author = "The hedgerow authors"
project_copyright = author
version = release = hedgerow.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.autosummary"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
nitpicky = True
smartquotes = False  # --option stays as it is typed

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4  # links name a heading as GitHub does: page.md#some-heading

default_role = "py:obj"  # `name` in a docstring is code, and a link where the name is a public one
autodoc_default_options = {"members": True, "member-order": "bysource"}
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autosummary_generate = False
python_use_unqualified_type_names = True
maximum_signature_line_length = 88
# Backticks hold code of any kind, and not every type in a signature has a page here: neither must be a link.
nitpick_ignore_regex = [("py:obj", ".*"), ("py:class", ".*")]

html_theme = "pydata_sphinx_theme"
html_title = "hedgerow"
html_favicon = html_logo = "_static/logo.svg"
html_context = {"default_mode": "auto"}
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_sidebars = {"index": [], "tutorial": [], "benchmarks": []}
html_theme_options = {
    "show_toc_level": 2,
    "logo": {"text": "hedgerow"},
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "show_prev_next": True,
}


# Pages at the root of the repository, and the pages of the site that include them.
INCLUDED = {"README": "index", "CONTRIBUTING": "contributing", "CHANGELOG": "changelog", "SECURITY": "security"}


def link_included_pages(app, name, source):
    """A link to a page at the root, which the repository needs, leads to the page of the site that includes it."""
    for root, page in INCLUDED.items():
        source[0] = source[0].replace(f"](../{root}.md", f"]({page}.md")


def link_public_name(app, env, node, contnode):
    """Types in signatures carry the module that defines them; their page has them as `hedgerow.Name`."""
    name = node.get("reftarget", "").rpartition(".")[2]
    if node.get("refdomain") != "py" or name not in hedgerow.__all__:
        return None
    domain = env.get_domain("py")
    return domain.resolve_xref(env, node["refdoc"], app.builder, "obj", f"hedgerow.{name}", node, contnode)


def shorten_types(app, what, name, obj, options, signature, returned):
    """Signatures without `Any`, arrays by element type, objects as defaults abridged; no signature for protocols."""
    if what == "class" and signature == "(*args, **kwargs)":
        return "", returned
    arrays = re.compile(r"~?numpy\.ndarray\[tuple\[~?typing\.Any, \.\.\.\], ~?numpy\.dtype\[([^\[\]]+)\]\]")
    parts = [re.sub(r"<(?:[^<>]|<\w+>)*>", "...", part) if part else part for part in (signature, returned)]
    short = [arrays.sub(r"~numpy.ndarray[\1]", part) if part else part for part in parts]
    return (re.sub(r": ~?(?:typing\.)?Any\b(?=[,)=]| =)", "", short[0]) if short[0] else short[0]), short[1]


def list_parameters(app, what, name, obj, options, lines):
    """Docstrings describe parameters in running text, "k: how many. seed: ..."; the page lists them one by one."""
    try:
        names = "|".join(map(re.escape, inspect.signature(obj).parameters))
    except (TypeError, ValueError):
        return
    start = re.compile(rf"(?:^|(?<=[.;] ))((?:`(?:{names})`|(?:{names})\b)[^.:;`\"]{{0,60}}): ")
    text = "\n".join(lines).rstrip()
    paragraphs = [_list_items(part, start) for part in text.split("\n\n")]
    lines[:] = [*"\n\n".join(paragraphs).split("\n"), ""]


def _list_items(paragraph, start):
    """A paragraph as it is, or with an item for each parameter that it describes; costs end the list."""
    if paragraph.startswith((" ", ".. ", "- ", "* ")) or not start.search(" ".join(paragraph.split())):
        return paragraph
    text, _, costs = " ".join(paragraph.split()).partition(" Time and memory: ")
    before, *rest = start.split(text)
    items = [
        f"* **{head.replace('`', '')}**: {body.strip().rstrip(';')}"
        for head, body in zip(rest[::2], rest[1::2], strict=True)
    ]
    after = [f"Time and memory: {costs}"] if costs else []
    return "\n\n".join(part for part in [before.strip(), "\n".join(items), *after] if part)


def setup(app):
    """Sphinx calls this once."""
    app.connect("source-read", link_included_pages)
    app.connect("autodoc-process-docstring", list_parameters)
    app.connect("autodoc-process-signature", shorten_types)
    app.connect("missing-reference", link_public_name)
