# SPDX-License-Identifier: BSD-3-Clause
"""Sphinx settings of the documentation's site; ``make docs`` writes it to ``site/``.

The source folder is the repository: links between ``docs/``, ``benchmarks/results/`` and the files at the top mean
the same on the site as on GitHub.
"""

import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

project = "isaaclab_pc"
author = "isaaclab_pc contributors"
project_copyright = author
release = tomllib.loads((ROOT / "extension.toml").read_text(encoding="utf-8"))["package"]["version"]

root_doc = "docs/index"
include_patterns = ["docs/**", "benchmarks/results/*.md", "CONTRIBUTING.md", "CHANGELOG.md"]
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton"]

html_theme = "furo"
html_title = f"isaaclab_pc {release}"
html_show_copyright = False
html_show_sourcelink = False

myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
napoleon_numpy_docstring = False
