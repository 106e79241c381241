# SPDX-License-Identifier: BSD-3-Clause
"""The last steps of every environment, kept on the device; those of an environment that fails go to a file."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from isaaclab_pc.fault_dump import FORMAT, SIMULATION_PACKAGES, FaultDump
from isaaclab_pc.guards.causes import CAUSES
from isaaclab_pc.guards.scene_state import own_assets
from isaaclab_pc.guards.step_hooks import StepHook, add_step_hook
from isaaclab_pc.packages import installed_versions
from isaaclab_pc.program_name import command_line

__all__ = ["Recorder", "RecorderCfg"]

RING_BYTES = 128 * 2**20
"""Largest memory of the ring buffer [B]: with many environments it holds fewer steps."""

_LEAST_STEPS = 8

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class RecorderCfg:
    """How much is kept."""

    dumps: int = 3
    """Files in the run's folder. The first failures are kept: later ones often follow from them, or have the same
    reason."""

    steps: int = 64
    """Steps of history of each environment, fewer where the ring would take more than :data:`RING_BYTES`."""

    envs: int = 4
    """Environments in a file, the first ones that fail."""


def _ring_steps(cfg: RecorderCfg, num_envs: int, width: int) -> int:
    return max(min(cfg.steps, RING_BYTES // (4 * num_envs * width)), _LEAST_STEPS)


class Recorder(StepHook):
    """Keeps the state, targets and actions of the last steps, and writes those of failed environments to files.

    The ring buffer is on the device and is written without waiting for it. When an environment fails, its rows are
    copied to a slot, so that the ring may overwrite them. The number of used slots goes to the host in the background,
    and the file is written in one of the next steps. :mod:`isaaclab_pc.fault_dump` describes the file.

    Example:
        .. code-block:: python

            guard = attach_guard(env, GuardCfg(), "cartpole")
            about = {"task": "Isaac-Cartpole-Direct", "config": {}, "backend": "newton_mjwarp"}
            recorder = Recorder.attach(env.unwrapped, Path("dumps"), about)
            env.reset()
            env.step(torch.full((env.unwrapped.num_envs, 1), float("nan")))
            recorder.flush()  # dumps/dump_0.npz
    """

    def __init__(self, cfg: RecorderCfg, env: Any, folder: Path, about: Mapping[str, Any]) -> None:
        """Allocate the ring buffer.

        Args:
            cfg: How much is kept.
            env: An unwrapped environment, built, with its guard as ``guard``.
            folder: Where the files go, ``dump_<number>.npz``. Files that are there already count.
            about: ``task``, ``config`` and ``backend`` of the run, as in :class:`FaultDump`.
        """
        self.cfg = cfg
        self.paths: list[Path] = []
        """Files that were written, oldest first."""

        self._env = env
        self._folder = folder
        self._written = len(list(folder.glob("dump_*.npz")))
        self.active = self._written < cfg.dumps and env.guard.enabled
        """Whether anything is recorded; no longer once the last file is written."""

        self._sources = _sources(env)
        self._about = {
            **about,
            "format": FORMAT,
            "seed": env.cfg.seed,
            "versions": installed_versions(SIMULATION_PACKAGES),
            "dt": env.cfg.sim.dt,
            "decimation": env.cfg.decimation,
            "assets": _describe(env),
            "causes": list(CAUSES),
        }
        self._num_recorded = 0
        self._action: torch.Tensor | None = None
        self._step_recorded = False
        if self.active:
            self._allocate()

    @classmethod
    def attach(
        cls,
        env: Any,
        folder: Path,
        about: Mapping[str, Any],
        cfg: RecorderCfg | None = None,
    ) -> Recorder:
        """Record an environment from now until it is closed.

        Args:
            env: An unwrapped ``DirectRLEnv`` or ``ManagerBasedRLEnv``, built, with its
                :class:`~isaaclab_pc.guards.Guard` as ``guard``.
            folder: As for the class.
            about: As for the class.
            cfg: How much is kept.

        Returns:
            The recorder. If nothing is to be recorded, it leaves the environment alone.
        """
        recorder = cls(cfg or RecorderCfg(), env, folder, about)
        if recorder.active:
            env.guard.dump = recorder.write_failed
            add_step_hook(env, recorder)
        return recorder

    def before_step(self, action: torch.Tensor) -> None:
        """Remember the action of the step that begins, before the guard replaces a bad one."""
        self._action = action

    def after_targets(self) -> None:
        """Write the start of the step to the ring: the state before the first physics step, and the targets."""
        # None: this step is in the ring already, because a guard in mode raise needed it earlier.
        if self._action is None:
            return
        if self.active and self._num_used_view > 0:
            self.flush()
        if not self.active:
            return

        row = self._num_recorded % len(self._ring)
        action = self._action.to(self._env.device, torch.float32).flatten(1)
        torch.cat([*self._read_state(), action], dim=1, out=self._ring[row])
        self._clock[row, :, 0] = getattr(self._env, "episode_index", -1)
        self._clock[row, :, 1] = self._env.episode_length_buf
        self._num_recorded += 1
        self._action = None
        self._step_recorded = True

    def after_physics(self) -> None:
        """Keep the state that the step ends in, because a reset would overwrite it."""
        if self.active:
            torch.cat(self._read_state(), dim=1, out=self._outcome)

    def after_step(self) -> None:
        """Copy the history of the environments that failed in this step to free slots."""
        self._keep_failures(self._env.guard.causes)

    def close(self) -> None:
        """Write what is not in a file yet."""
        self.flush()

    def write_failed(self, env_ids: torch.Tensor) -> Path | None:
        """Write the history of environments in the middle of a step, for a guard that raises; waits for the device.

        Args:
            env_ids: Environments that the guard found faulty in this step, shape (M,), int64.

        Returns:
            The file, or None where no more are written.
        """
        causes = self._env.guard.causes
        failed = torch.zeros_like(causes)
        failed[env_ids] = causes[env_ids]

        self.after_targets()
        self._keep_failures(failed)
        return self.flush()

    def _keep_failures(self, causes: torch.Tensor) -> None:
        """Copy the history of environments with a cause, shape (num_envs,), to free slots, without waiting."""
        if not self.active or not self._step_recorded:
            return
        self._step_recorded = False
        failed = causes != 0
        if failed.device.type == "cpu" and not failed.any():
            return

        # The k-th failure since the last file goes to slot k, the first one is 1; later ones find no slot.
        number = failed.cumsum(0) + self._num_used
        hits = failed & (number == self._slot_numbers[:, None])
        is_new = hits.any(dim=1)
        env = hits.to(torch.uint8).argmax(dim=1)

        # Oldest row first.
        order = (torch.arange(len(self._ring), device=failed.device) + self._num_recorded) % len(self._ring)
        self._slots = torch.where(is_new[:, None, None], self._ring[order, env[:, None]], self._slots)
        self._slot_clock = torch.where(is_new[:, None, None], self._clock[order, env[:, None]], self._slot_clock)
        self._slot_outcome = torch.where(is_new[:, None], self._outcome[env], self._slot_outcome)
        step = torch.full_like(env, self._env.common_step_counter)
        found = torch.stack([env, causes.long()[env], step], dim=1)
        self._slot_ids = torch.where(is_new[:, None], found, self._slot_ids)

        self._num_used = number[-1:].clamp(max=self.cfg.envs)
        self._num_used_on_host.copy_(self._num_used[0], non_blocking=True)

    def flush(self) -> Path | None:
        """Write the failures that are in no file yet; waits for the device.

        Returns:
            The file, or None where nothing failed since the last one. If the file cannot be written, this warns and
            ends the recording: a full disk must not end the run.
        """
        count = int(self._num_used) if self.active else 0
        if count == 0:
            return None

        dump = FaultDump(self._about, self._arrays(count))
        path = self._folder / f"dump_{self._written}.npz"
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            dump.save(path)
        except OSError as error:
            _log.warning("%s cannot be written, so failures are no longer recorded: %s", path, error)
            self._stop()
            return None

        self.paths.append(path)
        envs = ", ".join(map(str, dump.arrays["env_id"]))
        _log.warning("environments %s failed; their last steps: %s", envs, command_line("replay", f"dump={path}"))
        self._written += 1
        self._num_used.zero_()
        self._num_used_on_host.zero_()
        if self._written >= self.cfg.dumps:
            self._stop()
        return path

    def _allocate(self) -> None:
        device = self._env.device
        n = self._env.num_envs
        slots = self.cfg.envs
        self._state_width = sum(source.width for source in self._sources)
        width = self._state_width + int(torch.Size(self._env.single_action_space.shape).numel())
        steps = _ring_steps(self.cfg, n, width)

        # One row a step: state and targets at its start, its action; episode and step of the episode.
        self._ring = torch.full((steps, n, width), float("nan"), device=device)
        self._clock = torch.full((steps, n, 2), -1, dtype=torch.int32, device=device)
        # The state at the end of the last step.
        self._outcome = torch.full((n, self._state_width), float("nan"), device=device)

        # The same of environments that failed, and (environment, causes, step) of each.
        self._slots = torch.full((slots, steps, width), float("nan"), device=device)
        self._slot_clock = torch.full((slots, steps, 2), -1, dtype=torch.int32, device=device)
        self._slot_outcome = torch.full((slots, self._state_width), float("nan"), device=device)
        self._slot_ids = torch.zeros(slots, 3, dtype=torch.long, device=device)
        self._slot_numbers = torch.arange(1, slots + 1, device=device)
        self._num_used = torch.zeros(1, dtype=torch.long, device=device)
        # Pinned, so that the copy waits for nothing.
        self._num_used_on_host = torch.zeros((), dtype=torch.long, pin_memory=torch.device(device).type == "cuda")
        self._num_used_view = self._num_used_on_host.numpy()

    def _stop(self) -> None:
        self.active = False
        self._num_used_on_host.zero_()
        del self._ring, self._clock, self._outcome, self._slots, self._slot_clock, self._slot_outcome

    def _read_state(self) -> list[torch.Tensor]:
        return [source.read() for source in self._sources]

    def _arrays(self, count: int) -> dict[str, Any]:
        """Return the file's arrays: each environment's rows of the episode that failed, first row first."""
        slots = self._slots[:count].cpu()
        clock = self._slot_clock[:count].cpu()
        outcome = self._slot_outcome[:count].cpu()
        ids = self._slot_ids[:count].cpu()

        # Histories differ in length; the file pads the shorter ones.
        lengths = [_episode_rows(clock[index, :, 1]) for index in range(count)]
        rows = torch.full((count, max(lengths), slots.shape[2]), float("nan"))
        clocks = torch.full((count, max(lengths), 2), -1, dtype=torch.long)
        for index, length in enumerate(lengths):
            rows[index, :length] = slots[index, -length:]
            clocks[index, :length] = clock[index, -length:]

        arrays = {
            "env_id": ids[:, 0],
            "cause": ids[:, 1],
            "step": ids[:, 2],
            "length": torch.tensor(lengths),
            "episode": clocks[:, :, 0],
            "episode_step": clocks[:, :, 1],
            "action": rows[:, :, self._state_width :],
        }
        widths = [source.width for source in self._sources]
        before = rows[:, :, : self._state_width].split(widths, dim=2)
        after = outcome.split(widths, dim=1)
        for source, start, end in zip(self._sources, before, after, strict=True):
            arrays[f"before.{source.name}"] = start
            arrays[f"after.{source.name}"] = end
        return {name: tensor.contiguous().numpy() for name, tensor in arrays.items()}


@dataclass(frozen=True)
class _Source:
    """A quantity that is recorded."""

    name: str
    """``<asset>.<quantity>``, as in the file."""

    read: Callable[[], torch.Tensor]
    """Returns its values, shape (num_envs, width)."""

    width: int


def _episode_rows(episode_step: torch.Tensor) -> int:
    """Return how many of the last rows are consecutive steps of one episode, at least 1."""
    goes_on = (episode_step[1:] == episode_step[:-1] + 1) & (episode_step[:-1] >= 0)
    return 1 + int(goes_on.flip(0).cumprod(0).sum())


def _sources(env: Any) -> list[_Source]:
    readers: dict[str, Callable[[], torch.Tensor]] = {}
    articulations, rigid_objects = own_assets(env.scene, env.num_envs)

    for name, asset in [*articulations.items(), *rigid_objects.items()]:
        readers[f"{name}.root_pose"] = _pose_reader(asset.data, env.scene.env_origins)
        readers[f"{name}.root_velocity"] = lambda data=asset.data: data.root_vel_w.torch
        if name not in articulations:
            continue
        command = asset.actuators.target_command
        readers[f"{name}.joint_pos"] = lambda data=asset.data: data.joint_pos.torch
        readers[f"{name}.joint_vel"] = lambda data=asset.data: data.joint_vel.torch
        readers[f"{name}.joint_pos_target"] = lambda command=command: command.position.torch
        readers[f"{name}.joint_vel_target"] = lambda command=command: command.velocity.torch

    return [_Source(name, read, read().shape[1]) for name, read in readers.items()]


def _pose_reader(data: Any, origins: torch.Tensor) -> Callable[[], torch.Tensor]:
    return lambda: torch.cat([data.root_pos_w.torch - origins, data.root_quat_w.torch], dim=1)


def _describe(env: Any) -> dict[str, dict[str, Any]]:
    """Return kind and joint names of each recorded asset."""
    articulations, rigid_objects = own_assets(env.scene, env.num_envs)
    described: dict[str, dict[str, Any]] = {}
    for name, asset in articulations.items():
        described[name] = {"kind": "articulation", "joints": list(asset.joint_names)}
    for name in rigid_objects:
        described[name] = {"kind": "rigid_object", "joints": []}
    return described
