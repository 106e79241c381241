# SPDX-License-Identifier: BSD-3-Clause
"""The training of a run whose folder is made: its worker, how the record ends, and the report. Loads no torch."""

from __future__ import annotations

import contextlib
import importlib
from pathlib import Path

from isaaclab_pc.cluster.start import start_command
from isaaclab_pc.commands.answer_check import check_answer
from isaaclab_pc.errors import ConfigError, describe_error
from isaaclab_pc.launch.child_process import ExitCode, show_log, was_stopped, worker_command
from isaaclab_pc.launch.run_folder import LOG_NAME
from isaaclab_pc.launch.run_record import RunRecord
from isaaclab_pc.report.at_end import report_at_end, report_later
from isaaclab_pc.settings import RunSettings
from isaaclab_pc.supervise.deaths import Death, DeathCause
from isaaclab_pc.supervise.supervisor import supervise
from isaaclab_pc.terminal.screen import current

__all__ = ["train_to_end"]


def train_to_end(record: RunRecord, checkpoint: Path | None, settings: Path) -> int:
    """Train, close the run's record, and write its report, whatever became of the training.

    A run that was stopped has no time for a report, and one without an iteration has little to show: the command that
    writes it is said instead.

    Args:
        record: The run's record; its folder is locked.
        checkpoint: Where to go on; None: from the start.
        settings: The settings file in the run's folder.

    Returns:
        The exit code.
    """
    code, death = _train(record, checkpoint, settings)
    if code == ExitCode.REFUSED:
        return code
    check_answer(record, death)
    if record.data.completed_iterations > 0 and not was_stopped(code):
        report_at_end(record.folder)
    else:
        report_later(record.folder)
    return code


def _train(record: RunRecord, checkpoint: Path | None, settings: Path) -> tuple[int, Death | None]:
    """Train, and close the run's record; returns the exit code and, if a process died and none followed, why."""
    folder = record.folder
    log = folder / LOG_NAME
    if not RunSettings.load(settings).supervise.enabled:
        return _train_here(record, checkpoint, settings), None

    code, death = supervise(record, checkpoint, settings, _worker_command)
    if code == ExitCode.OK:
        current().made("run", folder)
    if death is None and code in (ExitCode.OK, ExitCode.REFUSED):
        return code, None
    if death is not None and death.cause is not DeathCause.STORM:
        record.finish("failed", f"{death.cause}: {death.detail}")
        show_log(log, code)
        code = ExitCode.FAILED
    elif code == ExitCode.DISK_FULL:
        # There may be no room for this either.
        with contextlib.suppress(OSError):
            record.finish("failed", "the disk was full")
    elif record.data.status == "running":
        record.finish("interrupted")
    latest = record.data.checkpoints.latest
    if latest is not None and record.checkpoint("latest") is not None:
        current().decide(f"resume={folder} goes on after iteration {latest.iteration}", resume=str(folder))
    return code, death


def _worker_command(path: Path, checkpoint: Path | None, is_restart: bool) -> list[str]:
    """Return the command line of the processes that train, one for each GPU."""
    worker = worker_command("train", path, checkpoint=checkpoint)
    begins = checkpoint is None and not is_restart
    return start_command(RunSettings.load(path), path.parent, worker, begins=begins, is_restart=is_restart)


def _train_here(record: RunRecord, checkpoint: Path | None, settings: Path) -> int:
    """Train in this process, for debuggers: nothing is diverted to a log, and an error is raised as it is."""
    # By its name: this module loads without torch.
    worker = importlib.import_module("isaaclab_pc.workers.train")
    try:
        return worker.train(settings, checkpoint, current())
    except ConfigError as error:
        current().fail(str(error))
        return ExitCode.REFUSED
    except BaseException as error:
        # The worker writes the record while it trains.
        status = "interrupted" if isinstance(error, SystemExit) else "failed"
        RunRecord.load(record.folder).finish(status, describe_error(error))
        raise
    finally:
        record.data = RunRecord.load(record.folder).data
