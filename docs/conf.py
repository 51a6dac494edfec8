"""The documentation site: Markdown pages by MyST, API pages from docstrings. `make docs` writes it to build/docs."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

from tangentbench import __version__

project = "tangentbench"
author = "The tangentbench authors"
copyright = "The tangentbench authors, MIT licence"
release = version = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.mathjax", "api_pages", "plain_docstrings"]
myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 3
exclude_patterns = ["_ext"]
default_role = "literal"

autodoc_default_options = {"members": True, "member-order": "bysource", "undoc-members": True}
autodoc_inherit_docstrings = False  # those of torch and of the standard library are not ours
autodoc_mock_imports = ["triton"]  # imported where there is a GPU only
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
python_maximum_signature_line_length = 100
# Annotations such as `bytes` are also names of attributes here; autodoc cannot tell them apart.
suppress_warnings = ["ref.python"]

html_theme = "furo"
html_title = f"tangentbench {__version__}"
# Mathematics is typeset by the browser where it can reach MathJax; without a network the TeX source is shown.
