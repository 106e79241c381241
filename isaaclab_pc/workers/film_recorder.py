# SPDX-License-Identifier: BSD-3-Clause
"""Keeps a few frames of what a policy sees: the clouds or depth images of its observations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from scipy.spatial.transform import Rotation

from isaaclab_pc.envs.observation_history import newest_frame
from isaaclab_pc.viz.films import MOST_FRAMES, Film

__all__ = ["FilmRecorder", "film_of_now", "sees_pictures"]

MOST_ENVS = 256
"""Environments that are recorded, the first ones: one of them is enough, but which one fails is known at the end."""

MOST_POINTS = 512
"""Points of a cloud that are kept."""

MOST_PIXELS = 64
"""Rows, and columns, of a depth image that are kept."""


def sees_pictures(base: Any) -> bool:
    """Tell whether there is something to record: a policy of a task of this package that sees points or depth.

    Args:
        base: The unwrapped environment.
    """
    return getattr(base.cfg, "obs", "state") != "state" and hasattr(base, "tool_pos")


def film_of_now(base: Any, iteration: int) -> Film | None:
    """Return what the policy of the first environment saw last, as a film of one frame; None before its first reset.

    Args:
        base: The unwrapped environment, for which :func:`sees_pictures` holds.
        iteration: Iterations that were completed.
    """
    if not hasattr(base, "obs_buf"):
        return None
    frame = {name: value[0] for name, value in _read(base, base.obs_buf, 1).items()}
    return _film([frame], iteration)


class FilmRecorder:
    """Records an evaluation until it has an episode that succeeded and one that failed. It only reads.

    Of every episode it keeps frames at even times, and the one before its end.
    """

    def __init__(self, base: Any, iteration: int) -> None:
        """Begin with no episode.

        Args:
            base: The unwrapped environment, for which :func:`sees_pictures` holds.
            iteration: Iterations that were completed.
        """
        self.films: dict[str, Film] = {}
        """``success`` and ``failure``, as far as there was such an episode."""
        self._base = base
        self._iteration = iteration
        self._num_envs = min(base.num_envs, MOST_ENVS)
        # The last of the frames is the one before the end, whenever that is.
        self._planned = {frame * base.max_episode_length // (MOST_FRAMES - 1) for frame in range(MOST_FRAMES - 1)}
        self._kept: list[list[dict[str, np.ndarray]]] = [[] for _ in range(self._num_envs)]
        self._now: dict[str, np.ndarray] = {}

    def before_step(self, observations: Mapping[str, torch.Tensor]) -> None:
        """Look at what the policy sees before it acts."""
        if len(self.films) == 2:
            return
        self._now = _read(self._base, observations, self._num_envs)
        for env in np.isin(self._now["steps"], list(self._planned)).nonzero()[0]:
            self._kept[env].append({name: value[env] for name, value in self._now.items()})

    def after_step(self, done: torch.Tensor, counted: torch.Tensor) -> None:
        """Note the episodes that ended.

        Args:
            done: Whether an episode ended in this step, shape (N,), bool.
            counted: Those of them that the evaluation counts, shape (N,), bool.
        """
        if len(self.films) == 2:
            return
        is_counted = counted.tolist()
        for env in done[: self._num_envs].nonzero().squeeze(-1).tolist():
            name = "success" if bool(self._base.episode_success[env]) else "failure"
            if is_counted[env] and name not in self.films:
                frames = self._kept[env]
                if not frames or frames[-1]["steps"] < self._now["steps"][env]:
                    frames.append({key: value[env] for key, value in self._now.items()})
                self.films[name] = _film(frames, self._iteration)
            self._kept[env] = []


def _read(base: Any, observations: Mapping[str, torch.Tensor], num_envs: int) -> dict[str, np.ndarray]:
    """Return what the first environments see, as arrays on the host with one row each.

    Returns:
        ``steps`` of the episode, ``times`` [s], ``tool``, with a goal ``goal``, and ``depth``, or ``points`` in the
        frame whose pose is ``frame``.
    """
    steps = base.episode_length_buf[:num_envs]
    read = {
        "steps": steps,
        "times": steps * base.step_dt,
        "tool": torch.cat([base.tool_pos, base.tool_quat], dim=1)[:num_envs],
    }
    if (goal := base._goal()) is not None:
        read["goal"] = goal[:num_envs]
    seen = newest_frame(observations, base.cfg.history_length)
    if base.cfg.obs == "depth":
        depth = seen["depth"][:num_envs, 0]
        rows, columns = (-(-size // MOST_PIXELS) for size in depth.shape[1:])
        read["depth"] = depth[:, ::rows, ::columns].half()
    else:
        points = seen["points"][:num_envs, :, :3]
        # Evenly: some samplers put neighbours beside each other.
        read["points"] = points[:, :: -(-points.shape[1] // MOST_POINTS)].half()
        pos, quat = base.point_cloud.frame_pose(base.point_cloud.cfg.frame)
        pos = pos - base.scene.env_origins
        quat = torch.tensor([[0.0, 0.0, 0.0, 1.0]], device=pos.device).expand(len(pos), 4) if quat is None else quat
        read["frame"] = torch.cat([pos, quat], dim=1)[:num_envs]
    # A copy on the CPU, too, where the environment goes on to write to its own tensors.
    return {name: np.array(value.detach().cpu().numpy()) for name, value in read.items()}


def _film(frames: list[dict[str, np.ndarray]], iteration: int) -> Film:
    """Return frames as a film, with points in the environment's frame."""
    columns = {name: np.stack([frame[name] for frame in frames]) for name in frames[0]}
    points = None
    if "points" in columns:
        poses = columns["frame"]
        moved = [
            Rotation.from_quat(pose[3:]).apply(cloud) for pose, cloud in zip(poses, columns["points"], strict=True)
        ]
        points = (np.stack(moved) + poses[:, None, :3]).astype(np.float16)
    goal = columns.get("goal")
    return Film(
        iteration=np.array(iteration),
        times=columns["times"].astype(np.float32),
        tool=columns["tool"].astype(np.float32),
        points=points,
        depth=columns.get("depth"),
        goal=None if goal is None else goal.astype(np.float32),
    )
