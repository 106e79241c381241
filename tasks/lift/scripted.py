# SPDX-License-Identifier: BSD-3-Clause
"""A scripted grasp for the lift task: inverse kinematics on the simulator's own state.

It shows that the task is physically solvable, and is the yardstick for what a learned policy can reach.
"""

from __future__ import annotations

import math

import torch
from isaaclab.utils.math import euler_xyz_from_quat, quat_from_euler_xyz

from isaaclab_pc.tasks.lift.lift_env import LiftEnv

_ABOVE, _DOWN, _CLOSE, _CARRY = range(4)

_CLEARANCE = 0.12
"""Height above the cube's centre at which the gripper lines up [m]."""

_STEP_LENGTHS = (0.03, 0.012, 0.012, 0.012)
"""Longest way the tool centre is asked to go in one control step, by phase [m]."""

_STILL = 0.2
"""Largest joint speed at which the fingers are closed [rad/s]."""


class ScriptedGrasp:
    """Lines up above the cube, goes down, closes, and carries the cube to the goal, each environment at its own pace.

    Call it once a step; it starts over where an episode has just begun.
    """

    def __init__(self, env: LiftEnv, close_s: float = 0.5) -> None:
        """Prepare for an environment.

        Args:
            env: The unwrapped environment; its state is read, never written.
            close_s: Time the fingers get to close before the cube is carried [s].
        """
        self._env = env
        self._close_steps = math.ceil(close_s / env.step_dt)
        self._phase = torch.full((env.num_envs,), _ABOVE, device=env.device)
        self._closed_for = torch.zeros(env.num_envs, dtype=torch.long, device=env.device)
        self._grasp_pos = torch.zeros(env.num_envs, 3, device=env.device)
        self._step_lengths = torch.tensor(_STEP_LENGTHS, device=env.device)

    def __call__(self) -> torch.Tensor:
        """Return the actions for the current state, shape (N, A), in [-1, 1]."""
        env = self._env
        fresh = env.episode_length_buf == 0
        self._phase[fresh] = _ABOVE
        self._closed_for[fresh] = 0
        step = self._advance() - env.tool_pos
        length = torch.linalg.vector_norm(step, dim=1).clamp(min=1e-6)
        step = step * (self._step_lengths[self._phase] / length).clamp(max=1.0)[:, None]
        tool_action = (step / env.cfg.tool_delta).clamp(-1.0, 1.0)
        arm = tool_action if env.cfg.action == "tool_delta" else self._joint_action(step)
        gripper = torch.where(self._phase >= _CLOSE, -1.0, 1.0)
        return torch.cat([arm, gripper[:, None]], dim=1)

    def _advance(self) -> torch.Tensor:
        """Move each environment to its next phase where the present one is done; return tool targets, (N, 3)."""
        env = self._env
        cube = env.cube_pos
        above = cube + torch.tensor([0.0, 0.0, _CLEARANCE], device=env.device)
        lined_up = torch.linalg.vector_norm(env.tool_pos - above, dim=1) < 0.02
        self._phase[(self._phase == _ABOVE) & lined_up] = _DOWN
        at_cube = torch.linalg.vector_norm(env.tool_pos - cube, dim=1) < 0.006
        self._phase[(self._phase == _DOWN) & at_cube & (env.joint_speed < _STILL)] = _CLOSE
        # Where to stay while closing: the cube's own place, not where the fingers push it.
        self._grasp_pos = torch.where((self._phase < _CLOSE)[:, None], cube, self._grasp_pos)
        self._closed_for += (self._phase == _CLOSE).long()
        self._phase[(self._phase == _CLOSE) & (self._closed_for > self._close_steps)] = _CARRY
        targets = torch.stack([above, cube, self._grasp_pos, env.goal_pos - cube + env.tool_pos])
        return targets[self._phase, torch.arange(env.num_envs, device=env.device)]

    def _joint_action(self, step: torch.Tensor) -> torch.Tensor:
        """Return joint steps that move the tool centre and turn the gripper to the cube's faces, shape (N, 7)."""
        env = self._env
        _, _, yaw = euler_xyz_from_quat(env.cube_quat)
        quarter = math.pi / 2
        yaw = torch.remainder(yaw + quarter / 2, quarter) - quarter / 2
        down = quat_from_euler_xyz(torch.full_like(yaw, math.pi), torch.zeros_like(yaw), yaw)
        joints = env.robot.data.joint_pos.torch[:, env.arm.joints]
        action = (env.arm.inverse_kinematics(env.arm.tool_pos_w + step, down) - joints) / env.cfg.joint_delta
        # One factor for all joints keeps the direction of the motion.
        return action / action.abs().amax(dim=1, keepdim=True).clamp(min=1.0)
