# SPDX-License-Identifier: BSD-3-Clause
"""PyTorch datasets of the demonstrations that ``scripts/demo.py`` records; no simulator is needed.

Example::

    from torch.utils.data import DataLoader
    from isaaclab_pc.demos.datasets import Transitions

    for batch in DataLoader(Transitions("demos.hdf5"), batch_size=256, shuffle=True, num_workers=2):
        points, state, actions = batch["obs"]["points"].float(), batch["obs"]["policy"], batch["actions"]
"""

import bisect
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from typing import Any

import h5py
import torch
from torch.utils.data import Dataset

MAX_OPEN_DATASETS = 4096
"""Datasets of a file that stay open in a process, each with the chunks that were decompressed last."""

KEYS = ("obs", "actions", "rewards", "dones")


@dataclass(frozen=True)
class Demo:
    """Facts of one episode in a file."""

    name: str
    """Its group, ``demo_<i>``."""
    length: int
    """Steps."""
    success: bool
    """Whether the task was fulfilled in its last step."""
    seed: int
    """Seed of its reset."""


class _Demos(Dataset[dict[str, Any]]):
    """A file that is read as items are asked for, opened once in each process that asks."""

    def __init__(self, path: str | Path, keys: Sequence[str] = KEYS) -> None:
        """List the episodes.

        Args:
            path: The file.
            keys: Contents of an item, out of ``obs``, ``actions``, ``rewards``, ``dones`` and ``states``; fewer are
                read faster. A single observation group is named as ``obs/points``.

        Raises:
            FileNotFoundError: There is no such file.
            KeyError: The episodes lack one of the keys.
        """
        self.path = Path(path)
        self.keys = tuple(keys)
        with h5py.File(self.path, "r", locking=False) as file:
            data: Any = file["data"]
            # Groups are listed by the alphabet, demo_10 before demo_2.
            names = sorted(data, key=lambda name: int(name.removeprefix("demo_")))
            attrs = [data[name].attrs for name in names]
            self.demos = [
                Demo(name, int(of_demo["num_samples"]), bool(of_demo["success"]), int(of_demo["seed"]))
                for name, of_demo in zip(names, attrs, strict=True)
            ]
            """The episodes in the order of the file."""
            self._leaves: list[str] = []
            if names:
                self._leaves = [leaf for key in self.keys for leaf in _leaves(data[names[0]], key)]
        self._open: Any = None
        self._process = 0

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the open file: another process opens its own."""
        return self.__dict__ | {"_open": None, "_process": 0}

    def _read(self, demo: Demo, steps: int | slice) -> dict[str, Any]:
        if self._process != os.getpid():
            # A forked worker must not share its parent's file. Opening a dataset takes longer than reading a step.
            self._open = lru_cache(MAX_OPEN_DATASETS)(h5py.File(self.path, "r", locking=False).__getitem__)
            self._process = os.getpid()

        item: dict[str, Any] = {}
        for leaf in self._leaves:
            *groups, last = leaf.split("/")
            place = item
            for group in groups:
                place = place.setdefault(group, {})
            place[last] = torch.as_tensor(self._open(f"data/{demo.name}/{leaf}")[steps])
        return item


class Episodes(_Demos):
    """Whole episodes.

    An item is ``{"obs": {group: (T, ...)}, "actions": (T, A), "rewards": (T,), "dones": (T,)}`` of tensors, T the
    length of the episode: ``points`` (T, K, C), the first three channels x, y, z [m], float16; ``depth`` (T, 1, H, W)
    [m], float16; ``policy`` (T, P), ``critic`` (T, S), ``actions`` in [-1, 1] and ``rewards``, float32; ``dones``,
    uint8.
    """

    def __len__(self) -> int:
        """Return the number of episodes."""
        return len(self.demos)

    def __getitem__(self, index: int) -> dict[str, Any]:
        """Read one episode; an IndexError where there is no such one."""
        return self._read(self.demos[index], slice(None))


class Transitions(_Demos):
    """Single steps of all episodes, one after another: items of :class:`Episodes` without the dimension T."""

    def __init__(self, path: str | Path, keys: Sequence[str] = KEYS) -> None:
        """List the episodes; arguments and errors are those of :class:`Episodes`."""
        super().__init__(path, keys)
        self._ends = list(accumulate(demo.length for demo in self.demos))

    def __len__(self) -> int:
        """Return the number of steps in all episodes."""
        return self._ends[-1] if self._ends else 0

    def __getitem__(self, index: int) -> dict[str, Any]:
        """Read one step; an IndexError where there is no such one."""
        position = range(len(self))[index]
        episode = bisect.bisect_right(self._ends, position)
        demo = self.demos[episode]
        first_position = self._ends[episode] - demo.length
        return self._read(demo, position - first_position)


def _leaves(demo: Any, key: str) -> list[str]:
    node = demo[key]
    if not isinstance(node, Mapping):
        return [key]
    return [leaf for name in node for leaf in _leaves(demo, f"{key}/{name}")]
