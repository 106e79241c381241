# SPDX-License-Identifier: BSD-3-Clause
"""The number of environments of each process of a run: one, one for each GPU, or those of a cluster. Loads no torch."""

from __future__ import annotations

from collections.abc import Callable

from isaaclab_pc.launch.answer_parts import answer_parts
from isaaclab_pc.launch.platform import gpu_count
from isaaclab_pc.launch.probe_child import probe_command
from isaaclab_pc.scaling import SearchSettings
from isaaclab_pc.scaling.auto_num_envs import find_num_envs
from isaaclab_pc.scaling.fit import FitResult
from isaaclab_pc.scaling.several_gpus import find_num_envs_for_gpus
from isaaclab_pc.scaling.trial import Trial
from isaaclab_pc.settings import RunSettings

__all__ = ["find_for_ranks"]


def find_for_ranks(settings: RunSettings, on_trial: Callable[[Trial], None]) -> FitResult:
    """Find the number of environments that each process of a run can have, showing each trial.

    Args:
        settings: The run's settings, device and algorithm chosen.
        on_trial: Called with each trial.

    Returns:
        The answer; it has been printed.

    Raises:
        ConfigError: A GPU cannot be read, no size fits, or the config is refused by the first child.
        ProbeError: A trial failed for another reason than its size.
    """
    command = probe_command(settings)
    search = SearchSettings.of(settings)
    here = settings.gpus
    if settings.cluster is not None:
        # What this machine can take stands for all of them.
        here = settings.workers if settings.device == "cpu" else min(settings.workers, gpu_count())
    if here == 1 or settings.device == "cpu":
        return find_num_envs(settings, command, search, answer_parts, on_trial, processes=here)

    devices = ",".join(f"cuda:{index}" for index in range(here))
    return find_num_envs_for_gpus(settings.with_values({"device": devices}), command, search, answer_parts, on_trial)
