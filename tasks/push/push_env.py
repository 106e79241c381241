# SPDX-License-Identifier: BSD-3-Clause
"""The push task."""

import torch
from isaaclab.assets import RigidObject

from isaaclab_pc.envs import manipulation
from isaaclab_pc.envs.expert import expert_of
from isaaclab_pc.envs.kept import kept
from isaaclab_pc.envs.manipulation import closeness
from isaaclab_pc.envs.point_cloud_env import TASK_STREAM, PointCloudEnv
from isaaclab_pc.tasks.push.push_env_cfg import CUBE_EDGE, REGION_RADIUS, PushEnvCfg
from isaaclab_pc.tensors.constant_tensor import constant_tensor

_CUBE_STREAM = TASK_STREAM
_GOAL_STREAM = TASK_STREAM + 1

_PUSH_DISTANCE = 0.015
"""Distance of the tool centre from the cube's side while it pushes [m]: half a finger, and room for a cube that is
pushed at its corner."""

_REACHED = 0.025
"""Distance from the place to push from within which the tool counts as pushing, whichever side it touches [m]. A pixel
at the cube is 1.5 cm wide: with 1.5 cm, PPO from clouds stayed at the cube and never pushed it."""


class PushEnv(PointCloudEnv):
    """Push a cube into a region on the table.

    Randomization: arm joints around their defaults, the cube's x, y and yaw on the table, distance and bearing of the
    goal region from the cube; with ``env.randomization`` also the cube's size, mass and friction and the camera's pose.
    A flat disc marks the region: the policy sees it, and only the critic is told where it is. Success, as in
    ManiSkill's PushCube: the cube's centre is inside the region and the cube lies on the table. A cube that leaves the
    table ends the episode.

    The reward is that of PushCube, divided by its maximum (https://github.com/haosulab/ManiSkill): ``reach`` the side
    of the cube that is away from the region; from there, bring the cube to the ``goal``; the maximum in a step with
    ``success``. The tool may be farther from that side than in PushCube: a camera sees it less exactly. PushCube itself
    always pushes 0.2 m along x and never turns the cube: ``goal_lower=goal_upper=(0.2, 0)`` and yaws of 0 place them
    likewise.
    """

    cfg: PushEnvCfg
    expert = expert_of("isaaclab_pc.tasks.push.expert:CASES")

    def _bind_scene(self) -> None:
        super()._bind_scene()
        self.cube: RigidObject = self.scene["cube"]
        self.region: RigidObject = self.scene["region"]
        self.cube_edge = CUBE_EDGE * self.size_factor("cube")
        self.goal_pos = torch.zeros(self.num_envs, 3, device=self.device)
        self.goal_pos[:, 2] = self.cube_edge / 2

    @kept
    def cube_pos(self) -> torch.Tensor:
        """Centre of the cube in the environment frame [m], shape (N, 3)."""
        return manipulation.position(self, self.cube)

    @kept
    def push_direction(self) -> torch.Tensor:
        """Unit vector in the table's plane from the cube to the middle of the region, shape (N, 3)."""
        return self._way_to_goal / self.goal_distance[:, None].clamp_min(1e-6)

    @kept
    def push_pos(self) -> torch.Tensor:
        """Where the tool centre is to push the cube, in the environment frame [m], shape (N, 3)."""
        return self.cube_pos - (self.cube_edge / 2 + _PUSH_DISTANCE)[:, None] * self.push_direction

    @kept
    def goal_distance(self) -> torch.Tensor:
        """Distance of the cube's centre from the middle of the region in the table's plane [m], shape (N,)."""
        return torch.linalg.vector_norm(self._way_to_goal, dim=1)

    @kept
    def _way_to_goal(self) -> torch.Tensor:
        """Vector in the table's plane from the cube to the middle of the region [m], shape (N, 3)."""
        return (self.goal_pos - self.cube_pos) * constant_tensor((1.0, 1.0, 0.0), self.device)

    def _reset_task(self, env_ids: torch.Tensor) -> None:
        names = ("cube_x", "cube_y", "cube_yaw")
        cube = self.uniform_pose(env_ids, _CUBE_STREAM, self.cfg.cube_lower, self.cfg.cube_upper, names)
        position = torch.cat([cube[:, :2], self.cube_edge[env_ids, None] / 2], dim=1)
        manipulation.place(self, self.cube, env_ids, position, manipulation.upright(cube[:, 2]))

        names = ("goal_distance", "goal_bearing")
        goal = self.uniform_pose(env_ids, _GOAL_STREAM, self.cfg.goal_lower, self.cfg.goal_upper, names)
        distance, bearing = goal.unbind(1)
        way = torch.stack([distance * bearing.cos(), distance * bearing.sin()], dim=1)
        self.goal_pos[env_ids, :2] = cube[:, :2] + way

        marker = self.region.data.default_root_pose.torch[env_ids, :3].clone()
        marker[:, :2] = self.goal_pos[env_ids, :2]
        manipulation.place_kinematic(self, self.region, env_ids, marker)

    def _goal(self) -> torch.Tensor:
        return self.goal_pos

    def _task_state(self) -> torch.Tensor:
        cube_pos = self.cube_pos
        quat = self.cube.data.root_quat_w.torch
        velocity = self.cube.data.root_vel_w.torch[:, :3]
        relative = [cube_pos - self.tool_pos, self.push_pos - self.tool_pos, self.goal_pos - cube_pos]
        return torch.cat([cube_pos, quat, velocity, self.goal_pos, *relative], dim=1)

    def _reward_terms(self) -> dict[str, torch.Tensor]:
        success = self.is_fulfilled().float()
        distance = torch.linalg.vector_norm(self.push_pos - self.tool_pos, dim=1)
        unfinished = (1.0 - success) / 3.0
        return {
            "reach": unfinished * closeness(distance),
            "goal": unfinished * (distance < _REACHED) * closeness(self.goal_distance),
            "success": success,
        }

    def _success(self) -> torch.Tensor:
        # A region of randomization=hard may stand out over the table's edge.
        height = self.cube_pos[:, 2]
        lies = (height > 0.0) & (height < self.cube_edge / 2 + self.cfg.success_height)
        return lies & (self.goal_distance < REGION_RADIUS)

    def _failure(self) -> torch.Tensor:
        return self.cube_pos[:, 2] < -CUBE_EDGE
