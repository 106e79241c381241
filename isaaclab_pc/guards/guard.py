# SPDX-License-Identifier: BSD-3-Clause
"""Per-environment detection of non-finite and out-of-range values."""

from __future__ import annotations

from typing import Literal

import torch

from isaaclab_pc.guards.guard_cfg import GuardCfg

Cause = Literal["action", "state", "reward", "observation"]


class Guard:
    """Finds environments whose values are non-finite or larger than ``cfg.max_abs``, and counts them by cause.

    Counters stay on the device: reading them is the caller's decision.
    """

    def __init__(self, cfg: GuardCfg, num_envs: int, device: str) -> None:
        """Allocate the masks and counters.

        Args:
            cfg: Bounds and mode.
            num_envs: Number of environments.
            device: Torch device of the checked tensors.
        """
        self.cfg = cfg
        self.enabled = cfg.mode != "disabled"
        self.faulted = torch.zeros(num_envs, dtype=torch.bool, device=device)
        """Environments with a fault in the current step, shape (num_envs,)."""
        self.counts: dict[Cause, torch.Tensor] = {
            cause: torch.zeros((), dtype=torch.long, device=device)
            for cause in ("action", "state", "reward", "observation")
        }
        """Environment steps ended by each cause since the start."""

    def begin_step(self) -> None:
        """Forget the faults of the previous step."""
        self.faulted.zero_()

    def check(self, cause: Cause, *tensors: torch.Tensor) -> torch.Tensor:
        """Mark the environments in which a tensor has a bad value.

        Args:
            cause: Counter that a new fault goes to.
            *tensors: Tensors of shape (num_envs, ...), any floating dtype.

        Returns:
            Environments found bad in these tensors, shape (num_envs,), bool.
        """
        bad = torch.zeros_like(self.faulted)
        if self.enabled:
            for tensor in tensors:
                bad |= ~within(tensor, self.cfg.max_abs)
            self.mark(cause, bad)
        return bad

    def mark(self, cause: Cause, bad: torch.Tensor) -> None:
        """Count environments found bad by the caller's own check; each counts once per step.

        Args:
            cause: Counter that a new fault goes to.
            bad: Shape (num_envs,), bool.
        """
        self.counts[cause] += (bad & ~self.faulted).sum()
        self.faulted |= bad


def within(tensor: torch.Tensor, max_abs: float) -> torch.Tensor:
    """Tell which rows hold only numbers of magnitude up to ``max_abs``.

    Args:
        tensor: Shape (num_envs, ...).
        max_abs: Bound, in the tensor's unit.

    Returns:
        Shape (num_envs,), bool. NaN fails every comparison and infinities pass no finite bound, so both give False.
    """
    return (tensor.abs() <= max_abs).flatten(1).all(dim=1) if tensor.dim() > 1 else tensor.abs() <= max_abs
