# SPDX-License-Identifier: BSD-3-Clause
"""Runs that go on: in the same folder, with the same settings, from a checkpoint. Loads no torch."""

import contextlib
from pathlib import Path
from typing import Any

from isaaclab_pc.cli.command_line import Command
from isaaclab_pc.commands.prepare import prepare_training
from isaaclab_pc.commands.train_to_end import train_to_end
from isaaclab_pc.commands.trained_policy import SELECTS
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.learners import read_header
from isaaclab_pc.physics.ladder import SOLVER_SETTINGS
from isaaclab_pc.processes.child_process import GRACE_SECONDS, ExitCode
from isaaclab_pc.run.find_checkpoint import check_checkpoint, find_checkpoint, newest_checkpoint
from isaaclab_pc.run.folder import SETTINGS_NAME, locked, wait_for_worker, writing
from isaaclab_pc.run.jobs import TrainJob
from isaaclab_pc.run.record import RunData, RunRecord
from isaaclab_pc.settings import RunSettings, SuperviseSettings
from isaaclab_pc.terminal.screen import current

MAY_CHANGE = (
    *("device", "gpus", "nodes", "node_rank", "rendezvous", "cluster", "workers"),
    *("max_iterations", "visualizer", "host", "force", "logger"),
    *(f"supervise.{name}" for name in SuperviseSettings.model_fields),
)
"""Settings that do not change what a run is."""

MAY_HARDEN = tuple(f"physics.{name}" for name in SOLVER_SETTINGS)
"""Settings that may change too: the advice after a storm."""


def resume(asked: RunSettings, command: Command, *, requeued: bool = False) -> int:
    """Go on with the run that ``asked.resume`` names to its last iteration.

    ``requeued`` tells that a cluster starts this command again: the run then goes on from its newest checkpoint.

    Raises:
        ConfigError: There is no such run, or a setting would make it another one; it is left as it was.
    """
    record, checkpoint = _find(asked)
    if requeued:
        code = go_on_requeued(record.folder, asked, command)
        if code is not None:
            return code
    with locked(record.folder):
        if wait_for_worker(record.folder):
            record, checkpoint = _find(asked)
        stored = RunSettings.load(record.folder / SETTINGS_NAME)
        _check_same_run(asked, stored, command, record, checkpoint)
        return _go_on(asked, command, record, checkpoint, stored)


def find_run(asked: RunSettings, command: Command) -> tuple[RunRecord, Path]:
    """Find the run and the checkpoint that :func:`resume` would go on with, and check them as it does."""
    record, checkpoint = _find(asked)
    _check_same_run(asked, RunSettings.load(record.folder / SETTINGS_NAME), command, record, checkpoint)
    return record, checkpoint


def go_on_requeued(folder: Path, asked: RunSettings, command: Command) -> int | None:
    """Go on with the run of a requeued job; return the exit code, or None where it begins anew."""
    # A node that failed may still hold the lock, on a network disk.
    with locked(folder, timeout=GRACE_SECONDS):
        wait_for_worker(folder)
        record = RunRecord.load(folder)
        if record.data.status == "completed":
            current().say(f"run: {folder} is done")
            return ExitCode.OK
        checkpoint = newest_checkpoint(record)
        if checkpoint is None:
            return None
        return _go_on(asked, command, record, checkpoint, RunSettings.load(folder / SETTINGS_NAME))


def _find(asked: RunSettings) -> tuple[RunRecord, Path]:
    assert asked.resume is not None
    return find_checkpoint(asked.resume, asked)


def _go_on(asked: RunSettings, command: Command, record: RunRecord, checkpoint: Path, stored: RunSettings) -> int:
    """Go on from a checkpoint of a run; its folder is locked."""
    given = asked.flat()
    changes: dict[str, Any] = {key: given[key] for key in (*MAY_CHANGE, *MAY_HARDEN) if key in command.given}
    # Whoever watched the run before need not watch it now.
    changes |= {"visualizer": asked.visualizer, "host": asked.host, "force": asked.force}
    if changes.get("nodes") == 1:
        changes |= {"node_rank": None, "rendezvous": None}
    settings = stored.with_values(changes)
    if settings.nodes != asked.nodes:
        # Without nodes=, this machine did not ask which node it is.
        raise ConfigError(
            f"resume={record.folder}: it has nodes={settings.nodes}. Give nodes={settings.nodes} on each of them, or "
            "nodes=1 to go on with this machine alone."
        )
    settings = prepare_training(settings, begins=False)
    check_checkpoint(checkpoint, settings)

    before = record.data.model_copy(deep=True)
    try:
        with writing(record.folder):
            record.go_on(checkpoint, resumed=[*record.data.resumed, checkpoint.name])
        current().decide(f"resuming from {checkpoint}", resume=str(checkpoint))
        code = train_to_end(record, TrainJob(settings, checkpoint))
    except ConfigError:
        _restore(record, before)
        raise
    if code == ExitCode.REFUSED:
        _restore(record, before)
    return code


def _restore(record: RunRecord, before: RunData) -> None:
    """Leave a run as it was before it was refused to go on."""
    record.data = before
    # A disk that is full has refused the change, too: the file is as it was.
    with contextlib.suppress(OSError):
        record.update()


def _check_same_run(
    asked: RunSettings, stored: RunSettings, command: Command, record: RunRecord, checkpoint: Path
) -> None:
    """Refuse to go on with a run where another one was asked for, or nothing is left of it to do."""
    found = f"resume={asked.resume} is {record.folder}"
    for key in sorted(command.given & set(SELECTS)):
        there = getattr(stored, key)
        if getattr(asked, key) != there:
            raise ConfigError(f"{key}: {found}, a run with {key}={there}, not {getattr(asked, key)}.")
    if "num_envs" in command.given and asked.num_envs != stored.num_envs:
        raise ConfigError(f"num_envs={asked.num_envs}: {found}, a run with num_envs={stored.num_envs}, which stays.")

    others = command.given - {*SELECTS, "resume", *MAY_CHANGE, *MAY_HARDEN, "num_envs"}
    refused = sorted(key for key in others if not key.startswith("hydra")) + command.env + command.agent
    if refused:
        raise ConfigError(
            f"{', '.join(refused)}: a resumed run keeps its settings; only {', '.join(MAY_CHANGE)} and "
            f"{', '.join(sorted(MAY_HARDEN))} may be given."
        )

    has_dt, has_decimation = (key in command.given for key in ("physics.dt", "physics.decimation"))
    if has_dt != has_decimation and not (has_dt and stored.physics.decimation is None):
        raise ConfigError("physics.dt and physics.decimation: give both, so that the run keeps its control rate.")
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
