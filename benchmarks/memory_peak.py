# SPDX-License-Identifier: BSD-3-Clause
"""The most memory that torch's tensors take at once, on any device."""

import weakref
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class MemoryPeak(TorchDispatchMode):
    """Counts the storages that are made while it is active, until they are freed."""

    def __init__(self) -> None:
        """Start at 0: existing storages are ignored."""
        super().__init__()
        self._live = 0
        self._peak = 0
        self._seen: weakref.WeakSet[Any] = weakref.WeakSet()

    @property
    def bytes(self) -> int:
        """Most that was held at once [bytes]."""
        return self._peak

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operator and count the storages that it made."""
        for value in tree_leaves((args, kwargs)):
            if isinstance(value, Tensor):
                self._seen.add(value.untyped_storage())

        result = func(*args, **(kwargs or {}))
        for value in result if isinstance(result, tuple | list) else (result,):
            if isinstance(value, Tensor):
                self._count(value.untyped_storage())
        return result

    def _count(self, storage: torch.UntypedStorage) -> None:
        if storage not in self._seen:
            self._seen.add(storage)
            size = storage.nbytes()
            self._live += size
            self._peak = max(self._peak, self._live)
            weakref.finalize(storage, self._on_freed, size)

    def _on_freed(self, size: int) -> None:
        self._live -= size
