# SPDX-License-Identifier: BSD-3-Clause
"""Which Python packages are installed, found out without importing them."""

import importlib.util
from collections.abc import Iterable
from importlib import metadata


def is_installed(module: str) -> bool:
    """Tell whether a top-level module, such as ``rl_games``, can be imported."""
    return importlib.util.find_spec(module) is not None


def installed_versions(distributions: Iterable[str]) -> dict[str, str]:
    """Return the versions of those distributions, such as ``rl-games``, that are installed, by name."""
    versions = {}
    for name in distributions:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return versions


def wrong_versions(extra: str) -> list[str]:
    """Return a clause for each package of an extra that is installed in a wrong version.

    Such as ``rl-games 1.6.1 is installed, <1.7,>=1.6.5 is needed``; none where this package's metadata is missing.
    """
    # Registering the tasks imports this module, with gymnasium alone.
    from packaging.requirements import Requirement

    try:
        requirements = [Requirement(text) for text in metadata.requires("isaaclab_pc") or ()]
    except metadata.PackageNotFoundError:
        return []

    asked = [found for found in requirements if found.marker is not None and found.marker.evaluate({"extra": extra})]
    versions = installed_versions(found.name for found in asked)
    return [
        f"{found.name} {versions[found.name]} is installed, {found.specifier} is needed"
        for found in asked
        if found.name in versions and not found.specifier.contains(versions[found.name], prereleases=True)
    ]
