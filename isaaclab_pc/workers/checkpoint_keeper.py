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
"""Time between two checkpoints: the most training that a crash can cost [s]."""

NUM_KEPT = 3
"""Latest checkpoints that are kept, besides the best."""


class CheckpointKeeper:
    """Writes checkpoints of a run, enters them in its record, and removes old ones.

    The best checkpoint is the one with the highest mean success rate of the iterations since the checkpoint before it.
    """

    def __init__(self, record: RunRecord, save: Callable[[Path, dict[str, Any]], None]) -> None:
        """Go on with the checkpoints that the record has.

        Args:
            record: The run's record.
            save: Writes a checkpoint: ``Runner.save``.
        """
        self._record = record
        self._save = save
        self._last_save = time.monotonic()
        self._success_rates: list[float] = []

    def add_success_rate(self, success_rate: float) -> None:
        """Add the success rate of an iteration; NaN where none is known."""
        if math.isfinite(success_rate):
            self._success_rates.append(success_rate)

    def is_due(self) -> bool:
        """Whether it is time for the next checkpoint."""
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

        rate = sum(self._success_rates) / len(self._success_rates) if self._success_rates else None
        latest = CheckpointEntry(path=f"{CHECKPOINT_FOLDER}/{path.name}", iteration=completed, success_rate=rate)
        best = data.checkpoints.best
        # At equal rates the later one: it has trained longer.
        if best is None or (rate or 0.0) >= (best.success_rate or 0.0):
            best = latest
        self._record.update(checkpoints=CheckpointEntries(latest=latest, best=best), completed_iterations=completed)

        self._remove_old(keep={latest.path, best.path})
        self._last_save = time.monotonic()
        self._success_rates.clear()
        return path

    def _remove_old(self, keep: set[str]) -> None:
        # By age, not by iteration: a run that is resumed from an older checkpoint writes lower iterations later.
        files = (self._record.folder / CHECKPOINT_FOLDER).glob("model_*.pt")
        for file in sorted(files, key=lambda file: file.stat().st_mtime_ns)[:-NUM_KEPT]:
            if f"{CHECKPOINT_FOLDER}/{file.name}" not in keep:
                file.unlink()
