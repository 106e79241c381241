# SPDX-License-Identifier: BSD-3-Clause
"""The command line that starts the processes of a run: one here, one for each GPU, or those of a Ray cluster."""

import sys
from collections.abc import Sequence
from pathlib import Path

from isaaclab_pc.cluster.nodes import LEADER_RESTARTS_SECONDS, NODES_JOIN_SECONDS, find_place
from isaaclab_pc.cluster.ranks import ranks_command
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.run.folder import LOG_NAME
from isaaclab_pc.run.jobs import JOB_NAME, TrainJob, worker_command
from isaaclab_pc.run.platform import gpu_count, working_gpus
from isaaclab_pc.settings import RunSettings
from isaaclab_pc.terminal.screen import current
from isaaclab_pc.utils.packages import is_installed


def start_command(job: TrainJob, folder: Path, is_restart: bool = False) -> list[str]:
    """Write the job of each process into a run's folder, and return the command line of the processes that train.

    A run that goes on does with fewer processes where a GPU, or a machine of the Ray cluster, is gone. ``is_restart``:
    processes of this script have died, so other nodes are at hand, or gone.
    """
    settings = job.settings
    worker = worker_command(job, folder / JOB_NAME)
    begins = job.checkpoint is None and not is_restart
    if settings.cluster is not None:
        at_least = settings.workers if begins else 1
        launcher = [sys.executable, "-P", "-m", "isaaclab_pc.cluster.ray_train", f"--workers={settings.workers}"]
        gpu = ["--gpu"] if settings.device != "cpu" else []
        # On another machine, Python may lie elsewhere.
        _, *program = worker
        return [*launcher, f"--at-least={at_least}", *gpu, f"--log={folder / LOG_NAME}", "--", *program]

    place = find_place(settings)
    if place.nodes > 1:
        current().say(f"the first of {place.nodes} nodes, which meet at {place.endpoint}")
        patience = LEADER_RESTARTS_SECONDS if is_restart else NODES_JOIN_SECONDS
        return ranks_command(settings.gpus, worker, place, patience)
    if settings.gpus > 1 and settings.device != "cpu" and not begins:
        return _on_what_is_left(settings.gpus, worker)
    return ranks_command(settings.gpus, worker)


def _on_what_is_left(gpus: int, worker: Sequence[str]) -> list[str]:
    """Return the command line for the GPUs that still work, of which there may be fewer than before."""
    try:
        working, lost = working_gpus()
    except ConfigError:
        working, lost = [], 0
    there = min(gpus, len(working))
    # Where there are none, or the driver hangs, CUDA says so better.
    if there == 0 or (there == gpus and not lost):
        return ranks_command(gpus, worker)
    current().warn(f"going on with {there} GPUs of {gpus}: {lost or gpus - there} do not answer; see nvidia-smi")
    return ["env", f"CUDA_VISIBLE_DEVICES={','.join(working[:there])}", *ranks_command(there, worker)]


def check_cluster(settings: RunSettings) -> None:
    """Refuse settings of a Ray cluster that do not fit, as far as this machine tells.

    Raises:
        ConfigError: Ray is not installed, or another setting means something else.
    """
    if settings.cluster is None:
        if settings.workers > 1:
            raise ConfigError(
                f"workers={settings.workers} are those of a Ray cluster: give cluster=ray as well, or "
                f"gpus={settings.workers} for the GPUs of this machine."
            )
        return
    if not is_installed("ray"):
        raise ConfigError("cluster=ray: Ray is not installed: pip install 'isaaclab_pc[cluster]'.")
    if settings.gpus * settings.nodes > 1:
        raise ConfigError(
            f"cluster=ray gpus={settings.gpus} nodes={settings.nodes}: Ray chooses the machines; give workers=<number> "
            "instead."
        )
    if not settings.supervise.enabled:
        raise ConfigError("cluster=ray and supervise.enabled=false: a debugger sees one process; leave cluster out.")
    if settings.device not in ("cpu", "cuda:0"):
        raise ConfigError(f"cluster=ray device={settings.device}: Ray gives each worker its GPU; give device=cuda.")
    if settings.device != "cpu" and settings.num_envs == "auto" and gpu_count() == 0:
        raise ConfigError(
            "cluster=ray num_envs=auto: there is no GPU here to find it on. Run scripts/scale.py on a machine of the "
            "cluster, and give num_envs=<its answer>."
        )
