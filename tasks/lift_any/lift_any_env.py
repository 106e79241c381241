# SPDX-License-Identifier: BSD-3-Clause
"""The task of lifting any object."""

import torch
from isaaclab.assets import RigidObject
from isaaclab.utils.math import quat_apply, quat_mul

from isaaclab_pc.assets.objects.grasping import OPENING
from isaaclab_pc.envs import manipulation
from isaaclab_pc.envs.dealt_objects import DealtObjects, preferred_grasp
from isaaclab_pc.envs.expert import expert_of
from isaaclab_pc.envs.kept import kept
from isaaclab_pc.tasks.lift.lifting_env import OBJECT_STREAM, REST_STREAM, LiftingEnv
from isaaclab_pc.tasks.lift_any.lift_any_env_cfg import LiftAnyEnvCfg
from isaaclab_pc.tensors.constant_tensor import constant_tensor

_BETWEEN = (0.02, 0.96)
"""Shares of a finger's way between which something keeps a finger from closing: it is neither closed nor yet open."""

_WITHIN_REACH = 0.15
"""Distance of the tool from the centre of mass up to which an object can be held [m]."""

_DROP = 0.0005
"""Height above its resting pose from which it is put down [m]."""


class LiftAnyEnv(LiftingEnv):
    """Grasp an object of any shape and bring it to a goal above the table.

    Every environment has another object of ``cfg.objects``. Randomization: arm joints around their defaults, the
    object's x, y, yaw and resting pose by its chance, the goal in a box; with ``env.randomization`` also the object's
    mass and friction and the camera's pose. The critic's state does not tell the shape. An object that leaves the table
    ends the episode. The rest is as :class:`~isaaclab_pc.tasks.lift.lifting_env.LiftingEnv`.
    """

    cfg: LiftAnyEnvCfg
    expert = expert_of("isaaclab_pc.tasks.lift_any.expert:CASES")

    def _bind_scene(self) -> None:
        super()._bind_scene()
        self.object: RigidObject = self.scene["object"]
        self.dealt = DealtObjects.of_scene(self.cfg.objects, self.device)
        self.radius = torch.linalg.vector_norm(self.dealt.corners, dim=2).amax(dim=1)

    @kept
    def corner_heights(self) -> torch.Tensor:
        """Heights of the object's farthest points above the table [m], shape (N, 42)."""
        quat = self.object_quat[:, None].expand(-1, self.dealt.corners.shape[1], -1)
        return self.object_pos[:, 2:] + quat_apply(quat, self.dealt.corners)[..., 2]

    @kept
    def grasp(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """The grasp to make as the object lies: tool centre [m] (N, 3), orientation (N, 4), width [m] (N,)."""
        return preferred_grasp(self.dealt, self.object_pos, self.object_quat, self.tool_pos, self.tool_quat)

    @kept
    def grasped(self) -> torch.Tensor:
        """Whether the closed gripper is stopped by the object between its fingers, shape (N,), bool."""
        # Nothing else could keep the fingers apart, so it does not matter where the object is held, nor how wide.
        way = constant_tensor((OPENING,), self.device).expand(self.num_envs)
        arm = self.arm_state
        return self.arm.is_held(
            self.object_pos, way, arm.tool_pos, arm.finger_openings, self.actions, _WITHIN_REACH, _BETWEEN
        )

    def _reset_task(self, env_ids: torch.Tensor) -> None:
        super()._reset_task(env_ids)
        names = ("object_x", "object_y", "object_yaw")
        where = self.uniform_pose(env_ids, OBJECT_STREAM, self.cfg.object_lower, self.cfg.object_upper, names)
        unit = self.uniform(env_ids, REST_STREAM, [0.0], [1.0])[:, 0]
        quat, height = self.dealt.resting(env_ids, unit)
        position = torch.cat([where[:, :2], height[:, None] + _DROP], dim=1)
        quat = quat_mul(manipulation.upright(where[:, 2]), quat)
        manipulation.place(self, self.object, env_ids, position, quat)
        size = torch.stack([self.radius[env_ids], height], dim=1)
        self.randomizer.record(env_ids, ("object_radius", "object_rest_height"), size)

    def _failure(self) -> torch.Tensor:
        return self.object_pos[:, 2] < -self.radius
