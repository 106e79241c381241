# SPDX-License-Identifier: BSD-3-Clause
"""The newest samples of a run, with the actions that the teacher would have taken there."""

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import h5py
import torch
from tensordict import TensorDict
from torch import Tensor

from isaaclab_pc.errors import ConfigError


class ReplayBuffer:
    """A ring of samples: once it is full, the newest ones take the place of the oldest.

    Clouds and images are kept as float16, vectors and labels as float32.
    """

    def __init__(self, shapes: Mapping[str, Sequence[int]], num_actions: int, capacity: int, device: str) -> None:
        """Allocate the ring, and touch all of it: a size that does not fit fails here and not hours later.

        It holds ``capacity`` samples of groups with these shapes, without the batch dimension, and of actions (A,).
        """
        # zeros() would not do: on a CPU, the system gives memory only once it is written to.
        self._groups = {
            name: torch.empty(
                capacity, *shape, dtype=torch.float32 if len(shape) == 1 else torch.float16, device=device
            ).fill_(0.0)
            for name, shape in shapes.items()
        }
        self._labels = torch.empty(capacity, num_actions, device=device).fill_(0.0)
        self.shapes = {**{name: tuple(shape) for name, shape in shapes.items()}, "actions": (num_actions,)}
        """Shapes of a sample's observation groups and actions, by name."""
        self._capacity = capacity
        self._added = 0

    def __len__(self) -> int:
        """Return how many samples are held."""
        return min(self._added, self._capacity)

    @torch.no_grad()
    def add(self, obs: Mapping[str, Tensor], labels: Tensor) -> None:
        """Add one sample of every environment; of more than the ring holds, the last ones are kept.

        ``obs`` are observation groups by name, at least those that are kept; ``labels`` the teacher's actions (N, A).
        """
        added = labels.shape[0]
        kept = min(added, self._capacity)
        start = (self._added + added - kept) % self._capacity
        until_end = min(kept, self._capacity - start)

        groups = [(ring, obs[name]) for name, ring in self._groups.items()]
        for ring, values in [*groups, (self._labels, labels)]:
            newest = values[added - kept :]
            ring[start : start + until_end] = newest[:until_end]
            ring[: kept - until_end] = newest[until_end:]
        self._added += added

    def minibatches(self, count: int, size: int) -> Iterator[tuple[TensorDict, Tensor]]:
        """Draw observation groups and labels, (size, A); no sample comes again before all of them had their turn."""
        wanted = count * size
        passes = [torch.randperm(len(self), device=self._labels.device) for _ in range(math.ceil(wanted / len(self)))]
        for chosen in torch.cat(passes)[:wanted].split(size):
            groups = {name: ring.index_select(0, chosen) for name, ring in self._groups.items()}
            yield TensorDict(groups, batch_size=[size]), self._labels.index_select(0, chosen)

    def newest(self, count: int, names: Sequence[str]) -> TensorDict:
        """Return groups of the samples that were added last, batch (count,), the oldest first."""
        last = torch.arange(self._added - count, self._added, device=self._labels.device) % self._capacity
        return TensorDict({name: self._groups[name][last] for name in names}, batch_size=[count])


def num_steps_of(demos: Path) -> int:
    """Return how many steps the episodes of a file of demonstrations have.

    Raises:
        ConfigError: It holds no episodes, or is no such file.
    """
    try:
        count = sum(len(episode["actions"]) for episode in _episodes(demos))
    except (OSError, KeyError) as error:
        raise ConfigError(f"demos={demos} is no file of demonstrations ({error}): see docs/demos.md.") from error
    if count == 0:
        raise ConfigError(f"demos={demos} holds no successful episodes: record some with scripts/demo.py.")
    return count


def add_demos(replay: ReplayBuffer, demos: Path) -> None:
    """Add all steps of a file of demonstrations.

    Raises:
        ConfigError: Its observations or actions are not those of the policy.
    """
    for episode in _episodes(demos):
        values = {}
        for name, shape in replay.shapes.items():
            key = name if name == "actions" else f"obs/{name}"
            there = tuple(episode[key].shape[1:]) if key in episode else "not there"
            if there != shape:
                raise ConfigError(
                    f"demos={demos}: {name} are {there} in a step of the file, and {shape} in this run. Give the "
                    "settings that it was recorded with, or record it with those of the run."
                )
            values[name] = torch.from_numpy(episode[key][:])
        replay.add(values, values["actions"])


def _episodes(demos: Path) -> Iterator[Any]:
    """Yield the groups ``demo_<i>`` of a file in robomimic's layout, without those that are marked as failures."""
    with h5py.File(demos, "r", locking=False) as file:
        data: Any = file["data"]
        yield from (episode for episode in data.values() if episode.attrs.get("success", True))
