# SPDX-License-Identifier: BSD-3-Clause
"""Objects in several tasks: place them at a reset, tell whether they are grasped, score distances to them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from isaaclab.utils.math import quat_from_euler_xyz

if TYPE_CHECKING:
    from isaaclab.assets import Articulation, RigidObject

    from isaaclab_pc.envs.point_cloud_env import PointCloudEnv


def position(env: PointCloudEnv, body: RigidObject | Articulation) -> torch.Tensor:
    """Return a body's origin in the environment frame [m], shape (N, 3)."""
    return body.data.root_pos_w.torch - env.scene.env_origins


def place(
    env: PointCloudEnv, body: RigidObject, env_ids: torch.Tensor, position: torch.Tensor, quat: torch.Tensor
) -> None:
    """Put a dynamic body at a pose, at rest, in environments (M,); for a kinematic one see :func:`place_kinematic`.

    The pose is that of its origin in the environment frame: [m], (M, 3), and (x, y, z, w), (M, 4).
    """
    place_kinematic(env, body, env_ids, position, quat)
    rest = torch.zeros(len(env_ids), 6, device=env.device)
    body.write_root_velocity_to_sim_index(root_velocity=rest, env_ids=env_ids.int())


def place_kinematic(
    env: PointCloudEnv,
    body: RigidObject | Articulation,
    env_ids: torch.Tensor,
    position: torch.Tensor,
    quat: torch.Tensor | None = None,
) -> None:
    """Put a kinematic body at a pose; arguments as for :func:`place`. Without ``quat`` it is not turned.

    Its velocity is not written: PhysX complains about that of a kinematic body.
    """
    if quat is None:
        quat = upright(torch.zeros(len(env_ids), device=env.device))
    pose = torch.cat([position + env.scene.env_origins[env_ids], quat], dim=1)
    body.write_root_pose_to_sim_index(root_pose=pose, env_ids=env_ids.int())


def place_fixed_base(
    env: PointCloudEnv, asset: Articulation, env_ids: torch.Tensor, position: torch.Tensor, quat: torch.Tensor
) -> None:
    """Put an articulation with a fixed base at a pose, its joints at their defaults and at rest.

    Arguments as for :func:`place`; the pose is that of its root, which stays where it is put.
    """
    place_kinematic(env, asset, env_ids, position, quat)
    ids = env_ids.int()
    data = asset.data
    asset.write_joint_position_to_sim_index(position=data.default_joint_pos.torch[env_ids], env_ids=ids)
    asset.write_joint_velocity_to_sim_index(velocity=data.default_joint_vel.torch[env_ids], env_ids=ids)


def upright(yaw: torch.Tensor) -> torch.Tensor:
    """Return the orientations (x, y, z, w), shape (N, 4), of bodies that stand turned by ``yaw`` [rad], shape (N,)."""
    level = torch.zeros_like(yaw)
    return quat_from_euler_xyz(level, level, yaw)


def between_fingers(
    env: PointCloudEnv, position: torch.Tensor, width: torch.Tensor, tool_pos: torch.Tensor | None = None
) -> torch.Tensor:
    """Tell whether the closed gripper is stopped by an object between its fingers, shape (N,), bool.

    The object is held at ``position`` (N, 3) in the environment frame or that of ``tool_pos``, and is ``width`` (N,)
    wide; the fingers may close across its diagonal. All in [m].
    """
    tool_pos = env.tool_pos if tool_pos is None else tool_pos
    return env.arm.is_held(position, width, tool_pos, env.finger_openings(), env.actions)


def closeness(distance: torch.Tensor, scale: float | torch.Tensor = 5.0) -> torch.Tensor:
    """Return ``1 - tanh(scale * distance)``, ManiSkill's measure for rewards: 1 at the goal, 0 far away.

    The distance [m] or speed [rad/s] is at least 0, of any shape; at 1 / ``scale`` [m or rad/s], 0.24 is left.
    """
    return 1.0 - torch.tanh(scale * distance)
