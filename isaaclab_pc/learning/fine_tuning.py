# SPDX-License-Identifier: BSD-3-Clause
"""PPO that goes on from a policy which was learned otherwise, behind RSL-RL's runner."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from rsl_rl.algorithms import PPO
from rsl_rl.models import MLPModel
from rsl_rl.storage import RolloutStorage

from isaaclab_pc.runners.checkpoint_file import acting_weights, check_weights, load_checkpoint

__all__ = ["FineTuning"]

_NOISE = "distribution."
"""Begins the names of an actor's weights that say how far its actions scatter."""


class FineTuning(PPO):
    """PPO whose actor begins as a trained policy, and whose critic first learns alone.

    The critic has seen nothing when the run begins, and its advantages would be noise: the actor would lose in a few
    updates what it can do. So it is left as it is until the critic knows what its actions are worth. The actions'
    standard deviation is that of the configuration, not the one that the policy was trained with.
    """

    def __init__(
        self,
        actor: MLPModel,
        critic: MLPModel,
        storage: RolloutStorage,
        *,
        checkpoint: str,
        critic_iterations: int,
        critic_learning_rate: float,
        **ppo: Any,
    ) -> None:
        """Prepare; the policy is read when the training begins.

        Args:
            actor: The network that acts, as that of the policy.
            critic: The network that values states.
            storage: What a rollout is kept in.
            checkpoint: Where the policy lies; it is read when a new run begins, not when one goes on.
            critic_iterations: Iterations in which the critic learns alone.
            critic_learning_rate: Learning rate in these iterations.
            **ppo: As for RSL-RL's ``PPO``.
        """
        super().__init__(actor, critic, storage, **ppo)
        self.num_updates = 0
        """Iterations since the start of the run, those before a resume included."""

        self._checkpoint = Path(checkpoint)
        self._critic_iterations = critic_iterations
        self._critic_learning_rate = critic_learning_rate
        self._first_rate = self.learning_rate

    def train_mode(self) -> None:
        """Take the policy's weights, if this is where a run begins: RSL-RL calls this when a training does.

        Raises:
            ConfigError: It is no checkpoint, or one of another network; the message names the first layer that differs.
        """
        super().train_mode()
        if self.num_updates == 0:
            self._load_actor()

    def update(self) -> dict[str, float]:
        """Learn from the rollout: the critic alone at first, then both.

        Returns:
            The mean of each loss.
        """
        if self.num_updates < self._critic_iterations:
            self._set_learning_rate(self._critic_learning_rate)
        elif self.num_updates == self._critic_iterations:
            self._set_learning_rate(self._first_rate)
        self._raw_actor.requires_grad_(self.num_updates >= self._critic_iterations)

        losses = super().update()
        self.num_updates += 1
        return losses

    def save(self) -> dict[str, Any]:
        """Return the networks, the optimizer and how far the run is."""
        return {**super().save(), "progress": {"iterations": torch.tensor(self.num_updates)}}

    def load(self, loaded_dict: dict, load_cfg: dict | None, strict: bool) -> bool:
        """Go on from what :meth:`save` returned.

        Args:
            loaded_dict: The state.
            load_cfg: As for RSL-RL's ``PPO``.
            strict: Whether the networks' tensors must have the same names.

        Returns:
            Whether the iteration goes on, too.
        """
        self.num_updates = int(loaded_dict["progress"]["iterations"])
        return super().load(loaded_dict, load_cfg, strict)

    def _load_actor(self) -> None:
        state, _ = load_checkpoint(self._checkpoint, self.device, ("algorithm",))
        learned = _without_noise(next(iter(acting_weights(state["algorithm"]).values()), {}))
        here = self._raw_actor.state_dict()

        check_weights(self._checkpoint, {"actor": _without_noise(here)}, {"actor": learned})
        self._raw_actor.load_state_dict({**here, **learned})

    def _set_learning_rate(self, rate: float) -> None:
        self.learning_rate = rate
        for group in self.optimizer.param_groups:
            group["lr"] = rate


def _without_noise(weights: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in weights.items() if not name.startswith(_NOISE)}
