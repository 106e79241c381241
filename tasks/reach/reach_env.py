# SPDX-License-Identifier: BSD-3-Clause
"""The reach task."""

import torch
from isaaclab.assets import RigidObject

from isaaclab_pc.envs import manipulation
from isaaclab_pc.envs.expert import expert_of
from isaaclab_pc.envs.kept import kept
from isaaclab_pc.envs.manipulation import closeness
from isaaclab_pc.envs.point_cloud_env import TASK_STREAM, PointCloudEnv
from isaaclab_pc.tasks.reach.reach_env_cfg import ReachEnvCfg


class ReachEnv(PointCloudEnv):
    """Bring the tool centre to a visible sphere.

    Randomization: arm joints around their defaults, target uniform in a box. The target's position is in the cloud and
    in the critic's state, never in the policy's proprioception. Success: the tool centre is within
    ``success_distance`` of the target; an episode ends at its time limit and counts as its last step.
    """

    cfg: ReachEnvCfg
    expert = expert_of("isaaclab_pc.tasks.reach.expert:CASES")

    def _bind_scene(self) -> None:
        super()._bind_scene()
        self.target: RigidObject = self.scene["target"]
        self.target_pos = manipulation.position(self, self.target)

    @kept
    def _distance(self) -> torch.Tensor:
        return torch.linalg.vector_norm(self.target_pos - self.tool_pos, dim=1)

    def _reset_task(self, env_ids: torch.Tensor) -> None:
        names = ("target_x", "target_y", "target_z")
        position = self.uniform_pose(env_ids, TASK_STREAM, self.cfg.target_lower, self.cfg.target_upper, names)
        self.target_pos[env_ids] = position
        manipulation.place_kinematic(self, self.target, env_ids, position)

    def _task_state(self) -> torch.Tensor:
        return torch.cat([self.target_pos, self.target_pos - self.tool_pos], dim=1)

    def _reward_terms(self) -> dict[str, torch.Tensor]:
        distance = self._distance
        return {
            "distance": 0.5 * closeness(distance),
            "close": 0.5 * closeness(distance, scale=25.0),
            "success": 0.5 * self.is_fulfilled(),
            "action": -0.005 * self.actions.square().sum(dim=1),
        }

    def _success(self) -> torch.Tensor:
        return self._distance <= self.cfg.success_distance
