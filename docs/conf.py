"""How the pages are built: Sphinx reads the Markdown, and `reference.py` writes the reference from the code. `make docs`."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

project = "reelrl"
author = "The reelrl authors"
extensions = ["myst_parser"]
root_doc = "index"
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build", "results/location/report.md", "results/see/*-*/*", "results/see/blocks.md"]
myst_enable_extensions = ["deflist", "attrs_inline"]
myst_heading_anchors = 3
nitpicky = True
# Data files and programs that pages point to are not pages: they are linked as files.
suppress_warnings = ["myst.xref_missing", "misc.highlighting_failure"]
html_theme = "furo"
html_title = "reelrl"
html_static_path = []


def setup(app):
    import reference

    app.connect("builder-inited", lambda _: reference.write(HERE / "reference"))
