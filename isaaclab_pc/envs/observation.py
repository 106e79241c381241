# SPDX-License-Identifier: BSD-3-Clause
"""What a policy observes of any task: the robot's own state, and a depth image or a point cloud."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from isaaclab_pc.sensors.scene_cameras import depth_image, depth_limits

if TYPE_CHECKING:
    from isaaclab_pc.envs.point_cloud_env import PointCloudEnv

__all__ = ["observe_depth", "observe_points", "observe_robot"]


def observe_robot(env: PointCloudEnv) -> torch.Tensor:
    """Return joints, tool pose and last action, shape (N, P).

    :func:`~isaaclab_pc.envs.quantities.vector_quantities` says what each number is.
    """
    joints = torch.cat([env.arm.joints, env.fingers]) if env.cfg.gripper else env.arm.joints
    pos = env.robot.data.joint_pos.torch - env.robot.data.default_joint_pos.torch
    vel = env.robot.data.joint_vel.torch
    return torch.cat([pos[:, joints], 0.1 * vel[:, joints], env.tool_pos, env.tool_quat, env.actions], dim=1)


def observe_depth(env: PointCloudEnv) -> torch.Tensor:
    """Return planar depth [m], shape (N, 1, rows, columns); 0 where nothing is within ``cfg.max_depth``.

    What is nearer than the camera's clipping range reads 0 as well.
    """
    depth = _read_depth(env, ["camera"])["camera"]
    near, _ = depth_limits(env.camera)
    seen = (depth > near) & (depth <= env.cfg.max_depth)
    return torch.where(seen, depth, 0.0).unsqueeze(1)


def observe_points(env: PointCloudEnv) -> torch.Tensor:
    """Return the cloud, shape (N, K, 3) or with its further features; the frame is that of ``cfg.scene.points``."""
    cloud = env.point_cloud
    assert cloud is not None

    if env.cfg.goal_points > 0:
        goal = env._goal()
        assert goal is not None
        cloud.given["goal"][:] = (goal + env.scene.env_origins)[:, None] + env.goal_sphere

    # Checks, and in mode sanitize repairs, the images before the cloud is made of them.
    _read_depth(env, cloud.cfg.cameras)
    return cloud.data.points.torch.clone()


def _read_depth(env: PointCloudEnv, cameras: Sequence[str]) -> dict[str, torch.Tensor]:
    """Return planar depth [m] of cameras by their names in the scene, each (N, rows, columns), checked."""
    sensors: Any = env.scene.sensors
    images = {name: depth_image(sensors[name]) for name in cameras}
    env.step_guard.check_depth(images)
    return images
