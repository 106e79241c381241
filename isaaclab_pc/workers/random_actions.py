# SPDX-License-Identifier: BSD-3-Clause
"""Random actions that try what physics bears."""

from __future__ import annotations

import torch

HOLD_STEPS = 10
"""Mean number of steps for which an environment keeps a random action: one drawn anew at each step averages out."""


class RandomActions:
    """Full-range actions: kept for a random time, half of them uniform in [-1, 1], half at the corners of that box."""

    def __init__(self, num_envs: int, num_actions: int, device: str, seed: int) -> None:
        """Draw the first actions.

        Args:
            num_envs: N.
            num_actions: A.
            device: Where the actions are.
            seed: Of all draws.
        """
        self._generator = torch.Generator(device).manual_seed(seed)
        self._shape, self._device = (num_envs, num_actions), device
        self._actions = self._draw()

    def __call__(self) -> torch.Tensor:
        """Return the actions of the next step, shape (N, A), float32."""
        redraw = torch.rand(self._shape[0], 1, generator=self._generator, device=self._device) < 1.0 / HOLD_STEPS
        self._actions = torch.where(redraw, self._draw(), self._actions)
        return self._actions

    def _draw(self) -> torch.Tensor:
        uniform = 2.0 * torch.rand(self._shape, generator=self._generator, device=self._device) - 1.0
        corner = torch.rand(self._shape[0], 1, generator=self._generator, device=self._device) < 0.5
        return torch.where(corner, uniform.sign(), uniform)
