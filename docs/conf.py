"""How the pages are built: Sphinx reads the Markdown, `reference.py` writes the reference from the code."""

import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

project = "reelrl"
author = "The reelrl authors"
extensions = ["myst_parser"]
root_doc = "index"
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build", "results/location/report.md", "results/see/*-*/*", "results/see/*.md"]
myst_enable_extensions = ["deflist", "attrs_inline"]
myst_heading_anchors = 3
nitpicky = True
# Data files and programs that pages point to are not pages: they are linked as files.
suppress_warnings = ["myst.xref_missing", "misc.highlighting_failure"]
html_theme = "furo"
html_title = "reelrl"


# The order of pages on the left. Kept here and not in index.md, where readers of the plain file would see it as code.
CONTENTS = {
    "First steps": ["start"],
    "How to": sorted(f"how-to/{page.stem}" for page in (HERE / "how-to").glob("*.md")),
    "Results": [
        "results/index",
        *sorted(f"results/{page.stem}" for page in (HERE / "results").glob("*.md") if page.stem != "index"),
    ],
    "Explanation": sorted(f"explanation/{page.stem}" for page in (HERE / "explanation").glob("*.md"))
    + sorted(f"explanation/decisions/{page.stem}" for page in (HERE / "explanation" / "decisions").glob("*.md")),
    "Reference": ["reference/index"],
}  # fmt: skip


def setup(app: Any) -> None:
    """Write the reference before pages are read, and give the first page the contents of all."""
    import reference

    app.connect("builder-inited", lambda _: reference.write(HERE / "reference"))
    app.connect("source-read", add_contents)


def add_contents(_: Any, page: str, source: list[str]) -> None:
    if page == root_doc:
        for caption, pages in CONTENTS.items():
            source[0] += f"\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n" + "\n".join(pages) + "\n```\n"
