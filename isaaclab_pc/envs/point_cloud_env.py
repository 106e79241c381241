# SPDX-License-Identifier: BSD-3-Clause
"""The environment that all tasks share: arm control, guarded steps, point-cloud observations."""

import copy
import operator
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from isaaclab.assets import Articulation
from isaaclab.sensors import Camera

from isaaclab_pc.envs.arm_checks import check_arm
from isaaclab_pc.envs.arm_control import ArmControl, arm_action_size, finger_targets
from isaaclab_pc.envs.episode_tracker import EpisodeTracker
from isaaclab_pc.envs.kept import StandingState
from isaaclab_pc.envs.observation_history import ObservationHistory
from isaaclab_pc.envs.point_cloud_env_cfg import PointCloudEnvCfg, extend_ground, remove_unused_sensors
from isaaclab_pc.envs.quantities import vector_quantities
from isaaclab_pc.envs.randomization import Randomizer, randomize_sizes
from isaaclab_pc.envs.task_env import TaskEnv
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.guards import Guard, NoStepGuard, SceneState, StepGuard
from isaaclab_pc.guards.step_guard import check_action
from isaaclab_pc.physics import monitor_contacts
from isaaclab_pc.physics.body_frames import keep_frames_on_their_bodies
from isaaclab_pc.physics.broadphase import fit_broadphase
from isaaclab_pc.physics.idle_threads import relax_thread_timers
from isaaclab_pc.physics.presets import prepare_for_device
from isaaclab_pc.sensors import PointCloud
from isaaclab_pc.sensors.appended_points import sphere_points
from isaaclab_pc.sensors.scene_cameras import depth_image, depth_limits

_JOINT_NOISE_STREAM = 0
TASK_STREAM = 100
"""First stream of keyed random numbers that a task may use."""


class PointCloudEnv(TaskEnv):
    """Base of every task, which implements the methods of :class:`~isaaclab_pc.envs.task_env.TaskEnv`.

    ``docs/architecture.md`` gives the order of a step.

    Observations are flat groups: ``policy`` (N, P) and ``critic`` (N, S), float32, and with ``obs=points`` also
    ``points`` (N, K, 3), with ``obs=depth`` also ``depth`` (N, 1, rows, columns). With ``obs=state``, ``policy`` is the
    privileged state. With a ``cfg.history_length`` H above 1 they are ``policy`` (N, H * P), ``points`` (N, H, K, 3)
    and ``depth`` (N, H, 1, rows, columns), the oldest frame first and the present one last.

    Actions are (N, A) in [-1, 1]: the arm's part (see :class:`ArmControl`), then, with ``gripper``, one command of the
    gripper.

    Valid where an environment is done in this step: :attr:`episode_success` and :attr:`episode_time_to_success`.
    """

    cfg: PointCloudEnvCfg

    _makes_final_observation = False
    """Whether the observation being made is the last one of the episodes that end in this step."""

    def __init__(self, cfg: PointCloudEnvCfg, render_mode: str | None = None, **kwargs: Any) -> None:
        """Build the simulation; arguments as for ``DirectRLEnv``.

        Raises:
            ConfigError: A choice is unknown, the point cloud does not fit the camera, or the task lacks something
                that ``cfg`` asks for.
        """
        cfg.check()
        cfg.deal()
        if cfg.goal_points > 0 and type(self)._goal is PointCloudEnv._goal:
            raise ConfigError(
                f"env.goal_points={cfg.goal_points}: {type(self).__name__} has no goal point to show. Set "
                "env.goal_points=0, or implement its _goal()."
            )
        cfg.action_space = arm_action_size(cfg) + int(cfg.gripper)
        remove_unused_sensors(cfg)
        randomize_sizes(cfg)
        extend_ground(cfg)
        prepare_for_device(cfg)
        keep_frames_on_their_bodies(cfg.sim.physics)
        with relax_thread_timers():
            super().__init__(cfg, render_mode, **kwargs)

    def _init_sim(self, render_mode: str | None = None, **kwargs: Any) -> None:
        if self.cfg.drawn:
            # Before the scene is cloned: on PhysX, only cameras have a model made of what the bodies look like.
            self.sim.render_context.clone_contexts.add("isaaclab_newton.cloner:NewtonReplicateContext")
            self.sim.requires_newton_model = True
            self.sim.require_visual_shapes()
        super()._init_sim(render_mode, **kwargs)

    # What Isaac Lab calls at the start.

    def _configure_gym_env_spaces(self) -> None:
        self._bind_scene()
        self._allocate()

        # The sizes of the spaces are those of an observation.
        observation = self._with_history(self._observe())
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
        # Refuses what a task says of more numbers than it returns.
        vector_quantities(self)

    def _bind_scene(self) -> None:
        self.robot: Articulation = self.scene["robot"]
        self.camera: Camera | None = self.scene["camera"] if self.cfg.scene.camera is not None else None
        self.point_cloud: PointCloud | None = self.scene["points"] if self.cfg.scene.points is not None else None
        check_arm(self.cfg, self.robot)
        self.standing_state = StandingState()
        """Where what is :func:`~isaaclab_pc.envs.kept.kept` stays, while nothing moves."""
        self.arm = ArmControl(self.cfg, self.robot, self.scene.env_origins)
        self.goal_sphere = sphere_points(self.cfg.goal_points, self.cfg.goal_radius).to(self.device)
        """Points that show the goal in a cloud, relative to it [m], shape (goal_points, 3)."""
        fit_broadphase(self.cfg.sim.physics)
        self.randomizer = Randomizer(self.cfg, self.scene, self.sim)
        self.episode_index = self.randomizer.episode_index
        """Number of the running episode since the last seeded reset, shape (N,): a key of all random draws."""

    def _allocate(self) -> None:
        n = self.num_envs
        self.actions = torch.zeros(n, self.cfg.action_space, device=self.device)
        """The actions of the last step, checked and clipped, shape (N, A); 0 after a reset."""
        self.history: ObservationHistory | None = None
        """The last frames of what the policy observes; None where that is the present one alone."""
        if self.cfg.history_length > 1:
            self.history = ObservationHistory(self.cfg.history_length, n, self.device)
        self.reward_terms: dict[str, torch.Tensor] = {}
        """The summands of the last step's reward by name, each (N,); 0 where the guard excluded the environment."""
        self.episode_tracker = EpisodeTracker(n, self.step_dt, self.device)
        self.episode_success = self.episode_tracker.success
        self.episode_time_to_success = self.episode_tracker.time_to_success

        self.guard = Guard(self.cfg.guard, n, self.device, type(self).__name__, allowed_actions=(-1.0, 1.0))
        self.scene_state = SceneState(self.guard, self.scene)
        self.step_guard = StepGuard(self, self.guard, self.scene_state) if self.guard.enabled else NoStepGuard()
        self.contact_monitor = monitor_contacts(self.cfg.sim.physics)
        if self.point_cloud is not None:
            self.point_cloud.reseed(self.randomizer.seed)

    # A step, in its order.

    def step(self, action: torch.Tensor) -> Any:
        """Step all environments, as ``DirectRLEnv``, with actions (N, A) of any real dtype, on any device.

        Raises:
            TypeError: The action is no tensor of real numbers.
            ValueError: It has another shape.
        """
        check_action(action, (self.num_envs, arm_action_size(self.cfg) + int(self.cfg.gripper)))
        try:
            return super().step(action)
        finally:
            # If something was raised between terminations and rewards.
            self.standing_state.end()

    def _pre_physics_step(self, actions: torch.Tensor) -> None:
        actions = self.step_guard.begin_step(actions)
        self.actions = actions.detach().to(torch.float32).clamp(-1.0, 1.0)

        arm_action = self.actions[:, : arm_action_size(self.cfg)]
        position, velocity = self.arm.command(arm_action, self.step_dt)
        command = self.robot.actuators.target_command
        command.set_position_index(value=position, joint_ids=self.arm.joints)
        command.set_velocity_index(value=velocity, joint_ids=self.arm.joints)

        if self.cfg.gripper:
            is_binary = self.cfg.gripper_action == "binary"
            fingers = finger_targets(self.actions[:, -1:], self.arm.finger_limits, is_binary)
            command.set_position_index(value=fingers, joint_ids=self.arm.fingers)

    def _apply_action(self) -> None:
        """Do nothing: the targets set before a step's first physics step hold for the others."""

    def _get_dones(self) -> tuple[torch.Tensor, torch.Tensor]:
        if self.contact_monitor is not None:
            self.contact_monitor.update()
        self.step_guard.check_state()
        # Nothing moves until the rewards are known.
        self.standing_state.begin()

        failed = terminated = self._of_each_env("_failure", self._failure())
        truncated = (self.episode_length_buf >= self.max_episode_length).masked_fill(terminated, False)
        guarded = self.step_guard.check_dones(terminated, truncated)
        if guarded is not None:
            terminated, truncated, failed = guarded
        self.episode_tracker.record_step(self.is_fulfilled().masked_fill(failed, False))
        return terminated, truncated

    def _get_rewards(self) -> torch.Tensor:
        if self.cfg.reward == "sparse":
            terms = {"success": self.episode_tracker.fulfilled.float()}
        else:
            terms = self._reward_terms()
        self.standing_state.end()
        values = torch.stack(list(terms.values()))
        reward = self._of_each_env("_reward_terms", values.sum(0))

        excluded = self.step_guard.check_reward(reward)
        if excluded is not None:
            values = values.masked_fill(excluded, 0.0)
        self.reward_terms = dict(zip(terms, values, strict=True))
        self.episode_tracker.add_rewards(tuple(terms), values)
        return reward

    def _reset_envs_from_buffer(self) -> torch.Tensor | None:
        # With cfg.compute_final_obs, Isaac Lab asks for an observation here, before the resets.
        self._makes_final_observation = True
        try:
            return super()._reset_envs_from_buffer()
        finally:
            self._makes_final_observation = False

    def _reset_idx(self, env_ids: Sequence[int] | torch.Tensor) -> None:
        ids = torch.as_tensor(env_ids, device=self.device)
        if ids.dim() == 1 and len(ids) == 0:
            return
        if ids.dim() != 1 or ids.is_floating_point() or ids.dtype == torch.bool:
            raise ValueError(f"env_ids are {ids.dtype} of shape {tuple(ids.shape)}, expected indices of shape (M,).")
        ids = ids.long()
        self.episode_tracker.finish(ids, self.guard.benched)
        super()._reset_idx(ids.int())  # pyright: ignore[reportArgumentType]  # its callers pass tensors too

        # Everything that is drawn below belongs to the new episode.
        self.episode_index[ids] += 1
        self.step_guard.on_reset(ids)
        self.actions.index_fill_(0, ids, 0.0)
        if self.history is not None:
            self.history.reset(ids)
        self.randomizer.reset(ids)
        self._reset_robot(ids)
        self._reset_task(ids)

    def _reset_robot(self, ids: torch.Tensor) -> None:
        position = self.robot.data.default_joint_pos.torch[ids].clone()
        joints = self.arm.joints
        limits = self.arm.limits[ids]
        bound = [self.cfg.reset_joint_noise] * len(joints)
        noisy = position[:, joints] + self.uniform(ids, _JOINT_NOISE_STREAM, [-b for b in bound], bound)
        position[:, joints] = noisy.clamp(limits[..., 0], limits[..., 1])

        velocity = torch.zeros_like(position)
        env_ids = ids.int()
        self.robot.write_joint_position_to_sim_index(position=position, env_ids=env_ids)
        self.robot.write_joint_velocity_to_sim_index(velocity=velocity, env_ids=env_ids)
        self.robot.actuators.target_command.set_position_index(value=position, env_ids=env_ids)
        self.robot.actuators.target_command.set_velocity_index(value=velocity, env_ids=env_ids)

    def _get_observations(self) -> dict[str, torch.Tensor]:
        with self.standing_state.still():
            observation = self._observe()
        self._handle_bad_observations(observation)
        # A step ends once, with the observation that it returns.
        if not self._makes_final_observation:
            self.step_guard.end_step()
            self._log()
        return self._with_history(observation)

    def _with_history(self, frame: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Return an observation: its frame, with those of the episode's last steps where the policy reads them."""
        if self.history is None:
            return frame
        # The same step makes another frame, after the resets.
        return self.history.with_last(frame) if self._makes_final_observation else self.history.append(frame)

    def _handle_bad_observations(self, observation: dict[str, torch.Tensor]) -> None:
        found = self.step_guard.check_observations(observation)
        if found is None:
            return

        hidden, ended = found
        for value in observation.values():
            value.masked_fill_(hidden.view(-1, *[1] * (value.dim() - 1)), 0.0)

        # Before the first step there is no reward, and no episode that could end.
        if self.common_step_counter > 0:
            # If the episode had already ended in this step, its result stands, and what came after its reset is no part
            # of it.
            ended_now = ended.masked_fill(self.reset_buf, False)
            self.episode_tracker.mark_failed(ended_now)
            ends = ended if self._makes_final_observation else ended_now
            self.step_guard.end_by_observation(ends, self.reward_buf, self.reset_terminated, self.reset_time_outs)
        self.step_guard.reset_later(ended)

    def _observe(self) -> dict[str, torch.Tensor]:
        proprioception = torch.cat([self.arm_state.observed, self.actions, self._task_proprioception()], dim=1)
        state = torch.cat([proprioception, self._task_state()], dim=1)
        if self.cfg.obs == "state":
            return {"policy": state, "critic": state.clone()}
        visual = self.observe_points() if self.cfg.obs == "points" else self._observe_depth()
        return {"policy": proprioception, self.cfg.obs: visual, "critic": state}

    def observe_points(self) -> torch.Tensor:
        """Return the cloud of now, shape (N, K, 3) or with its further features, in ``cfg.scene.points.frame``."""
        cloud = self.point_cloud
        assert cloud is not None
        if self.cfg.goal_points > 0:
            goal = self._goal()
            assert goal is not None
            cloud.given["goal"][:] = (goal + self.scene.env_origins)[:, None] + self.goal_sphere
        depths = {} if cloud.casts_rays else self._checked_depth(cloud.cfg.cameras)
        return cloud.points_of(depths).clone()

    def _observe_depth(self) -> torch.Tensor:
        """Return planar depth [m], shape (N, 1, rows, columns); 0 nearer than the clipping range and for misses."""
        assert self.camera is not None
        depth = self._checked_depth(["camera"])["camera"]
        near, _ = depth_limits(self.camera)
        seen = (depth > near) & (depth <= self.cfg.max_depth)
        return torch.where(seen, depth, 0.0).unsqueeze(1)

    def _checked_depth(self, cameras: Sequence[str]) -> dict[str, torch.Tensor]:
        sensors: Any = self.scene.sensors
        return self.step_guard.check_depth({name: depth_image(sensors[name]) for name in cameras})

    def _log(self) -> None:
        log = self.episode_tracker.metrics(self.max_episode_length_s)
        log |= self.step_guard.log()
        if self.contact_monitor is not None:
            log["Physics/contacts_used_share"] = self.contact_monitor.share()
        self.extras["log"] = log

    # Beside a step.

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[dict, dict]:
        """Reset every environment; a seed also restarts the episode indices that key the randomness."""
        self.step_guard.before_reset_all()
        if seed is not None:
            self._key_draws(seed, 0)
        return super().reset(seed=seed, options=options)

    @contextmanager
    def training_set_aside(self) -> Iterator[None]:
        """Let other episodes run in the middle of a training, such as those of an evaluation.

        Afterwards all environments start the episodes that the training would have come to next, and the metrics are
        those of its own episodes. The guard's counts stay, and benched environments get a new chance.
        """
        seed = self.randomizer.seed
        state = self.training_state()
        results = copy.deepcopy(self.episode_tracker)
        yield

        self.randomizer.seed = seed
        self.resume_training(state)
        # After the reset, which finishes the episodes that were still running.
        self.episode_tracker.take_results(results)

    def training_state(self) -> dict[str, Any]:
        """Return what a training goes on with that no reset makes anew; :meth:`resume_training` takes it."""
        return {"steps": int(self.common_step_counter), "episodes": self.episode_index.clone()}

    def resume_training(self, state: Mapping[str, Any]) -> None:
        """Go on where :meth:`training_state` left a training, here or in another process: with its next episodes.

        Another number of environments numbers its episodes on from the highest.
        """
        episodes = state["episodes"].to(self.device)
        self._key_draws(self.randomizer.seed, episodes if len(episodes) == self.num_envs else int(episodes.max()))
        self.common_step_counter = operator.index(state["steps"])
        self.reset()

    def _key_draws(self, seed: int, episode: torch.Tensor | int) -> None:
        """Let all draws depend on a seed and on the numbers of the running episodes, shape (N,) or one for all."""
        self.randomizer.seed = seed
        self.episode_index[:] = episode
        if self.point_cloud is not None:
            self.point_cloud.reseed(seed, episode)
