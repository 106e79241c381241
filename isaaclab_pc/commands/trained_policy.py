# SPDX-License-Identifier: BSD-3-Clause
"""A trained policy: where it is, and under which settings it acts. Loads no torch."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from isaaclab_pc.cli.command_line import Command, keys_of
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.learners import require_library
from isaaclab_pc.run.find_checkpoint import check_checkpoint, find_trained
from isaaclab_pc.settings import RunSettings

SELECTS = ("task", "runner", "obs")
"""Settings that find the run."""


def find_policy(
    which: str, asked: RunSettings, command: Command, may_change: Sequence[str], key: str = "resume"
) -> tuple[RunSettings, Path, Path]:
    """Find a policy, and the settings under which it acts.

    Args:
        which: ``pretrained``, ``latest``, ``best``, or the path of a run's folder or checkpoint.
        asked: The settings of ``command``.
        command: The command line.
        may_change: Settings that may differ from those of its training, as for :func:`keys_of`.
        key: Name of the setting that holds ``which``, for messages.

    Returns:
        The settings of its run, with those of the command line in their place; its checkpoint and folder.

    Raises:
        ConfigError: There is none, its library is not installed, it was trained for something else than was asked for,
            or something was given that may not change.
    """
    trained, checkpoint, folder = find_trained(which, asked, key)
    for name in sorted(command.given & set(SELECTS)):
        there = getattr(trained, name)
        if getattr(asked, name) != there:
            raise ConfigError(f"{name}: {checkpoint} comes from a run with {name}={there}, not {getattr(asked, name)}.")
    settings = _changed(trained, asked, command, may_change)
    require_library(settings.runner)
    check_checkpoint(checkpoint, settings)
    return settings, checkpoint, folder


def _changed(trained: RunSettings, asked: RunSettings, command: Command, may_change: Sequence[str]) -> RunSettings:
    """Put the settings of the command line in the place of those of a training."""
    allowed = keys_of(*may_change)
    given = sorted(command.given - {*SELECTS, "resume"})
    refused = [key for key in (*given, *command.agent) if not allowed(key)]
    if refused:
        raise ConfigError(f"{refused[0]} has no effect on a trained policy; --help shows what may be given.")

    # Who watches is no part of a run.
    values = asked.flat()
    changes: dict[str, Any] = {key: values[key] for key in (*given, "visualizer", "host", "force")}
    changes["env_overrides"] = [*trained.env_overrides, *command.env]
    # A student that is done needs neither teacher nor demonstrations, which may be gone.
    return trained.with_values(changes | {"teacher": None, "demos": None})
