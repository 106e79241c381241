# SPDX-License-Identifier: BSD-3-Clause
"""RSL-RL behind the runner protocol."""

import copy
import importlib.metadata
import math
import statistics
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from isaaclab.utils import to_dict
from isaaclab_rl.rsl_rl import RslRlVecEnvWrapper, handle_deprecated_rsl_rl_cfg
from rsl_rl.env import VecEnv
from rsl_rl.runners import OnPolicyRunner
from rsl_rl.utils.logger import Logger
from tensordict import TensorDict
from torch import Tensor
from torch.utils.tensorboard import SummaryWriter

from isaaclab_pc.agents.ppo import obs_groups
from isaaclab_pc.runners.base import Decision, EpisodeLog, OnIteration, StopTraining, facts, quiet, success_rate
from isaaclab_pc.runners.checkpoint_file import (
    check_header,
    check_weights,
    load_checkpoint,
    read_extra,
    rng_state,
    save_checkpoint,
    set_rng_state,
)
from isaaclab_pc.runners.tripwire import Tripwire

if TYPE_CHECKING:
    from isaaclab_pc.agents.rsl_rl_cfg import PpoRunnerCfg
    from isaaclab_pc.scaling import BatchPlan

__all__ = ["RslRlRunner", "agent_entry_point", "batch_target", "configure", "make", "max_iterations"]

NAME = "rsl_rl"
_STATE_KEYS = ("algorithm", "rng", "iteration", "total_steps", "total_s")


def agent_entry_point(agent: str) -> str:
    """Return the key under which ``gym.register`` holds the configuration of an agent, ``default`` or ``large``."""
    return "rsl_rl_cfg_entry_point" if agent == "default" else f"rsl_rl_{agent}_cfg_entry_point"


def batch_target(agent_cfg: "PpoRunnerCfg") -> tuple[int, int]:
    """Return the samples per update and the minibatch size that the configuration asks for."""
    # A task of Isaac Lab's own has no target: keep what its steps make at the usual number of environments.
    samples = getattr(agent_cfg, "samples_per_update", agent_cfg.num_steps_per_env * 4096)
    return samples, max(1, samples // agent_cfg.algorithm.num_mini_batches)


def max_iterations(agent_cfg: "PpoRunnerCfg") -> int:
    """Return the iterations of a whole run."""
    return agent_cfg.max_iterations


def configure(
    agent_cfg: "PpoRunnerCfg",
    *,
    obs: str,
    seed: int,
    max_iterations: int | None,
    device: str,
    plan: "BatchPlan | None",
    experiment: str,
) -> None:
    """Write a run's settings into the configuration.

    Args:
        agent_cfg: The configuration to change.
        obs: What the policy sees: points, depth or state.
        seed: Seed of the run.
        max_iterations: Iterations of the whole run; None keeps the configured ones.
        device: Where the networks live.
        plan: Horizon and minibatches; None keeps the configured ones.
        experiment: Name of the experiment.
    """
    agent_cfg.seed = seed
    agent_cfg.device = device
    agent_cfg.experiment_name = experiment
    if hasattr(agent_cfg, "samples_per_update"):
        agent_cfg.obs_groups = {**agent_cfg.obs_groups, "actor": obs_groups(obs)}
    if max_iterations is not None:
        agent_cfg.max_iterations = max_iterations
    if plan is not None:
        agent_cfg.num_steps_per_env = plan.horizon
        agent_cfg.algorithm.num_mini_batches = plan.num_minibatches


def make(env: Any, agent_cfg: "PpoRunnerCfg", run_dir: Path, device: str) -> "RslRlRunner":
    """Build the runner; the arguments are those of :func:`isaaclab_pc.runners.make_runner`."""
    return RslRlRunner(env, agent_cfg, run_dir, device)


class RslRlRunner:
    """RSL-RL's PPO. Implements :class:`~isaaclab_pc.runners.base.Runner`."""

    def __init__(self, env: Any, agent_cfg: "PpoRunnerCfg", run_dir: Path, device: str) -> None:
        """Build networks and storage; see :func:`isaaclab_pc.runners.make_runner` for the arguments."""
        version = importlib.metadata.version("rsl-rl-lib")
        cfg = to_dict(handle_deprecated_rsl_rl_cfg(copy.deepcopy(agent_cfg), version))
        # It waits for the device once a tensor and step, misses inf, and ends the run for a single environment's NaN.
        cfg["check_for_nan"] = False
        self.completed_iterations = 0
        self._env = env if isinstance(env, VecEnv) else _Env(env, clip_actions=agent_cfg.clip_actions)
        self._device = device
        self._stagger = agent_cfg.init_at_random_ep_len
        with quiet():
            self._library = _Library(self._env, cfg, str(run_dir), device)
        alg = self._library.alg
        self._tripwire = Tripwire(alg.optimizer, [alg.actor, alg.critic])
        self._library.logger.end_iteration = self._tripwire.end_iteration
        groups = {name for names in self._library.cfg["obs_groups"].values() for name in names}
        shapes = {name: tensor.shape[1:] for name, tensor in self._env.get_observations().items() if name in groups}
        self._facts = facts(NAME, shapes, self._env.num_actions)

    def train(self, max_iterations: int, on_iteration: OnIteration) -> None:
        """Train; see :meth:`~isaaclab_pc.runners.base.Runner.train`."""
        remaining = max_iterations - self.completed_iterations
        if remaining <= 0:
            return

        def after(metrics: Mapping[str, float]) -> None:
            self.completed_iterations += 1
            if on_iteration(self.completed_iterations, metrics) is Decision.STOP:
                raise StopTraining

        self._tripwire.remember()
        self._library.current_learning_iteration = self.completed_iterations
        self._library.logger.after_iteration = after
        try:
            self._library.learn(remaining, init_at_random_ep_len=self._stagger)
        except StopTraining:
            pass
        finally:
            self._library.logger.close()

    def save(self, path: Path, extra: Mapping[str, Any]) -> None:
        """Write a checkpoint; see :meth:`~isaaclab_pc.runners.base.Runner.save`."""
        logger = self._library.logger
        state = {
            "algorithm": self._library.alg.save(),
            "rng": rng_state(self._device),
            "iteration": self.completed_iterations,
            "total_steps": logger.tot_timesteps,
            "total_s": logger.tot_time,
        }
        save_checkpoint(path, state, {**extra, **self._facts, "iteration": self.completed_iterations})

    def load(self, path: Path, expected: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Take over a checkpoint; see :meth:`~isaaclab_pc.runners.base.Runner.load`."""
        check_header(read_extra(path), {**(expected or {}), **self._facts}, path)
        state, header = load_checkpoint(path, self._device, _STATE_KEYS)
        networks = {key: value for key, value in self._library.alg.save().items() if "optimizer" not in key}
        check_weights(path, networks, state.get("algorithm"))
        self._library.alg.load(state["algorithm"], None, strict=True)
        self._library.logger.tot_timesteps = state["total_steps"]
        self._library.logger.tot_time = state["total_s"]
        self.completed_iterations = state["iteration"]
        set_rng_state(state["rng"], self._device)
        return header

    def act(self, obs: Mapping[str, Tensor]) -> Tensor:
        """Compute deterministic actions; see :meth:`~isaaclab_pc.runners.base.Runner.act`."""
        with torch.no_grad():
            batch = TensorDict(dict(obs), batch_size=[self._env.num_envs]).to(self._device)
            return self._library.alg.get_policy()(batch)

    def holders(self) -> Mapping[str, Any]:
        """Return what holds tensors; see :meth:`~isaaclab_pc.runners.base.Runner.holders`."""
        alg = self._library.alg
        return {
            "rollout storage": alg.storage,
            "network weights": [alg.actor, alg.critic],
            "optimizer": alg.optimizer.state,
        }


class _Env(RslRlVecEnvWrapper):
    """Keeps RSL-RL's inference mode out of the environment.

    Tensors made in that mode must not be written to outside of it, so whoever stepped the environment after the
    training, to evaluate or to reset it, would fail.
    """

    def step(self, actions: Tensor) -> tuple[TensorDict, Tensor, Tensor, dict]:
        """Step the environment on ordinary tensors."""
        with torch.inference_mode(False), torch.no_grad():
            return super().step(actions.clone())


class _Library(OnPolicyRunner):
    """RSL-RL's own loop, with our logger and without its checkpoints."""

    logger: "_Logger"

    def __init__(self, env: VecEnv, train_cfg: dict, log_dir: str, device: str) -> None:
        super().__init__(env, train_cfg, log_dir, device)
        self.logger = _Logger(
            log_dir=log_dir,
            cfg=self.cfg,
            env_cfg=env.cfg,
            num_envs=env.num_envs,
            is_distributed=self.is_distributed,
            gpu_world_size=self.gpu_world_size,
            gpu_global_rank=self.gpu_global_rank,
            device=device,
        )

    def save(self, path: str, infos: dict | None = None) -> None:
        """Write nothing: the workflow decides when and where."""


class _Logger(Logger):
    """Writes what RSL-RL writes, prints nothing, and reports each iteration's metrics."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.env_log = EpisodeLog()
        self.end_iteration: Callable[[], dict[str, float]] = dict
        self.after_iteration = lambda metrics: None

    def process_env_step(
        self, rewards: Tensor, dones: Tensor, extras: dict, intrinsic_rewards: Tensor | None = None
    ) -> None:
        """Keep what the environment logged in this step."""
        if "log" in extras:
            self.env_log.add(extras["log"])
        # RSL-RL averages NaN, too: its own copy of the log is left out and written below.
        rest = {key: value for key, value in extras.items() if key != "log"}
        super().process_env_step(rewards, dones, rest, intrinsic_rewards)

    def log(self, it: int, *, collect_time: float, learn_time: float, **kwargs: Any) -> None:  # type: ignore[override]
        """Write the iteration to TensorBoard and report it."""
        with quiet():
            super().log(it=it, collect_time=collect_time, learn_time=learn_time, **kwargs)
        env_log = {**self.env_log.flush(), **self.end_iteration()}
        if self.writer is not None:
            for key, value in env_log.items():
                if math.isfinite(value):
                    self.writer.add_scalar(key, value, it)
        steps = self.cfg["num_steps_per_env"] * self.num_envs * self.gpu_world_size
        self.after_iteration(
            {
                **env_log,
                "mean_reward": statistics.mean(self.rewbuffer) if self.rewbuffer else math.nan,
                "mean_episode_length": statistics.mean(self.lenbuffer) if self.lenbuffer else math.nan,
                "success_rate": success_rate(env_log),
                "collect_s": collect_time,
                "learn_s": learn_time,
                "env_steps_per_s": steps / (collect_time + learn_time),
                "learning_rate": float(kwargs["learning_rate"]),
                "action_std": float(kwargs["action_std"].detach().mean()),
                **{f"loss/{name}": float(value) for name, value in kwargs["loss_dict"].items()},
            }
        )

    def _store_code_state(self) -> list[str]:
        """Leave the commit to the run's own record."""
        return []

    def close(self) -> None:
        """Flush what is written."""
        self.stop_logging_writer()
        if isinstance(self.writer, SummaryWriter):
            self.writer.close()
