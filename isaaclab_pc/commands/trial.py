# SPDX-License-Identifier: BSD-3-Clause
"""One trial of ``scripts/tune.py``, in a process of its own: ``python -m isaaclab_pc.commands.trial FOLDER``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from isaaclab_pc.commands.train import train_in
from isaaclab_pc.launch.child_process import ExitCode, exit_code_of, was_stopped

__all__ = ["main"]


def main(argv: Sequence[str]) -> int:
    """Train the run of a folder.

    Args:
        argv: The folder.

    Returns:
        The exit code, as that of ``scripts/train.py``.
    """
    code = exit_code_of(lambda: train_in(Path(argv[0])))
    return ExitCode.PREEMPTED if was_stopped(code) else code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
