# SPDX-License-Identifier: BSD-3-Clause
"""What a shell may put in the place of a setting that is half written; scripts/completion.bash asks here.

Hydra's own completion knows no values, and runs whatever program stands after ``python`` with a flag of its own.
"""

from __future__ import annotations

import sys

from isaaclab_pc.launch.command_line import GROUPS
from isaaclab_pc.launch.task_names import our_tasks
from isaaclab_pc.settings.base import choices_of, settings_of
from isaaclab_pc.settings.output import OutputSettings
from isaaclab_pc.settings.run import SETTINGS

__all__ = ["completions"]


def completions(word: str) -> list[str]:
    """Return what a word of a command line may become.

    Args:
        word: The beginning of a setting, or a setting with the beginning of its value.

    Returns:
        Whole ``key=`` and ``key=value``, and groups of settings that only a task or an agent knows, such as ``env.``.
    """
    key, has_value, _ = word.partition("=")
    candidates = [f"{key}={value}" for value in _values(key)] if has_value else [*_keys(), "env.", "agent."]
    return [candidate for candidate in candidates if candidate.startswith(word)]


def _keys() -> list[str]:
    return [f"{key}=" for key in (*SETTINGS, *GROUPS, *settings_of(OutputSettings))]


def _values(key: str) -> list[str]:
    if key == "task":
        return list(our_tasks())
    setting = {**SETTINGS, **settings_of(OutputSettings)}.get(GROUPS.get(key, key))
    if setting is None:
        return []
    return ["true", "false"] if setting.field.annotation is bool else list(choices_of(setting.type))


if __name__ == "__main__":
    print(*completions(sys.argv[1]), sep="\n")
