# SPDX-License-Identifier: BSD-3-Clause
"""``num_envs`` for a run on several GPUs, searched for on one GPU of each kind. Loads no torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from isaaclab_pc.scaling import FitResult, ScalingSettings, Trial
from isaaclab_pc.scaling.auto_num_envs import changed, find_num_envs
from isaaclab_pc.scaling.fit import Changes
from isaaclab_pc.scaling.several import GpuGroup, fit_several, group_gpus
from isaaclab_pc.scaling.trial import format_size
from isaaclab_pc.settings import RunSettings

__all__ = ["find_for_several"]


def find_for_several(
    run: RunSettings,
    settings: ScalingSettings,
    versions: Mapping[str, str],
    keep: Callable[[Trial], None],
) -> FitResult:
    """Find the number of environments that each of several GPUs bears.

    Args:
        run: The run's settings; ``device`` names the GPUs, the first process's first.
        settings: How to search, on each kind of GPU.
        versions: Versions of the packages that matter.
        keep: Called with each trial; its ``extra["device"]`` tells the GPU.

    Returns:
        The answer; it has been printed.

    Raises:
        ConfigError: A GPU cannot be read, no size fits, or the config is refused by the first child.
        ProbeError: A trial failed for another reason than its size.
    """
    devices = run.device.split(",")

    def search(group: GpuGroup, num_envs: int | None, changes: Changes) -> FitResult:
        reserved = f", {format_size(group.reserve)} of it kept for the other processes" if group.reserve else ""
        print(f"{group.device}{reserved}, for {', '.join(group.devices)}:", flush=True)
        only = {} if num_envs is None else {"min": num_envs, "max": num_envs, "granule": num_envs}
        return find_num_envs(
            changed(run, {**changes, "device": group.device}),
            replace(settings, device=group.device, **only),
            versions,
            lambda trial: keep(replace(trial, extra={**trial.extra, "device": group.device})),
            processes=len(devices),
            reserve=group.reserve,
        )

    result = fit_several(group_gpus(devices), search)
    print(f"num_envs={result.num_envs} on each of {', '.join(devices)}", flush=True)
    return result
