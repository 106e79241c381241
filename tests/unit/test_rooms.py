# SPDX-License-Identifier: BSD-3-Clause
"""Dependencies point one way: docs/architecture.md."""

import ast
from collections.abc import Iterator
from pathlib import Path

from isaaclab_pc.learners import RUNNERS

ROOT = Path(__file__).parents[2]

ROOMS = (
    *("errors", "utils", "terminal", "tensors", "processes", "agents", "learners", "assets", "settings"),
    *("physics", "sensors", "guards", "faults", "envs", "tasks", "demos", "export"),
    *("cli", "num_envs", "run", "supervise", "cluster", "report", "viewer", "commands", "__main__", "workers"),
)
"""Every folder and module of the package; each may import those before it."""

NEVER = {("workers", "commands"), ("commands", "workers")}
"""The parent and the child know each other by files and command lines only."""


def modules() -> Iterator[tuple[str, Path]]:
    """Yield the room and the path of every module, those behind the links once."""
    for folder in ("isaaclab_pc", "tasks", "agents"):
        for path in (ROOT / folder).rglob("*.py"):
            relative = path.relative_to(ROOT)
            if not any((ROOT / parent).is_symlink() for parent in relative.parents):
                part = relative.parts[1] if folder == "isaaclab_pc" else folder
                yield part.removesuffix(".py"), path


def imported_rooms(path: Path) -> Iterator[str]:
    """Yield the rooms that a module imports when it runs, inside functions too; not those for type checkers alone."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            node.body = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "isaaclab_pc":
            yield from (alias.name for alias in node.names if not alias.name.startswith("__"))
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("isaaclab_pc."):
            yield str(node.module).split(".")[1]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names if alias.name.startswith("isaaclab_pc.")]
            yield from (name.split(".")[1] for name in names)


def test_every_room_is_in_the_order():
    assert {room for room, _ in modules()} - {"__init__", "conf"} == set(ROOMS)


def test_a_room_imports_only_rooms_below_it():
    wrong = [
        f"{path.relative_to(ROOT)} imports {other}"
        for room, path in modules()
        if room in ROOMS
        for other in imported_rooms(path)
        if other != room and ROOMS.index(other) > ROOMS.index(room)
    ]
    assert wrong == []


def test_parent_and_child_do_not_import_each_other():
    assert not NEVER & {(room, other) for room, path in modules() for other in imported_rooms(path)}


def test_no_learning_library_is_imported_beside_the_registry():
    text = [path.read_text(encoding="utf-8") for room, path in modules() if room != "learners"]
    assert not any(f"from isaaclab_pc.learners.{name}" in source for name in RUNNERS for source in text)
