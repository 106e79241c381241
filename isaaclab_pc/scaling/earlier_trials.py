# SPDX-License-Identifier: BSD-3-Clause
"""Trials of earlier searches of the same task, from the folders that ``scripts/scale.py`` left."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from isaaclab_pc.json_record import JsonRecord
from isaaclab_pc.scaling.trial import Spaces, Trial
from isaaclab_pc.settings import RunSettings

__all__ = ["TRIALS_NAME", "EarlierTrials", "RunKind", "TrialsFile", "find_earlier_trials"]

TRIALS_NAME = "trials.json"
"""File of a search's folder that holds a :class:`TrialsFile`."""


@dataclass(frozen=True)
class RunKind:
    """The settings that decide most of what a run takes of memory: runs that share them can be compared."""

    task: str
    """Gym id."""
    obs: str
    """What the policy observes."""
    robot: str
    """The task's robot."""
    backend: str
    """Physics backend."""
    runner: str
    """Learning library."""
    algorithm: str
    """What it learns with."""
    device_type: str
    """``cpu`` or ``cuda``."""

    @classmethod
    def of(cls, settings: RunSettings) -> RunKind:
        """Return the kind of a run.

        Args:
            settings: Its settings, device and physics backend chosen.
        """
        return cls(
            task=settings.task,
            obs=settings.obs,
            robot=settings.robot,
            backend=settings.physics.backend,
            runner=settings.runner,
            algorithm=settings.learner,
            device_type=settings.device.partition(":")[0],
        )


@dataclass(frozen=True)
class TrialsFile(JsonRecord):
    """All trials of a search, as they are kept in its folder."""

    run: RunKind
    """What was tried."""
    trials: tuple[Trial, ...]
    """Every trial, in the order they ran."""


@dataclass(frozen=True)
class EarlierTrials:
    """What earlier searches measured."""

    trials: tuple[Trial, ...] = ()
    """Trials that fitted, compiled no kernels and reported their memory; of each size the newest."""
    folder: str = ""
    """Folder of the newest search among them, for people; empty where there is none."""

    @property
    def spaces(self) -> Spaces | None:
        """Observations and actions of the newest trial, as its child reported them."""
        if not self.trials or self.trials[0].memory is None:
            return None
        return self.trials[0].memory.spaces


def find_earlier_trials(run: RunKind, folder: Path) -> EarlierTrials:
    """Find trials of the same kind of run.

    Args:
        run: The kind of run.
        folder: Where searches of all tasks leave their folders, ``<task>/<time>``.

    Returns:
        What they measured, the newest first.
    """
    newest_of_size: dict[int, Trial] = {}
    newest_folder = ""
    # Folders are named by their time.
    paths = sorted(folder.glob(f"*/*/{TRIALS_NAME}"), key=lambda path: path.parent.name, reverse=True)
    for path in paths:
        try:
            found = TrialsFile.read(path)
        except (OSError, ValueError):  # of another version, or edited by hand
            continue
        if found.run != run:
            continue

        for trial in reversed(found.trials):
            if trial.fits and not trial.compiled and trial.memory is not None:
                newest_of_size.setdefault(trial.num_envs, trial)
                newest_folder = newest_folder or str(path.parent)

    return EarlierTrials(tuple(newest_of_size.values()), newest_folder)
