# SPDX-License-Identifier: BSD-3-Clause
"""Random actions that stress the physics."""

import torch

HOLD_STEPS = 10
"""Mean number of steps for which an environment keeps a random action. Actions that change at every step would average
out and hardly move the robot."""


class RandomActions:
    """Actions over the whole range, each kept for a random time.

    Half of them are uniform in [-1, 1], the other half have every component at -1 or 1.
    """

    def __init__(self, num_envs: int, num_actions: int, device: str, seed: int) -> None:
        """Draw the first actions for N environments with A actions."""
        self._generator = torch.Generator(device).manual_seed(seed)
        self._shape = (num_envs, num_actions)
        self._device = device
        self._actions = self._draw()

    def __call__(self) -> torch.Tensor:
        """Return the actions of the next step, shape (N, A), float32."""
        redraw = self._chance(1.0 / HOLD_STEPS)
        self._actions = torch.where(redraw, self._draw(), self._actions)
        return self._actions

    def _draw(self) -> torch.Tensor:
        uniform = 2.0 * torch.rand(self._shape, generator=self._generator, device=self._device) - 1.0
        return torch.where(self._chance(0.5), uniform.sign(), uniform)

    def _chance(self, probability: float) -> torch.Tensor:
        """Return True with a probability for each environment, shape (N, 1)."""
        return torch.rand(self._shape[0], 1, generator=self._generator, device=self._device) < probability
