# SPDX-License-Identifier: BSD-3-Clause
"""Which Python packages are installed, found out without importing them."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable
from importlib import metadata

__all__ = ["installed_versions", "is_installed"]


def is_installed(module: str) -> bool:
    """Tell whether a top-level module can be imported.

    Args:
        module: Its import name, such as ``rl_games``.
    """
    return importlib.util.find_spec(module) is not None


def installed_versions(distributions: Iterable[str]) -> dict[str, str]:
    """Return the versions of those distributions that are installed, by name.

    Args:
        distributions: Names as on the package index, such as ``rl-games``.
    """
    versions = {}
    for name in distributions:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return versions
