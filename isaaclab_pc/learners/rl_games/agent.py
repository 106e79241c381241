# SPDX-License-Identifier: BSD-3-Clause
"""RL-Games' PPO with the changes that make a hyperparameter mean what it means with RSL-RL.

- Minibatches are random.
- The rollout is held once: the samples of an update are its own buffers.
- The KL divergence is measured against the policy that acted.
- The gradients of actor and critic are clipped apart, where the network says which parameters belong to which.
- Processes that train together share gradients, KL divergence and weights here. RL-Games' own way, which stays off,
  insists on NCCL, and clips the gradients of actor and critic together.

Checkpoints and the end of the training are left to the callback of :class:`Agent`.
"""

import math
from collections.abc import Mapping
from typing import Any

import torch
from rl_games.algos_torch.a2c_continuous import A2CAgent
from rl_games.algos_torch.torch_ext import mean_list
from rl_games.common.algo_observer import AlgoObserver
from rl_games.common.datasets import PPODataset
from rl_games.common.schedulers import AdaptiveScheduler
from torch import Tensor

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.learners.common.interface import AfterIteration
from isaaclab_pc.learners.common.iteration_metrics import IterationLog, iteration_metrics, read_numbers, write_metrics
from isaaclab_pc.learners.common.policy_protocols import HasPolicy, scale_own_losses
from isaaclab_pc.learners.common.shared import StopTraining, clip_gradients, random_first_lengths, tensor_cores
from isaaclab_pc.learners.common.tripwire import Tripwire, end_iteration
from isaaclab_pc.tensors.distributed import average_gradients, average_number, broadcast_module, world_size

MIN_LEARNING_RATE = 1e-5
"""Lower end of the adaptive schedule, as with RSL-RL."""


class LogObserver(IterationLog, AlgoObserver):
    """Keeps the environment's log."""

    def process_infos(self, infos: Mapping[str, Any], done_indices: Tensor) -> None:
        """Keep the log of a step; Isaac Lab's wrapper calls it ``episode``."""
        self.add_extras(infos)


class ShuffledDataset(PPODataset):
    """Random minibatches, of whole sequences where there is a memory.

    Those of RL-Games are blocks of environments, the same in every update.
    """

    def update_values_dict(self, values_dict: dict[str, Any] | None) -> None:
        """Take the samples of an update, and draw their order."""
        super().update_values_dict(values_dict)
        if values_dict is not None:
            self._steps = torch.arange(self.seq_length if self.is_rnn else 1, device=self.device)
            self._order = torch.randperm(self.batch_size // len(self._steps), device=self.device)

    def __getitem__(self, idx: int) -> dict[str, Any]:
        """Return a minibatch; shuffled copies of all samples would take as much memory as a rollout."""
        count = self.minibatch_size // len(self._steps)
        chosen = self._order[idx * count : (idx + 1) * count]
        rows = (chosen[:, None] * len(self._steps) + self._steps).flatten()

        values = {name: value for name, value in self.values_dict.items() if name != "rnn_states"}
        batch = {name: None if value is None else _rows_of(value, rows) for name, value in values.items()}
        if self.is_rnn:
            batch["rnn_states"] = [state[:, chosen] for state in self.values_dict["rnn_states"]]
        return batch

    def update_mu_sigma(self, mu: Tensor, sigma: Tensor) -> None:
        """Keep the distribution of the policy that acted: the KL divergence is measured against it."""


def _rows_of(value: Any, rows: Tensor) -> Any:
    if isinstance(value, dict):
        return {name: _rows_of(item, rows) for name, item in value.items()}
    return value.index_select(0, rows)


def _by_environment(value: Any) -> Any:
    """Lay out empty buffers, (T, N, ...), so that all steps of an environment lie together, as in an update."""
    if isinstance(value, dict):
        return {name: _by_environment(item) for name, item in value.items()}
    horizon, num_envs, *shape = value.shape
    return value.view(num_envs, horizon, *shape).transpose(0, 1)


class PolicySchedule(AdaptiveScheduler):
    """Adaptive learning rate, for processes that train together.

    Asked after every minibatch, it ignores the first one of an update: until then, the policy has not changed.
    """

    min_lr: float

    def __init__(self, kl_threshold: float, *, of_minibatches: bool) -> None:
        """Start before the first update.

        ``of_minibatches``: it is asked after every minibatch (``schedule_type: legacy``), and not after every epoch
        with the mean over its minibatches (``standard``).
        """
        super().__init__(kl_threshold)
        self.min_lr = MIN_LEARNING_RATE
        self._of_minibatches = of_minibatches
        self._last_epoch = -1

    def update(  # type: ignore[override]
        self, current_lr: float, entropy_coef: float, epoch: int, frames: int, kl_dist: float, **kwargs: Any
    ) -> tuple[float, float]:
        """Return the next learning rate and the entropy coefficient."""
        # Also where it is ignored: all processes have to take part.
        kl_dist = average_number(kl_dist)
        if self._of_minibatches and epoch != self._last_epoch:
            self._last_epoch = epoch
            return current_lr, entropy_coef
        return super().update(current_lr, entropy_coef, epoch, frames, kl_dist, **kwargs)


class Agent(A2CAgent):
    """RL-Games' own training loop, which reports every iteration and writes no checkpoints."""

    writer: Any
    scheduler: Any
    vec_env: Any

    def __init__(self, base_name: str, params: dict[str, Any]) -> None:
        """Build networks, optimizer and data set from the configuration's ``params``."""
        super().__init__(base_name, params)
        # Our callback ends the loop. The configuration keeps its iterations, over which linear schedules fall.
        self.max_epochs = -1
        self.max_frames = -1
        if self.has_central_value and world_size() > 1:
            raise ConfigError("agent.params.config.central_value_config trains on one GPU only: give gpus=1.")
        self.dataset = ShuffledDataset(
            self.batch_size, self.minibatch_size, self.is_discrete, self.is_rnn, self.ppo_device, self.seq_length
        )
        if self.is_adaptive_lr:
            self.scheduler = PolicySchedule(self.kl_threshold, of_minibatches=self.schedule_type == "legacy")
        self.is_tensor_obses = True
        scale_own_losses(self.model, lambda loss: self.scaler.scale(loss))
        self.tripwires = [Tripwire(self.optimizer, [self.model])]
        if self.has_central_value:
            self.tripwires.append(Tripwire(self.central_value_net.optimizer, [self.central_value_net]))

        # Not around the environment's steps.
        for name in ("get_action_values", "get_values", "calc_gradients"):
            setattr(self, name, tensor_cores()(getattr(self, name)))

    def begin(self, completed: int, writer: Any, after_iteration: AfterIteration) -> None:
        """Prepare to train after ``completed`` iterations, with TensorBoard's writer."""
        self.after_iteration = after_iteration
        self.epoch_num = completed
        self.writer = writer
        if self.has_central_value:
            # A critic that is a network of its own counts and writes by itself, and RL-Games does not save its counts.
            critic = self.central_value_net
            critic.epoch_num = completed
            critic.frame = self.frame
            critic.writter = writer

    def save(self, fn: str) -> None:
        """Write nothing: the callback saves checkpoints."""

    def init_tensors(self) -> None:
        """Make the buffers of the rollouts in place of those of an earlier training."""
        # Never both at once: they are most of the memory.
        self.experience_buffer = None
        super().init_tensors()
        buffer: Any = self.experience_buffer
        buffer.tensor_dict = {name: _by_environment(value) for name, value in buffer.tensor_dict.items()}

    def env_reset(self) -> Any:
        """Reset all environments, and let their first episodes end at different times."""
        # A training begins with this.
        broadcast_module(self.model)
        obs = super().env_reset()
        random_first_lengths(self.vec_env)
        return obs

    def prepare_dataset(self, batch_dict: dict[str, Any]) -> None:
        """Start an update."""
        # A network may have changed its normalizers in the rollout, on purpose: restore nothing older than that.
        for tripwire in self.tripwires:
            tripwire.keep_buffers()
        super().prepare_dataset(batch_dict)

    def trancate_gradients_and_step(self) -> None:
        """Clip the gradients of actor and critic apart, and take the step."""
        average_gradients(self.model.parameters())
        network = self.model.a2c_network
        if not self.truncate_grads or not isinstance(network, HasPolicy):
            super().trancate_gradients_and_step()
            return

        # The scaler does nothing but the step, unless mixed precision is on.
        self.scaler.unscale_(self.optimizer)
        clip_gradients(network, self.model.parameters(), self.grad_norm)
        self.scaler.step(self.optimizer)
        self.scaler.update()

    def write_stats(self, *stats: Any) -> None:
        """Write the iteration to TensorBoard, under RL-Games' tags and ours, and report it."""
        super().write_stats(*stats)
        _, _, env_s, collect_s, learn_s, a_losses, c_losses, entropies, _, _, _, frame, *_ = stats

        action_std, value_loss, surrogate_loss, entropy = read_numbers(
            [self.train_result[7], *(mean_list(losses) for losses in (c_losses, a_losses, entropies))]
        )
        episodes_ended = self.game_rewards.current_size > 0
        metrics = iteration_metrics(
            {**self.algo_observer.take_means(), **end_iteration(self.tripwires)},
            float(self.game_rewards.get_mean()[0]) if episodes_ended else math.nan,
            float(self.game_lengths.get_mean()) if episodes_ended else math.nan,
            env_steps=self.curr_frames,
            env_s=env_s,
            collect_s=collect_s,
            learn_s=learn_s,
            of_update={
                "learning_rate": float(self.last_lr),
                "action_std": action_std,
                "loss/value": value_loss,
                "loss/surrogate": surrogate_loss,
                "loss/entropy": entropy,
            },
            device=self.ppo_device,
        )
        write_metrics(self.writer, metrics, frame)
        if self.after_iteration(metrics):
            raise StopTraining
