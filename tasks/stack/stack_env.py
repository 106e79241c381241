# SPDX-License-Identifier: BSD-3-Clause
"""The stack task."""

import torch
from isaaclab.assets import RigidObject

from isaaclab_pc.envs import manipulation
from isaaclab_pc.envs.expert import expert_of
from isaaclab_pc.envs.kept import kept
from isaaclab_pc.envs.manipulation import closeness
from isaaclab_pc.envs.point_cloud_env import TASK_STREAM, PointCloudEnv
from isaaclab_pc.tasks.stack.stack_env_cfg import CUBE_EDGE, StackEnvCfg
from isaaclab_pc.tensors.constant_tensor import constant_tensor

_MIDDLE_STREAM = TASK_STREAM
_APART_STREAM = TASK_STREAM + 1
_YAW_STREAM = TASK_STREAM + 2


class StackEnv(PointCloudEnv):
    """Put cube A on cube B and let go.

    Randomization: arm joints around their defaults, place and yaw of both cubes on the table, never closer than the
    gripper needs; with ``env.randomization`` also their sizes, masses and frictions and the camera's pose. Both are in
    the cloud and look the same, so the policy is told where cube A is to go: the place above cube B as it stood when
    the episode began; later motion of either cube is seen, and known to the critic only. Success, as in ManiSkill's
    StackCube: cube A is on cube B within a tolerance, does not move, and is not grasped. A cube that leaves the table
    ends the episode.

    The reward is that of StackCube, divided by its maximum (https://github.com/haosulab/ManiSkill): ``reach`` cube A;
    ``place`` it while it is grasped; ``release`` it and wait until it is still; the maximum in a step with ``success``.
    In every step one of the four terms counts.
    """

    cfg: StackEnvCfg
    tells_goal = True
    expert = expert_of("isaaclab_pc.tasks.stack.expert:CASES")

    def _bind_scene(self) -> None:
        super()._bind_scene()
        self.cube_a: RigidObject = self.scene["cube_a"]
        self.cube_b: RigidObject = self.scene["cube_b"]
        self.edge_a = CUBE_EDGE * self.size_factor("cube_a")
        self.edge_b = CUBE_EDGE * self.size_factor("cube_b")
        self._widest = self.arm.finger_travel.sum(dim=1)
        self._above_b = torch.nn.functional.pad((self.edge_a + self.edge_b)[:, None] / 2, (2, 0))
        self.goal_pos = torch.zeros(self.num_envs, 3, device=self.device)

    @kept
    def cube_a_pos(self) -> torch.Tensor:
        """Centre of cube A in the environment frame [m], shape (N, 3)."""
        return manipulation.position(self, self.cube_a)

    @kept
    def cube_b_pos(self) -> torch.Tensor:
        """Centre of cube B in the environment frame [m], shape (N, 3)."""
        return manipulation.position(self, self.cube_b)

    @kept
    def stack_pos(self) -> torch.Tensor:
        """Where cube A's centre is to be, above cube B as it stands now, in the environment frame [m], shape (N, 3)."""
        return self.cube_b_pos + self._above_b

    @kept
    def grasped(self) -> torch.Tensor:
        """Whether the closed gripper is stopped by cube A between its fingers, shape (N,), bool."""
        return manipulation.between_fingers(self, self.cube_a_pos, self.edge_a)

    @kept
    def stacked(self) -> torch.Tensor:
        """Whether cube A is on cube B, shape (N,), bool."""
        offset = self._offset
        above = torch.linalg.vector_norm(offset[:, :2], dim=1) <= self.cfg.success_offset
        return above & (offset[:, 2].abs() <= self.cfg.success_height)

    @kept
    def _offset(self) -> torch.Tensor:
        """Vector from where cube A is to be to where it is [m], shape (N, 3)."""
        return self.cube_a_pos - self.stack_pos

    @kept
    def _motion(self) -> torch.Tensor:
        """Cube A's speed [m/s] and angular speed [rad/s], shape (N, 2)."""
        return torch.linalg.vector_norm(self.cube_a.data.root_vel_w.torch.unflatten(1, (2, 3)), dim=2)

    def _reset_task(self, env_ids: torch.Tensor) -> None:
        names = ("middle_x", "middle_y")
        middle = self.uniform_pose(env_ids, _MIDDLE_STREAM, self.cfg.middle_lower, self.cfg.middle_upper, names)
        names = ("cube_a_yaw", "cube_b_yaw")
        yaws = self.uniform_pose(env_ids, _YAW_STREAM, [-self.cfg.yaw] * 2, [self.cfg.yaw] * 2, names)

        # Not uniform_pose, which randomization widens: the gripper needs room between the cubes.
        names = ("apart_distance", "apart_bearing")
        apart = self.uniform(env_ids, _APART_STREAM, self.cfg.apart_lower, self.cfg.apart_upper, names)
        distance, bearing = apart.unbind(1)
        half = 0.5 * torch.stack([distance * bearing.cos(), distance * bearing.sin()], dim=1)

        edge_a = self.edge_a[env_ids, None]
        edge_b = self.edge_b[env_ids, None]
        position_a = torch.cat([middle + half, edge_a / 2], dim=1)
        position_b = torch.cat([middle - half, edge_b / 2], dim=1)
        manipulation.place(self, self.cube_a, env_ids, position_a, manipulation.upright(yaws[:, 0]))
        manipulation.place(self, self.cube_b, env_ids, position_b, manipulation.upright(yaws[:, 1]))
        self.goal_pos[env_ids] = torch.cat([middle - half, edge_b + edge_a / 2], dim=1)

    def _goal(self) -> torch.Tensor:
        return self.goal_pos

    def _task_state(self) -> torch.Tensor:
        cube_a = self.cube_a_pos
        cube_b = self.cube_b_pos
        quats = [self.cube_a.data.root_quat_w.torch, self.cube_b.data.root_quat_w.torch]
        velocity = self.cube_a.data.root_vel_w.torch[:, :3]
        relative = [cube_a - self.tool_pos, cube_b - self.tool_pos, -self._offset]
        return torch.cat([cube_a, cube_b, *quats, velocity, *relative, self.grasped[:, None]], dim=1)

    def _reward_terms(self) -> dict[str, torch.Tensor]:
        success = self.is_fulfilled()
        stacked = self.stacked
        grasped = self.grasped

        ways = torch.linalg.vector_norm(torch.stack([self.cube_a_pos - self.tool_pos, self._offset]), dim=2)
        speed, spin = self._motion.unbind(1)
        motion = torch.add(spin, speed, alpha=10.0)
        scales = constant_tensor((5.0, 5.0, 1.0), self.device)[:, None]
        reach, place, still = closeness(torch.cat([ways, motion[None]]), scales)

        opening = self.finger_openings().sum(dim=1) / self._widest
        release = opening.masked_fill(~grasped, 1.0)

        return {
            "reach": 0.25 * reach.masked_fill(grasped | stacked, 0.0),
            "place": grasped.masked_fill(stacked, False) * (0.5 + place / 8.0),
            "release": stacked.masked_fill(success, False) * (0.75 + (release + still) / 16.0),
            "success": success,
        }

    def _success(self) -> torch.Tensor:
        most = constant_tensor((self.cfg.success_speed, self.cfg.success_spin), self.device)
        still = (self._motion <= most).all(dim=1)
        return (self.stacked & still).masked_fill(self.grasped, False)

    def _failure(self) -> torch.Tensor:
        return torch.minimum(self.cube_a_pos[:, 2], self.cube_b_pos[:, 2]) < -CUBE_EDGE
