# SPDX-License-Identifier: BSD-3-Clause
"""How a user starts the scripts: ``python scripts/train.py`` in the repository, ``isaaclab-pc train`` without it.

Texts name them as in the repository, and are put right where they are shown.
"""

import os
import re
import shlex
from contextlib import AbstractContextManager
from pathlib import Path

from isaaclab_pc.utils.environment import environment_variables

PROGRAM = "isaaclab-pc"
"""Name of the console script."""

_SCRIPT = re.compile(r"(?:python )?\bscripts/(\w+)\.py")

_IS_PROGRAM = "ISAACLAB_PC_IS_PROGRAM"
"""Environment variable that tells child processes, which speak to the user, too."""


def in_repository() -> bool:
    """Tell whether the package is used from its repository, where ``scripts`` stands beside it."""
    return (Path(__file__).resolve().parents[2] / "scripts" / "train.py").is_file()


def started_as_program() -> AbstractContextManager[None]:
    """Tell a block, and processes that it starts, that the user has started the console script."""
    return environment_variables({_IS_PROGRAM: "1"})


def as_started(text: str) -> str:
    """Return a text with names such as ``python scripts/train.py`` as the user has to write them."""
    return text if _by_scripts() else _SCRIPT.sub(rf"{PROGRAM} \1", text)


def command_line(script: str, *arguments: str | Path) -> str:
    """Return the command that starts a script such as ``train`` with arguments, quoted for a shell."""
    program = ["python", f"scripts/{script}.py"] if _by_scripts() else [PROGRAM, script]
    return shlex.join([*program, *map(str, arguments)])


def _by_scripts() -> bool:
    return in_repository() and _IS_PROGRAM not in os.environ
