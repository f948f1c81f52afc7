"""Settings of the handbook's build: `make docs`."""

import re
import shutil
from pathlib import Path
from typing import Any

from ratchet import __version__

project = "Ratchet"
author = "The Ratchet authors"
copyright = "The Ratchet authors, Apache-2.0"
version = release = __version__

extensions = ["myst_parser"]
exclude_patterns = ["_build"]
myst_heading_anchors = 3
highlight_language = "text"

html_theme = "furo"
html_title = f"Ratchet {__version__}"
html_copy_source = False
html_show_sphinx = False


def _add_llms_txt(app: Any, error: Exception | None) -> None:
    """Put `llms.txt` at the site's root, with links to the site's own pages."""
    if error is not None:
        return
    root, built = Path(__file__).parents[1], Path(app.outdir)
    text = (root / "llms.txt").read_text()
    for path in re.findall(r"\]\(((?!docs/)[^)]+)\)", text):
        (built / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(root / path, built / path)
    (built / "llms.txt").write_text(re.sub(r"\]\(docs/([\w-]+)\.md", r"](\1.html", text))


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.connect("build-finished", _add_llms_txt)
