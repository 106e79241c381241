# SPDX-License-Identifier: BSD-3-Clause
"""The lift task."""

import torch
from isaaclab.assets import RigidObject

from isaaclab_pc.envs import manipulation
from isaaclab_pc.envs.expert import expert_of
from isaaclab_pc.envs.kept import kept
from isaaclab_pc.tasks.lift.lift_env_cfg import CUBE_EDGE, LiftEnvCfg
from isaaclab_pc.tasks.lift.lifting_env import OBJECT_STREAM, LiftingEnv


class LiftEnv(LiftingEnv):
    """Grasp a cube and bring it to a goal above the table.

    Randomization: arm joints around their defaults, the cube's x, y and yaw on the table, the goal in a box; with
    ``env.randomization`` also the cube's size, mass and friction and the camera's pose. A cube that leaves the table
    ends the episode. The rest is as :class:`~isaaclab_pc.tasks.lift.lifting_env.LiftingEnv`.
    """

    cfg: LiftEnvCfg
    expert = expert_of("isaaclab_pc.tasks.lift.expert:CASES")

    def _bind_scene(self) -> None:
        super()._bind_scene()
        self.cube: RigidObject = self.scene["cube"]
        self.object = self.cube
        self.cube_edge = CUBE_EDGE * self.size_factor("cube")

    cube_pos = LiftingEnv.object_pos
    cube_quat = LiftingEnv.object_quat

    @kept
    def grasped(self) -> torch.Tensor:
        """Whether the closed gripper is stopped by the cube between its fingers, shape (N,), bool."""
        return manipulation.between_fingers(self, self.cube_pos, self.cube_edge)

    def _reset_task(self, env_ids: torch.Tensor) -> None:
        super()._reset_task(env_ids)
        names = ("cube_x", "cube_y", "cube_yaw")
        cube = self.uniform_pose(env_ids, OBJECT_STREAM, self.cfg.cube_lower, self.cfg.cube_upper, names)
        position = torch.cat([cube[:, :2], self.cube_edge[env_ids, None] / 2], dim=1)
        manipulation.place(self, self.cube, env_ids, position, manipulation.upright(cube[:, 2]))

    def _failure(self) -> torch.Tensor:
        return self.cube_pos[:, 2] < -CUBE_EDGE
