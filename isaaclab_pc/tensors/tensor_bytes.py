# SPDX-License-Identifier: BSD-3-Clause
"""How much memory the tensors of an object take."""

from collections.abc import Iterator, Mapping
from typing import Any

import torch
import warp as wp


def tensor_bytes(*holders: Any) -> int:
    """Return the memory of tensors [bytes]; each storage counts once and in full, even where only a view of it is held.

    Holders are tensors, Warp arrays, modules, or mappings and sequences of them, nested to any depth. Of any other
    object, its own attributes are searched, but not the attributes of those.
    """
    storages: dict[int, int] = {}
    for holder in holders:
        for address, size in _storages(holder, look_inside=True):
            storages[address] = max(size, storages.get(address, 0))
    return sum(storages.values())


def _storages(value: Any, *, look_inside: bool = False) -> Iterator[tuple[int, int]]:
    if isinstance(value, torch.Tensor):
        storage = value.untyped_storage()
        yield storage.data_ptr(), storage.nbytes()
    elif isinstance(value, wp.array):
        if value.ptr:
            yield int(value.ptr), value.capacity
    elif isinstance(value, torch.nn.Module):
        for tensor in (*value.parameters(), *value.buffers()):
            yield from _storages(tensor)
    elif isinstance(value, (list, tuple, set)):
        for item in value:
            yield from _storages(item)
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _storages(item)
    elif look_inside and hasattr(value, "__dict__"):
        yield from _storages(vars(value))
