# SPDX-License-Identifier: BSD-3-Clause
"""RSL-RL as a learning library of this package."""

import contextlib
import copy
import importlib.metadata
import io
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, override

import torch
from isaaclab.utils import to_dict
from isaaclab_rl.rsl_rl import RslRlOnPolicyRunnerCfg, RslRlVecEnvWrapper, handle_deprecated_rsl_rl_cfg
from rsl_rl.algorithms import Distillation
from rsl_rl.env import VecEnv
from rsl_rl.runners import OnPolicyRunner
from tensordict import TensorDict
from torch import Tensor, nn

from isaaclab_pc.agents.networks import State
from isaaclab_pc.agents.observation_groups import policy_groups
from isaaclab_pc.learners.common.interface import Adapter, AfterIteration, LearnerOptions, Runner, checkpoint_identity
from isaaclab_pc.learners.common.iteration_metrics import (
    EnvClock,
    EpisodeStats,
    IterationLog,
    iteration_metrics,
    write_metrics,
)
from isaaclab_pc.learners.common.policy_protocols import ActsFromState
from isaaclab_pc.learners.common.shared import USUAL_NUM_ENVS, StopTraining, log_writer, tensor_cores
from isaaclab_pc.learners.common.tripwire import Tripwire, end_iteration
from isaaclab_pc.learners.rsl_rl.replay import num_steps_of
from isaaclab_pc.tensors.distributed import world_rank, world_size

_STEPS_BESIDE_DEMOS = 16
"""Steps of each environment per iteration where nothing is learned from them: they show the success."""


class RslRlRunner(Runner):
    """RSL-RL's PPO, and this package's algorithms behind its runner."""

    def __init__(self, env: Any, agent_cfg: RslRlOnPolicyRunnerCfg, run_dir: Path, device: str) -> None:
        """Build networks and storage; see :meth:`~isaaclab_pc.learners.Adapter.make`."""
        version = importlib.metadata.version("rsl-rl-lib")
        cfg = to_dict(handle_deprecated_rsl_rl_cfg(copy.deepcopy(agent_cfg), version))
        # RSL-RL's check waits for the device at every tensor and step, lets inf pass, and ends the whole run for NaN in
        # a single environment.
        cfg["check_for_nan"] = False

        super().__init__(run_dir, device)
        self._env = env if isinstance(env, VecEnv) else _Env(env, clip_actions=agent_cfg.clip_actions)
        self._random_first_length = agent_cfg.init_at_random_ep_len
        # It prints its networks.
        with contextlib.redirect_stdout(io.StringIO()):
            self._library = _Library(self._env, cfg, device)

        alg: Any = self._library.alg
        model: Any = alg.get_policy()
        self._memory = model if model.is_recurrent else None
        # The model samples only when it is told to, and reads nothing of a TensorDict but its items.
        self._policy = model
        if agent_cfg.clip_actions is not None:
            kind = _ClippedFromState if isinstance(model, ActsFromState) else _Clipped
            self._policy = kind(model, agent_cfg.clip_actions)
        self._tripwires = [Tripwire(alg.optimizer, _networks(alg))]
        if getattr(alg, "rnd", None) is not None:
            self._tripwires.append(Tripwire(alg.rnd.optimizer, [alg.rnd]))
        self._library.logger.tripwires = self._tripwires

        sets = self._library.cfg["obs_groups"]
        # A student is no other for having had another teacher.
        groups = {name for key, names in sets.items() if key != "teacher" for name in names}
        shapes = {name: tensor.shape[1:] for name, tensor in self._env.get_observations().items() if name in groups}
        algorithm = "distill" if isinstance(alg, Distillation) else "ppo"
        identity = checkpoint_identity(ADAPTER.name, shapes, self._env.num_actions)
        self._identity = {**identity, "algorithm": algorithm}

    @override
    def _train(self, max_iterations: int, after_iteration: AfterIteration) -> None:
        # Algorithms load their policies here. Since the last training, a checkpoint may have been loaded, or other
        # episodes run.
        self._library.alg.train_mode()
        for tripwire in self._tripwires:
            tripwire.keep_buffers()
        self._library.forget_episodes()
        self._library.current_learning_iteration = self.completed_iterations

        remaining = max_iterations - self.completed_iterations
        with log_writer(self._run_dir) as writer, contextlib.suppress(StopTraining):

            def report(metrics: dict[str, float]) -> None:
                write_metrics(writer, metrics, self.completed_iterations)
                if after_iteration(metrics):
                    raise StopTraining

            self._library.logger.report = report
            self._library.learn(remaining, init_at_random_ep_len=self._random_first_length)

    @override
    def holders(self) -> Mapping[str, Any]:
        alg: Any = self._library.alg
        kept = {"replay": alg.replay} if hasattr(alg, "replay") else {"rollout storage": alg.storage}
        return {**kept, "network weights": _networks(alg), "optimizer": alg.optimizer.state}

    @override
    def _library_state(self) -> dict[str, Any]:
        return {"algorithm": self._library.alg.save()}

    @override
    def _restore_library(self, state: Mapping[str, Any]) -> None:
        self._library.alg.load(state["algorithm"], None, strict=True)

    @override
    def _networks(self) -> dict[str, Any]:
        return {key: value for key, value in self._library.alg.save().items() if "optimizer" not in key}

    @override
    def _acting_modules(self) -> dict[str, nn.Module]:
        name = "student_state_dict" if isinstance(self._library.alg, Distillation) else "actor_state_dict"
        return {name: self._library.alg.get_policy()}


class RslRlAdapter(Adapter):
    """Adapter of RSL-RL."""

    name = "rsl_rl"
    make = RslRlRunner
    learning_rate_key = "agent.algorithm.learning_rate"

    @override
    def batch_target(self, agent_cfg: RslRlOnPolicyRunnerCfg) -> tuple[int, int]:
        # A task of another package: the samples of its usual environments.
        samples = getattr(agent_cfg, "samples_per_update", agent_cfg.num_steps_per_env * USUAL_NUM_ENVS)
        return samples, max(1, samples // agent_cfg.algorithm.num_mini_batches)

    @override
    def configure(self, agent_cfg: Any, options: LearnerOptions) -> None:
        agent_cfg.seed = options.seed
        agent_cfg.device = options.device

        if options.obs is not None:
            learner = "student" if hasattr(agent_cfg, "student") else "actor"
            agent_cfg.obs_groups = {**agent_cfg.obs_groups, learner: policy_groups(options.obs)}
        if options.max_iterations is not None:
            agent_cfg.max_iterations = options.max_iterations
        if options.plan is not None:
            agent_cfg.num_steps_per_env = options.plan.horizon
            agent_cfg.algorithm.num_mini_batches = options.plan.num_minibatches

        if options.init is not None:
            agent_cfg.algorithm.checkpoint = str(options.init)
        if options.demos is not None:
            agent_cfg.algorithm.demos = str(options.demos)
            agent_cfg.algorithm.replay_samples = num_steps_of(options.demos)
        if options.replay_samples is not None:
            agent_cfg.algorithm.replay_samples = options.replay_samples
        if options.teacher is not None:
            taught = options.teacher.agent_cfg
            agent_cfg.teacher = taught.student if hasattr(taught, "student") else taught.actor
            agent_cfg.teacher_checkpoint = str(options.teacher.checkpoint)
            # A policy with obs=state sees the critic's group.
            agent_cfg.obs_groups = {**agent_cfg.obs_groups, "teacher": ["critic"]}

    @override
    def replay_samples(self, agent_cfg: Any) -> int:
        return getattr(agent_cfg.algorithm, "replay_samples", 0)

    @override
    def max_iterations(self, agent_cfg: RslRlOnPolicyRunnerCfg) -> int:
        return agent_cfg.max_iterations


ADAPTER: Adapter = RslRlAdapter()


def _networks(alg: Any) -> list[Any]:
    return [alg.student, alg.teacher] if isinstance(alg, Distillation) else [alg.actor, alg.critic]


class _Clipped(nn.Module):
    """Clips the actions of a model, as RSL-RL's wrapper of the environment does."""

    def __init__(self, model: Any, limit: float) -> None:
        super().__init__()
        self.model = model
        self.limit = limit

    def forward(self, obs: Mapping[str, Tensor]) -> Tensor:
        return self.model(obs).clamp(-self.limit, self.limit)


class _ClippedFromState(_Clipped):
    """The same of one that keeps :class:`~isaaclab_pc.learners.common.policy_protocols.ActsFromState`."""

    def initial_state(self, batch: int) -> State:
        return self.model.initial_state(batch)

    def act_from(self, obs: Mapping[str, Tensor], state: State) -> tuple[Tensor, State]:
        actions, after = self.model.act_from(obs, state)
        return actions.clamp(-self.limit, self.limit), after


class _Env(RslRlVecEnvWrapper):
    """Keeps RSL-RL's inference mode out of the environment: outside of it nobody can write to that mode's tensors."""

    def step(self, actions: Tensor) -> tuple[TensorDict, Tensor, Tensor, dict]:
        with torch.inference_mode(False), torch.no_grad():
            return super().step(actions.clone())


class _Library(OnPolicyRunner):
    """RSL-RL's own loop, with our logger and without its checkpoints."""

    logger: Any

    def __init__(self, env: VecEnv, train_cfg: dict, device: str) -> None:
        super().__init__(env, train_cfg, device=device)
        alg: Any = self.alg
        alg.act = tensor_cores()(alg.act)
        alg.compute_returns = tensor_cores()(alg.compute_returns)
        alg.update = tensor_cores()(alg.update)
        curiosity = getattr(alg, "rnd", None)
        if curiosity is not None:
            # Statistics that the rollout made in inference mode could not be restored when an update is skipped.
            reward = torch.no_grad()(curiosity.get_intrinsic_reward)
            curiosity.get_intrinsic_reward = torch.inference_mode(False)(reward)

        if getattr(alg, "demos", None) is not None:
            self.cfg["num_steps_per_env"] = _STEPS_BESIDE_DEMOS
        self.logger = _Logger(env.num_envs, self.cfg["num_steps_per_env"], device)
        stepped: Any = env
        stepped.step = self.logger.env_clock(env.step)

    def _configure_multi_gpu(self) -> None:
        """Take part in the process group that is there; RSL-RL would make one of its own, with NCCL."""
        self.gpu_world_size = world_size()
        self.gpu_global_rank = world_rank()
        # RSL-RL reads it only with the device, which is chosen already.
        self.gpu_local_rank = 0
        self.is_distributed = self.gpu_world_size > 1
        ranks = {"global_rank": self.gpu_global_rank, "local_rank": 0, "world_size": self.gpu_world_size}
        self.cfg["multi_gpu"] = ranks if self.is_distributed else None

    def forget_episodes(self) -> None:
        """Start new episodes: in the sums of their rewards and steps, and in the memory of a recurrent policy."""
        self.logger.episodes.forget_running()
        for network in _networks(self.alg):
            network.reset()
        # Where nothing is remembered yet, RSL-RL would keep what was at the first step of the last rollout.
        self.alg.storage.saved_hidden_state_a = None
        self.alg.storage.saved_hidden_state_c = None


class _Logger:
    """Takes the place of RSL-RL's logger, and hands on the metrics of each iteration."""

    writer = None
    """RSL-RL saves checkpoints where its logger writes; here the callback does."""

    def __init__(self, num_envs: int, horizon: int, device: str) -> None:
        self.env_log = IterationLog()
        self.env_clock = EnvClock()
        self.episodes = EpisodeStats(num_envs, device)
        self._env_steps = num_envs * horizon
        self._device = device

        # From the runner.
        self.tripwires: list[Tripwire] = []
        self.report: Callable[[dict[str, float]], object] = lambda metrics: None

    def init_logging_writer(self) -> None:
        """Open nothing: the runner has opened the log."""

    def process_env_step(
        self, rewards: Tensor, dones: Tensor, extras: dict, intrinsic_rewards: Tensor | None = None
    ) -> None:
        self.env_log.add_extras(extras)
        self.episodes.add(rewards if intrinsic_rewards is None else rewards + intrinsic_rewards, dones > 0)

    def log(self, *, collect_time: float, learn_time: float, **measured: Any) -> None:
        metrics = iteration_metrics(
            {**self.env_log.take_means(), **end_iteration(self.tripwires)},
            *self.episodes.means(),
            env_steps=self._env_steps,
            env_s=self.env_clock.take(),
            collect_s=collect_time,
            learn_s=learn_time,
            of_update={
                "learning_rate": float(measured["learning_rate"]),
                "action_std": float(measured["action_std"].detach().mean()),
                **{f"loss/{name}": float(value) for name, value in measured["loss_dict"].items()},
            },
            device=self._device,
        )
        self.report(metrics)
