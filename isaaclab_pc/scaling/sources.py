# SPDX-License-Identifier: BSD-3-Clause
"""What the memory and the speed of a task depend on in source code, and its digest. Imports none of it."""

from __future__ import annotations

import ast
import hashlib
import importlib.util
from collections.abc import Iterable
from pathlib import Path

__all__ = ["digest_of", "places_of"]

_ROOMS = ("agents", "envs", "sensors", "guards", "physics", "assets", "learning", "runners")
"""Folders of this package whose code computes or allocates in a training beside that of its task. The others start it,
show it and search; they can change without costing anybody a search."""

_LIBRARIES = ("isaaclab", "isaacsim", "omni", "torch", "gymnasium", "rsl_rl", "rl_games", "skrl", "stable_baselines3")
"""How packages begin that have a version, by which they are known. Of the tasks in them, only their own folder counts:
people edit those in place."""

_KINDS = {
    *(".py", ".yaml", ".yml", ".json", ".toml", ".xml", ".mjcf", ".urdf", ".usd", ".usda", ".usdc", ".usdz"),
    *(".obj", ".stl", ".dae", ".ply", ".glb", ".gltf"),
}
"""Kinds of files that count in a folder: sources, configurations and assets, no policies and no logs."""


def places_of(modules: Iterable[str]) -> list[Path]:
    """Return the files and folders that decide what a task takes.

    Args:
        modules: Modules of its environment and configurations, as they are registered.

    Returns:
        The whole package of each, of whatever name; of this package, and of libraries that have a version, the module's
        own folder. The rooms of this package that every task trains with are always among them.
    """
    package = Path(__file__).parents[1]
    places = [package / room for room in _ROOMS]
    for module in modules:
        top, *parts = module.split(".")
        found = importlib.util.find_spec(top)
        if found is None:
            continue
        roots = list(found.submodule_search_locations or ())
        if not roots:
            places += [Path(found.origin)] if found.origin is not None else []
        elif top == package.name or top.startswith(_LIBRARIES):
            places += [Path(root, *parts[:-1]) for root in roots] if parts[1:] else []
        else:
            places += map(Path, roots)
    return sorted({place.resolve() for place in places})


def digest_of(places: Iterable[Path]) -> str:
    """Hash what files say.

    Comments, docstrings and layout of Python code change nothing, and neither do the paths of the places.

    Args:
        places: Files, and folders with all that is below them; those that are not there are passed over.

    Returns:
        A hexadecimal digest.
    """
    digest = hashlib.sha256()
    for place in places:
        files = [place] if place.is_file() else sorted(place.rglob("*"))
        for file in files:
            hidden = any(part.startswith((".", "__")) for part in file.relative_to(place).parts[:-1])
            if file.suffix.lower() in _KINDS and not hidden and file.is_file():
                digest.update(f"{place.name}/{file.relative_to(place)}\0".encode(errors="surrogateescape"))
                digest.update(hashlib.sha256(_meaning(file)).digest())
    return digest.hexdigest()


def _meaning(file: Path) -> bytes:
    """Return the content of a file; of Python code without what does nothing."""
    try:
        content = file.read_bytes()
    except OSError:
        return b""
    if file.suffix != ".py":
        return content
    try:
        tree = ast.parse(content)
    except (SyntaxError, ValueError):
        return content

    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            body[:] = [part for part in body if not _does_nothing(part)]
    return ast.dump(tree).encode()


def _does_nothing(node: ast.AST) -> bool:
    """Tell whether a statement is a constant on its own, as a docstring is."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
