# SPDX-License-Identifier: BSD-3-Clause
"""The environment that all tasks share: joint-delta control, guarded steps, point-cloud observations."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from isaaclab.assets import Articulation
from isaaclab.envs import DirectRLEnv
from isaaclab.sensors import Camera

from isaaclab_pc.envs.arm_control import ArmControl, arm_action_size, joint_ids
from isaaclab_pc.envs.episode_log import EpisodeLog
from isaaclab_pc.envs.point_cloud_env_cfg import PointCloudEnvCfg, keep_what_is_observed
from isaaclab_pc.envs.randomization import Randomizer, randomize_sizes
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.guards import Cause, Guard, SceneState
from isaaclab_pc.keyed_random import keyed_uniform
from isaaclab_pc.physics import monitor_contacts
from isaaclab_pc.physics.broadphase import fit_broadphase
from isaaclab_pc.physics.presets import prepare_for_device
from isaaclab_pc.sensors import PointCloud
from isaaclab_pc.sensors.appended_points import sphere_points

_JOINT_NOISE_STREAM = 0
TASK_STREAM = 100
"""First stream of keyed random numbers that a task may use."""


class PointCloudEnv(DirectRLEnv):
    """Base of every task.

    A task implements :meth:`_reset_task`, :meth:`_task_state`, :meth:`_reward_terms` and :meth:`_success`, and may
    extend :meth:`_task_proprioception` and :meth:`_failure`.

    Observations are flat groups: ``policy`` (N, P) and ``critic`` (N, S), float32, and with ``obs=points`` also
    ``points`` (N, K, 3), with ``obs=depth`` also ``depth`` (N, 1, H, W). With ``obs=state``, ``policy`` is the
    privileged state. Actions are (N, A) in [-1, 1]: the arm's part (see
    :class:`ArmControl`), then, with ``gripper``, one command of the gripper.

    Valid where an environment is done in this step: :attr:`episode_success` and :attr:`episode_time_to_success`.
    """

    cfg: PointCloudEnvCfg

    _sees_final = False
    """Whether the observation being made is the last one of the episodes that end in this step."""

    def __init__(self, cfg: PointCloudEnvCfg, render_mode: str | None = None, **kwargs: Any) -> None:
        """Build the simulation.

        Args:
            cfg: Environment configuration.
            render_mode: As for ``DirectRLEnv``.
            **kwargs: As for ``DirectRLEnv``.

        Raises:
            ConfigError: A choice is unknown, the point cloud does not fit the camera, or what ``cfg`` asks for the
                task does not have.
        """
        cfg.check()
        cfg.action_space = arm_action_size(cfg) + int(cfg.gripper)
        keep_what_is_observed(cfg)
        randomize_sizes(cfg)
        prepare_for_device(cfg)
        super().__init__(cfg, render_mode, **kwargs)

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
        return torch.zeros(self.num_envs, 0, device=self.device)

    def _failure(self) -> torch.Tensor:
        """Tell which environments cannot go on, shape (N,), bool."""
        return torch.zeros(self.num_envs, dtype=torch.bool, device=self.device)

    def _goal(self) -> torch.Tensor | None:
        """Return the goal in the environment frame [m], shape (N, 3), for ``env.goal_points``; None: there is none."""
        return None

    # Helpers for tasks.

    @property
    def tool_pos(self) -> torch.Tensor:
        """Tool centre in the environment frame [m], shape (N, 3)."""
        return self.arm.tool_pos_w - self.scene.env_origins

    @property
    def tool_quat(self) -> torch.Tensor:
        """Tool orientation in the world and environment frames, (x, y, z, w), shape (N, 4)."""
        return self.arm.tool_quat

    def uniform(
        self, env_ids: torch.Tensor, stream: int, lower: Sequence[float], upper: Sequence[float]
    ) -> torch.Tensor:
        """Draw one vector per environment, keyed by (seed, environment, episode, stream).

        Args:
            env_ids: Environments, shape (M,).
            stream: :data:`TASK_STREAM` or above; equal streams give equal draws within an episode.
            lower: Lower bounds, D values.
            upper: Upper bounds, D values.

        Returns:
            Shape (M, D), float32.
        """
        low = torch.tensor(lower, device=self.device, dtype=torch.float32)
        high = torch.tensor(upper, device=self.device, dtype=torch.float32)
        unit = keyed_uniform(self._seed, env_ids, self.episode[env_ids], stream, len(lower))
        return low + (high - low) * unit

    def uniform_pose(
        self, env_ids: torch.Tensor, stream: int, lower: Sequence[float], upper: Sequence[float]
    ) -> torch.Tensor:
        """Draw like :meth:`uniform`, for where something stands: ``env.randomization`` widens the ranges.

        Args:
            env_ids: Environments, shape (M,).
            stream: As for :meth:`uniform`.
            lower: Lower bounds, D values; the task must be valid in a range 1.2 times as wide.
            upper: Upper bounds, D values.

        Returns:
            Shape (M, D), float32.
        """
        wider = (self.randomizer.level.pose - 1.0) / 2.0
        margin = [wider * (high - low) for low, high in zip(lower, upper, strict=True)]
        return self.uniform(
            env_ids,
            stream,
            [low - m for low, m in zip(lower, margin, strict=True)],
            [high + m for high, m in zip(upper, margin, strict=True)],
        )

    def size_factor(self, name: str) -> torch.Tensor:
        """Return by how much an object of the scene is larger than configured, shape (N,); ``env.randomization``."""
        return self.randomizer.size_factor(name)

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[dict, dict]:
        """Reset every environment; a seed also restarts the episode counters that key the randomness."""
        if self.guard.enabled:
            self.guard.release()
        if seed is not None:
            self._seed = seed
            self.episode.zero_()
            if self.point_cloud is not None:
                self.point_cloud.reseed(seed)
        return super().reset(seed=seed, options=options)

    # DirectRLEnv's hooks.

    def _configure_gym_env_spaces(self) -> None:
        self._bind_scene()
        self._allocate()
        observation = self._observe()
        self.cfg.observation_space = observation["policy"].shape[1]
        self.cfg.state_space = observation["critic"].shape[1]
        super()._configure_gym_env_spaces()
        # Isaac Lab declares policy and critic only.
        self.single_observation_space = gym.spaces.Dict(
            {
                group: gym.spaces.Box(-np.inf, np.inf, tuple(value.shape[1:]), value[:0].cpu().numpy().dtype.type)
                for group, value in observation.items()
            }
        )

    def _bind_scene(self) -> None:
        self.robot: Articulation = self.scene["robot"]
        self.camera: Camera | None = self.scene["camera"] if self.cfg.scene.camera is not None else None
        self.point_cloud: PointCloud | None = self.scene["points"] if self.cfg.scene.points is not None else None
        self.arm = ArmControl(self.cfg, self.robot, self.device)
        self.fingers = joint_ids(self.robot, self.cfg.scene.robot.finger_joints)
        """Indices of the finger joints, shape (F,)."""
        self._finger_limits = self.robot.data.soft_joint_pos_limits.torch[:, self.fingers].clone()
        fit_broadphase(self.cfg.sim.physics)
        self.randomizer = Randomizer(self)

    def _allocate(self) -> None:
        n, device = self.num_envs, self.device
        self._seed = self.cfg.seed if self.cfg.seed is not None else 0
        self.episode = torch.zeros(n, dtype=torch.long, device=device)
        self._env_ids = torch.arange(n, device=device)
        self.actions = torch.zeros(n, self.cfg.action_space, device=device)
        self.guard = Guard(self.cfg.guard, n, device, task=type(self).__name__)
        self.scene_state = SceneState(self.guard, self.scene)
        self.contact_monitor = monitor_contacts(self.cfg.sim.physics)
        self.episodes = EpisodeLog(n, self.step_dt, device)
        self.episode_success = self.episodes.success
        self.episode_time_to_success = self.episodes.time_to_success
        if self.point_cloud is not None:
            self.point_cloud.reseed(self._seed)

    def _pre_physics_step(self, actions: torch.Tensor) -> None:
        if self.guard.enabled:
            self._reset_late()
            self.guard.begin_step()
            actions = self.guard.check_actions(actions)
        self.actions = actions.clamp(-1.0, 1.0)
        arm_action = self.actions[:, : arm_action_size(self.cfg)]
        position, velocity = self.arm.command(arm_action, self.step_dt)
        command = self.robot.actuators.target_command
        command.set_position_index(value=position, joint_ids=self.arm.joints)
        command.set_velocity_index(value=velocity, joint_ids=self.arm.joints)
        if self.cfg.gripper:
            lower, upper = self._finger_limits[..., 0], self._finger_limits[..., 1]
            opening = (self.actions[:, -1:] + 1.0) / 2.0
            if self.cfg.gripper_action == "binary":
                opening = (opening > 0.5).float()
            fingers = lower + (upper - lower) * opening
            command.set_position_index(value=fingers, joint_ids=self.fingers)

    def _apply_action(self) -> None:
        # The targets set before the first physics step of an action hold for the others.
        pass

    def _reset_late(self) -> None:
        """Reset what an observation showed to be faulty, and hold what is benched, before the next physics step."""
        awaiting, benched = self.guard.pending()
        if awaiting > 0:
            self._reset_idx(self.guard.awaiting.nonzero().squeeze(-1))
        if benched > 0:
            ids = self.guard.benched_ids()
            self.scene_state.restore_defaults(ids)
            self.actions[ids] = 0.0

    def _get_dones(self) -> tuple[torch.Tensor, torch.Tensor]:
        if self.contact_monitor is not None:
            self.contact_monitor.update()
        if self.guard.enabled:
            self.scene_state.check()
        self.episodes.succeeds, terminated = self._success(), self._failure()
        truncated = (self.episode_length_buf >= self.max_episode_length) & ~terminated
        if self.guard.enabled:
            terminated = self._guard_outcome(terminated, truncated)
        self.episodes.note_success(self.episode_length_buf)
        return terminated, truncated

    def _guard_outcome(self, terminated: torch.Tensor, truncated: torch.Tensor) -> torch.Tensor:
        if self.guard.is_quiet():
            return terminated
        counts = ~self.guard.muted
        self.episodes.succeeds = self.episodes.succeeds & counts
        terminated = terminated & counts
        self.guard.end_episodes(self.guard.faulted, terminated, truncated)
        return terminated

    def _get_rewards(self) -> torch.Tensor:
        sparse = self.cfg.reward == "sparse"
        terms = {"success": self.episodes.succeeds.float()} if sparse else self._reward_terms()
        reward = torch.stack(list(terms.values())).sum(0)
        if self.guard.enabled:
            terms = self._guard_reward(reward, terms)
        self.episodes.add_rewards(terms)
        return reward

    def _guard_reward(self, reward: torch.Tensor, terms: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Make the reward 0, in place, and its summands where it does not count; end the episodes with a bad one."""
        if not self.guard.is_quiet():
            # What is muted was found already, and its reward says nothing more.
            reward.masked_fill_(self.guard.muted, 0.0)
        bad = self.guard.check(Cause.REWARD, reward, names=("reward",))
        if self.guard.is_quiet():
            return terms
        # Isaac Lab reads the masks after the rewards, so a bad reward still ends the episode in this step.
        faulted, muted = self.guard.faulted, self.guard.muted
        self.guard.end_episodes(faulted, self.reset_terminated, self.reset_time_outs)
        self.reset_buf |= faulted
        reward.masked_fill_(muted, 0.0)
        hidden = muted | bad
        return {name: torch.where(hidden, 0.0, value) for name, value in terms.items()}

    def _reset_envs_from_buffer(self) -> torch.Tensor | None:
        self._sees_final = True
        try:
            return super()._reset_envs_from_buffer()
        finally:
            self._sees_final = False

    def _get_observations(self) -> dict[str, torch.Tensor]:
        observation = self._observe()
        if self.guard.enabled:
            self._guard_observations(observation)
        if not self._sees_final:
            if self.guard.enabled:
                self.guard.end_step()
            self._log()
        return observation

    def _guard_observations(self, observation: dict[str, torch.Tensor]) -> None:
        """Fill the observations of environments in which one is bad with zeros, and end their episodes."""
        bad = self.guard.check(Cause.OBSERVATION, *observation.values(), names=tuple(observation))
        if self.guard.cfg.mode == "sanitize" or self.guard.is_quiet():
            return
        if self.camera is not None:
            bad = bad | self._bad_depth
        hidden = bad | self.guard.benched
        for value in observation.values():
            value.masked_fill_(hidden.view(-1, *[1] * (value.dim() - 1)), 0.0)
        bad = bad & ~self.guard.benched
        if self.common_step_counter > 0:
            # Where the episode had already ended in this step, its result stands.
            unfinished = bad & ~self.reset_buf
            self.episodes.take_back(unfinished)
            self.reward_buf.masked_fill_(bad, 0.0)
            self.guard.end_episodes(bad, self.reset_terminated, self.reset_time_outs)
            self.reset_buf |= bad
        self.guard.awaiting |= bad

    def _observe(self) -> dict[str, torch.Tensor]:
        proprioception = torch.cat([self._robot_state(), self._task_proprioception()], dim=1)
        state = torch.cat([proprioception, self._task_state()], dim=1)
        if self.cfg.obs == "state":
            return {"policy": state, "critic": state.clone()}
        visual = self._observe_points() if self.cfg.obs == "points" else self._observe_depth()
        return {"policy": proprioception, self.cfg.obs: visual, "critic": state}

    def _robot_state(self) -> torch.Tensor:
        joints = torch.cat([self.arm.joints, self.fingers]) if self.cfg.gripper else self.arm.joints
        pos = self.robot.data.joint_pos.torch - self.robot.data.default_joint_pos.torch
        vel = self.robot.data.joint_vel.torch
        return torch.cat([pos[:, joints], 0.1 * vel[:, joints], self.tool_pos, self.tool_quat, self.actions], dim=1)

    def _read_depth(self) -> torch.Tensor:
        """Return planar depth [m], shape (N, H, W), and note images that no renderer writes on purpose."""
        assert self.camera is not None
        output: Any = self.camera.data.output
        depth = output["depth"].torch.squeeze(-1)
        if self.guard.enabled:
            self._bad_depth = self.guard.check(Cause.DEPTH, depth, names=("depth",))
        return depth

    def _observe_depth(self) -> torch.Tensor:
        depth = self._read_depth()
        seen = (depth > 0.0) & (depth <= self.cfg.max_depth)
        return torch.where(seen, depth, 0.0).unsqueeze(1)

    def _observe_points(self) -> torch.Tensor:
        assert self.point_cloud is not None
        if self.cfg.goal_points > 0:
            self._show_goal(self.point_cloud)
        self._read_depth()
        return self.point_cloud.data.points.torch.clone()

    def _show_goal(self, cloud: PointCloud) -> None:
        goal = self._goal()
        if goal is None:
            raise ConfigError(
                f"env.goal_points={self.cfg.goal_points}: {type(self).__name__} has no goal point to show. "
                "Set env.goal_points=0, or implement its _goal()."
            )
        sphere = sphere_points(self.cfg.goal_points, self.cfg.goal_radius).to(self.device)
        cloud.given["goal"][:] = (goal + self.scene.env_origins)[:, None] + sphere

    def _log(self) -> None:
        log = self.episodes.metrics(self.max_episode_length_s)
        if self.guard.enabled:
            log |= self.guard.log()
        if self.contact_monitor is not None:
            log["Physics/contacts_used_share"] = self.contact_monitor.share()
        self.extras["log"] = log

    def _reset_idx(self, env_ids: Sequence[int] | torch.Tensor) -> None:
        ids = torch.as_tensor(env_ids, device=self.device).long()
        self.episodes.finish(ids, self.episode_length_buf, self.guard.benched)
        super()._reset_idx(ids.int())  # pyright: ignore[reportArgumentType]  # its callers pass tensors too
        self.episode[ids] += 1
        if self.guard.enabled:
            self.guard.forget(ids)
        self.actions[ids] = 0.0
        self.randomizer.reset(ids)
        self._reset_robot(ids)
        self._reset_task(ids)

    def _reset_robot(self, ids: torch.Tensor) -> None:
        position = self.robot.data.default_joint_pos.torch[ids].clone()
        joints, limits = self.arm.joints, self.arm.limits[ids]
        bound = [self.cfg.reset_joint_noise] * len(joints)
        noisy = position[:, joints] + self.uniform(ids, _JOINT_NOISE_STREAM, [-b for b in bound], bound)
        position[:, joints] = noisy.clamp(limits[..., 0], limits[..., 1])
        env_ids = ids.int()
        self.robot.write_joint_position_to_sim_index(position=position, env_ids=env_ids)
        self.robot.write_joint_velocity_to_sim_index(velocity=torch.zeros_like(position), env_ids=env_ids)
        self.robot.actuators.target_command.set_position_index(value=position, env_ids=env_ids)
        self.robot.actuators.target_command.set_velocity_index(value=torch.zeros_like(position), env_ids=env_ids)
