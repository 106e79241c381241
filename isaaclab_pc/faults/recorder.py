# SPDX-License-Identifier: BSD-3-Clause
"""The last steps of every environment, kept on the device; those of an environment that fails go to a file."""

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

import torch

from isaaclab_pc.faults.dump import FORMAT, SIMULATION_PACKAGES, FaultDump
from isaaclab_pc.guards.causes import CAUSES
from isaaclab_pc.guards.scene_state import own_assets
from isaaclab_pc.guards.step_hooks import StepHook, add_step_hook
from isaaclab_pc.terminal.program_name import command_line
from isaaclab_pc.utils.packages import installed_versions

RING_BYTES = 128 * 2**20
"""Largest memory of the ring buffer [B]: with many environments it holds fewer steps."""

STEPS = 64
"""Steps of history of each environment, fewer where the ring would take more than :data:`RING_BYTES`."""

_LEAST_STEPS = 8

ENVS = 4
"""Environments in a file, the first ones that fail."""

_CLOCK = 2
"""Columns at the end of a row: number of the episode, and step of the episode."""

_log = logging.getLogger(__name__)


class Recorder(StepHook):
    """Keeps the state, targets and actions of the last steps, and writes those of failed environments to files.

    The ring buffer is written on the device without waiting for it. When an environment fails, its rows are copied to
    a slot, so that the ring may overwrite them; the file is written in one of the next steps.

    Example:
        .. code-block:: python

            guard = attach_guard(env, GuardCfg(), "cartpole")
            about = {"task": "Isaac-Cartpole-Direct", "config": {}, "backend": "newton_mjwarp"}
            recorder = Recorder.attach(env.unwrapped, Path("dumps"), about)
            env.reset()
            env.step(torch.full((env.unwrapped.num_envs, 1), float("nan")))
            recorder.flush()  # dumps/dump_0.npz
    """

    def __init__(self, env: Any, folder: Path, about: Mapping[str, Any], dumps: int = 3) -> None:
        """Allocate the ring buffer of a built, unwrapped environment with its guard as ``guard``.

        Files, ``dump_<number>.npz``, go to ``folder``, ``dumps`` of them; those that are there already count. The first
        failures are kept: later ones often follow from them, or have the same reason. ``about`` holds ``task``,
        ``config`` and ``backend`` of the run, as in :class:`FaultDump`.
        """
        self.paths: list[Path] = []
        """Files that were written, oldest first."""

        self._env = env
        self._folder = folder
        self._dumps = dumps
        self._num_files = len(list(folder.glob("dump_*.npz")))
        self.active = self._num_files < dumps and env.guard.enabled
        """Whether anything is recorded; no longer once the last file is written."""

        self._num_recorded = 0
        self._action: torch.Tensor | None = None
        self._step_recorded = False
        if not self.active:
            return

        articulations, rigid_objects = own_assets(env.scene, env.num_envs)
        self._readers = _state_readers(articulations, rigid_objects, env.scene.env_origins)
        self._widths = [read().shape[1] for read in self._readers.values()]
        assets = {
            name: {"kind": "articulation", "joints": list(asset.joint_names)} for name, asset in articulations.items()
        }
        self._about = {
            **about,
            "format": FORMAT,
            "seed": env.cfg.seed,
            "versions": installed_versions(SIMULATION_PACKAGES),
            "dt": env.cfg.sim.dt,
            "decimation": env.cfg.decimation,
            "assets": assets | {name: {"kind": "rigid_object", "joints": []} for name in rigid_objects},
            "causes": list(CAUSES),
        }
        self._allocate()

    def _allocate(self) -> None:
        device = self._env.device
        n = self._env.num_envs
        self._state_width = sum(self._widths)
        width = self._state_width + int(torch.Size(self._env.single_action_space.shape).numel()) + _CLOCK
        steps = max(min(STEPS, RING_BYTES // (4 * n * width)), _LEAST_STEPS)

        # One row a step: state and targets at its start, its action, its clock. Beside it, the state at its end.
        self._ring = torch.full((steps, n, width), float("nan"), device=device)
        self._outcome = torch.full((n, self._state_width), float("nan"), device=device)

        # The same of environments that failed, and (environment, causes, step) of each.
        self._slots = torch.full((ENVS, steps, width), float("nan"), device=device)
        self._slot_outcome = torch.full((ENVS, self._state_width), float("nan"), device=device)
        self._slot_ids = torch.zeros(ENVS, 3, dtype=torch.long, device=device)
        self._slot_numbers = torch.arange(1, ENVS + 1, device=device)
        self._num_used = torch.zeros(1, dtype=torch.long, device=device)
        # Pinned, so that the copy waits for nothing.
        self._num_used_on_host = torch.zeros((), dtype=torch.long, pin_memory=torch.device(device).type == "cuda")
        self._num_used_view = self._num_used_on_host.numpy()

    @classmethod
    def attach(cls, env: Any, folder: Path, about: Mapping[str, Any], dumps: int = 3) -> Self:
        """Record an environment, with a :class:`~isaaclab_pc.guards.Guard` as ``guard``, until it is closed.

        Arguments as for the class. If nothing is to be recorded, the environment is left alone.
        """
        recorder = cls(env, folder, about, dumps)
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

        env = self._env
        action = self._action.to(env.device, torch.float32).flatten(1)
        step = env.episode_length_buf
        # Tasks of other packages do not number their episodes.
        episode = env.episode_index if hasattr(env, "episode_index") else torch.full_like(step, -1)
        clock = torch.stack([episode, step], dim=1).float()
        row = self._num_recorded % len(self._ring)
        torch.cat([*(read() for read in self._readers.values()), action, clock], dim=1, out=self._ring[row])
        self._num_recorded += 1
        self._action = None
        self._step_recorded = True

    def after_physics(self) -> None:
        """Keep the state that the step ends in, because a reset would overwrite it."""
        if self.active:
            torch.cat([read() for read in self._readers.values()], dim=1, out=self._outcome)

    def after_step(self) -> None:
        """Copy the history of the environments that failed in this step to free slots."""
        self._keep_failures(self._env.guard.causes)

    def close(self) -> None:
        """Write failures that are in no file yet."""
        self.flush()

    def write_failed(self, env_ids: torch.Tensor) -> Path | None:
        """Write the history of environments (M,), int64, in the middle of a step, for a guard that raises.

        Returns:
            The file, or None where no more are written.
        """
        causes = self._env.guard.causes
        failed = torch.zeros_like(causes)
        failed[env_ids] = causes[env_ids]

        self.after_targets()
        self._keep_failures(failed)
        return self.flush()

    def flush(self) -> Path | None:
        """Write the failures that are in no file yet; waits for the device.

        Returns:
            The file, or None where nothing failed since the last one. A file that cannot be written ends the recording
            with a warning: a full disk must not end the run.
        """
        count = int(self._num_used) if self.active else 0
        if count == 0:
            return None

        dump = FaultDump(self._about, self._arrays(count))
        path = self._folder / f"dump_{self._num_files}.npz"
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
        self._num_files += 1
        self._num_used.zero_()
        self._num_used_on_host.zero_()
        if self._num_files >= self._dumps:
            self._stop()
        return path

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
        is_new = hits.any(dim=1)[:, None]
        env = hits.to(torch.uint8).argmax(dim=1)

        # Oldest row first.
        order = (torch.arange(len(self._ring), device=failed.device) + self._num_recorded) % len(self._ring)
        self._slots = torch.where(is_new[:, None], self._ring[order, env[:, None]], self._slots)
        self._slot_outcome = torch.where(is_new, self._outcome[env], self._slot_outcome)
        step = torch.full_like(env, self._env.common_step_counter)
        self._slot_ids = torch.where(is_new, torch.stack([env, causes.long()[env], step], dim=1), self._slot_ids)

        self._num_used = number[-1:].clamp(max=ENVS)
        self._num_used_on_host.copy_(self._num_used[0], non_blocking=True)

    def _stop(self) -> None:
        self.active = False
        self._num_used_on_host.zero_()
        del self._ring, self._outcome, self._slots, self._slot_outcome

    def _arrays(self, count: int) -> dict[str, Any]:
        """Return the file's arrays: each environment's rows of the episode that failed, first row first."""
        slots = self._slots[:count].cpu()
        ids = self._slot_ids[:count].cpu()
        # The last rows that are consecutive steps of one episode, at least 1.
        goes_on = (slots[:, 1:, -1] == slots[:, :-1, -1] + 1).long()
        lengths = (1 + goes_on.flip(1).cumprod(1).sum(1)).tolist()

        # Histories differ in length; the file pads the shorter ones.
        rows = torch.full((count, max(lengths), slots.shape[2]), float("nan"))
        for index, length in enumerate(lengths):
            rows[index, :length] = slots[index, -length:]
        state, action, clock = rows.tensor_split([self._state_width, rows.shape[2] - _CLOCK], dim=2)
        clock = clock.nan_to_num(nan=-1).long()

        arrays = {
            "env_id": ids[:, 0],
            "cause": ids[:, 1],
            "step": ids[:, 2],
            "length": torch.tensor(lengths),
            "episode": clock[:, :, 0],
            "episode_step": clock[:, :, 1],
            "action": action,
        }
        before = state.split(self._widths, dim=2)
        after = self._slot_outcome[:count].cpu().split(self._widths, dim=1)
        for name, start, end in zip(self._readers, before, after, strict=True):
            arrays[f"before.{name}"] = start
            arrays[f"after.{name}"] = end
        return {name: tensor.contiguous().numpy() for name, tensor in arrays.items()}


def _state_readers(
    articulations: Mapping[str, Any], rigid_objects: Mapping[str, Any], origins: torch.Tensor
) -> dict[str, Callable[[], torch.Tensor]]:
    """Return a function for each recorded quantity, ``<asset>.<quantity>`` as in the file: (num_envs, width)."""
    readers: dict[str, Callable[[], torch.Tensor]] = {}
    for name, asset in [*articulations.items(), *rigid_objects.items()]:
        data = asset.data
        readers[f"{name}.root_pose"] = lambda data=data: torch.cat(
            [data.root_pos_w.torch - origins, data.root_quat_w.torch], dim=1
        )
        readers[f"{name}.root_velocity"] = lambda data=data: data.root_vel_w.torch
        if name in articulations:
            command = asset.actuators.target_command
            readers[f"{name}.joint_pos"] = lambda data=data: data.joint_pos.torch
            readers[f"{name}.joint_vel"] = lambda data=data: data.joint_vel.torch
            readers[f"{name}.joint_pos_target"] = lambda command=command: command.position.torch
            readers[f"{name}.joint_vel_target"] = lambda command=command: command.velocity.torch
    return readers
