# SPDX-License-Identifier: BSD-3-Clause
"""The new_task task."""

from __future__ import annotations

import torch
from isaaclab.assets import RigidObject

from isaaclab_pc.envs import manipulation
from isaaclab_pc.envs.kept import kept
from isaaclab_pc.envs.manipulation import closeness
from isaaclab_pc.envs.point_cloud_env import TASK_STREAM, PointCloudEnv
from isaaclab_pc.tensors.constant_tensor import constant_tensor
from tools.new_task.new_task_env_cfg import CUBE_EDGE, NewTaskEnvCfg


class NewTaskEnv(PointCloudEnv):
    """Hold the tool centre above a cube.

    Randomization: arm joints around their defaults, the cube's x, y and yaw on the table; with ``env.randomization``
    also its size, mass and friction and the camera's pose. The cube is in the cloud and in the critic's state.
    Success: the tool centre is within ``success_distance`` of the point ``height`` above the cube. A cube that leaves
    the table ends the episode.

    Reward terms: ``distance`` to the goal, ``success``, and a cost of each ``action``.
    """

    cfg: NewTaskEnvCfg

    def _bind_scene(self) -> None:
        super()._bind_scene()
        self.cube: RigidObject = self.scene["cube"]
        self.cube_edge = CUBE_EDGE * self.size_factor("cube")

    @kept
    def cube_pos(self) -> torch.Tensor:
        """Centre of the cube in the environment frame [m], shape (N, 3)."""
        return manipulation.position(self, self.cube)

    def _goal(self) -> torch.Tensor:
        return self.cube_pos + constant_tensor((0.0, 0.0, self.cfg.height), self.device)

    @kept
    def _distance(self) -> torch.Tensor:
        return torch.linalg.vector_norm(self._goal() - self.tool_pos, dim=1)

    def _reset_task(self, env_ids: torch.Tensor) -> None:
        names = ("cube_x", "cube_y", "cube_yaw")
        cube = self.uniform_pose(env_ids, TASK_STREAM, self.cfg.cube_lower, self.cfg.cube_upper, names)
        position = torch.cat([cube[:, :2], self.cube_edge[env_ids, None] / 2], dim=1)
        manipulation.place(self, self.cube, env_ids, position, manipulation.upright(cube[:, 2]))

    def _task_state(self) -> torch.Tensor:
        return torch.cat([self.cube_pos, self._goal() - self.tool_pos], dim=1)

    def _reward_terms(self) -> dict[str, torch.Tensor]:
        return {
            "distance": closeness(self._distance),
            "success": self.is_fulfilled(),
            "action": -0.005 * self.actions.square().sum(dim=1),
        }

    def _success(self) -> torch.Tensor:
        return self._distance <= self.cfg.success_distance

    def _failure(self) -> torch.Tensor:
        return self.cube_pos[:, 2] < -CUBE_EDGE
