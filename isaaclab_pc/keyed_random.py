# SPDX-License-Identifier: BSD-3-Clause
"""Random numbers that depend on a key, not on how many were drawn before.

A draw is a hash of (seed, environment, episode, stream), so an extra reset of one environment never shifts what its
neighbours get. The hash is the finalizer of SplitMix64 (Steele, Lea and Flood 2014, "Fast splittable pseudorandom
number generators"), applied once per part of the key.
"""

from __future__ import annotations

import torch

__all__ = ["keyed_hash", "keyed_uniform"]


def _signed(value: int) -> int:
    """Return the int64 with the bits of an unsigned number."""
    return value - (1 << 64) if value >= 1 << 63 else value


_GOLDEN_GAMMA = _signed(0x9E3779B97F4A7C15)
_MIX_1 = _signed(0xBF58476D1CE4E5B9)
_MIX_2 = _signed(0x94D049BB133111EB)


def _shift_right(value: torch.Tensor, bits: int) -> torch.Tensor:
    """Shift as if unsigned: torch's shift of int64 repeats the sign bit."""
    return (value >> bits) & ((1 << (64 - bits)) - 1)


def _mix(value: torch.Tensor) -> torch.Tensor:
    value = value + _GOLDEN_GAMMA
    value = (value ^ _shift_right(value, 30)) * _MIX_1
    value = (value ^ _shift_right(value, 27)) * _MIX_2
    return value ^ _shift_right(value, 31)


def keyed_hash(seed: int, *key: torch.Tensor | int) -> torch.Tensor:
    """Hash integer keys.

    Args:
        seed: Seed of the whole run.
        *key: Parts of the key: int64 tensors or ints that broadcast against each other, at least one a tensor.

    Returns:
        Hashes, int64, of the keys' broadcast shape.
    """
    # Mixed before the first part is added: otherwise seed 3, environment 1 and seed 4, environment 0 would be one key.
    value = _mix(torch.as_tensor(seed, dtype=torch.int64))
    for part in key:
        value = _mix(value + part)
    return value


def keyed_uniform(seed: int, env_ids: torch.Tensor, episode: torch.Tensor, stream: int, columns: int) -> torch.Tensor:
    """Draw uniform numbers in [0, 1).

    Args:
        seed: Seed of the whole run.
        env_ids: Environments, shape (M,), integer.
        episode: Episode counters of those environments, shape (M,), integer.
        stream: Number that tells draws of the same episode apart that must be independent.
        columns: Numbers per environment.

    Returns:
        Shape (M, columns), float32.
    """
    index = torch.arange(columns, device=env_ids.device)
    bits = keyed_hash(seed, env_ids.long()[:, None], episode.long()[:, None], stream, index)
    return _shift_right(bits, 40).float() * 2.0**-24
