# SPDX-License-Identifier: BSD-3-Clause
"""One number of environments for several GPUs: a search for each kind of GPU, of which the smallest answer holds.

All processes of a run on several GPUs have the same number of environments, so the GPU with the least room decides.
Loads no torch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.scaling.auto_num_envs import KeyParts, apply_overrides, find_num_envs
from isaaclab_pc.scaling.fit import ChildCommand, FitResult
from isaaclab_pc.scaling.gpu import Gpu
from isaaclab_pc.scaling.search_settings import SearchSettings
from isaaclab_pc.scaling.trial import Overrides, Trial, format_size
from isaaclab_pc.settings import RunSettings
from isaaclab_pc.terminal.screen import current

__all__ = ["FIRST_GPU_RESERVE", "GpuGroup", "GroupSearch", "find_num_envs_for_gpus", "group_gpus", "smallest_answer"]

FIRST_GPU_RESERVE = 512 << 20
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


GroupSearch = Callable[[GpuGroup, int | None, Overrides], FitResult]
"""``search(group, num_envs, overrides)`` finds a number on the group's device, or tries only ``num_envs`` where that is
given. The overrides take the place of the user's settings."""


def find_num_envs_for_gpus(
    run: RunSettings,
    command: ChildCommand,
    settings: SearchSettings,
    key_parts: KeyParts,
    on_trial: Callable[[Trial], None],
) -> FitResult:
    """Find the number of environments that fits on each of several GPUs, showing each trial.

    Args:
        run: The run's settings; ``device`` names the GPUs, the first process's first.
        command: As for :func:`~isaaclab_pc.scaling.auto_num_envs.find_num_envs`; it has to let the setting ``device``
            be overridden.
        settings: How to search, on each kind of GPU.
        key_parts: Tells what an answer depends on.
        on_trial: Called with each trial; its ``device`` tells the GPU.

    Returns:
        The answer; it has been printed.

    Raises:
        ConfigError: A GPU cannot be read, no size fits, or the config is refused by the first child.
        ProbeError: A trial failed for another reason than its size.
    """
    devices = run.device.split(",")

    def search(group: GpuGroup, num_envs: int | None, overrides: Overrides) -> FitResult:
        reserved = f", {format_size(group.reserve)} of it kept for the other processes" if group.reserve else ""
        current().say(f"{group.device}{reserved}, for {', '.join(group.devices)}:")

        for_group: Overrides = {**overrides, "device": group.device}
        only_size = {} if num_envs is None else {"min": num_envs, "max": num_envs, "granule": num_envs}

        def group_command(size: int, result_path: Path, retry_overrides: Overrides) -> list[str]:
            return command(size, result_path, {**for_group, **retry_overrides})

        return find_num_envs(
            apply_overrides(run, for_group),
            group_command,
            settings.with_values({"device": group.device, **only_size}),
            key_parts,
            lambda trial: on_trial(replace(trial, device=group.device)),
            processes=len(devices),
            reserve=group.reserve,
        )

    result = smallest_answer(group_gpus(devices), search)
    current().decide(f"num_envs={result.num_envs} on each of {', '.join(devices)}")
    return result


def group_gpus(
    devices: Sequence[str], reserve_per_process: int = FIRST_GPU_RESERVE, open_gpu: Callable[[str], Gpu] = Gpu
) -> list[GpuGroup]:
    """Group GPUs that can stand for each other.

    Args:
        devices: ``cuda:N`` of every process of the run, the first process's first.
        reserve_per_process: Memory that each further process needs on the first one's GPU [bytes].
        open_gpu: Opens a GPU to read its model and memory.

    Returns:
        A group for each model and total memory, in the order in which they come. The device of a group is its GPU with
        the least free memory; what is reserved on the first process's GPU does not count as free.

    Raises:
        ConfigError: A GPU is named twice, or cannot be read.
    """
    if len(set(devices)) < len(devices):
        raise ConfigError(f"device={','.join(devices)} names a GPU twice: one process has a GPU for itself.")

    # (free memory, device, reserve) of each GPU, by model.
    members: dict[str, list[tuple[int, str, int]]] = {}
    for rank, device in enumerate(devices):
        gpu = open_gpu(device)
        reserve = reserve_per_process * (len(devices) - 1) if rank == 0 else 0
        members.setdefault(gpu.model, []).append((gpu.free() - reserve, device, reserve))

    groups = []
    for same_model in members.values():
        _, fullest, reserve = min(same_model, key=lambda member: member[0])
        groups.append(GpuGroup(tuple(device for _, device, _ in same_model), fullest, reserve))
    return groups


def smallest_answer(groups: Sequence[GpuGroup], search: GroupSearch) -> FitResult:
    """Search once for each group and take the smallest answer.

    Args:
        groups: From :func:`group_gpus`.
        search: Finds the answer of a group.

    Returns:
        The answer with the fewest environments. Where another group found more, the smaller number was tried there too,
        with the settings that go with it: a size that was not tried is never used.

    Raises:
        ConfigError: No size fits some group.
        ProbeError: A trial failed for another reason than its size.
    """
    answers = [search(group, None, {}) for group in groups]
    smallest = min(answers, key=lambda answer: answer.num_envs)

    tried = [(answer.num_envs, answer.overrides) for answer in answers]
    while others := [i for i, size in enumerate(tried) if size != (smallest.num_envs, smallest.overrides)]:
        answer = search(groups[others[0]], smallest.num_envs, smallest.overrides)
        smallest = replace(smallest, overrides={**smallest.overrides, **answer.overrides})
        tried[others[0]] = (smallest.num_envs, smallest.overrides)
    return smallest
