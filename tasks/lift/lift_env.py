# SPDX-License-Identifier: BSD-3-Clause
"""The lift task."""

import torch
from isaaclab.assets import RigidObject

from isaaclab_pc.envs import manipulation
from isaaclab_pc.envs.expert import expert_of
from isaaclab_pc.envs.kept import kept
from isaaclab_pc.envs.manipulation import closeness, joint_speed
from isaaclab_pc.envs.point_cloud_env import TASK_STREAM, PointCloudEnv
from isaaclab_pc.envs.quantities import GOAL_QUANTITIES, Quantity
from isaaclab_pc.tasks.lift.lift_env_cfg import CUBE_EDGE, LiftEnvCfg

_CUBE_STREAM = TASK_STREAM
_GOAL_STREAM = TASK_STREAM + 1


class LiftEnv(PointCloudEnv):
    """Grasp a cube and bring it to a goal above the table.

    Randomization: arm joints around their defaults, the cube's x, y and yaw on the table, the goal in a box; with
    ``env.randomization`` also the cube's size, mass and friction and the camera's pose. The cube is in the cloud and in
    the critic's state; the policy's proprioception holds the goal and the vector from the tool centre to it, never the
    cube. Success: the cube is within ``success_distance`` of the goal and no arm joint is faster than
    ``success_joint_speed``. A cube that leaves the table ends the episode.

    The reward follows ManiSkill's PickCube (https://github.com/haosulab/ManiSkill): reach, grasp, bring to the goal
    once grasped, stand still there.
    """

    cfg: LiftEnvCfg
    expert = expert_of("isaaclab_pc.tasks.lift.expert:CASES")

    def _bind_scene(self) -> None:
        super()._bind_scene()
        self.cube: RigidObject = self.scene["cube"]
        self.goal_pos = torch.zeros(self.num_envs, 3, device=self.device)
        self.cube_edge = CUBE_EDGE * self.size_factor("cube")

    @kept
    def cube_pos(self) -> torch.Tensor:
        """Centre of the cube in the environment frame [m], shape (N, 3)."""
        return manipulation.position(self, self.cube)

    @property
    def cube_quat(self) -> torch.Tensor:
        """Orientation of the cube, (x, y, z, w), shape (N, 4)."""
        return self.cube.data.root_quat_w.torch

    @kept
    def grasped(self) -> torch.Tensor:
        """Whether the closed gripper is stopped by the cube between its fingers, shape (N,), bool."""
        return manipulation.between_fingers(self, self.cube_pos, self.cube_edge)

    @kept
    def _placed(self) -> torch.Tensor:
        return self._goal_distance <= self.cfg.success_distance

    @kept
    def _goal_distance(self) -> torch.Tensor:
        return torch.linalg.vector_norm(self.goal_pos - self.cube_pos, dim=1)

    def _reset_task(self, env_ids: torch.Tensor) -> None:
        names = ("cube_x", "cube_y", "cube_yaw")
        cube = self.uniform_pose(env_ids, _CUBE_STREAM, self.cfg.cube_lower, self.cfg.cube_upper, names)
        position = torch.cat([cube[:, :2], self.cube_edge[env_ids, None] / 2], dim=1)
        manipulation.place(self, self.cube, env_ids, position, manipulation.upright(cube[:, 2]))

        names = ("goal_x", "goal_y", "goal_z")
        goal = self.uniform_pose(env_ids, _GOAL_STREAM, self.cfg.goal_lower, self.cfg.goal_upper, names)
        self.goal_pos[env_ids] = goal

    def _goal(self) -> torch.Tensor:
        return self.goal_pos

    def _task_proprioception(self) -> torch.Tensor:
        return torch.cat([self.goal_pos, self.goal_pos - self.tool_pos], dim=1)

    def task_quantities(self) -> tuple[Quantity, ...]:
        """Return what the policy is told of the goal."""
        return GOAL_QUANTITIES

    def _task_state(self) -> torch.Tensor:
        cube_pos = self.cube_pos
        velocity = self.cube.data.root_vel_w.torch[:, :3]
        relative = [cube_pos - self.tool_pos, self.goal_pos - cube_pos]
        return torch.cat([cube_pos, self.cube_quat, velocity, *relative, self.grasped[:, None]], dim=1)

    def _reward_terms(self) -> dict[str, torch.Tensor]:
        tool_distance = torch.linalg.vector_norm(self.cube_pos - self.tool_pos, dim=1)
        grasped = self.grasped
        return {
            "reach": 0.2 * closeness(tool_distance),
            "grasp": 0.2 * grasped,
            "goal": 0.4 * grasped * closeness(self._goal_distance),
            # The scale of 1 rad/s still tells a policy that trembles at the goal, at 2 rad/s, which way is better.
            "still": 0.2 * self._placed * closeness(joint_speed(self), scale=1.0),
            "success": 0.5 * self.is_fulfilled(),
            "action": -0.005 * self.actions[:, :-1].square().sum(dim=1),
        }

    def _success(self) -> torch.Tensor:
        return self._placed & (joint_speed(self) <= self.cfg.success_joint_speed)

    def _failure(self) -> torch.Tensor:
        return self.cube_pos[:, 2] < -CUBE_EDGE
