# SPDX-License-Identifier: BSD-3-Clause
"""Random numbers that depend on a key, not on how many were drawn before.

A draw is a hash of (seed, environment, episode, stream), so an extra reset of one environment never shifts what its
neighbours get. The hash is the finalizer of SplitMix64 (Steele, Lea and Flood 2014, "Fast splittable pseudorandom
number generators"), applied once per part of the key.
"""

import torch

from isaaclab_pc.tensors import keyed_random_kernels as kernels
from isaaclab_pc.tensors.warp_stream import launch_rows


def keyed_hash(seed: int, env_ids: torch.Tensor, stream: int, *more: torch.Tensor) -> torch.Tensor:
    """Hash integer keys to int64, shape (M,), of the run's seed, environments (M,) and a stream.

    ``more`` are up to two further parts of the key, each of shape (M,), integer.

    Raises:
        ValueError: A part has another shape or device than ``env_ids``.
    """
    env_ids, *more_parts = _as_int64(env_ids, *more)
    hashes = torch.empty_like(env_ids)
    first, second = more_parts + [hashes[:0]] * (2 - len(more))
    launch_rows(kernels.hash_keys, seed, env_ids, stream, first, second, hashes)
    return hashes


def keyed_uniform(seed: int, env_ids: torch.Tensor, episode: torch.Tensor, stream: int, columns: int) -> torch.Tensor:
    """Draw uniform numbers in [0, 1), shape (M, columns), float32; keys and errors as for :func:`keyed_hash`."""
    env_ids, episode = _as_int64(env_ids, episode)
    numbers = torch.empty(len(env_ids), columns, device=env_ids.device)
    launch_rows(kernels.draw_uniform, seed, env_ids, episode, stream, numbers)
    return numbers


def _as_int64(*parts: torch.Tensor) -> list[torch.Tensor]:
    # A kernel would read beyond the end of a shorter one.
    places = {(tuple(part.shape), str(part.device)) for part in parts}
    if len(places) > 1 or parts[0].dim() != 1:
        raise ValueError(f"the parts of a key must have one shape (M,) and one device, and have {sorted(places)}")
    return [part.long() for part in parts]
