# SPDX-License-Identifier: BSD-3-Clause
"""A probe's own report: its memory, for the ledger, and its phase, which is known even if it never returns."""

import os
from pathlib import Path
from typing import Any

import psutil
import torch

from isaaclab_pc.faults.recorder import Recorder
from isaaclab_pc.guards.step_hooks import add_step_hook
from isaaclab_pc.learners import Runner
from isaaclab_pc.num_envs.gpu import Gpu, held_by_libraries
from isaaclab_pc.num_envs.trial import MemoryReport, Progress, TrainingPhase
from isaaclab_pc.physics.contacts import contact_buffer_bytes
from isaaclab_pc.sensors.scene_cameras import renderer_bytes
from isaaclab_pc.tensors.tensor_bytes import tensor_bytes
from isaaclab_pc.workers.phase_file import PhaseFile
from isaaclab_pc.workers.resolve import Resolved


class TooManyEnvironmentsError(Exception):
    """A size is more than an update of the agent has samples for."""

    def __init__(self, most_envs: int) -> None:
        """Name the largest size that is not."""
        super().__init__(f"more than {most_envs} would exceed the agent's samples_per_update")
        self.most_envs = most_envs


class ProbeWatch:
    """Reads this process's memory, on a GPU that of the GPU, and writes its phase to a file."""

    def __init__(self, device: str, phase_path: Path, at_least: int | None = None) -> None:
        """Prepare for a device, ``cpu`` or ``cuda:N``; nothing is read or written yet.

        The :class:`~isaaclab_pc.num_envs.trial.Progress` goes to ``phase_path``. ``at_least`` environments are never
        too many for the agent; None: no number is.
        """
        self.most_envs: int | None = None
        """Environments beyond which there are too many for the agent; None: none are."""
        self._at_least = at_least
        self._phase_path = phase_path
        self._phases: PhaseFile | None = None
        self._device = device
        self._gpu = None
        if device.startswith("cuda"):
            # This process has a CUDA context anyway.
            self._gpu = Gpu(device, cuda_memory=lambda: torch.cuda.mem_get_info(device))
        self._bytes_before_env = 0
        self._bytes_after_env = 0

    def start(self, resolved: Resolved, num_envs: int) -> None:
        """Take the plan of the run, before anything is built.

        Raises:
            TooManyEnvironmentsError: They are too many for the agent.
        """
        progress = Progress(TrainingPhase.BUILD, resolved.plan.minibatch_size, resolved.replay_samples)
        self._phases = PhaseFile(self._phase_path, resolved.plan.horizon, progress)
        if self._at_least is not None:
            self.most_envs = max(resolved.most_envs, self._at_least)
            if num_envs > self.most_envs:
                raise TooManyEnvironmentsError(self.most_envs)

    def before_env(self) -> None:
        """Read the memory of the libraries and the simulation app, before the environment is built."""
        self._bytes_before_env = self._used_bytes()

    def after_env(self, env: Any) -> None:
        """Read the memory after one step: simulators and renderers allocate some of theirs only then."""
        env.reset()
        actions = torch.zeros(env.unwrapped.num_envs, *env.unwrapped.single_action_space.shape)
        env.step(actions.to(env.unwrapped.device))
        self._bytes_after_env = self._used_bytes()

        assert self._phases is not None
        add_step_hook(env.unwrapped, self._phases)

    def after_runner(self, runner: Runner) -> None:
        """Note how many samples the policy's encoders hold at once."""
        assert self._phases is not None
        self._phases.note_chunk(runner)

    def memory(self, env: Any, runner: Runner, recorder: Recorder | None) -> MemoryReport:
        """Return the readings, and the tensors by kind; after an update, as optimizers allocate in the first one."""
        tensors = {kind: tensor_bytes(holder) for kind, holder in runner.holders().items()}

        sensors = getattr(env.unwrapped.scene, "sensors", {}).values()
        cameras = [sensor for sensor in sensors if hasattr(sensor, "image_shape")]
        tensors["camera buffers"] = tensor_bytes(
            [[output.torch for output in camera.data.output.values()] for camera in cameras]
        )
        tensors["renderer buffers"] = sum(map(renderer_bytes, cameras))
        tensors["clouds"] = sum(sensor.nbytes for sensor in sensors if hasattr(sensor, "nbytes"))
        history = getattr(env.unwrapped, "history", None)
        tensors["observation history"] = 0 if history is None else tensor_bytes(history.tensors)
        tensors["fault recorder"] = 0 if recorder is None else tensor_bytes(recorder)
        tensors["contact buffers"] = contact_buffer_bytes(env.unwrapped.cfg.sim.physics)

        return MemoryReport(
            before_env=self._bytes_before_env,
            after_env=self._bytes_after_env,
            tensors=tensors,
            held_peak=None if self._gpu is None else held_by_libraries(self._device, peak=True),
        )

    def _used_bytes(self) -> int:
        if self._gpu is not None:
            return self._gpu.sample([os.getpid()])
        return psutil.Process().memory_info().rss
