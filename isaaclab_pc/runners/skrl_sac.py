# SPDX-License-Identifier: BSD-3-Clause
"""skrl's SAC with a replay that holds each observation once.

- skrl keeps an observation and the one after it: clouds twice, as float32. Here the steps stay in their order, so the
  one after it is that of the next step, and clouds and images are float16.
- The last step of an episode that ran out of time is worth the value of its own observation from there on, as with PPO:
  Isaac Lab has reset the environment by then, and the next step's is that of another episode.
- The gradient steps of an iteration follow its rollout, as those of PPO do.
- Normalizers see each sample once, and the temperature is in the checkpoint, which skrl leaves out.
"""

import time
from collections.abc import Iterable, Mapping
from typing import Any

import gymnasium
import torch
from skrl.agents.torch.sac import SAC
from torch import Tensor, nn

from isaaclab_pc.runners.distributed import world_rank, world_size
from isaaclab_pc.runners.iteration_metrics import read_numbers
from isaaclab_pc.runners.shared import tensor_cores
from isaaclab_pc.runners.skrl_agent import GroupMemory, MeasuredAgent
from isaaclab_pc.runners.tripwire import Tripwire
from isaaclab_pc.terminal.screen import current

__all__ = ["ReplayMemory", "SacAgent"]


class ReplayMemory(GroupMemory):
    """A ring of steps of all environments: once it is full, the newest take the place of the oldest."""

    def create_tensor(self, name: str, *, size: Any, dtype: Any = None, keep_dimensions: bool = False) -> bool:
        """Create a tensor; none for what the next step has."""
        if name.startswith("next_"):
            return False
        return super().create_tensor(name, size=size, dtype=dtype, keep_dimensions=keep_dimensions)

    def begin(self) -> None:
        """Prepare for a training, before which the environments were reset: no step follows the newest one."""
        if len(self):
            self.tensors["truncated"][self.memory_index - 1] = True

    def sample(  # type: ignore[override]
        self, names: list[str], *, batch_size: int, mini_batches: int = 1, sequence_length: int = 1
    ) -> list[list[Any]]:
        """Draw samples, of all but the newest step, which no other follows yet.

        Args:
            names: Tensors, or dictionaries of groups; ``next_<name>`` is that of the next step, or where an episode ran
                out of time that of the same step.
            batch_size: Samples.
            mini_batches: skrl's; one.
            sequence_length: Likewise.

        Returns:
            skrl's list of one minibatch, which holds what was named.
        """
        held = len(self)
        oldest = self.memory_index * self.num_envs if self.filled else 0
        total = self.memory_size * self.num_envs
        rows = (torch.randint(held - self.num_envs, (batch_size,), device=self.device) + oldest) % total

        goes_on = ~self.tensors_view["truncated"][rows, 0]
        following = (rows + self.num_envs * goes_on) % total
        return [
            [
                self._rows_of(name.removeprefix("next_"), following if name.startswith("next_") else rows)
                for name in names
            ]
        ]

    def newest_vectors(self, name: str, steps: int) -> dict[str, Tensor]:
        """Return the vectors of the last steps, by group.

        Args:
            name: A dictionary of groups.
            steps: As many as are held at most.
        """
        rows = torch.arange(self.memory_index - steps, self.memory_index, device=self.device) % self.memory_size
        groups = {group: self.tensors[f"{name}/{group}"] for group in self._groups[name]}
        return {group: tensor[rows].flatten(0, 1) for group, tensor in groups.items() if tensor.dim() == 3}

    def _type_of(self, space: gymnasium.Space) -> torch.dtype:
        """Return the type in which a group is kept: float16 for clouds and images."""
        return torch.float16 if len(space.shape or ()) > 1 else super()._type_of(space)


class SacAgent(MeasuredAgent, SAC):
    """skrl's SAC."""

    critic_1: Any
    log_entropy_coefficient: nn.Parameter
    entropy_optimizer: torch.optim.Optimizer

    def __init__(self, *, refill_samples: int, is_finite_horizon: bool, **kwargs: Any) -> None:
        """Build networks and optimizers.

        Args:
            refill_samples: Samples that all ranks collect after a resume before it learns.
            is_finite_horizon: Isaac Lab's: whether nothing is worth anything once an episode's time is up.
            **kwargs: Those of :class:`~isaaclab_pc.runners.skrl_agent.MeasuredAgent`.
        """
        super().__init__(**kwargs)
        self._refill_samples = refill_samples
        self._needed_samples = 0
        self._is_finite_horizon = is_finite_horizon
        self._log_std = torch.zeros(1)

        if self.cfg.learn_entropy:
            # A module, which a checkpoint holds.
            temperature = _Temperature(self.cfg.initial_entropy_value).to(self.device)
            self.log_entropy_coefficient = temperature.log
            self.entropy_optimizer = torch.optim.Adam([temperature.log], lr=self.cfg.learning_rate[2])
            self.checkpoint_modules |= {"temperature": temperature, "entropy_optimizer": self.entropy_optimizer}

        critics = [self.critic_1, self.critic_2]
        self.tripwires = [Tripwire(self.policy_optimizer, [self.policy]), Tripwire(self.critic_optimizer, critics)]
        if self.cfg.learn_entropy:
            self.tripwires.append(Tripwire(self.entropy_optimizer, []))

    def init(self, *, trainer_cfg: dict[str, Any] | None = None) -> None:
        """Make the memory."""
        super().init(trainer_cfg=trainer_cfg)
        self.memory.create_tensor("truncated", size=1, dtype=torch.bool)

    def go_on_from(self, samples: int) -> None:
        """Wait with learning until the replays of all ranks together have some variety again."""
        capacity = self.memory.memory_size * self.memory.num_envs
        self._needed_samples = min(samples, self._refill_samples // world_size(), capacity)
        if world_rank() == 0:
            needed = self._needed_samples * world_size()
            current().say(f"note: the replay is collected anew: the policy goes on learning after {needed} samples")

    def act(self, observations: Any, states: Any, *, timestep: int, timesteps: int) -> tuple[Tensor, dict[str, Any]]:
        """Let the policy act in a rollout."""
        actions, outputs = super().act(observations, states, timestep=timestep, timesteps=timesteps)
        self._log_std = outputs["log_std"]
        return actions, outputs

    def record_transition(
        self,
        *,
        observations: Any,
        states: Any,
        actions: Tensor,
        rewards: Tensor,
        next_observations: Any,
        next_states: Any,
        terminated: Tensor,
        truncated: Tensor,
        infos: Mapping[str, Any],
        timestep: int,
        timesteps: int,
    ) -> None:
        """Keep a step of all environments, and what they logged; the next observations come with the next step."""
        self.measure_step(rewards, terminated | truncated, infos)
        self.memory.add_samples(
            rewards=rewards,
            actions=actions,
            terminated=terminated | truncated if self._is_finite_horizon else terminated,
            truncated=truncated,
            observations=observations,
            states=states,
        )

    def post_interaction(self, *, timestep: int, timesteps: int) -> None:
        """Learn after the last step of an iteration, once the replay holds enough."""
        if timestep + 1 < timesteps:
            return

        self.learn_s = 0.0
        self._count_samples()
        for tripwire in self.tripwires:
            tripwire.check_buffers()
        if len(self.memory) >= self._needed_samples:
            self.update(timestep=timestep, timesteps=timesteps)

    @tensor_cores()
    def update(self, *, timestep: int, timesteps: int) -> None:
        """Take the gradient steps of an iteration."""
        started = time.perf_counter()
        if self.cfg.learn_entropy:
            # A checkpoint may have been loaded.
            self._entropy_coefficient = self.log_entropy_coefficient.detach().exp()

        # skrl measures every step or none, and waits for the device ten times for each: here it measures the last one.
        total = self.cfg.gradient_steps
        for steps, interval in ((total - 1, 0), (1, 1)):
            self.cfg.gradient_steps = steps
            self.write_interval = interval
            super().update(timestep=timestep, timesteps=timesteps)
        self.cfg.gradient_steps = total
        self.write_interval = 0
        self.learn_s = time.perf_counter() - started

    def take_metrics(self) -> dict[str, float]:
        """Return what the last gradient step measured; no losses where there was none."""
        action_std, entropy_coefficient = read_numbers([self._log_std.exp(), self._entropy_coefficient])
        metrics = {
            "learning_rate": float(self.policy_optimizer.param_groups[0]["lr"]),
            "action_std": action_std,
        }
        tracked = {key: float(values[-1]) for key, values in self.tracking_data.items()}
        self.tracking_data.clear()
        if tracked:
            metrics |= {
                "loss/value": tracked["Loss / Critic loss"],
                "loss/policy": tracked["Loss / Policy loss"],
                "Learner/mean_value": tracked["Q-network / Q1 (mean)"],
                "Learner/entropy_coefficient": entropy_coefficient,
            }
        return metrics

    def _count_samples(self) -> None:
        """Let the normalizers see the samples of an iteration."""
        vectors = {name: self.memory.newest_vectors(name, self.horizon) for name in ("observations", "states")}
        norms = ((self.policy.norm, vectors["observations"]), (self.critic_1.norm, vectors["states"]))
        for norm, groups in norms:
            norm.add_samples(torch.cat(list(groups.values()), dim=-1))
            norm.apply_samples()

    def _clipping_groups(self, optimizer: torch.optim.Optimizer) -> Iterable[list[nn.Parameter]]:
        """Return the parameters whose gradients are clipped together; that of the temperature is left as it is."""
        return [] if optimizer is getattr(self, "entropy_optimizer", None) else super()._clipping_groups(optimizer)


class _Temperature(nn.Module):
    """What a nat of entropy is worth, in rewards, as its logarithm."""

    def __init__(self, value: float) -> None:
        super().__init__()
        self.log = nn.Parameter(torch.full((1,), value).log())
