# SPDX-License-Identifier: BSD-3-Clause
"""The last steps of every environment, kept on the device; those of an environment that fails go to a file."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from isaaclab_pc.fault_dump import FORMAT, FaultDump, installed_versions
from isaaclab_pc.guards.causes import CAUSES
from isaaclab_pc.guards.scene_state import own_assets

__all__ = ["Recorder", "RecorderCfg"]

RING_BYTES = 128 * 2**20
"""Memory of the ring: with many environments it holds fewer steps [B]."""

_LEAST_STEPS = 8

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class RecorderCfg:
    """How much is kept."""

    dumps: int = 3
    """Files in the run's folder. The first failures are kept: what fails later often fails because of them, or for the
    same reason."""

    steps: int = 64
    """Steps of history of each environment, fewer where the ring would take more than :data:`RING_BYTES`."""

    envs: int = 4
    """Environments in a file, the first ones that fail."""


class Recorder:
    """Keeps the state, targets and actions of the last steps, and writes those of failed environments to files.

    The ring lives on the device and is written without waiting for it. An environment that fails has its rows copied to
    a slot, so that they outlive the ring's next turn; the number of taken slots goes to the host in the background, and
    the file is written in one of the next steps. :mod:`isaaclab_pc.fault_dump` describes the file.

    In a step come :meth:`announce`, :meth:`record`, :meth:`note_outcome` and :meth:`keep`; :meth:`attach` makes any
    guarded environment, direct or manager-based, call them.
    """

    def __init__(self, cfg: RecorderCfg, env: Any, folder: Path, about: Mapping[str, Any]) -> None:
        """Allocate the ring.

        Args:
            cfg: How much is kept.
            env: An unwrapped environment, built.
            folder: Where the files go, ``dump_<number>.npz``; those that are there count.
            about: ``task``, ``config``, ``backend`` of the run, as of :class:`FaultDump`.
        """
        self.cfg = cfg
        self.paths: list[Path] = []
        """Files that were written, oldest first."""
        self._env, self._folder = env, folder
        self._written = len(list(folder.glob("dump_*.npz")))
        self.active = self._written < cfg.dumps and env.guard.enabled
        """Whether anything is recorded; no longer once the last file is written."""
        self._sources = _sources(env)
        self._about = {
            **about,
            "format": FORMAT,
            "seed": env.cfg.seed,
            "versions": installed_versions(),
            "dt": env.cfg.sim.dt,
            "decimation": env.cfg.decimation,
            "assets": _describe(env),
            "causes": list(CAUSES),
        }
        self._recorded = 0
        self._pending = False
        self._announced: torch.Tensor | None = None
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
        """Record an environment from outside, from now until it is closed.

        Args:
            env: An unwrapped ``DirectRLEnv`` or ``ManagerBasedRLEnv``, built, with its
                :class:`~isaaclab_pc.guards.Guard` as ``guard``.
            folder: As for the class.
            about: As for the class.
            cfg: How much is kept.

        Returns:
            The recorder. It leaves the environment alone where nothing is to be recorded.
        """
        recorder = cls(cfg or RecorderCfg(), env, folder, about)
        if not recorder.active:
            return recorder
        guard = env.guard

        def write(env_ids: torch.Tensor) -> Path | None:
            chosen = torch.zeros_like(guard.causes)
            chosen[env_ids] = guard.causes[env_ids]
            return recorder.write(chosen)

        guard.dump = write
        managed = hasattr(env, "action_manager")
        begin = (env.action_manager, "process_action") if managed else (env, "_pre_physics_step")
        # The state that an environment failed in is gone after its reset, which follows the rewards; what the guard
        # finds in the observations is known at the end of the step. The guard may have changed a bad action by then.
        end = (env.termination_manager, "compute") if managed else (env, "_get_dones")
        _extend(env, "step", before=recorder.announce, after=lambda: recorder.keep(guard.causes))
        _extend(*begin, after=recorder.record)
        _extend(*end, before=recorder.note_outcome)
        _extend(env, "close", before=recorder.flush)
        return recorder

    @property
    def num_bytes(self) -> int:
        """Memory that the recorder takes on the device [B]."""
        if not self.active:
            return 0
        tensors = (self._ring, self._clock, self._after, self._kept, self._kept_clock, self._kept_after)
        return sum(tensor.nbytes for tensor in tensors)

    def announce(self, action: torch.Tensor, **_: Any) -> None:
        """Note the action of a step that begins.

        Args:
            action: What the environment was given, shape (num_envs, ...).
        """
        self._announced = action

    def record(self) -> None:
        """Write the start of a step to the ring: after the targets were set, before the first physics step."""
        if self._announced is None:
            return  # already written, by a guard that raises
        if self.active and int(self._taken_on_host) > 0:
            self.flush()
        if not self.active:
            return
        row = self._recorded % len(self._ring)
        action = self._announced.to(self._env.device, torch.float32).flatten(1)
        torch.cat([*self._read(), action], dim=1, out=self._ring[row])
        self._clock[row, :, 0] = getattr(self._env, "episode", -1)
        self._clock[row, :, 1] = self._env.episode_length_buf
        self._recorded += 1
        self._announced, self._pending = None, True

    def note_outcome(self) -> None:
        """Keep the state after the step's last physics step until the next one, since a reset would overwrite it."""
        if self.active:
            torch.cat(self._read(), dim=1, out=self._after)

    def keep(self, faults: torch.Tensor) -> None:
        """Copy the history of the environments that failed in this step to free slots.

        Args:
            faults: Bits of :class:`~isaaclab_pc.guards.Cause`, shape (num_envs,); everything but 0 is a failure.
        """
        if not self.active or not self._pending:
            return
        self._pending = False
        failed = faults != 0
        if failed.device.type == "cpu" and not failed.any():
            return
        rank = failed.cumsum(0) + self._taken
        hits = failed & (rank == self._slot_numbers[:, None])
        new, env = hits.any(dim=1), hits.to(torch.uint8).argmax(dim=1)
        order = (torch.arange(len(self._ring), device=failed.device) + self._recorded) % len(self._ring)
        self._kept = torch.where(new[:, None, None], self._ring[order, env[:, None]], self._kept)
        self._kept_clock = torch.where(new[:, None, None], self._clock[order, env[:, None]], self._kept_clock)
        self._kept_after = torch.where(new[:, None], self._after[env], self._kept_after)
        step = torch.full_like(env, self._env.common_step_counter)
        found = torch.stack([env, faults.long()[env], step], dim=1)
        self._kept_ids = torch.where(new[:, None], found, self._kept_ids)
        self._taken = rank[-1:].clamp(max=self.cfg.envs)
        self._taken_on_host.copy_(self._taken[0], non_blocking=True)

    def write(self, faults: torch.Tensor) -> Path | None:
        """Write the history of environments that failed at once, in the middle of a step; waits for the device.

        Args:
            faults: As for :meth:`keep`.

        Returns:
            The file, or None where no more are written.
        """
        self.record()
        self.keep(faults)
        return self.flush()

    def flush(self) -> Path | None:
        """Write what is kept to a file; waits for the device.

        Returns:
            The file, or None where nothing failed since the last one. A disk that cannot take it is a warning and ends
            the recording: it must not end the run.
        """
        count = int(self._taken) if self.active else 0
        if count == 0:
            return None
        dump = FaultDump(self._about, self._arrays(count))
        path = self._folder / f"dump_{self._written}.npz"
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            dump.save(path)
        except OSError as error:
            _log.warning("%s cannot be written, so failures are no longer recorded: %s", path, error)
            self._release()
            return None
        self.paths.append(path)
        envs = ", ".join(map(str, dump.arrays["env_id"]))
        _log.warning("environments %s failed; their last steps: python scripts/replay.py dump=%s", envs, path)
        self._written += 1
        self._taken.zero_()
        self._taken_on_host.zero_()
        if self._written >= self.cfg.dumps:
            self._release()
        return path

    def _allocate(self) -> None:
        env, device = self._env, self._env.device
        n, actions = env.num_envs, env.single_action_space.shape
        self._state_width = sum(width for _, _, width in self._sources)
        width = self._state_width + int(torch.Size(actions).numel())
        steps = max(min(self.cfg.steps, RING_BYTES // (4 * n * width)), _LEAST_STEPS)
        slots = self.cfg.envs
        self._ring = torch.full((steps, n, width), float("nan"), device=device)
        self._clock = torch.full((steps, n, 2), -1, dtype=torch.int32, device=device)
        self._after = torch.full((n, self._state_width), float("nan"), device=device)
        self._kept = torch.full((slots, steps, width), float("nan"), device=device)
        self._kept_clock = torch.full((slots, steps, 2), -1, dtype=torch.int32, device=device)
        self._kept_after = torch.full((slots, self._state_width), float("nan"), device=device)
        self._kept_ids = torch.zeros(slots, 3, dtype=torch.long, device=device)
        self._slot_numbers = torch.arange(1, slots + 1, device=device)
        self._taken = torch.zeros(1, dtype=torch.long, device=device)
        # Pinned, so that the copy waits for nothing.
        self._taken_on_host = torch.zeros((), dtype=torch.long, pin_memory=torch.device(device).type == "cuda")

    def _release(self) -> None:
        self.active = False
        self._taken_on_host.zero_()
        del self._ring, self._clock, self._after, self._kept, self._kept_clock, self._kept_after

    def _read(self) -> list[torch.Tensor]:
        return [read() for _, read, _ in self._sources]

    def _arrays(self, count: int) -> dict[str, Any]:
        """Return the file's arrays: each environment's rows of the episode that failed, first row first."""
        kept, clock, after, ids = (
            tensor[:count].cpu() for tensor in (self._kept, self._kept_clock, self._kept_after, self._kept_ids)
        )
        lengths = [_episode_rows(clock[index, :, 1]) for index in range(count)]
        longest = max(lengths)
        rows = torch.full((count, longest, kept.shape[2]), float("nan"))
        clocks = torch.full((count, longest, 2), -1, dtype=torch.long)
        for index, length in enumerate(lengths):
            rows[index, :length] = kept[index, -length:]
            clocks[index, :length] = clock[index, -length:]
        widths = [width for _, _, width in self._sources]
        arrays = {"env_id": ids[:, 0], "cause": ids[:, 1], "step": ids[:, 2], "length": torch.tensor(lengths)}
        arrays |= {"episode": clocks[:, :, 0], "episode_step": clocks[:, :, 1]}
        arrays["action"] = rows[:, :, self._state_width :]
        before = rows[:, :, : self._state_width].split(widths, dim=2)
        for (name, _, _), start, end in zip(self._sources, before, after.split(widths, dim=1), strict=True):
            arrays[f"before.{name}"] = start
            arrays[f"after.{name}"] = end
        return {name: tensor.contiguous().numpy() for name, tensor in arrays.items()}


def _episode_rows(episode_step: torch.Tensor) -> int:
    """Return how many of the last rows are consecutive steps of one episode, at least 1."""
    goes_on = (episode_step[1:] == episode_step[:-1] + 1) & (episode_step[:-1] >= 0)
    return 1 + int(goes_on.flip(0).cumprod(0).sum())


def _sources(env: Any) -> list[tuple[str, Callable[[], torch.Tensor], int]]:
    """Return name, reader and width of every quantity that is recorded; a reader gives (num_envs, width)."""
    readers: list[tuple[str, Callable[[], torch.Tensor]]] = []
    origins = env.scene.env_origins
    articulations, rigid_objects = own_assets(env.scene, env.num_envs)
    for name, asset in [*articulations.items(), *rigid_objects.items()]:
        readers.append((f"{name}.root_pose", _pose_reader(asset.data, origins)))
        readers.append((f"{name}.root_velocity", lambda data=asset.data: data.root_vel_w.torch))
        if name not in articulations:
            continue
        command = asset.actuators.target_command
        readers.append((f"{name}.joint_pos", lambda data=asset.data: data.joint_pos.torch))
        readers.append((f"{name}.joint_vel", lambda data=asset.data: data.joint_vel.torch))
        readers.append((f"{name}.joint_pos_target", lambda command=command: command.position.torch))
        readers.append((f"{name}.joint_vel_target", lambda command=command: command.velocity.torch))
    return [(name, read, read().shape[1]) for name, read in readers]


def _pose_reader(data: Any, origins: torch.Tensor) -> Callable[[], torch.Tensor]:
    return lambda: torch.cat([data.root_pos_w.torch - origins, data.root_quat_w.torch], dim=1)


def _describe(env: Any) -> dict[str, dict[str, Any]]:
    articulations, rigid_objects = own_assets(env.scene, env.num_envs)
    return {
        name: {"kind": "articulation", "joints": list(asset.joint_names)} for name, asset in articulations.items()
    } | {name: {"kind": "rigid_object", "joints": []} for name in rigid_objects}


def _extend(
    owner: Any, name: str, before: Callable[..., Any] | None = None, after: Callable[[], Any] | None = None
) -> None:
    """Make an object's method call ``before`` first, with its own arguments, and ``after`` last."""
    method = getattr(owner, name)

    def extended(*args: Any, **kwargs: Any) -> Any:
        if before is not None:
            before(*args, **kwargs)
        result = method(*args, **kwargs)
        if after is not None:
            after()
        return result

    setattr(owner, name, extended)
