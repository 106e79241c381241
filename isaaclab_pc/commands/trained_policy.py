# SPDX-License-Identifier: BSD-3-Clause
"""The policy that play and export are asked for: with ``task``, ``runner``, ``obs`` and ``resume``. Loads no torch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.launch.command_line import Command
from isaaclab_pc.launch.find_checkpoint import find_checkpoint
from isaaclab_pc.launch.pretrained import PRETRAINED, find_pretrained
from isaaclab_pc.launch.run_folder import LOGS, SETTINGS_NAME, experiment_name
from isaaclab_pc.launch.task_names import short_name
from isaaclab_pc.settings import RunSettings

__all__ = ["SELECTS", "TrainedPolicy", "find_policy"]

SELECTS = ("task", "runner", "obs", "resume")
"""Settings that find the run and its checkpoint."""


@dataclass(frozen=True)
class TrainedPolicy:
    """A policy, and where it comes from."""

    settings: RunSettings
    """Those of the run that trained it."""

    checkpoint: Path
    """Its weights."""

    folder: Path
    """Where what is made of it goes: the run's folder, or ``logs/pretrained/<task>`` for one that has none here."""


def find_policy(asked: RunSettings, command: Command) -> TrainedPolicy:
    """Find the policy that a command line names.

    Args:
        asked: Its settings.
        command: The command line.

    Returns:
        The policy.

    Raises:
        ConfigError: There is none, or it is of another task, runner or observation than was given.
    """
    if asked.resume == PRETRAINED:
        trained, checkpoint = find_pretrained(asked)
        policy = TrainedPolicy(trained, checkpoint, LOGS / PRETRAINED / short_name(asked.task))
    else:
        record, checkpoint = find_checkpoint(asked.resume or "latest", LOGS, asked.runner, experiment_name(asked))
        policy = TrainedPolicy(RunSettings.load(record.folder / SETTINGS_NAME), checkpoint, record.folder)

    for key in sorted(command.given & {"task", "runner", "obs"}):
        there = getattr(policy.settings, key)
        if getattr(asked, key) != there:
            raise ConfigError(
                f"{key}: {policy.checkpoint} comes from a run with {key}={there}, not {getattr(asked, key)}."
            )
    return policy
