# SPDX-License-Identifier: BSD-3-Clause
"""Train in a run's folder: start its processes, close its record, write its report. Loads no torch."""

import contextlib
import importlib

from isaaclab_pc.cluster.start import start_command
from isaaclab_pc.errors import ConfigError, describe_error
from isaaclab_pc.processes.child_process import ExitCode, show_log, was_stopped
from isaaclab_pc.report.at_end import report_at_end, report_later
from isaaclab_pc.run.folder import LOG_NAME
from isaaclab_pc.run.jobs import TrainJob
from isaaclab_pc.run.record import RunRecord
from isaaclab_pc.supervise.deaths import Death, DeathCause
from isaaclab_pc.supervise.supervisor import supervise
from isaaclab_pc.terminal.screen import current


def train_to_end(record: RunRecord, job: TrainJob) -> int:
    """Train, close the run's record, and write its report, whatever became of the training.

    A run that was stopped has no time for a report, and one without an iteration has little to show: the command that
    writes it is said instead. The run's folder is locked.
    """
    if job.settings.supervise.enabled:
        code, death = supervise(record, job, start_command)
    else:
        code, death = _train_here(record, job), None
    if code == ExitCode.REFUSED and death is None:
        return code
    code = _close(record, code, death)
    if record.data.answer is not None:
        # Here, as a number that was given needs no search.
        from isaaclab_pc.commands.answer_check import check_answer

        check_answer(record, death)
    if record.data.completed_iterations > 0 and not was_stopped(code):
        report_at_end(record.folder)
    else:
        report_later(record.folder)
    return code


def _close(record: RunRecord, code: int, death: Death | None) -> int:
    """Close the record once all processes have ended, and say how the run goes on; return the exit code."""
    folder = record.folder
    if code == ExitCode.OK:
        current().made("run", folder)
        return code

    if death is not None and death.cause is not DeathCause.STORM:
        record.finish("failed", f"{death.cause}: {death.detail}")
        show_log(folder / LOG_NAME, code)
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
    return code


def _train_here(record: RunRecord, job: TrainJob) -> int:
    """Train in this process, for debuggers: nothing is diverted to a log, and an error is raised as it is."""
    # By its name: this module loads without torch.
    worker = importlib.import_module("isaaclab_pc.workers.train")
    try:
        return worker.train(job, record.folder, current())
    except ConfigError as error:
        current().fail(str(error))
        return ExitCode.REFUSED
    except BaseException as error:
        # The worker closes the record where it ends the run by itself.
        ended = RunRecord.load(record.folder)
        if ended.data.status == "running":
            ended.finish("interrupted" if isinstance(error, SystemExit) else "failed", describe_error(error))
        if isinstance(error, SystemExit) and isinstance(error.code, int):
            return error.code
        raise
    finally:
        record.data = RunRecord.load(record.folder).data
