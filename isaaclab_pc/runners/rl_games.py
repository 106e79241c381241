# SPDX-License-Identifier: BSD-3-Clause
"""RL-Games behind the runner protocol.

Where a hyperparameter does something else than with RSL-RL, it is made to do the same: minibatches are random, the KL
divergence is measured against the policy that acted, and the gradients of actor and critic are clipped apart.
"""

import contextlib
import copy
import importlib.util
import math
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium
import torch
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

if importlib.util.find_spec("gym") is None:
    # isaaclab_rl asks for the package that gymnasium replaced; it uses the spaces only, which are the same.
    sys.modules["gym"] = gymnasium
    sys.modules["gym.spaces"] = gymnasium.spaces

from isaaclab_rl.rl_games import RlGamesVecEnvWrapper
from rl_games.algos_torch.a2c_continuous import A2CAgent
from rl_games.algos_torch.torch_ext import mean_list
from rl_games.common.algo_observer import AlgoObserver
from rl_games.common.datasets import PPODataset
from rl_games.common.ivecenv import IVecEnv
from rl_games.common.schedulers import AdaptiveScheduler
from rl_games.common.tr_helpers import DefaultRewardsShaper

from isaaclab_pc.agents import rl_games_network

if TYPE_CHECKING:
    from isaaclab_pc.scaling import BatchPlan

__all__ = ["RlGamesRunner", "agent_entry_point", "batch_target", "configure", "make", "max_iterations"]

NAME = "rl_games"
_STATE_KEYS = ("algorithm", "rng", "iteration")
MIN_LEARNING_RATE = 1e-5
"""Lower end of the adaptive schedule; RSL-RL's."""


def agent_entry_point(agent: str) -> str:
    """Return the key under which ``gym.register`` holds the configuration of an agent, ``default`` or ``large``."""
    return "rl_games_cfg_entry_point" if agent == "default" else f"rl_games_{agent}_cfg_entry_point"


def batch_target(agent_cfg: Mapping[str, Any]) -> tuple[int, int]:
    """Return the samples per update and the minibatch size that the configuration asks for."""
    config = agent_cfg["params"]["config"]
    if "samples_per_update" in config:
        return config["samples_per_update"], max(1, config["samples_per_update"] // config["num_minibatches"])
    # A task of Isaac Lab's own has no target: keep what its steps make at the usual number of environments.
    samples = config["horizon_length"] * 4096
    return samples, config.get("minibatch_size", config.get("minibatch_size_per_env", 1) * 4096)


def max_iterations(agent_cfg: Mapping[str, Any]) -> int:
    """Return the iterations of a whole run."""
    return agent_cfg["params"]["config"]["max_epochs"]


def configure(
    agent_cfg: dict[str, Any],
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
    params = agent_cfg["params"]
    config = params["config"]
    params["seed"] = seed
    config.update(device=device, device_name=device, name=experiment)
    if params["network"]["name"] == rl_games_network.NETWORK:
        params["network"]["actor"] = obs_groups(obs)
        params["env"]["obs_groups"] = {"obs": [*obs_groups(obs), "critic"], "states": []}
    if max_iterations is not None:
        config["max_epochs"] = max_iterations
    if plan is not None:
        config.update(horizon_length=plan.horizon, minibatch_size=plan.minibatch_size)


def make(env: Any, agent_cfg: Mapping[str, Any], run_dir: Path, device: str) -> "RlGamesRunner":
    """Build the runner; the arguments are those of :func:`isaaclab_pc.runners.make_runner`."""
    return RlGamesRunner(env, agent_cfg, run_dir, device)


class RlGamesRunner:
    """RL-Games' PPO. Implements :class:`~isaaclab_pc.runners.base.Runner`."""

    def __init__(self, env: Any, agent_cfg: Mapping[str, Any], run_dir: Path, device: str) -> None:
        """Build networks and storage; see :func:`isaaclab_pc.runners.make_runner` for the arguments."""
        rl_games_network.register()
        self.completed_iterations = 0
        self._device = device
        params = copy.deepcopy(agent_cfg["params"])
        params["config"].update(device=device, device_name=device)
        vec_env = env if isinstance(env, IVecEnv) else RlGamesVecEnvWrapper.from_agent_cfg(env, {"params": params})
        self._run_dir = run_dir
        # RL-Games makes folders and opens its log at once, but a policy that only plays has nothing to log.
        with quiet(), tempfile.TemporaryDirectory() as scratch:
            params["config"].update(_library_settings(vec_env, params["config"], scratch))
            self._agent = _Agent("run", params)
            self._agent.writer.close()
        space = self._agent.observation_space
        self._concatenate = not isinstance(space, gymnasium.spaces.Dict)
        self._groups = list((params["env"].get("obs_groups") or {"obs": ["policy"]})["obs"])
        shapes = {"obs": space.shape} if self._concatenate else {name: space[name].shape for name in self._groups}
        self._facts = facts(NAME, shapes, self._agent.actions_num)

    def train(self, max_iterations: int, on_iteration: OnIteration) -> None:
        """Train; see :meth:`~isaaclab_pc.runners.base.Runner.train`."""
        if max_iterations <= self.completed_iterations:
            return

        def after(metrics: Mapping[str, float]) -> None:
            self.completed_iterations += 1
            decision = on_iteration(self.completed_iterations, metrics)
            if decision is Decision.STOP or self.completed_iterations >= max_iterations:
                raise StopTraining

        self._agent.epoch_num = self.completed_iterations
        self._agent.after_iteration = after
        with SummaryWriter(str(self._run_dir)) as self._agent.writer, contextlib.suppress(StopTraining):
            self._agent.train()

    def save(self, path: Path, extra: Mapping[str, Any]) -> None:
        """Write a checkpoint; see :meth:`~isaaclab_pc.runners.base.Runner.save`."""
        state = {
            "algorithm": self._agent.get_full_state_weights(),
            "rng": rng_state(self._device),
            "iteration": self.completed_iterations,
        }
        save_checkpoint(path, state, {**extra, **self._facts, "iteration": self.completed_iterations})

    def load(self, path: Path, expected: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Take over a checkpoint; see :meth:`~isaaclab_pc.runners.base.Runner.load`."""
        check_header(read_extra(path), {**(expected or {}), **self._facts}, path)
        state, header = load_checkpoint(path, self._device, _STATE_KEYS)
        check_weights(path, {"model": self._agent.model.state_dict()}, state.get("algorithm"))
        self._agent.set_full_state_weights(state["algorithm"])
        # RL-Games saves the optimizer's step size, but goes on from the configured one.
        self._agent.last_lr = self._agent.optimizer.param_groups[0]["lr"]
        self.completed_iterations = state["iteration"]
        set_rng_state(state["rng"], self._device)
        return header

    def act(self, obs: Mapping[str, Tensor]) -> Tensor:
        """Compute deterministic actions; see :meth:`~isaaclab_pc.runners.base.Runner.act`."""
        with torch.no_grad():
            batch: Any = {name: obs[name].to(self._device) for name in self._groups}
            if self._concatenate:
                batch = torch.cat(list(batch.values()), dim=-1)
            self._agent.model.eval()
            output = self._agent.model({"is_train": False, "prev_actions": None, "obs": batch, "rnn_states": None})
            actions: Any = self._agent.preprocess_actions(output["mus"])
            return actions

    def holders(self) -> Mapping[str, Any]:
        """Return what holds tensors; see :meth:`~isaaclab_pc.runners.base.Runner.holders`."""
        # The data set repeats the buffer in the order of the minibatches.
        storage = [vars(self._agent.experience_buffer), vars(self._agent.dataset)]
        return {
            "rollout storage": storage,
            "network weights": self._agent.model,
            "optimizer": self._agent.optimizer.state,
        }


def _library_settings(vec_env: IVecEnv, config: Mapping[str, Any], folder: str) -> dict[str, Any]:
    """Return the settings that RL-Games' own entry point would add, and those that turn its loop's extras off."""
    env_info = vec_env.get_env_info()
    return {
        "vec_env": vec_env,
        "env_info": env_info,
        "num_actors": vec_env.num_envs,  # type: ignore[attr-defined]
        "reward_shaper": DefaultRewardsShaper(**config["reward_shaper"]),
        "features": {"observer": _Observer()},
        "train_dir": folder,
        "full_experiment_name": ".",
        "print_stats": False,
        # Our callback ends the loop and writes the checkpoints.
        "max_epochs": -1,
        "save_frequency": 0,
        "save_best_after": sys.maxsize,
    }


class _Observer(AlgoObserver):
    """Keeps what the environment logs."""

    def __init__(self) -> None:
        super().__init__()
        self.env_log = EpisodeLog()

    def process_infos(self, infos: Mapping[str, Any], done_indices: Tensor) -> None:
        """Keep what one step logged; the wrapper calls it ``episode``."""
        if "episode" in infos:
            self.env_log.add(infos["episode"])


class _ShuffledDataset(PPODataset):
    """Random minibatches; RL-Games' own are blocks of environments, the same in every update."""

    def update_values_dict(self, values_dict: dict[str, Any] | None) -> None:
        """Take an update's samples in random order."""
        if values_dict is not None:
            order = torch.randperm(self.batch_size, device=self.device)
            values_dict = {name: _take(value, order) for name, value in values_dict.items()}
        super().update_values_dict(values_dict)

    def update_mu_sigma(self, mu: Tensor, sigma: Tensor) -> None:
        """Keep the distribution of the policy that acted: it is what the KL divergence is measured against."""


class _Schedule(AdaptiveScheduler):
    """Adaptive step size that ignores an update's first minibatch: the policy is still the one that acted."""

    min_lr: float

    def __init__(self, kl_threshold: float) -> None:
        super().__init__(kl_threshold)
        self.min_lr = MIN_LEARNING_RATE
        self._update = -1

    def update(  # type: ignore[override]
        self, current_lr: float, entropy_coef: float, epoch: int, frames: int, kl_dist: float, **kwargs: Any
    ) -> tuple[float, float]:
        """Return the next step size and the entropy coefficient."""
        if epoch != self._update:
            self._update = epoch
            return current_lr, entropy_coef
        return super().update(current_lr, entropy_coef, epoch, frames, kl_dist, **kwargs)


class _Agent(A2CAgent):
    """RL-Games' own loop, with the changes that the module tells, without its checkpoints, and with our callback."""

    writer: Any
    scheduler: Any
    vec_env: Any

    def __init__(self, base_name: str, params: dict[str, Any]) -> None:
        super().__init__(base_name, params)
        self.dataset = _ShuffledDataset(
            self.batch_size, self.minibatch_size, self.is_discrete, self.is_rnn, self.ppo_device, self.seq_length
        )
        if self.is_adaptive_lr:
            self.scheduler = _Schedule(self.kl_threshold)
        self.is_tensor_obses = True
        self.tripwire = Tripwire(self.optimizer, [self.model])
        self.after_iteration = lambda metrics: None

    def save(self, fn: str) -> None:
        """Write nothing: the workflow decides when and where."""

    def env_reset(self) -> Any:
        """Reset all environments, and let their first episodes end at different times."""
        obs = super().env_reset()
        env = getattr(self.vec_env, "unwrapped", self.vec_env)
        env.episode_length_buf = torch.randint_like(env.episode_length_buf, high=int(env.max_episode_length))
        return obs

    def prepare_dataset(self, batch_dict: dict[str, Any]) -> None:
        """Start an update; the rollout has put the statistics of the last one to use."""
        self.tripwire.remember()
        super().prepare_dataset(batch_dict)

    def trancate_gradients_and_step(self) -> None:
        """Clip actor and critic by themselves: the critic's gradient is the larger one by far."""
        network = self.model.a2c_network
        if self.multi_gpu or not self.truncate_grads or not isinstance(network, rl_games_network.PointCloudNetwork):
            super().trancate_gradients_and_step()
            return
        for part in network.parts():
            torch.nn.utils.clip_grad_norm_(part, self.grad_norm)
        self.optimizer.step()

    def write_stats(
        self,
        total_time: float,
        epoch_num: int,
        step_time: float,
        play_time: float,
        update_time: float,
        a_losses: list[Tensor],
        c_losses: list[Tensor],
        entropies: list[Tensor],
        kls: list[Tensor],
        last_lr: float,
        lr_mul: float,
        frame: int,
        *rest: Any,
    ) -> None:
        """Write the iteration to TensorBoard and report it."""
        timings = (total_time, epoch_num, step_time, play_time, update_time)
        super().write_stats(*timings, a_losses, c_losses, entropies, kls, last_lr, lr_mul, frame, *rest)
        env_log = {**self.algo_observer.env_log.flush(), **self.tripwire.end_iteration()}
        episodes = self.game_rewards.current_size > 0
        mean_reward = float(self.game_rewards.get_mean()[0]) if episodes else math.nan
        for key, value in {**env_log, "Train/mean_reward": mean_reward}.items():
            if math.isfinite(value):
                self.writer.add_scalar(key, value, frame)
        self.after_iteration(
            {
                **env_log,
                "mean_reward": mean_reward,
                "mean_episode_length": float(self.game_lengths.get_mean()) if episodes else math.nan,
                "success_rate": success_rate(env_log),
                "collect_s": play_time,
                "learn_s": update_time,
                "env_steps_per_s": self.curr_frames / (play_time + update_time),
                "learning_rate": float(self.last_lr),
                "action_std": float(self.train_result[7].mean()),
                "loss/value": float(mean_list(c_losses).detach()),
                "loss/surrogate": float(mean_list(a_losses).detach()),
                "loss/entropy": float(mean_list(entropies).detach()),
            }
        )


def _take(value: Any, order: Tensor) -> Any:
    """Reorder the samples of a tensor or of a dict of tensors."""
    if isinstance(value, dict):
        return {name: _take(item, order) for name, item in value.items()}
    return value[order] if isinstance(value, Tensor) else value
