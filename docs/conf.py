"""Settings of the handbook's build: `make docs`."""

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
