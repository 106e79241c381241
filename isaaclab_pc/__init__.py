# SPDX-License-Identifier: BSD-3-Clause
"""Manipulation RL on depth-camera point clouds, an extension of Isaac Lab.

Importing this package loads neither torch nor a simulator.
"""

import tomllib
from pathlib import Path

__all__ = ["__version__"]

# extension.toml beside this file is the top-level one, through an in-tree link or as a copy in the wheel.
__version__: str = tomllib.loads((Path(__file__).parent / "extension.toml").read_text(encoding="utf-8"))["package"][
    "version"
]
