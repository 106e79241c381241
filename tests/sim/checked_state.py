# SPDX-License-Identifier: BSD-3-Clause
"""Compares every kept value, whenever it is read, with what would be computed now."""

from collections.abc import Callable
from dataclasses import astuple
from typing import Any

import torch

from isaaclab_pc.envs.arm_control import ArmState
from isaaclab_pc.envs.kept import StandingState


class CheckedState(StandingState):
    """Takes the place of ``env.standing_state``."""

    def __init__(self) -> None:
        """Nothing was read yet."""
        super().__init__()
        self.kept_reads = 0
        """How often a value was read that might have been kept."""

    def read(self, function: Callable[[Any], Any], env: Any) -> Any:
        """Return the value, which must be that of this moment."""
        value = super().read(function, env)
        values, self._values = self._values, None
        fresh = function(env)
        self._values = values
        self.kept_reads += values is not None
        for now, then in zip(_tensors(fresh), _tensors(value), strict=True):
            torch.testing.assert_close(then, now, rtol=0.0, atol=0.0, equal_nan=True, msg=f"{function} is old")
        return value


def _tensors(value: Any) -> tuple[torch.Tensor, ...]:
    return astuple(value) if isinstance(value, ArmState) else (value,)
