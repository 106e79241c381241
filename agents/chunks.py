# SPDX-License-Identifier: BSD-3-Clause
"""Encoders in chunks: whatever the minibatch, the activations of few samples are held at once. Torch only."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

_MOST_ROWS = 1 << 20
"""Rows per chunk of activations where no chunk is given: 128 MiB for each 32 features."""

_CACHED_ROWS = 1 << 14
"""Rows that pass at once on a CPU: their activations stay in its cache and in memory that the allocator keeps, which
makes a pass two to three times as fast."""


def most_at_once(rows: int, chunk: int | None) -> int:
    """Return how many samples, of some rows of activations each, are held at once; ``chunk=None``: 2^20 rows."""
    return chunk or max(1, _MOST_ROWS // rows)


def split_batch(batch: Tensor, rows: int, chunk: int | None) -> tuple[Tensor, ...]:
    """Cut a batch (B, ...) into what passes an encoder at once: at most :func:`most_at_once`, on a CPU less."""
    at_once = most_at_once(rows, chunk)
    if batch.device.type == "cpu":
        at_once = min(at_once, max(1, _CACHED_ROWS // rows))
    return batch.split(at_once)


class ChunkedEncoder(nn.Module):
    """Runs an encoder in chunks, so that a larger batch holds no more activations; values and gradients stay the same.

    A batch of more than a chunk passes in parts, of which only the inputs are kept: the backward pass evaluates each
    part again. It takes about a third longer then.
    """

    def __init__(self, net: Any, chunk: int | None = None) -> None:
        """Wrap an encoder that maps samples (B, ...) to latents (B, L), each by itself.

        Its ``rows(batch)`` are the rows of activations that a sample makes, its ``latent_dim`` is L. ``chunk`` are the
        samples in a chunk; None: as many as make 2^20 rows.
        """
        super().__init__()
        self.net = net
        self.latent_dim: int = net.latent_dim
        self.chunk = chunk

    def dense(self) -> nn.Module:
        """Return the encoder, which TorchScript and ONNX can express."""
        return self.net

    def at_once(self, batch: Tensor) -> int:
        """Return how many samples of a batch (B, ...) have their activations held at once."""
        return most_at_once(self.net.rows(batch), self.chunk)

    def forward(self, batch: Tensor) -> Tensor:
        """Encode samples (B, ...) of any float dtype to latents (B, L)."""
        parts = split_batch(batch, self.net.rows(batch), self.chunk)
        if not torch.is_grad_enabled() or batch.shape[0] <= self.at_once(batch):
            return torch.cat([self.net(part) for part in parts])
        again: list[Any] = [checkpoint(self.net, part, use_reentrant=False, preserve_rng_state=False) for part in parts]
        return torch.cat(again)
