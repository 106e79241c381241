# SPDX-License-Identifier: BSD-3-Clause
"""The interface of a task: methods that it implements, and quantities and draws that it may use."""

from abc import abstractmethod
from collections.abc import Sequence

import torch
from isaaclab.envs import DirectRLEnv

from isaaclab_pc.envs.arm_control import ArmControl, ArmState
from isaaclab_pc.envs.kept import StandingState, kept
from isaaclab_pc.envs.point_cloud_env_cfg import PointCloudEnvCfg
from isaaclab_pc.envs.quantities import GOAL_QUANTITIES, Quantity
from isaaclab_pc.envs.randomization import Randomizer


class TaskEnv(DirectRLEnv):
    """The side of a :class:`~isaaclab_pc.envs.PointCloudEnv` that its task sees."""

    cfg: PointCloudEnvCfg
    arm: ArmControl
    randomizer: Randomizer
    standing_state: StandingState

    tells_goal = False
    """Whether the policy is told its goal, which it cannot see, and the way there from the tool."""

    # Tasks implement these.

    @abstractmethod
    def _reset_task(self, env_ids: torch.Tensor) -> None:
        """Place the task's objects in ``env_ids``, shape (M,), with :meth:`uniform`."""

    @abstractmethod
    def _task_state(self) -> torch.Tensor:
        """Return what only the critic knows, shape (N, T)."""

    @abstractmethod
    def _reward_terms(self) -> dict[str, torch.Tensor]:
        """Return the summands of the reward, each (N,)."""

    @abstractmethod
    def _success(self) -> torch.Tensor:
        """Tell which environments fulfil the task right now, shape (N,), bool."""

    def _task_proprioception(self) -> torch.Tensor:
        """Return what the policy is told beside the robot's own state, shape (N, Q)."""
        if self.tells_goal and (goal := self._goal()) is not None:
            return torch.cat([goal, goal - self.tool_pos], dim=1)
        return torch.zeros(self.num_envs, 0, device=self.device)

    def task_quantities(self) -> tuple[Quantity, ...]:
        """Return what :meth:`_task_proprioception` is made of, for who runs an exported policy elsewhere."""
        return GOAL_QUANTITIES if self.tells_goal else ()

    def _failure(self) -> torch.Tensor:
        """Tell which environments cannot go on, shape (N,), bool."""
        return torch.zeros(self.num_envs, dtype=torch.bool, device=self.device)

    def _goal(self) -> torch.Tensor | None:
        """Return the goal in the environment frame [m], shape (N, 3), for ``env.goal_points``; None: there is none."""
        return None

    # For tasks and experts.

    def is_fulfilled(self) -> torch.Tensor:
        """Return :meth:`_success`, checked and computed once while nothing moves, shape (N,), bool."""
        return self._is_fulfilled

    @kept
    def _is_fulfilled(self) -> torch.Tensor:
        return self._of_each_env("_success", self._success())

    def _of_each_env(self, name: str, value: torch.Tensor) -> torch.Tensor:
        """Return what a task's method returned: (N, 1), say, would be made (N, N) by what follows, without a word."""
        if value.shape != (self.num_envs,):
            expected = (self.num_envs,)
            raise ValueError(f"{type(self).__name__}.{name}: shape {tuple(value.shape)}, expected {expected}.")
        return value

    @kept
    def arm_state(self) -> ArmState:
        """The robot's present state; read it only."""
        return self.arm.state()

    @property
    def tool_pos(self) -> torch.Tensor:
        """Tool centre in the environment frame [m], shape (N, 3)."""
        return self.arm_state.tool_pos

    @property
    def tool_quat(self) -> torch.Tensor:
        """Tool orientation in the world and environment frames, (x, y, z, w), shape (N, 4)."""
        return self.arm_state.tool_quat

    def finger_openings(self) -> torch.Tensor:
        """Return how far each finger is from where the gripper is closed [m], shape (N, F)."""
        return self.arm_state.finger_openings

    def randomized_factors(self) -> dict[str, torch.Tensor]:
        """Return what was drawn for the running episodes, by name, each (N,): in evaluations, success is told by it."""
        return self.randomizer.factors()

    def uniform(
        self,
        env_ids: torch.Tensor,
        stream: int,
        lower: Sequence[float],
        upper: Sequence[float],
        names: Sequence[str] = (),
    ) -> torch.Tensor:
        """Draw one vector per environment, shape (M, D), float32, keyed by (seed, environment, episode, stream).

        ``env_ids`` has shape (M,), ``stream`` is ``TASK_STREAM`` or above, and ``names`` are those of
        :meth:`randomized_factors`; the rest is as :meth:`Randomizer.uniform`.
        """
        return self.randomizer.uniform(env_ids, stream, lower, upper, names)

    def uniform_pose(
        self,
        env_ids: torch.Tensor,
        stream: int,
        lower: Sequence[float],
        upper: Sequence[float],
        names: Sequence[str] = (),
    ) -> torch.Tensor:
        """Draw like :meth:`uniform`, for where something stands: ``env.randomization`` widens the ranges.

        The task must be valid in a range 1.2 times as wide.
        """
        wider = (self.randomizer.level.pose - 1.0) / 2.0
        margin = [wider * (high - low) for low, high in zip(lower, upper, strict=True)]
        lowest = [low - m for low, m in zip(lower, margin, strict=True)]
        highest = [high + m for high, m in zip(upper, margin, strict=True)]
        return self.uniform(env_ids, stream, lowest, highest, names)

    def size_factor(self, name: str) -> torch.Tensor:
        """Return the factor by which ``env.randomization`` makes an object larger than configured, shape (N,)."""
        return self.randomizer.size_factor(name)
