# SPDX-License-Identifier: BSD-3-Clause
"""Which checkpoints a run keeps: the last few and the best."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from isaaclab_pc.launch.run_record import CHECKPOINT_FOLDER, CheckpointEntries, CheckpointEntry, RunRecord

__all__ = ["CheckpointKeeper"]

INTERVAL_SECONDS = 60.0
"""Longest time of training that a crash can cost [s]."""

KEPT = 3
"""Checkpoints kept besides the best."""


class CheckpointKeeper:
    """Writes checkpoints of a run, notes them in its record, and removes old ones.

    The best is the one at the end of the stretch between two checkpoints with the highest mean success rate.
    """

    def __init__(self, record: RunRecord, save: Callable[[Path, dict[str, Any]], None]) -> None:
        """Continue what the record has.

        Args:
            record: The run's record.
            save: Writes a checkpoint: ``Runner.save``.
        """
        self._record = record
        self._save = save
        self._last_save = time.monotonic()
        self._rates: list[float] = []

    def note(self, success_rate: float) -> None:
        """Take in the success rate of an iteration; NaN where none is known."""
        if math.isfinite(success_rate):
            self._rates.append(success_rate)

    def due(self) -> bool:
        """Whether the last checkpoint is old enough for the next."""
        return time.monotonic() - self._last_save >= INTERVAL_SECONDS

    def write(self, completed: int) -> Path:
        """Write a checkpoint between two iterations.

        Args:
            completed: Iterations completed.

        Returns:
            The file.
        """
        data = self._record.data
        path = self._record.folder / CHECKPOINT_FOLDER / f"model_{completed}.pt"
        self._save(path, {"task": data.task, "experiment": data.experiment})

        rate = sum(self._rates) / len(self._rates) if self._rates else None
        latest = CheckpointEntry(path=f"{CHECKPOINT_FOLDER}/{path.name}", iteration=completed, success_rate=rate)
        best = data.checkpoints.best
        if best is None or (rate or 0.0) >= (best.success_rate or 0.0):
            best = latest
        self._record.update(checkpoints=CheckpointEntries(latest=latest, best=best), completed_iterations=completed)

        self._prune(keep={latest.path, best.path})
        self._last_save = time.monotonic()
        self._rates.clear()
        return path

    def _prune(self, keep: set[str]) -> None:
        # By age, not by iteration: a run resumed from an older checkpoint counts anew from there.
        files = (self._record.folder / CHECKPOINT_FOLDER).glob("model_*.pt")
        for file in sorted(files, key=lambda file: file.stat().st_mtime_ns)[:-KEPT]:
            if f"{CHECKPOINT_FOLDER}/{file.name}" not in keep:
                file.unlink()
