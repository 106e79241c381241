# SPDX-License-Identifier: BSD-3-Clause
"""``scripts/new_task.py``: write a working task, as a start for a new one. Loads no torch."""

import keyword
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path

import isaaclab_pc
from isaaclab_pc.cli.command_line import Takes, override_value
from isaaclab_pc.cli.script import script
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.processes.child_process import ExitCode
from isaaclab_pc.run.folder import writing
from isaaclab_pc.settings.base import shown
from isaaclab_pc.terminal.program_name import command_line, in_repository
from isaaclab_pc.terminal.screen import current
from isaaclab_pc.utils.files import write_text_atomically

TAKES = Takes()

HELP = """\
Write a new task: tasks/<name>/ with its environment, configuration and registration, and its line in tasks/__init__.py.

  python scripts/new_task.py press_button

The new task works as it is: it holds the tool centre above a cube. Change scene, resets, rewards and success, and
follow "Add a task" in CONTRIBUTING.md. Words are separated by _, the first one is the verb.

Exit codes: 0; 2 for a wrong name; 128 + N after a signal N; 1 otherwise.
"""

REPOSITORY = Path(isaaclab_pc.__file__).resolve().parents[1]

TEMPLATE = REPOSITORY / "tools" / "new_task"
"""A task that works, called ``new_task``; it stands outside of the package, as only a repository can have new tasks."""

_OUR_IMPORTS = re.compile(r"(?:^from isaaclab_pc\S* import .*\n)+", re.MULTILINE)
_IMPORT_LINE = re.compile(r"^from isaaclab_pc\.tasks import (.+)$", re.MULTILINE)
_ALL_LINE = re.compile(r"^__all__ = \[.*\]$", re.MULTILINE)
_LONGEST = 64
_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")


@script(HELP)
def main(argv: Sequence[str]) -> int:
    """Write a task; return the exit code, as in :data:`HELP`."""
    if len(argv) != 1:
        raise ConfigError("expected one name, as in: python scripts/new_task.py press_button")

    if not in_repository():
        raise ConfigError(
            f"{argv[0]}: a new task is written to tasks/ of the repository, and isaaclab_pc is installed without it. "
            "Clone it and install it with pip install -e ., or copy its examples/own_task, a package with a task."
        )
    for path in new_task(argv[0], REPOSITORY / "tasks"):
        current().made("file", path)
    current().say(f"It works as it is: {command_line('train', f'task={argv[0]}')}")
    return ExitCode.OK


def new_task(name: str, folder: Path) -> list[Path]:
    """Write a task into the tasks' folder, and import it in the ``__init__.py`` there.

    Returns:
        The files that were written, the folder's ``__init__.py`` last.

    Raises:
        ConfigError: The name cannot be a task's, or is taken, or the folder cannot be written.
    """
    # override_value: task=true would name no task.
    if not _NAME.fullmatch(name) or keyword.iskeyword(name) or override_value(name) != name or len(name) > _LONGEST:
        raise ConfigError(
            f"{shown(name)}: a task's name is lower-case words with _ between them, such as press_button, of at most "
            f"{_LONGEST} letters."
        )
    target = folder / name
    if target.exists() or (folder / f"{name}.py").exists():
        raise ConfigError(f"{name}: {target} exists already. Choose another name, or remove it.")

    registry = folder / "__init__.py"
    # Before anything is written, because this may be refused.
    registered = _with_import(registry.read_text(encoding="utf-8"), name)
    written = {
        _renamed(path.name, name): _renamed(path.read_text(encoding="utf-8"), name)
        for path in sorted(TEMPLATE.glob("*.py"))
    }

    with writing(folder), tempfile.TemporaryDirectory(prefix=".new-", dir=folder) as partial:
        for file_name, content in written.items():
            (Path(partial) / file_name).write_text(content, encoding="utf-8")
        # Moved once all is written: half a task would refuse the next try.
        target.mkdir()
        for path in Path(partial).iterdir():
            path.replace(target / path.name)
        write_text_atomically(registry, registered)
    return [*(target / file_name for file_name in written), registry]


def _renamed(text: str, name: str) -> str:
    """Return a text of the template for a task of another name, with imports in their order."""
    words = [word.capitalize() for word in name.split("_")]
    text = text.replace(f"{TEMPLATE.parent.name}.{TEMPLATE.name}", f"isaaclab_pc.tasks.{TEMPLATE.name}")
    for old, new in ((TEMPLATE.name, name), ("NewTask", "".join(words)), ("New-Task", "-".join(words))):
        text = text.replace(old, new)
    return _OUR_IMPORTS.sub(lambda block: "".join(sorted(block[0].splitlines(keepends=True))), text)


def _with_import(text: str, name: str) -> str:
    """Return the text of ``tasks/__init__.py`` with one more task imported, in alphabetical order."""
    import_line = _IMPORT_LINE.search(text)
    if import_line is None or _ALL_LINE.search(text) is None:
        raise ConfigError("tasks/__init__.py: expected one line 'from isaaclab_pc.tasks import ...' and one __all__.")

    names = sorted({*import_line[1].split(", "), name})
    quoted = ", ".join(f'"{task}"' for task in names)
    text = _IMPORT_LINE.sub(f"from isaaclab_pc.tasks import {', '.join(names)}", text)
    return _ALL_LINE.sub(f"__all__ = [{quoted}]", text)
