# SPDX-License-Identifier: BSD-3-Clause
"""The first steps of every command that simulates: choose where it runs, refuse what cannot run. Loads no torch."""

from isaaclab_pc.assets.robots import find_robot
from isaaclab_pc.cluster.start import check_cluster
from isaaclab_pc.learners import require_library
from isaaclab_pc.run.algorithm import choose_algorithm
from isaaclab_pc.run.kernel_cache import announce_first_start, check_kernel_cache
from isaaclab_pc.run.platform import check_gpus, check_isaaclab, check_logger, choose_platform
from isaaclab_pc.settings import RunSettings
from isaaclab_pc.terminal.screen import current


def prepare(settings: RunSettings) -> RunSettings:
    """Choose the device and the physics backend of a worker, before anything is written.

    Raises:
        ConfigError: A setting does not fit this machine, or something is not installed.
    """
    check_isaaclab()
    check_kernel_cache()
    find_robot(settings.robot)
    settings = choose_platform(settings)
    announce_first_start(settings.device)
    return settings


def prepare_training(settings: RunSettings, *, begins: bool = True) -> RunSettings:
    """Choose the algorithm and the agent as well, and check what only a training needs.

    Raises:
        ConfigError: As :func:`prepare`; or settings of the algorithm, the logger, the GPUs or the cluster do not fit.
    """
    require_library(settings.runner)
    settings = choose_algorithm(prepare(settings), begins=begins)
    if settings.sim2real:
        # Of two overrides of a field, the last one counts.
        overrides = dict(text.split("=", 1) for text in settings.env_overrides)
        points = settings.points
        meant = {"points.realism": points.realism, "points.num_points": points.num_points, **overrides}
        text = " ".join(f"{name}={value}" for name, value in meant.items())
        current().decide(f"sim2real=true: {text}; an iteration takes 2 to 4 times as long as without", **meant)
    check_logger(settings)
    check_gpus(settings)
    check_cluster(settings)
    return settings
