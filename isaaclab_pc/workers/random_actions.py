# SPDX-License-Identifier: BSD-3-Clause
"""Random actions that stress the physics, or disturb an expert."""

import torch

HOLD_STEPS = 10
"""Mean number of steps for which an environment keeps a random action. Actions that change at every step would average
out and hardly move the robot."""


class RandomActions:
    """Actions over the whole range, each kept for a random time.

    Half of them are uniform in [-1, 1], the other half have every component at -1 or 1. They fill a ``share`` of the
    time; in the rest, every component is NaN.
    """

    def __init__(
        self, num_envs: int, num_actions: int, device: str, seed: int, hold_steps: int = HOLD_STEPS, share: float = 1.0
    ) -> None:
        """Draw the first actions for N environments with A actions; ``hold_steps`` is the mean of a random time."""
        self._redraw = 1.0 / hold_steps
        self._share = share
        self._generator = torch.Generator(device).manual_seed(seed)
        self._shape = (num_envs, num_actions)
        self._device = device
        self._actions = self._draw()

    def __call__(self) -> torch.Tensor:
        """Return the actions of the next step, shape (N, A), float32."""
        redraw = self._chance(self._redraw)
        self._actions = torch.where(redraw, self._draw(), self._actions)
        return self._actions

    def _draw(self) -> torch.Tensor:
        uniform = 2.0 * torch.rand(self._shape, generator=self._generator, device=self._device) - 1.0
        drawn = torch.where(self._chance(0.5), uniform.sign(), uniform)
        return drawn if self._share == 1.0 else torch.where(self._chance(self._share), drawn, torch.nan)

    def _chance(self, probability: float) -> torch.Tensor:
        """Return True with a probability for each environment, shape (N, 1)."""
        return torch.rand(self._shape[0], 1, generator=self._generator, device=self._device) < probability
