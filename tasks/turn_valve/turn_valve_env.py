# SPDX-License-Identifier: BSD-3-Clause
"""The valve task."""

import math

import torch
from isaaclab.assets import Articulation
from isaaclab.utils.math import wrap_to_pi

from isaaclab_pc.assets.articulated.valves import PAD_HEIGHT, VALVES
from isaaclab_pc.assets.objects.object_set import dealt_objects
from isaaclab_pc.envs import manipulation
from isaaclab_pc.envs.expert import expert_of
from isaaclab_pc.envs.kept import kept
from isaaclab_pc.envs.manipulation import closeness
from isaaclab_pc.envs.point_cloud_env import TASK_STREAM, PointCloudEnv
from isaaclab_pc.envs.quantities import Quantity
from isaaclab_pc.tasks.turn_valve.turn_valve_env_cfg import TurnValveEnvCfg
from isaaclab_pc.tensors.constant_tensor import constant_tensor
from isaaclab_pc.tensors.poses import from_frame, into_frame

_POSE_STREAM = TASK_STREAM
_YAW_STREAM = TASK_STREAM + 1
_TARGET_STREAM = TASK_STREAM + 2

_AIM_BEYOND = 0.3
"""How far beyond the target angle the reward leads [rad]: a student of a policy that stops right there falls short."""


class TurnValveEnv(PointCloudEnv):
    """Turn a valve by its knob until the knob is at its goal.

    Randomization: arm joints around their defaults, the valve's x and y on the table, where its knob stands (all
    around), the angle to turn by and its direction, and with ``cfg.valves`` another valve in every environment. The
    valve is in the cloud and in the critic's state; the policy's proprioception holds the goal, which is where the knob
    is once the angle is reached, the vector from the tool centre to it, and the direction: a valve beyond its goal
    looks like one that is to be turned the other way. Success, as in ManiSkill's RotateValve: the valve is turned by at
    least the target angle, in its direction. Episodes end at their time limit and count as their last step.

    The reward follows ManiSkill's TurnFaucet and RotateValve (https://github.com/haosulab/ManiSkill): ``reach`` the
    knob, and ``turn`` it, paid by how near the valve is to an angle somewhat beyond the target; ``success`` is a term
    of its own. Going on is not paid, unlike there. A grasp is not rewarded: the knob may be pushed as well.
    """

    cfg: TurnValveEnvCfg
    tells_goal = True
    expert = expert_of("isaaclab_pc.tasks.turn_valve.expert:CASES")

    def _bind_scene(self) -> None:
        super()._bind_scene()
        self.valve: Articulation = self.scene["valve"]
        valves = [VALVES[self.cfg.valves][index] for index in dealt_objects()]
        self.radius = torch.tensor([valve.radius for valve in valves], device=self.device)
        """Distance of each knob from its axis [m], shape (N,)."""
        self.target = torch.ones(self.num_envs, device=self.device)
        """Angle to turn by, positive about z [rad], shape (N,)."""

    @property
    def angle(self) -> torch.Tensor:
        """How far the valve is turned since the reset, positive about z [rad], shape (N,)."""
        return self.valve.data.joint_pos.torch[:, 0]

    @property
    def direction(self) -> torch.Tensor:
        """Which way the valve is to be turned, seen from above: 1 anticlockwise, -1 clockwise, shape (N,)."""
        return self.target.sign()

    @property
    def turned(self) -> torch.Tensor:
        """How far the valve is turned, as a share of the target angle, shape (N,)."""
        return self.angle / self.target

    @kept
    def knob_pos(self) -> torch.Tensor:
        """Where the knob is grasped, in the environment frame [m], shape (N, 3)."""
        return self.knob_at(self.angle)

    @kept
    def goal_pos(self) -> torch.Tensor:
        """Where the knob is once the angle is reached, in the environment frame [m], shape (N, 3)."""
        return self.knob_at(self.target)

    @kept
    def _center(self) -> torch.Tensor:
        """Root of the valve in the environment frame [m], shape (N, 3)."""
        return manipulation.position(self, self.valve)

    def knob_at(self, angle: torch.Tensor, outside: float = 0.0) -> torch.Tensor:
        """Return positions (N, 3) [m], ``outside`` [m] farther out than the knob, at angles (N,) [rad] of the valve."""
        radius = self.radius + outside
        height = constant_tensor((PAD_HEIGHT,), self.device).expand_as(angle)
        knob = torch.stack([radius * angle.cos(), radius * angle.sin(), height], dim=1)
        return from_frame(self._center, self.valve.data.root_quat_w.torch, knob)

    def angle_of(self, position: torch.Tensor) -> torch.Tensor:
        """Return the angle (N,) nearest to now [rad] at which the knob points at positions (N, 3) [m]."""
        offset = into_frame(self._center, self.valve.data.root_quat_w.torch, position)
        return self.angle + wrap_to_pi(torch.atan2(offset[:, 1], offset[:, 0]) - self.angle)

    def _goal(self) -> torch.Tensor:
        return self.goal_pos

    def _reset_task(self, env_ids: torch.Tensor) -> None:
        names = ("valve_x", "valve_y")
        place = self.uniform_pose(env_ids, _POSE_STREAM, self.cfg.valve_lower, self.cfg.valve_upper, names)
        yaw = self.uniform(env_ids, _YAW_STREAM, [-math.pi], [math.pi], ["valve_yaw"])[:, 0]
        position = torch.cat([place, torch.zeros_like(place[:, :1])], dim=1)
        manipulation.place_fixed_base(self, self.valve, env_ids, position, manipulation.upright(yaw))

        lower = [self.cfg.target_lower, -1.0]
        upper = [self.cfg.target_upper, 1.0]
        size, side = self.uniform(env_ids, _TARGET_STREAM, lower, upper).unbind(1)
        self.target[env_ids] = torch.where(side < 0.0, -size, size)
        self.randomizer.record(env_ids, ["target_angle"], self.target[env_ids, None])

    def _task_proprioception(self) -> torch.Tensor:
        return torch.cat([super()._task_proprioception(), self.direction[:, None]], dim=1)

    def task_quantities(self) -> tuple[Quantity, ...]:
        """Return what the policy is told of the goal and of the way to it."""
        meaning = "which way the valve is to be turned, seen from above: 1 anticlockwise, -1 clockwise"
        return (*super().task_quantities(), Quantity("turning_direction", 1, "", meaning))

    def _task_state(self) -> torch.Tensor:
        knob = self.knob_pos
        speed = self.valve.data.joint_vel.torch[:, 0]
        angles = torch.stack([self.angle, speed, self.target, self.turned], dim=1)
        return torch.cat([knob, knob - self.tool_pos, self.goal_pos - knob, self._center, angles], dim=1)

    def _reward_terms(self) -> dict[str, torch.Tensor]:
        reach = closeness(torch.linalg.vector_norm(self.knob_pos - self.tool_pos, dim=1))
        aim = self.target + _AIM_BEYOND * self.direction
        missing = ((aim - self.angle) / aim).abs()
        return {
            "reach": 0.3 * reach,
            "turn": 0.7 * (1.0 - missing).clamp_min(0.0),
            "success": 0.5 * self.is_fulfilled(),
            "action": -0.005 * self.actions[:, :-1].square().sum(dim=1),
        }

    def _success(self) -> torch.Tensor:
        return self.turned >= 1.0
