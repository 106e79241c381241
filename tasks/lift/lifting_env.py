# SPDX-License-Identifier: BSD-3-Clause
"""The tasks of lifting: grasp an object and bring it to a goal above the table."""

from abc import abstractmethod

import torch
from isaaclab.assets import RigidObject

from isaaclab_pc.envs import manipulation
from isaaclab_pc.envs.kept import kept
from isaaclab_pc.envs.manipulation import closeness
from isaaclab_pc.envs.point_cloud_env import TASK_STREAM, PointCloudEnv
from isaaclab_pc.tasks.lift.lift_env_cfg import LiftingEnvCfg

OBJECT_STREAM = TASK_STREAM
_GOAL_STREAM = TASK_STREAM + 1
REST_STREAM = TASK_STREAM + 2


class LiftingEnv(PointCloudEnv):
    """Grasp an object and bring it to a goal above the table.

    The object is in the cloud and in the critic's state; the policy's proprioception holds the goal and the vector from
    the tool centre to it, never the object. Success: the object's centre of mass is within ``success_distance`` of the
    goal and no arm joint is faster than ``success_joint_speed``.

    The reward follows ManiSkill's PickCube (https://github.com/haosulab/ManiSkill): reach, grasp, bring to the goal
    once grasped, stand still there.
    """

    cfg: LiftingEnvCfg
    tells_goal = True
    object: RigidObject
    """The object to lift; :meth:`_bind_scene` of the task sets it."""

    def _bind_scene(self) -> None:
        super()._bind_scene()
        self.goal_pos = torch.zeros(self.num_envs, 3, device=self.device)

    @kept
    def object_pos(self) -> torch.Tensor:
        """Centre of mass of the object in the environment frame [m], shape (N, 3)."""
        return manipulation.position(self, self.object)

    @property
    def object_quat(self) -> torch.Tensor:
        """Orientation of the object, (x, y, z, w), shape (N, 4)."""
        return self.object.data.root_quat_w.torch

    @property
    @abstractmethod
    def grasped(self) -> torch.Tensor:
        """Whether the closed gripper is stopped by the object between its fingers, shape (N,), bool."""

    @kept
    def _placed(self) -> torch.Tensor:
        return self._goal_distance <= self.cfg.success_distance

    @kept
    def _goal_distance(self) -> torch.Tensor:
        return torch.linalg.vector_norm(self.goal_pos - self.object_pos, dim=1)

    def _reset_task(self, env_ids: torch.Tensor) -> None:
        names = ("goal_x", "goal_y", "goal_z")
        goal = self.uniform_pose(env_ids, _GOAL_STREAM, self.cfg.goal_lower, self.cfg.goal_upper, names)
        self.goal_pos[env_ids] = goal

    def _goal(self) -> torch.Tensor:
        return self.goal_pos

    def _task_state(self) -> torch.Tensor:
        position = self.object_pos
        velocity = self.object.data.root_vel_w.torch[:, :3]
        relative = [position - self.tool_pos, self.goal_pos - position]
        return torch.cat([position, self.object_quat, velocity, *relative, self.grasped[:, None]], dim=1)

    def _reward_terms(self) -> dict[str, torch.Tensor]:
        tool_distance = torch.linalg.vector_norm(self.object_pos - self.tool_pos, dim=1)
        grasped = self.grasped
        return {
            "reach": 0.2 * closeness(tool_distance),
            "grasp": 0.2 * grasped,
            "goal": 0.4 * grasped * closeness(self._goal_distance),
            # The scale of 1 rad/s still tells a policy that trembles at the goal, at 2 rad/s, which way is better.
            "still": 0.2 * self._placed * closeness(self.arm_state.joint_speed, scale=1.0),
            "success": 0.5 * self.is_fulfilled(),
            "action": -0.005 * self.actions[:, :-1].square().sum(dim=1),
        }

    def _success(self) -> torch.Tensor:
        return self._placed & (self.arm_state.joint_speed <= self.cfg.success_joint_speed)
