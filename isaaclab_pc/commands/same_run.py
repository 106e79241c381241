# SPDX-License-Identifier: BSD-3-Clause
"""Which settings and checkpoints a run may go on with. Loads no torch."""

from __future__ import annotations

from pathlib import Path

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.launch.command_line import Command
from isaaclab_pc.launch.run_record import RunRecord
from isaaclab_pc.physics.ladder import SOLVER_SETTINGS
from isaaclab_pc.runners import check_header, read_header
from isaaclab_pc.settings import RunSettings, SuperviseSettings

__all__ = ["MAY_CHANGE", "MAY_HARDEN", "check_checkpoint", "check_same_run"]

SELECTS_THE_RUN = frozenset({"task", "runner", "obs", "resume"})
"""Settings that find the run."""

MAY_CHANGE = (
    *(
        "device",
        "gpus",
        "nodes",
        "node_rank",
        "rendezvous",
        "cluster",
        "workers",
        "max_iterations",
        "visualizer",
        "host",
        "force",
        "logger",
    ),
    *(f"supervise.{name}" for name in SuperviseSettings.model_fields),
)
"""Settings that do not change what a run is."""

MAY_HARDEN = tuple(f"physics.{name}" for name in SOLVER_SETTINGS)
"""Settings that may change too: the advice after a storm."""


def check_checkpoint(path: Path, settings: RunSettings) -> None:
    """Refuse a file that is no checkpoint or belongs to another task or library; reads its header only.

    Args:
        path: The checkpoint.
        settings: The settings of the run that shall use it.

    Raises:
        ConfigError: It does not fit.
    """
    check_header(read_header(path), {"task": settings.task, "runner": settings.runner}, path)


def check_same_run(
    asked: RunSettings, stored: RunSettings, command: Command, record: RunRecord, checkpoint: Path
) -> None:
    """Refuse to go on with a run where something else was asked for.

    Args:
        asked: The settings of the command line.
        stored: Those of the run.
        command: The command line.
        record: The run's record.
        checkpoint: What it would go on from.

    Raises:
        ConfigError: A setting would make it another run, or there is nothing left of it to do.
    """
    found = f"resume={asked.resume} is {record.folder}"
    for key in sorted(command.given & {"task", "obs", "runner"}):
        there = getattr(stored, key)
        if getattr(asked, key) != there:
            raise ConfigError(f"{key}: {found}, a run with {key}={there}, not {getattr(asked, key)}.")
    if "num_envs" in command.given and asked.num_envs != stored.num_envs:
        raise ConfigError(f"num_envs={asked.num_envs}: {found}, a run with num_envs={stored.num_envs}, which stays.")

    others = command.given - SELECTS_THE_RUN - {*MAY_CHANGE, *MAY_HARDEN, "num_envs"}
    refused = sorted(key for key in others if not key.startswith("hydra")) + command.env + command.agent
    if refused:
        raise ConfigError(
            f"{', '.join(refused)}: a resumed run keeps its settings; only {', '.join(MAY_CHANGE)} and "
            f"{', '.join(sorted(MAY_HARDEN))} may be given."
        )

    _check_control_rate(stored, command)
    check_checkpoint(checkpoint, stored)
    completed = read_header(checkpoint)["iteration"]
    last = asked.max_iterations if "max_iterations" in command.given else record.data.max_iterations
    if last is None:
        return
    # One that was stopped after its last iteration is evaluated.
    if completed > last or (completed == last and record.data.status == "completed"):
        raise ConfigError(
            f"{found}, which has all of its {completed} iterations in {checkpoint.name}: give a larger max_iterations "
            "to train on, or evaluate it with scripts/play.py."
        )


def _check_control_rate(stored: RunSettings, command: Command) -> None:
    dt = "physics.dt" in command.given
    decimation = "physics.decimation" in command.given
    follows = stored.physics.decimation is None
    if (decimation and not dt) or (dt and not decimation and not follows):
        raise ConfigError("physics.dt and physics.decimation: give both, so that the run keeps its control rate.")
