# SPDX-License-Identifier: BSD-3-Clause
"""Torch's current stream as Warp's."""

from __future__ import annotations

import functools

import torch
import warp as wp

__all__ = ["current_stream"]


def current_stream(device: torch.device) -> wp.Stream | None:
    """Return torch's current stream of a device, for ``wp.launch``; None on the CPU."""
    return _wrapper(torch.cuda.current_stream(device)) if device.type == "cuda" else None


@functools.cache
def _wrapper(stream: torch.cuda.Stream) -> wp.Stream:
    wp.init()
    # Wrappers are kept: when one is deleted, Warp drops the stream, even where it is Warp's own current one.
    return wp.stream_from_torch(stream)
