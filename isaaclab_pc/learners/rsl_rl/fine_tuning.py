# SPDX-License-Identifier: BSD-3-Clause
"""PPO that starts from a distilled policy, behind RSL-RL's runner."""

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from rsl_rl.algorithms import PPO
from rsl_rl.models import MLPModel
from rsl_rl.storage import RolloutStorage
from torch import Tensor

from isaaclab_pc.learners.common.checkpoint_file import acting_weights, check_weights, load_checkpoint

_NOISE = "distribution."
"""Begins the names of an actor's weights that say how far its actions scatter."""


class FineTuning(PPO):
    """PPO that starts from a trained actor and lets the critic learn alone first.

    The critic has seen nothing when the run begins. With its advantages, which are noise, the actor would lose its
    skill in a few updates. So the actor is left as it is until the critic knows the worth of its actions, and the
    critic has a learning rate of its own, which does not fall with the size of the actor's steps. The actor's
    statistics of the observations stay for good. The standard deviation of the actions is the configured one.

    From then on, the actor is held near the policy that it began as, ever less: the divergence from it is a further
    loss, as in kickstarting (Schmitt et al., arXiv 1803.03835).
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
        reference_coef: float,
        reference_iterations: int,
        **ppo: Any,
    ) -> None:
        """Prepare; the policy is read when the training begins.

        See :class:`~isaaclab_pc.learners.rsl_rl.cfg.FineTuneAlgorithmCfg` for the arguments that RSL-RL's ``PPO``
        lacks.
        """
        super().__init__(actor, critic, storage, **ppo)
        self.num_updates = 0
        """Iterations since the start of the run, those before a resume included."""

        self._checkpoint = Path(checkpoint)
        self._critic_iterations = critic_iterations
        self._critic_learning_rate = critic_learning_rate
        self._first_rate = self.learning_rate
        groups = [{"params": list(network.parameters())} for network in (self.actor, self.critic)]
        self.optimizer = type(self.optimizer)(groups, lr=self.learning_rate)
        # The schedule sets the rate of both.
        self.optimizer.register_step_pre_hook(self._set_critic_rate)

        self._reference_coef = reference_coef
        self._reference_iterations = reference_iterations
        self._reference = _Reference(actor)
        # RSL-RL's PPO adds one more loss in every minibatch, if there is any, and takes it for that of a symmetry.
        self.symmetry: Any = self._reference

    @property
    def reference_coef(self) -> float:
        """Weight of the divergence from the first policy in the next update."""
        actor_iterations = max(self.num_updates - self._critic_iterations, 0)
        return self._reference_coef * max(1.0 - actor_iterations / self._reference_iterations, 0.0)

    def train_mode(self) -> None:
        """Take the policy's weights, if this is where a run begins: RSL-RL calls this when a training does.

        Raises:
            ConfigError: It is no checkpoint, or one of another network; the message names the first layer that differs.
        """
        super().train_mode()
        # Statistics of what PPO sees would change the inputs of a network that was trained with others.
        self._raw_actor.obs_normalizer.eval()
        if self.num_updates > 0:
            return

        state, _ = load_checkpoint(self._checkpoint, self.device, ("algorithm",))
        learned = _without_noise(next(iter(acting_weights(state["algorithm"]).values()), {}))
        here = self._raw_actor.state_dict()
        check_weights(self._checkpoint, {"actor": _without_noise(here)}, {"actor": learned})
        self._raw_actor.load_state_dict({**here, **learned})
        self._reference.actor.load_state_dict(self._raw_actor.state_dict())

    def update(self) -> dict[str, float]:
        """Learn from the rollout, the critic alone at first, then both; return the mean of each loss."""
        if self.num_updates <= self._critic_iterations:
            # The schedule may have taken rounding for a change of the actor.
            self.learning_rate = self._first_rate
        self._raw_actor.requires_grad_(self.num_updates >= self._critic_iterations)
        self._reference.mirror_loss_coeff = self.reference_coef

        losses = super().update()
        losses["reference"] = losses.pop("symmetry")
        self.num_updates += 1
        return losses

    def save(self) -> dict[str, Any]:
        """Return the networks, that of the first policy included, the optimizer and the progress."""
        first = {"reference_state_dict": self._reference.actor.state_dict()}
        return {**super().save(), **first, "progress": {"iterations": torch.tensor(self.num_updates)}}

    def load(self, loaded_dict: dict, load_cfg: dict | None, strict: bool) -> bool:
        """Restore a result of :meth:`save`; return whether the iteration is restored, too."""
        self.num_updates = int(loaded_dict["progress"]["iterations"])
        self._reference.actor.load_state_dict(loaded_dict["reference_state_dict"], strict=strict)
        return super().load(loaded_dict, load_cfg, strict)

    def _set_critic_rate(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        _, of_critic = optimizer.param_groups
        of_critic["lr"] = self._critic_learning_rate


class _Reference:
    """The policy that an actor began as, in the form of RSL-RL's ``Symmetry``."""

    use_mirror_loss = True

    def __init__(self, actor: MLPModel) -> None:
        self.actor = copy.deepcopy(actor).requires_grad_(False)
        self.mirror_loss_coeff = 0.0

    def augment_batch(self, batch: RolloutStorage.Batch, original_batch_size: int) -> None:
        """Leave the minibatch as it is."""

    def compute_loss(self, actor: MLPModel, batch: RolloutStorage.Batch, original_batch_size: int) -> Tensor:
        """Return the mean KL divergence from the first policy of an actor that has been asked for this minibatch."""
        self.actor(batch.observations, stochastic_output=True)
        first = self.actor.output_distribution_params
        return actor.get_kl_divergence(first, actor.output_distribution_params).mean()


def _without_noise(weights: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in weights.items() if not name.startswith(_NOISE)}
