# SPDX-License-Identifier: BSD-3-Clause
"""``scripts/list_tasks.py``: the names that ``task=`` takes. Loads no torch."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import gymnasium

from isaaclab_pc.errors import ConfigError, closest
from isaaclab_pc.launch.task_names import all_ids, our_tasks
from isaaclab_pc.runners import RUNNERS, agent_key

__all__ = ["main"]

HELP = """\
List the tasks that scripts/train.py task=<name> takes.

  python scripts/list_tasks.py          this package's tasks: short name, gym id, learning libraries
  python scripts/list_tasks.py --all    every gym id that Isaac Lab knows, too (takes a few seconds)
"""


def main(argv: Sequence[str]) -> int:
    """Print the tasks.

    Args:
        argv: Arguments without the program's name.

    Returns:
        The exit code: 0, or 2 for an unknown argument.
    """
    options = ("--all", "--help", "-h")
    unknown = [argument for argument in argv if argument not in options]
    if unknown:
        print(f"error: {unknown[0]} is not an option: {closest(unknown[0], options)}", file=sys.stderr)
        return 2
    if {"--help", "-h"} & set(argv):
        print(HELP)
        return 0
    tasks = our_tasks()
    width = max(map(len, tasks), default=0)
    for short, task_id in tasks.items():
        print(f"{short:{width}}  {task_id}  ({', '.join(_runners(task_id))})")
    if "--all" in argv:
        try:
            others = [task_id for task_id in all_ids() if task_id not in tasks.values()]
        except ConfigError as error:
            print(f"error: {error}", file=sys.stderr)
            return 2
        print("\nof other packages:", *others, sep="\n  ")
    return 0


def _runners(task_id: str) -> list[str]:
    """Return the learning libraries that a task has an agent for."""
    return sorted(name for name in RUNNERS if agent_key(name, "default") in gymnasium.spec(task_id).kwargs)
