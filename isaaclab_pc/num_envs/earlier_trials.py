# SPDX-License-Identifier: BSD-3-Clause
"""Trials of earlier searches, from the folders that ``scripts/scale.py`` left."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from isaaclab_pc.num_envs.trial import Trial
from isaaclab_pc.utils.json_record import JsonRecord

__all__ = ["TRIALS_NAME", "EarlierTrials", "TrialsFile", "find_earlier_trials"]

TRIALS_NAME = "trials.json"
"""File of a search's folder that holds a :class:`TrialsFile`."""


@dataclass(frozen=True)
class TrialsFile(JsonRecord):
    """All trials of a search, as they are kept in its folder."""

    run: str
    """Digest of the settings that memory depends on, with the kind of device."""
    trials: tuple[Trial, ...]
    """Every trial, in the order they ran."""


@dataclass(frozen=True)
class EarlierTrials:
    """Measurements of earlier searches."""

    trials: tuple[Trial, ...] = ()
    """Trials that fitted, compiled no kernels and reported their memory; of each size the newest."""
    folders: tuple[str, ...] = ()
    """Folders of the searches that they are from, the newest first."""


def find_earlier_trials(run: str, folder: Path) -> EarlierTrials:
    """Find trials of runs with the same settings.

    Args:
        run: Digest of the settings, as in :class:`TrialsFile`.
        folder: Where searches of all tasks leave their folders, ``<task>/<time>``.
    """
    newest_of_size: dict[int, Trial] = {}
    folders: list[str] = []
    # Folders are named by their time.
    for path in sorted(folder.glob(f"*/*/{TRIALS_NAME}"), key=lambda path: path.parent.name, reverse=True):
        try:
            found = TrialsFile.read(path)
        except (OSError, ValueError):  # of another version, or edited by hand
            continue
        if found.run != run:
            continue

        usable = [trial for trial in found.trials if trial.fits and not trial.compiled and trial.memory is not None]
        new = {trial.num_envs: trial for trial in usable if trial.num_envs not in newest_of_size}
        newest_of_size |= new
        folders += [str(path.parent)] if new else []

    return EarlierTrials(tuple(newest_of_size.values()), tuple(folders))
