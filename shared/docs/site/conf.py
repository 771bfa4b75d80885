"""Sphinx settings of the documentation site, which `make docs` builds from the pages of the whole workspace.

The pages are plain Markdown with links that a repository browser follows. The order of the site is that of the links in
shared/docs/index.md: each of its sections is a part of the navigation.
"""

import re

project = "zk-compression services"
html_title = "zk-compression services"
root_doc = "shared/docs/index"
include_patterns = [
    "*/docs/**",
    "README.md",
    "*/README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "prover/native/README.md",
    "shared/localnet/README.md",
    "shared/localnet/docs/**",
    "*/contracts/README.md",
]
# Sphinx walks the whole tree for pages; these folders hold none and are large.
exclude_patterns = [".*", "**/.venv", "**/build", "**/node_modules", "keys-cache/*/**", "**/tests", "**/src"]
extensions = ["myst_parser", "sphinx_copybutton"]
myst_heading_anchors = 5
myst_enable_extensions = ["linkify", "html_image"]
myst_linkify_fuzzy_links = False
copybutton_prompt_text = "$ "
copybutton_only_copy_prompt_lines = True
highlight_language = "text"
html_theme = "furo"
html_copy_source = False
html_show_sphinx = False
nitpicky = True

_SECTION = re.compile(r"^## (?P<title>.+?)$\n(?P<body>.*?)(?=^## |\Z)", flags=re.MULTILINE | re.DOTALL)
_PAGE = re.compile(r"\]\((?P<page>[^()#:]+)\.md\)")


def _add_navigation(_app: object, page: str, source: list[str]) -> None:
    """Append hidden tables of contents: of each section of the front page, and of the overview of a folder."""
    if page == root_doc:
        parts = [(section["title"], section["body"]) for section in _SECTION.finditer(source[0])]
    elif page.endswith(("/decisions/README", "/runbooks/README")):
        parts = [("", source[0])]
    else:
        return
    for caption, text in parts:
        pages = "\n".join(dict.fromkeys(match["page"] for match in _PAGE.finditer(text)))
        options = ":hidden:\n" + (f":caption: {caption}\n" if caption else "")
        source[0] += f"\n```{{toctree}}\n{options}\n{pages}\n```\n"


def setup(app: object) -> None:
    """Register the hook; called by Sphinx."""
    app.connect("source-read", _add_navigation)  # type: ignore[attr-defined]
