# SPDX-License-Identifier: BSD-3-Clause
"""A training's phase, in a file that is there even if its process never returns."""

from dataclasses import replace
from pathlib import Path

import torch

from isaaclab_pc.agents.networks import ObservationEncoder
from isaaclab_pc.guards.step_hooks import StepHook
from isaaclab_pc.learners import Runner
from isaaclab_pc.num_envs.trial import Progress, TrainingPhase


class PhaseFile(StepHook):
    """Writes a :class:`~isaaclab_pc.num_envs.trial.Progress` whenever a rollout or an update begins.

    It tells them by counting the steps of an iteration.
    """

    def __init__(self, path: Path, horizon: int, progress: Progress) -> None:
        """Write it for the first time; a rollout has ``horizon`` steps."""
        self._path = path
        self._horizon = horizon
        self._progress = progress
        self._write(progress.phase)
        self.begin_iteration()

    def note_chunk(self, runner: Runner) -> None:
        """Note how many samples the policy's encoders hold at once."""
        encoders = (module for module in runner.policy().modules() if isinstance(module, ObservationEncoder))
        known = [samples for encoder in encoders if (samples := encoder.samples_at_once())]
        self._progress = replace(self._progress, chunk=min(known, default=0))

    def begin_iteration(self) -> None:
        """Count from here: steps of an evaluation, which come between two iterations, are none of theirs."""
        self._steps = 0

    def before_step(self, action: torch.Tensor) -> None:
        """Write that a rollout begins."""
        if self._steps % self._horizon == 0:
            self._write(TrainingPhase.ROLLOUT)

    def after_step(self) -> None:
        """Write that an update begins."""
        self._steps += 1
        if self._steps % self._horizon == 0:
            self._write(TrainingPhase.UPDATE)

    def _write(self, phase: TrainingPhase) -> None:
        # Not flushed to the disk: that would cost time that is measured, and the file has to outlive only this process.
        self._path.write_text(replace(self._progress, phase=phase).to_json(), encoding="utf-8")
