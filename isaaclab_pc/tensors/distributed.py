# SPDX-License-Identifier: BSD-3-Clause
"""Means over all processes that train together, taken with torch's process group.

Without a process group, there is one process and nothing to share. Torch only.
"""

from collections.abc import Iterable

import torch
import torch.distributed as dist
from torch import Tensor, nn


def world_size() -> int:
    """Return the number of processes that train together."""
    return dist.get_world_size() if dist.is_initialized() else 1


def world_rank() -> int:
    """Return which of them this is: 0 is the one that decides, writes and evaluates."""
    return dist.get_rank() if dist.is_initialized() else 0


def average(values: Tensor) -> Tensor:
    """Return the mean over all processes of a tensor of the same shape in each; the tensor stays as it is."""
    if world_size() == 1:
        return values
    total = values.detach().clone()
    dist.all_reduce(total)
    return total / world_size()


def average_number(value: float) -> float:
    """Return the mean of a number of the host over all processes."""
    return float(average(torch.tensor(value))) if world_size() > 1 else value


def average_gradients(parameters: Iterable[nn.Parameter]) -> None:
    """Replace gradients by their means over all processes, in place; one without a gradient has none in any."""
    if world_size() > 1:
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        nn.utils.vector_to_parameters(average(nn.utils.parameters_to_vector(gradients)), gradients)


def broadcast_module(module: nn.Module) -> None:
    """Give a module the weights and buffers that it has in the first process."""
    if world_size() > 1:
        for tensor in module.state_dict().values():
            dist.broadcast(tensor, src=0)
