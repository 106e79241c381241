# SPDX-License-Identifier: BSD-3-Clause
"""Trials of earlier searches of the same task, from the folders that ``scripts/scale.py`` left."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.scaling import Outcome, Trial
from isaaclab_pc.settings import RunSettings

__all__ = ["TRIALS_NAME", "Measured", "find_trials"]

SETTINGS_NAME = "config.yaml"
TRIALS_NAME = "trials.json"


@dataclass(frozen=True)
class Measured:
    """What earlier searches measured."""

    trials: tuple[Trial, ...]
    """Trials that fitted and reported their memory; of each size the newest."""
    folder: str
    """Folder of the newest, for people; empty where there is none."""

    @property
    def spaces(self) -> Mapping[str, Any] | None:
        """Observations and actions of the newest trial, as its child reported them."""
        spaces = self.trials[0].extra["memory"].get("spaces") if self.trials else None
        return spaces if isinstance(spaces, Mapping) else None


def find_trials(settings: RunSettings, folder: Path) -> Measured:
    """Find trials of the same task, observations, robot, backend, kind of device and runner.

    Args:
        settings: The run's settings, device and physics backend settled.
        folder: Where searches of all tasks leave their folders, ``<task>/<time>``.

    Returns:
        What they measured, the newest first.
    """
    wanted, trials, newest = _what(settings), {}, ""
    for path in sorted(folder.glob(f"*/*/{TRIALS_NAME}"), key=lambda path: path.parent.name, reverse=True):
        try:
            if _what(RunSettings.load(path.parent / SETTINGS_NAME)) != wanted:
                continue
            found = [_trial(entry) for entry in json.loads(path.read_text(encoding="utf-8"))[::-1]]
        except (OSError, ValueError, TypeError, KeyError, ConfigError):  # of another version, or edited by hand
            continue
        for trial in found:
            if trial.fits and isinstance(trial.extra.get("memory"), Mapping):
                trials.setdefault(trial.num_envs, trial)
                newest = newest or str(path.parent)
    return Measured(tuple(trials.values()), newest)


def _what(settings: RunSettings) -> tuple[str, ...]:
    """Return the settings that decide most of a process's memory."""
    device = settings.device.partition(":")[0]
    return settings.task, settings.obs, settings.robot, settings.physics.backend, settings.runner, device


def _trial(entry: Mapping[str, Any]) -> Trial:
    return Trial(**{**entry, "outcome": Outcome(entry["outcome"])})
