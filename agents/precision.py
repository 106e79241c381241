# SPDX-License-Identifier: BSD-3-Clause
"""Encoders in bfloat16: the context they compute in, and the layers that stay in float32. Torch only."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

__all__ = ["Float32Linear", "autocast", "in_dtype_of_autocast", "same_autocast"]


def autocast(device_type: str, precision: str) -> AbstractContextManager[Any]:
    """Return the context that an encoder computes in.

    Args:
        device_type: ``cpu`` or ``cuda``; ``meta`` knows no autocast.
        precision: ``float32`` or ``bf16``. With ``float32`` an autocast around it, of a learning library, ends here.
    """
    if device_type == "meta":
        return nullcontext()
    return torch.autocast(device_type, torch.bfloat16, enabled=precision == "bf16")


def same_autocast(device_type: str) -> AbstractContextManager[Any]:
    """Return a context that computes as it is computed now: a backward pass runs outside of the forward pass's."""
    if device_type == "meta":
        return nullcontext()
    enabled = torch.is_autocast_enabled(device_type)
    return torch.autocast(device_type, torch.get_autocast_dtype(device_type), enabled=enabled)


class Float32Linear(nn.Linear):
    """A linear layer that reads positions: bfloat16 would round them to millimetres.

    Under autocast it still computes in float32; its result is in autocast's dtype.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Map (..., in_features) to (..., out_features)."""
        with autocast(input.device.type, "float32"):
            result = functional.linear(input, self.weight, self.bias)
        return in_dtype_of_autocast(result)


def in_dtype_of_autocast(result: Tensor) -> Tensor:
    """Return a tensor of any shape in the dtype that an autocast around it computes in; without one, as it is."""
    device_type = result.device.type
    if device_type != "meta" and torch.is_autocast_enabled(device_type):
        return result.to(torch.get_autocast_dtype(device_type))
    return result
