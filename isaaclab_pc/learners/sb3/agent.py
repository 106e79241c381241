# SPDX-License-Identifier: BSD-3-Clause
"""Stable-Baselines3's PPO with the changes that make a hyperparameter mean what it means with RSL-RL.

- The rollout is held once, on the host, each observation group in the environment's own type: clouds stay float16.
- Advantages are normalized over the whole rollout, not over each minibatch.
- The learning rate follows the divergence, where the configuration says so.
- An episode that ran out of time goes on with the value of its last observation.
- The gradients of actor and critic are clipped apart, where the network says which parameters belong to which.
- Processes that train together share gradients, KL divergence and weights; Stable-Baselines3 knows but one process.

One difference stays: the loss of a value that left the clipping range has no gradient, even back into the range.
"""

import copy
import math
import pkgutil
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from isaaclab_rl.sb3 import process_sb3_cfg
from stable_baselines3 import PPO
from stable_baselines3.common.buffers import DictRolloutBuffer
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import Logger
from torch import Tensor

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.learners.common.policy_protocols import HasPolicy
from isaaclab_pc.learners.common.shared import clip_gradients, random_first_lengths, tensor_cores
from isaaclab_pc.learners.common.tripwire import Tripwire
from isaaclab_pc.learners.sb3.env import GroupEnv
from isaaclab_pc.tensors.distributed import average_gradients, average_number, broadcast_module, world_size

_LEARNING_RATES = (1e-5, 1e-2)
"""Bounds of the adaptive learning rate, the same with every library."""

_USED_ELSEWHERE = (
    *("seed", "device", "n_timesteps", "samples_per_update", "desired_kl"),
    *("normalize_input", "normalize_value", "clip_obs"),
)
"""Fields of a configuration that are no arguments of ``PPO``."""

# Else a mean that is not finite would end the training before the tripwire can leave the update out.
torch.distributions.Distribution.set_default_validate_args(False)


def read_groups(cfg: Mapping[str, Any]) -> tuple[list[str], list[str]] | None:
    """Return the observation groups that actor and critic read; None for the policies of Stable-Baselines3."""
    network = cfg.get("policy_kwargs", {}).get("net_arch")
    return (network["actor"], network["critic"]) if isinstance(network, Mapping) and "actor" in network else None


class GroupRollout(DictRolloutBuffer):
    """A rollout that is held once, with advantages that are normalized over all of it."""

    @staticmethod
    def swap_and_flatten(arr: np.ndarray) -> np.ndarray:
        """Return all samples in one dimension, without a copy: minibatches are random anyway."""
        return arr.reshape(arr.shape[0] * arr.shape[1], *(arr.shape[2:] or (1,)))

    def compute_returns_and_advantage(self, last_values: Tensor, dones: np.ndarray) -> None:
        """Compute returns and advantages, both of shape (T, N)."""
        super().compute_returns_and_advantage(last_values, dones)
        self.advantages = (self.advantages - self.advantages.mean()) / (self.advantages.std() + 1e-8)

    def tensors(self) -> dict[str, Tensor]:
        """Return the arrays by name as tensors, without a copy."""
        arrays = {**vars(self), **self.observations}
        return {name: torch.from_numpy(value) for name, value in arrays.items() if isinstance(value, np.ndarray)}


class Agent(PPO):
    """Stable-Baselines3's PPO, which measures itself and writes no files."""

    env: GroupEnv

    def __init__(self, env: GroupEnv, cfg: Mapping[str, Any], device: str) -> None:
        """Build networks, optimizer and rollout from the whole configuration."""
        self._desired_kl: float | None = cfg.get("desired_kl")
        super().__init__(env=env, device=device, **_arguments(cfg, env.num_envs))
        is_finite_horizon = getattr(env.unwrapped.cfg, "is_finite_horizon", False)
        self.bootstrap = 0.0 if is_finite_horizon else self.gamma
        """Share of its last value that an episode which ran out of time is worth from then on."""
        self.set_logger(Logger(None, []))
        if self.target_kl is not None and world_size() > 1:
            raise ConfigError("agent.target_kl ends updates at different times in several processes: set gpus=1.")

        # Done here, each in another way: see the module's text.
        self._max_grad_norm = self.max_grad_norm
        self.max_grad_norm = math.inf
        if self._desired_kl is not None:
            self.lr_schedule = lambda _: self.present_learning_rate

        self.network = next((part for part in self.policy.children() if isinstance(part, HasPolicy)), None)
        self.policy.optimizer.register_step_pre_hook(self._prepare_step)
        self.tripwire = Tripwire(self.policy.optimizer, [self.policy])
        self.collect_s = 0.0
        self.learn_s = 0.0

    @property
    def present_learning_rate(self) -> float:
        """The optimizer's learning rate."""
        return float(self.policy.optimizer.param_groups[0]["lr"])

    def run(self, completed: int, until: int, after_update: Callable[[], bool]) -> None:
        """Train from ``completed`` iterations of the run to ``until``; ``after_update`` returns whether to stop."""
        self._after_update = after_update
        self._stops = False
        self.env.episodes.forget_running()
        broadcast_module(self.policy)
        # A checkpoint may have been loaded since the last training.
        self.tripwire.keep_buffers()

        samples = self.n_steps * self.n_envs
        self.num_timesteps = completed * samples
        # It resets the environments, which may have run other episodes since the last training.
        self.set_env(self.env)
        steps = (until - completed) * samples
        self.learn(steps, _EveryStep(), log_interval=None, reset_num_timesteps=False)  # type: ignore[arg-type]

    def collect_rollouts(self, *args: Any, **kwargs: Any) -> bool:
        """Fill the rollout; return whether to learn from it."""
        if self._stops:
            return False

        started = time.perf_counter()
        with tensor_cores():
            is_full = super().collect_rollouts(*args, **kwargs)
        self.collect_s = time.perf_counter() - started
        return is_full

    def train(self) -> None:
        """Learn from a rollout."""
        started = time.perf_counter()
        # The rollout has put counted samples to use: restore nothing older than that.
        self.tripwire.keep_buffers()
        with tensor_cores():
            self._measured = self._train()
        self.learn_s = time.perf_counter() - started
        self._stops = self._after_update()

    def take_metrics(self) -> dict[str, float]:
        """Return what the last update measured."""
        return {
            "learning_rate": self.present_learning_rate,
            "action_std": self._measured.get("train/std", math.nan),
            "loss/value": self._measured["train/value_loss"],
            "loss/surrogate": self._measured["train/policy_gradient_loss"],
            "loss/entropy": -self._measured["train/entropy_loss"],
        }

    def _train(self) -> dict[str, float]:
        """Update the policy; return what Stable-Baselines3 measured in the mean."""
        if self._desired_kl is None:
            super().train()
            return dict(self.logger.name_to_value)

        # It reads the learning rate once at the start.
        epochs, self.n_epochs = self.n_epochs, 1
        measured = []
        for _ in range(epochs):
            super().train()
            measured.append(dict(self.logger.name_to_value))
            self._adapt_learning_rate(measured[-1]["train/approx_kl"], self._desired_kl)
        self.n_epochs = epochs
        return {key: sum(epoch[key] for epoch in measured) / epochs for key in measured[-1]}

    def _adapt_learning_rate(self, divergence: float, desired: float) -> None:
        divergence = average_number(float(divergence))
        lowest, highest = _LEARNING_RATES
        rate = self.present_learning_rate
        if divergence > 2.0 * desired:
            rate = max(lowest, rate / 1.5)
        elif divergence < 0.5 * desired:
            rate = min(highest, rate * 1.5)
        for group in self.policy.optimizer.param_groups:
            group["lr"] = rate

    def _prepare_step(self, *_: Any) -> None:
        average_gradients(self.policy.parameters())
        clip_gradients(self.network, self.policy.parameters(), self._max_grad_norm)


class _EveryStep(BaseCallback):
    """Hooks into Stable-Baselines3's own loop."""

    model: Agent

    def _on_training_start(self) -> None:
        random_first_lengths(self.model.env)

    def _on_step(self) -> bool:
        values = self.locals["values"].cpu().numpy()[:, 0]
        self.locals["rewards"] += self.model.bootstrap * values * self.model.env.truncated
        return True


def _arguments(cfg: Mapping[str, Any], num_envs: int) -> dict[str, Any]:
    arguments = {key: copy.deepcopy(value) for key, value in cfg.items() if key not in _USED_ELSEWHERE}
    if read_groups(cfg) is None:
        return process_sb3_cfg(arguments, num_envs)

    arguments["policy"] = pkgutil.resolve_name(arguments["policy"])
    arguments["rollout_buffer_class"] = GroupRollout
    arguments["batch_size"] = num_envs * arguments["n_steps"] // arguments.pop("n_minibatches")
    return arguments
