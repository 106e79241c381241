# SPDX-License-Identifier: BSD-3-Clause
"""Hold the tool centre a hand's breadth above a cube that only the camera sees."""

from __future__ import annotations

import torch
from isaaclab.assets import RigidObject, RigidObjectCfg
from isaaclab.utils import configclass

from isaaclab_pc.assets.primitives import cube_cfg
from isaaclab_pc.envs import PointCloudEnvCfg, PointCloudSceneCfg, manipulation
from isaaclab_pc.envs.expert import expert_of
from isaaclab_pc.envs.point_cloud_env import TASK_STREAM, PointCloudEnv
from isaaclab_pc.tensors.constant_tensor import constant_tensor

EDGE = 0.06
"""Of the cube [m]."""


@configclass
class HoverSceneCfg(PointCloudSceneCfg):
    """The shared scene of robot, table and camera, and a cube."""

    cube: RigidObjectCfg = cube_cfg(edge=EDGE, pos=(0.5, 0.0, EDGE / 2))


@configclass
class HoverEnvCfg(PointCloudEnvCfg):
    """What can be set as ``env.<field>=<value>``."""

    scene: HoverSceneCfg = HoverSceneCfg()
    episode_length_s: float = 3.0

    height: float = 0.12
    """Of the goal above the cube's centre [m]."""

    success_distance: float = 0.03
    """Largest distance of the tool centre from the goal that counts as success [m]."""


class HoverEnv(PointCloudEnv):
    """The methods that every task has; `PointCloudEnv` does the rest of a step."""

    cfg: HoverEnvCfg
    expert = expert_of("hover_task.expert:CASES")

    def _bind_scene(self) -> None:
        super()._bind_scene()
        self.cube: RigidObject = self.scene["cube"]

    def goal_pos(self) -> torch.Tensor:
        """Return where the tool is to be, in the environment frame [m], shape (N, 3)."""
        return manipulation.position(self, self.cube) + constant_tensor((0.0, 0.0, self.cfg.height), self.device)

    def _distance(self) -> torch.Tensor:
        return torch.linalg.vector_norm(self.goal_pos() - self.tool_pos, dim=1)

    def _reset_task(self, env_ids: torch.Tensor) -> None:
        names = ("cube_x", "cube_y", "cube_z")
        place = self.uniform_pose(env_ids, TASK_STREAM, (0.4, -0.2, EDGE / 2), (0.6, 0.2, EDGE / 2), names)
        quat = manipulation.upright(torch.zeros(len(env_ids), device=self.device))
        manipulation.place(self, self.cube, env_ids, place, quat)

    def _task_state(self) -> torch.Tensor:
        return manipulation.position(self, self.cube)

    def _reward_terms(self) -> dict[str, torch.Tensor]:
        return {"near": manipulation.closeness(self._distance()), "success": self._success().float()}

    def _success(self) -> torch.Tensor:
        return self._distance() <= self.cfg.success_distance
