# SPDX-License-Identifier: BSD-3-Clause
"""``scripts/new_task.py``: write a task that works, to be changed into the one that is wanted. Loads no torch."""

from __future__ import annotations

import keyword
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from string import Template

import isaaclab_pc
from isaaclab_pc.commands.task_template import FILES
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.launch.task_names import PREFIX

__all__ = ["main", "new_task"]

HELP = """\
Write a new task: tasks/<name>/ with its environment, configuration and registration, and its line in tasks/__init__.py.

  python scripts/new_task.py press_button

It works as it is: it holds the tool centre above a cube. Change scene, resets, rewards and success, and follow
"Add a task" in CONTRIBUTING.md. Words are separated by _, the first one is the verb.
"""

_IMPORT = re.compile(r"^from isaaclab_pc\.tasks import (.+)$", re.MULTILINE)
_ALL = re.compile(r"^__all__ = \[.*\]$", re.MULTILINE)
_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")


def new_task(name: str, folder: Path) -> list[Path]:
    """Write the files of a task and register it.

    Args:
        name: Its name: lower-case words separated by ``_``, the verb first.
        folder: The tasks' folder, whose ``__init__.py`` imports them all.

    Returns:
        The files that were written, that ``__init__.py`` the last.

    Raises:
        ConfigError: The name cannot be a task's, or is taken.
    """
    if not _NAME.fullmatch(name) or keyword.iskeyword(name):
        raise ConfigError(f"{name}: a task's name is lower-case words with _ between them, such as press_button.")
    target = folder / name
    if target.exists() or (folder / f"{name}.py").exists():
        raise ConfigError(f"{name}: {target} exists already. Choose another name, or remove it.")
    words = [word.capitalize() for word in name.split("_")]
    values = {"name": name, "title": "".join(words), "task_id": f"{PREFIX}{'-'.join(words)}-Franka-Direct"}
    registry = folder / "__init__.py"
    registered = _with_import(registry.read_text(encoding="utf-8"), name)
    target.mkdir()
    written = []
    for file_name, content in FILES.items():
        path = target / Template(file_name).substitute(values)
        path.write_text(content.substitute(values), encoding="utf-8")
        written.append(path)
    registry.write_text(registered, encoding="utf-8")
    return [*written, registry]


def _with_import(text: str, name: str) -> str:
    """Return the package's text with one more task imported, in order."""
    found = _IMPORT.search(text)
    if found is None or _ALL.search(text) is None:
        raise ConfigError("tasks/__init__.py: expected one line 'from isaaclab_pc.tasks import ...' and one __all__.")
    names = sorted({*found[1].split(", "), name})
    text = _IMPORT.sub(f"from isaaclab_pc.tasks import {', '.join(names)}", text)
    return _ALL.sub("__all__ = [" + ", ".join(f'"{n}"' for n in names) + "]", text)


def main(argv: Sequence[str]) -> int:
    """Write a task.

    Args:
        argv: Arguments without the program's name: the task's name.

    Returns:
        The exit code: 0, or 2 for a wrong argument.
    """
    if {"--help", "-h"} & set(argv):
        print(HELP)
        return 0
    try:
        if len(argv) != 1:
            raise ConfigError("expected one name, as in: python scripts/new_task.py press_button")
        written = new_task(argv[0], (Path(isaaclab_pc.__file__).parent / "tasks").resolve())
    except ConfigError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(*written, sep="\n")
    print(f"It works as it is: python scripts/train.py task={argv[0]}")
    return 0
