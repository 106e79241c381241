# SPDX-License-Identifier: BSD-3-Clause
"""What a shell may put in the place of a setting that is half written; scripts/completion.bash asks here.

Hydra's own completion knows no values, and runs whatever program stands after ``python`` with a flag of its own.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping

from isaaclab_pc.commands import COMMANDS
from isaaclab_pc.launch.command_line import GROUPS, JSON_FLAG, Takes
from isaaclab_pc.launch.task_names import our_tasks
from isaaclab_pc.settings.base import Setting, choices_of, settings_of
from isaaclab_pc.settings.output import OutputSettings
from isaaclab_pc.settings.run import SETTINGS

__all__ = ["completions"]

_FREE_GROUPS = ("env.", "agent.")
"""Groups of settings that only a task or an agent knows."""


def completions(script: str, word: str) -> list[str]:
    """Return what a word of a script's command line may become.

    Args:
        script: The script's name, such as ``train``; where there is none of the name, nothing is found.
        word: The beginning of a setting or an option, or a setting with the beginning of its value.

    Returns:
        Whole ``key=`` and ``key=value``, options such as ``--help``, and groups of settings that only a task or an
        agent knows, such as ``env.``.
    """
    if script not in COMMANDS:
        return []
    # Only this one: some import what draws pictures, and TAB has to be quick.
    takes: Takes = importlib.import_module(f"isaaclab_pc.commands.{script}").TAKES
    key, has_value, _ = word.partition("=")
    if has_value:
        own = {**(settings_of(takes.own) if takes.own is not None else {}), **settings_of(OutputSettings)}
        candidates = [f"{key}={value}" for value in _values(key, own)]
    elif word.startswith("-"):
        candidates = [*takes.options, "--help", JSON_FLAG]
    else:
        candidates = [*(f"{key}=" for key in takes.names), *(group for group in _FREE_GROUPS if group in takes.run)]
    return [candidate for candidate in candidates if candidate.startswith(word)]


def _values(key: str, own: Mapping[str, Setting]) -> list[str]:
    """Return the names that a setting takes."""
    if key == "task":
        return list(our_tasks())
    setting = {**SETTINGS, **own}.get(GROUPS.get(key, key))
    if setting is None:
        return []
    return ["true", "false"] if setting.field.annotation is bool else list(choices_of(setting.type))


if __name__ == "__main__":
    print(*completions(sys.argv[1], sys.argv[2]), sep="\n")
