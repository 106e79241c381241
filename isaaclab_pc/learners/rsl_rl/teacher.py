# SPDX-License-Identifier: BSD-3-Clause
"""Who tells a student what to do: the task's expert, or a policy that sees the simulator's state."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from rsl_rl.models import MLPModel
from torch import Tensor, nn

from isaaclab_pc.learners.common.checkpoint_file import acting_weights, check_weights, load_checkpoint


class Teacher(nn.Module, ABC):
    """Gives the right action for the state in which each environment is."""

    def prepare(self) -> None:
        """Get ready to teach. Called when a training begins, not where a trained student is only used."""

    def reset(self, dones: Tensor | None = None) -> None:
        """Do nothing: a teacher has no memory."""

    @abstractmethod
    def forward(self, obs: Mapping[str, Tensor]) -> Tensor:
        """Return the actions, (N, A), in [-1, 1], for the observation groups of the present state."""


class ExpertTeacher(Teacher):
    """The task's own expert, which reads the simulator."""

    def __init__(self, env: Any) -> None:
        """Remember the unwrapped environment; its ``expert()`` returns a function that gives actions (N, A)."""
        super().__init__()
        self._env = env
        self._expert: Callable[[], Tensor] | None = None

    def prepare(self) -> None:
        """Make the expert."""
        if self._expert is None:
            self._expert = self._env.expert()

    def forward(self, obs: Mapping[str, Tensor]) -> Tensor:
        """Return the expert's actions, (N, A); it reads the environment and not ``obs``."""
        assert self._expert is not None
        # RSL-RL's rollout runs in inference mode, and nothing of the environment may be made in it.
        with torch.inference_mode(False), torch.no_grad():
            return self._expert()


class PolicyTeacher(Teacher):
    """A trained policy, which sees the simulator's state."""

    def __init__(self, model: MLPModel, checkpoint: Path) -> None:
        """Take the policy's network; its weights come from the checkpoint with :meth:`prepare`."""
        super().__init__()
        self.model = model
        self._checkpoint = checkpoint
        self._is_ready = False

    def prepare(self) -> None:
        """Load the weights.

        Raises:
            ConfigError: It is no checkpoint, or one of another network.
        """
        # A training prepares after each evaluation again, when the run that made the file may have removed it.
        if self._is_ready:
            return

        device = next(self.model.parameters()).device
        state, _ = load_checkpoint(self._checkpoint, str(device), ("algorithm",))
        weights = next(iter(acting_weights(state["algorithm"]).values()), {})

        check_weights(self._checkpoint, {"teacher": self.model.state_dict()}, {"teacher": weights})
        self.model.load_state_dict(weights)
        self.model.requires_grad_(False)
        self._is_ready = True

    def forward(self, obs: Mapping[str, Tensor]) -> Tensor:
        """Return the means of the policy's actions, as the environment clips them, (N, A)."""
        with torch.no_grad():
            return self.model(obs).clamp(-1.0, 1.0)
