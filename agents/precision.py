# SPDX-License-Identifier: BSD-3-Clause
"""Encoders in bfloat16: the context they compute in, and the layers that stay in float32. Torch only."""

import torch
from torch import Tensor, nn
from torch.nn import functional


def autocast(device_type: str, precision: str) -> torch.autocast:
    """Return the context of an encoder with ``precision`` float32 or bf16.

    With float32, the autocast of a learning library around it ends here.
    """
    return torch.autocast(device_type, torch.bfloat16, enabled=precision == "bf16")


def same_autocast(device_type: str) -> torch.autocast:
    """Return a context with the autocast of now: a backward pass runs outside of the forward pass's."""
    enabled = torch.is_autocast_enabled(device_type)
    return torch.autocast(device_type, torch.get_autocast_dtype(device_type), enabled=enabled)


class Float32Linear(nn.Linear):
    """A linear layer of positions, which bfloat16 would round to millimetres: under autocast it computes in float32.

    Its result is in autocast's dtype.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Map (..., in_features) to (..., out_features)."""
        with autocast(input.device.type, "float32"):
            result = functional.linear(input, self.weight, self.bias)
        return in_dtype_of_autocast(result)


def in_dtype_of_autocast(result: Tensor) -> Tensor:
    """Return a tensor of any shape in the dtype that an autocast around it computes in; without one, as it is."""
    device_type = result.device.type
    if torch.is_autocast_enabled(device_type):
        return result.to(torch.get_autocast_dtype(device_type))
    return result
