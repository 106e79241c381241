# SPDX-License-Identifier: BSD-3-Clause
"""Which checkpoints a run keeps: the last few and the best."""

import math
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from isaaclab_pc.run.evaluation import Evaluation
from isaaclab_pc.run.record import CHECKPOINT_FOLDER, CheckpointEntries, CheckpointEntry, CurvePoint, RunRecord

NUM_KEPT = 3
"""Latest checkpoints that are kept, besides the best."""


class CheckpointKeeper:
    """Writes checkpoints of a run, enters them in its record, and removes old ones.

    The best one has the highest success rate and, among equal ones, the highest return in evaluations of the
    deterministic policy, all with the same seed. Until a checkpoint was evaluated, the newest is the best.
    """

    def __init__(
        self,
        record: RunRecord,
        save: Callable[[Path, dict[str, Any]], None],
        interval: float,
        evaluation_share: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Go on with the checkpoints that the run's record has, saved by ``Runner.save``.

        Two checkpoints are ``interval`` [s] apart by a monotonic clock, and their evaluations take at most
        ``evaluation_share`` of the time.
        """
        self._record = record
        self._save = save
        self._interval = interval
        self._evaluation_share = evaluation_share
        self._clock = clock
        self._last_save = clock()
        self._success_rates: list[float] = []
        self._last_evaluation = self._last_save

        # A writer that was killed leaves its half of a file behind.
        for partial in (record.folder / CHECKPOINT_FOLDER).glob(".model_*.tmp"):
            partial.unlink()

    def add_success_rate(self, success_rate: float) -> None:
        """Add the success rate of an iteration; NaN where none is known."""
        if math.isfinite(success_rate):
            self._success_rates.append(success_rate)

    def is_due(self) -> bool:
        """Whether it is time for the next checkpoint."""
        return self._clock() - self._last_save >= self._interval

    def has_evaluated_best(self) -> bool:
        """Whether the best checkpoint so far was evaluated."""
        best = self._record.data.checkpoints.best
        return best is not None and best.evaluation is not None

    def has_time_for(self, seconds: float) -> bool:
        """Whether an evaluation that takes so long [s] keeps all of them within their share of the time."""
        return seconds <= self._evaluation_share * (self._clock() - self._last_evaluation + seconds)

    def write(self, completed: int) -> Path:
        """Write a checkpoint between two iterations."""
        data = self._record.data
        path = self._record.folder / CHECKPOINT_FOLDER / f"model_{completed}.pt"
        self._save(path, {"task": data.task, "experiment": data.experiment})

        rates = self._success_rates
        rate = sum(rates) / len(rates) if rates else None
        latest = CheckpointEntry(path=f"{CHECKPOINT_FOLDER}/{path.name}", iteration=completed, success_rate=rate)
        best = data.checkpoints.best
        # A run that went on from an older checkpoint may write the best one's file anew.
        if best is None or best.evaluation is None or best.path == latest.path:
            best = latest
        self._record.update(checkpoints=CheckpointEntries(latest=latest, best=best), completed_iterations=completed)

        # By age, not by iteration: a run that is resumed from an older checkpoint writes lower iterations later.
        files = (self._record.folder / CHECKPOINT_FOLDER).glob("model_*.pt")
        for file in sorted(files, key=lambda file: file.stat().st_mtime_ns)[:-NUM_KEPT]:
            if f"{CHECKPOINT_FOLDER}/{file.name}" not in (latest.path, best.path):
                file.unlink()

        self._last_save = self._clock()
        self._success_rates.clear()
        return path

    def add_evaluation(self, evaluation: Evaluation, seconds: float) -> bool:
        """Enter the evaluation of the latest checkpoint, which took ``seconds`` [s]; return whether it is the best."""
        entries = self._record.data.checkpoints
        assert entries.latest is not None, "a checkpoint is written before it is evaluated"
        # The record is read by people, too: the breakdown is that of the evaluation at the end.
        evaluation = replace(evaluation, breakdown=())
        latest = entries.latest.model_copy(update={"evaluation": evaluation})
        data = self._record.data
        point = CurvePoint(
            iteration=latest.iteration,
            env_steps=data.env_steps,
            wall_s=data.wall_s,
            evaluation_s=seconds,
            evaluation=evaluation,
        )

        before = entries.best.evaluation if entries.best is not None else None
        # At equal scores the later one: it has trained longer.
        is_best = before is None or _score(evaluation) >= _score(before)
        best = latest if is_best else entries.best
        self._record.update(
            checkpoints=CheckpointEntries(latest=latest, best=best), evaluations=[*data.evaluations, point]
        )

        self._last_evaluation = self._clock()
        return is_best


def _score(evaluation: Evaluation) -> tuple[float, float]:
    mean_return = evaluation.mean_return
    return evaluation.success_rate or 0.0, -math.inf if mean_return is None else mean_return
