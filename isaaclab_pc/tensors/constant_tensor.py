# SPDX-License-Identifier: BSD-3-Clause
"""Tensors of constants, made once: making one from Python's numbers copies them to the device and waits for it."""

import functools

import torch


@functools.lru_cache(maxsize=1024)
def constant_tensor(
    values: tuple[float, ...], device: torch.device | str, dtype: torch.dtype = torch.float32
) -> torch.Tensor:
    """Return the tensor of some numbers, shape (D,), the same one for the same numbers: read it only."""
    # Whoever asks first may be in inference mode, and others compute gradients.
    with torch.inference_mode(False):
        return torch.tensor(values, device=device, dtype=dtype)
