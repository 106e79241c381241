# SPDX-License-Identifier: BSD-3-Clause
"""Reads from a running environment what a viewer draws."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from isaaclab.utils.math import quat_apply

from isaaclab_pc.envs import PointCloudEnv
from isaaclab_pc.envs.observation_history import newest_frame
from isaaclab_pc.guards.causes import Cause
from isaaclab_pc.sensors.scene_cameras import depth_image, image_intrinsics
from isaaclab_pc.viz.point_colors import PointColors
from isaaclab_pc.viz.scene_bodies import SceneBodies
from isaaclab_pc.viz.scene_frame import CameraView, Mark, Poses, SceneFrame, SceneLayout

__all__ = ["SceneReader"]


class SceneReader:
    """Turns an environment into the arrays of :mod:`isaaclab_pc.viz.scene_frame`.

    Example:
        .. code-block:: python

            reader = SceneReader(env.unwrapped)
            observations, _ = env.reset()
            frame = reader.after_reset(observations)
            while True:
                actions = policy(observations)
                result = env.step(actions)
                frame = reader.after_step(actions, result)
                observations = result[0]
    """

    def __init__(self, env: PointCloudEnv) -> None:
        """Look up what there is to draw.

        Args:
            env: The unwrapped environment; it may have a cloud, a depth image or neither.
        """
        self._env = env
        self._steps = 0
        self._bodies = SceneBodies(env.sim)
        cloud = env.point_cloud
        # No others: an image that the policy does not see would be rendered for the viewer alone.
        names = cloud.cfg.cameras if cloud is not None else ("camera",) if env.camera is not None else ()
        self._cameras = {name: env.scene[name] for name in names}
        self._colors = None
        crop = None
        if cloud is not None:
            self._colors = PointColors(cloud, list(self._cameras.values()))
            crop = np.array([cloud.cfg.crop_lower, cloud.cfg.crop_upper], np.float32)
        self.layout = SceneLayout(
            origins=_array(env.scene.env_origins),
            parts=self._bodies.parts,
            crop=crop,
            color_names={} if self._colors is None else self._colors.names,
            cameras=tuple(self._cameras),
            step_s=env.step_dt,
        )
        """Constants of the environment."""

    def after_reset(self, observations: Mapping[str, torch.Tensor]) -> SceneFrame:
        """Return what is to see after ``env.reset``, which returned the observations."""
        return self._read(self._present(observations), {})

    def after_step(self, actions: torch.Tensor, result: tuple[Any, ...]) -> SceneFrame:
        """Return what is to see after a step; environments that were done show the start of their next episode.

        Args:
            actions: What ``env.step`` was given, shape (N, A).
            result: What it returned.
        """
        self._steps += 1
        env = self._env
        observations, reward, terminated, truncated, _ = result
        done = terminated | truncated
        # A reset clears the one, and what was true at an episode's end is the other.
        success = torch.where(done, env.episode_success, env.episode_tracker.fulfilled)
        outcome: dict[str, Any] = {
            "actions": _array(actions),
            "reward": _array(reward),
            "reward_terms": {name: _array(value) for name, value in env.reward_terms.items()},
            "success": _array(success),
            "done": _array(done),
        }
        return self._read(self._present(observations), outcome)

    def after_physics_step(
        self, step: float, asset: str, name: str, text: str, watched: Mapping[str, float]
    ) -> SceneFrame:
        """Return what is to see between two steps: what a policy would see then, too.

        Args:
            step: Steps, and the share of the one that runs.
            asset: What to mark, by its asset's name in the scene; empty: the gripper.
            name: Its joint or body.
            text: What is wrong there.
            watched: Values for the time line.
        """
        observations = {} if self._env.point_cloud is None else {"points": self._env.observe_points()}
        frame = replace(self._read(observations, {}), step=step, watched=dict(watched))
        if not text:
            return frame
        return replace(frame, mark=Mark(self._position_of(asset, name, frame), text))

    def _present(self, observations: Mapping[str, torch.Tensor]) -> Mapping[str, torch.Tensor]:
        """Return what was observed, without the frames of earlier steps."""
        return newest_frame(observations, self._env.cfg.history_length)

    def _position_of(self, asset: str, name: str, frame: SceneFrame) -> np.ndarray:
        """Return where a joint or body of the first environment is [m], shape (3,)."""
        found = self._env.scene[asset] if asset else None
        if found is not None and name in found.body_names:
            return _array(found.data.body_pos_w.torch[0, found.body_names.index(name)])
        position = self._bodies.joint_position(name)
        return frame.gripper[0, :3] if position is None else position

    def _read(self, observations: Mapping[str, torch.Tensor], outcome: Mapping[str, Any]) -> SceneFrame:
        seen: dict[str, Any] = {}
        if self._env.point_cloud is not None:
            seen = self._read_cloud(observations["points"])
        cameras = tuple(_camera_view(name, camera) for name, camera in self._cameras.items())
        return replace(self._read_scene(), cameras=cameras, **seen, **outcome)

    def _read_scene(self) -> SceneFrame:
        """Return the bodies, and what the guard found."""
        env = self._env
        goal = env._goal()
        tool_pos = env.tool_pos + env.scene.env_origins
        return SceneFrame(
            step=self._steps,
            part_poses=self._bodies.poses(),
            gripper=_poses(tool_pos, env.tool_quat),
            goal=None if goal is None else _array(goal + env.scene.env_origins),
            faults=tuple(Cause.labels(bits) for bits in env.guard.causes.tolist()),
            benched=_array(env.guard.benched),
        )

    def _read_cloud(self, observed: torch.Tensor) -> dict[str, Any]:
        """Return the fields of a frame that are about the cloud; ``observed`` is (N, K, 3 or more)."""
        cloud = self._env.point_cloud
        assert cloud is not None
        assert self._colors is not None
        pos, quat = cloud.frame_pose(cloud.cfg.frame)
        points = observed[..., :3].float()
        if quat is not None:
            points = quat_apply(quat[:, None].expand(-1, points.shape[1], -1), points)
        points = points + pos[:, None]

        heights = _array(points[..., 2] - self._env.scene.env_origins[:, None, 2])
        return {
            "cloud": _array(points),
            "cloud_colors": self._colors.read(heights),
            "age": _array(cloud.age),
            "crop_poses": _poses(*cloud.frame_pose(cloud.cfg.crop_frame or cloud.cfg.frame)),
        }


def _camera_view(name: str, camera: Any) -> CameraView:
    data = camera.data
    depth = _array(depth_image(camera))
    return CameraView(
        name=name,
        poses=_poses(data.pos_w.torch, data.quat_w_ros.torch),
        intrinsics=_array(image_intrinsics(camera)),
        depth=np.where(np.isfinite(depth), depth, 0.0).astype(np.float32),
    )


def _poses(pos: torch.Tensor, quat: torch.Tensor | None) -> Poses:
    """Return poses, shape (N, 7); None stands for the world's axes."""
    if quat is None:
        quat = torch.zeros(len(pos), 4, device=pos.device)
        quat[:, 3] = 1.0
    return _array(torch.cat([pos, quat], dim=1))


def _array(tensor: torch.Tensor) -> np.ndarray:
    return tensor.detach().cpu().numpy().copy()
