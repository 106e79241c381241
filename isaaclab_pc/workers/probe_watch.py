# SPDX-License-Identifier: BSD-3-Clause
"""What a probe child tells about itself: its memory, for the ledger, and how far it came, should it not return."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import torch

from isaaclab_pc.physics.contacts import contact_buffer_bytes
from isaaclab_pc.scaling.gpu import Gpu
from isaaclab_pc.scaling.trial import MemoryReport, Phase, Progress, Spaces
from isaaclab_pc.tensor_bytes import tensor_bytes

if TYPE_CHECKING:
    from isaaclab_pc.runners import Runner
    from isaaclab_pc.scaling import BatchPlan

__all__ = ["ProbeWatch"]


class ProbeWatch:
    """Readings of this process's memory, on the GPU where it computes there, and a file that tells its phase."""

    def __init__(self, device: str, phase_path: Path) -> None:
        """Start.

        Args:
            device: ``cpu`` or ``cuda:N``.
            phase_path: JSON file that is written whenever a rollout or an update begins: ``phase`` and
                ``minibatch_size``.
        """
        self._phase_path = phase_path
        self._gpu = Gpu(device) if device.startswith("cuda") else None
        self._base = self._built = 0

    def before_env(self) -> None:
        """Read what libraries and the simulation app take; the environment comes next."""
        self._base = self._used()

    def after_env(self, env: Any, plan: BatchPlan) -> None:
        """Take one step, for which simulators and renderers allocate what they did not before, and read.

        Args:
            env: The gym environment, just made.
            plan: Its batches.
        """
        env.reset()
        actions = torch.zeros(env.unwrapped.num_envs, *env.unwrapped.single_action_space.shape)
        env.step(actions.to(env.unwrapped.device))
        self._built = self._used()
        self._follow_phases(env.unwrapped, plan)

    def _follow_phases(self, env: Any, plan: BatchPlan) -> None:
        """Count steps: after those of a rollout comes an update, before the next step it is over."""
        step, steps = env.step, 0

        def counted(actions: Any) -> Any:
            nonlocal steps
            if steps % plan.horizon == 0:
                self._write_phase(Phase.ROLLOUT, plan)
            result = step(actions)
            steps += 1
            if steps % plan.horizon == 0:
                self._write_phase(Phase.UPDATE, plan)
            return result

        env.step = counted

    def _write_phase(self, phase: Phase, plan: BatchPlan) -> None:
        # Not flushed to the disk, which would take its time from what is measured: it has to outlive this process only.
        self._phase_path.write_text(Progress(phase, plan.minibatch_size).to_json(), encoding="utf-8")

    def memory(self, env: Any, runner: Runner) -> MemoryReport:
        """Return the readings, and the bytes of the tensors that can be named.

        Args:
            env: The gym environment.
            runner: The runner, after an update: optimizers make their state in the first one.
        """
        tensors = {kind: tensor_bytes(holder) for kind, holder in runner.holders().items()}
        sensors = getattr(env.unwrapped.scene, "sensors", {}).values()
        cameras = [sensor for sensor in sensors if hasattr(sensor, "image_shape")]
        tensors["camera buffers"] = tensor_bytes(
            [[output.torch for output in camera.data.output.values()] for camera in cameras]
        )
        tensors["clouds"] = sum(sensor.nbytes for sensor in sensors if hasattr(sensor, "nbytes"))
        tensors["contact buffers"] = contact_buffer_bytes(env.unwrapped.cfg.sim.physics)
        return MemoryReport(
            before_env=self._base,
            after_env=self._built,
            tensors=tensors,
            spaces=_spaces(env.unwrapped),
            torch_peak=None if self._gpu is None else torch.cuda.max_memory_allocated(),
        )

    def _used(self) -> int:
        if self._gpu is not None:
            return self._gpu.sample([os.getpid()])
        return psutil.Process().memory_info().rss


def _spaces(env: Any) -> Spaces:
    """Return the sizes of observations and actions, from which a later prediction builds the networks."""
    observations = {
        name: (tuple(space.shape), str(space.dtype))
        for name, space in getattr(env.single_observation_space, "spaces", {}).items()
    }
    return Spaces(observations, math.prod(env.single_action_space.shape))
