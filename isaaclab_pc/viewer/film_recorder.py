# SPDX-License-Identifier: BSD-3-Clause
"""Films of what a policy sees, for a run's report: the clouds or depth images of its observations."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from isaaclab_pc.envs.observation_history import newest_frame
from isaaclab_pc.report.films import MAX_FRAMES, Film
from isaaclab_pc.tensors.poses import from_frame

_MAX_ENVS = 256
"""Environments that are recorded, the first ones: which one will fail is known at the end."""

_MAX_POINTS = 512
_MAX_PIXELS = 64
"""Rows, and columns, of a depth image."""

_Frame = dict[str, np.ndarray]
"""``steps`` of the episode, ``times``, ``tool``, and the other fields of a :class:`Film`."""


def sees_pictures(base: Any) -> bool:
    """Tell whether a policy of a task of this package sees points or depth, which can be filmed."""
    return getattr(base.cfg, "obs", "state") != "state" and hasattr(base, "tool_pos")


def film_of_now(base: Any, iteration: int) -> Film | None:
    """Return the last observation of the first environment as a film of one frame; None before the first reset."""
    if not hasattr(base, "obs_buf"):
        return None
    return _film([_frame(_read(base, base.obs_buf, 1), 0)], iteration)


class FilmRecorder:
    """Films an evaluation until it has an episode that succeeded and one that failed. It only reads.

    Of every episode it keeps frames at even times, and the one before the end.
    """

    def __init__(self, base: Any, iteration: int) -> None:
        """Begin with no episode; the arguments are those of :func:`film_of_now`."""
        self.films: dict[str, Film] = {}
        """``success`` and ``failure``, as far as there was such an episode."""
        self._base = base
        self._iteration = iteration
        self._num_envs = min(base.num_envs, _MAX_ENVS)
        # The last of the frames is the one before the end, whenever that is.
        self._planned = [frame * base.max_episode_length // (MAX_FRAMES - 1) for frame in range(MAX_FRAMES - 1)]
        self._kept: list[list[_Frame]] = [[] for _ in range(self._num_envs)]
        self._now: _Frame = {}

    def before_step(self, observations: Mapping[str, torch.Tensor]) -> None:
        """Look at the observations that the policy is about to act on."""
        if len(self.films) == 2:
            return
        self._now = _read(self._base, observations, self._num_envs)
        for env in np.isin(self._now["steps"], self._planned).nonzero()[0].tolist():
            self._kept[env].append(_frame(self._now, env))

    def after_step(self, done: torch.Tensor, counted: torch.Tensor) -> None:
        """Finish the films of episodes that are done, of which the evaluation counts some; both (N,), bool."""
        if len(self.films) == 2:
            return
        is_counted = counted.tolist()
        for env in done[: self._num_envs].nonzero().squeeze(-1).tolist():
            name = "success" if bool(self._base.episode_success[env]) else "failure"
            if is_counted[env] and name not in self.films:
                frames = self._kept[env]
                if not frames or frames[-1]["steps"] < self._now["steps"][env]:
                    frames.append(_frame(self._now, env))
                self.films[name] = _film(frames, self._iteration)
            self._kept[env] = []


def _read(base: Any, observations: Mapping[str, torch.Tensor], num_envs: int) -> _Frame:
    """Return the frames of the first environments, as arrays on the host with one row each."""
    steps = base.episode_length_buf[:num_envs]
    read = {
        "steps": steps,
        "times": (steps * base.step_dt).float(),
        "tool": torch.cat([base.tool_pos, base.tool_quat], dim=1)[:num_envs].float(),
    }
    if (goal := base._goal()) is not None:
        read["goal"] = goal[:num_envs].float()
    seen = newest_frame(observations, base.cfg.history_length)
    if base.cfg.obs == "depth":
        depth = seen["depth"][:num_envs, 0]
        rows, columns = (-(-size // _MAX_PIXELS) for size in depth.shape[1:])
        read["depth"] = depth[:, ::rows, ::columns].half()
    else:
        points = seen["points"][:num_envs, :, :3]
        # Evenly: some samplers put neighbours beside each other.
        thinned = points[:, :: -(-points.shape[1] // _MAX_POINTS)]
        read["points"] = (points_in_world(base, thinned) - base.scene.env_origins[:num_envs, None]).half()
    # A copy on the CPU, too, where the environment goes on to write to its own tensors.
    return {name: np.array(value.detach().cpu().numpy()) for name, value in read.items()}


def _frame(read: _Frame, env: int) -> _Frame:
    return {name: value[env] for name, value in read.items()}


def _film(frames: Sequence[_Frame], iteration: int) -> Film:
    columns = {name: np.stack([frame[name] for frame in frames]) for name in frames[0] if name != "steps"}
    return Film(iteration=np.array(iteration), **columns)


def points_in_world(env: Any, points: torch.Tensor) -> torch.Tensor:
    """Move observed points of the first environments into the world.

    Takes [m], shape (M, K, 3), any float dtype, and returns the same in float32.
    """
    cloud = env.point_cloud
    position, quat = cloud.frame_pose(cloud.cfg.frame)
    points = points.float()
    if quat is None:
        return points + position[: len(points), None]
    return from_frame(position[: len(points)], quat[: len(points)], points)
