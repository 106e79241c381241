# SPDX-License-Identifier: BSD-3-Clause
"""One number of environments for several GPUs: a search for each kind of GPU, of which the smallest answer holds.

All processes of a run on several GPUs have the same number of environments, so the GPU with the least room decides.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.scaling.fit import Changes, FitResult
from isaaclab_pc.scaling.gpu import Gpu

__all__ = ["FIRST_GPU_EXTRA", "GpuGroup", "Search", "fit_several", "group_gpus"]

FIRST_GPU_EXTRA = 512 << 20
"""Memory that each further process is taken to need on the first process's GPU [bytes]: about a CUDA context, which
libraries open on the default GPU. An assumption, not measured."""


@dataclass(frozen=True)
class GpuGroup:
    """GPUs of one model and size."""

    devices: tuple[str, ...]
    """``cuda:N`` of each."""
    device: str
    """The one that is searched on: it has the least room."""
    reserve: int
    """Memory of it that is not for the environments [bytes]."""


Search = Callable[[GpuGroup, int | None, Changes], FitResult]
"""``search(group, num_envs, changes)`` finds a number on the group's device, or tries the only one that is given; the
changes are settings of the run besides the user's."""


def group_gpus(
    devices: Sequence[str], extra: int = FIRST_GPU_EXTRA, open_gpu: Callable[[str], Gpu] = Gpu
) -> list[GpuGroup]:
    """Group GPUs that can stand for each other.

    Args:
        devices: ``cuda:N`` of every process of the run, the first process's first.
        extra: Memory that each further process needs on the first one's GPU [bytes].
        open_gpu: Opens a GPU to read its model and memory.

    Returns:
        A group for each model and total memory, in the order in which they come. In each, the GPU with the least free
        memory is the one to search on, what is reserved on the first process's GPU taken off.

    Raises:
        ConfigError: A GPU is named twice, or cannot be read.
    """
    if len(set(devices)) < len(devices):
        raise ConfigError(f"device={','.join(devices)} names a GPU twice: one process has a GPU for itself.")
    members: dict[str, list[tuple[int, str, int]]] = {}
    for rank, device in enumerate(devices):
        gpu = open_gpu(device)
        reserve = extra * (len(devices) - 1) if rank == 0 else 0
        members.setdefault(gpu.model, []).append((gpu.free() - reserve, device, reserve))
    groups = []
    for same in members.values():
        _, device, reserve = min(same, key=lambda member: member[0])
        groups.append(GpuGroup(tuple(device for _, device, _ in same), device, reserve))
    return groups


def fit_several(groups: Sequence[GpuGroup], search: Search) -> FitResult:
    """Search once for each group and take the smallest answer.

    Args:
        groups: From :func:`group_gpus`.
        search: Finds the answer of a group.

    Returns:
        The group's with the fewest environments. Where another group found more, that number was tried there too, with
        the settings that go with it: a size that was not tried is never used.

    Raises:
        ConfigError: No size fits some group.
        ProbeError: A trial failed for another reason than its size.
    """
    answers = [search(group, None, {}) for group in groups]
    fewest = min(answers, key=lambda answer: answer.num_envs)
    for group, answer in zip(groups, answers, strict=True):
        if (answer.num_envs, answer.changes) != (fewest.num_envs, fewest.changes):
            tried = search(group, fewest.num_envs, fewest.changes)
            fewest = replace(fewest, changes={**fewest.changes, **tried.changes})
    return fewest
