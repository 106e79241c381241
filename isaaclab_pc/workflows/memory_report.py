# SPDX-License-Identifier: BSD-3-Clause
"""What a probe child tells about its own memory, for the ledger of :mod:`isaaclab_pc.scaling.ledger`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import psutil
import torch

from isaaclab_pc.scaling.gpu import Gpu
from isaaclab_pc.tensor_bytes import tensor_bytes

if TYPE_CHECKING:
    from isaaclab_pc.runners import Runner

__all__ = ["MemoryReport"]


class MemoryReport:
    """Readings of this process's memory, on the GPU where it computes there, while it builds an environment."""

    def __init__(self, device: str) -> None:
        """Start.

        Args:
            device: ``cpu`` or ``cuda:N``.
        """
        self._gpu = Gpu(device) if device.startswith("cuda") else None
        self._base = self._built = 0

    def before_env(self) -> None:
        """Read what libraries and the simulation app take; the environment comes next."""
        self._base = self._used()

    def after_env(self, env: Any) -> None:
        """Take one step, for which simulators and renderers allocate what they did not before, and read.

        Args:
            env: The gym environment, just made.
        """
        env.reset()
        actions = torch.zeros(env.unwrapped.num_envs, *env.unwrapped.single_action_space.shape)
        env.step(actions.to(env.unwrapped.device))
        self._built = self._used()

    def to_dict(self, env: Any, runner: Runner) -> dict[str, Any]:
        """Return the readings, and the bytes of the tensors that can be named, as plain numbers.

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
        report = {"base": self._base, "built": self._built, "tensors": tensors}
        if self._gpu is not None:
            report["torch_peak"] = torch.cuda.max_memory_allocated()
        return report

    def _used(self) -> int:
        if self._gpu is not None:
            return self._gpu.sample([os.getpid()])
        return psutil.Process().memory_info().rss
