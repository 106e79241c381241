# SPDX-License-Identifier: BSD-3-Clause
"""One training run as a job: it runs on the node, again after each requeue, until the run is done."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass

from isaaclab_pc.cli.command_line import Command
from isaaclab_pc.cluster.local_kernels import local_kernel_cache
from isaaclab_pc.processes.child_process import ExitCode, exit_code_of, was_stopped
from isaaclab_pc.settings import RunSettings
from isaaclab_pc.terminal.screen import current
from isaaclab_pc.terminal.user_stream import standard_streams

__all__ = ["Job", "Run"]

Run = Callable[[RunSettings, Command, str, bool], int]
"""Trains; takes the settings, their command line, the name of the run's folder, and whether the job was requeued, and
returns the exit code."""


@dataclass(frozen=True)
class Job:
    """A callable that submitit pickles on the login node and calls on the node of the job."""

    run: Run
    settings: RunSettings
    command: Command
    submitted: str
    """When it was submitted, as in the names of runs."""

    def folder_name(self, job_id: str) -> str:
        """Return the name of the run's folder, which is the same after each requeue.

        Args:
            job_id: As submitit and squeue write it: ``4711``, or ``4711_0`` in an array.
        """
        return f"{self.submitted}_{job_id}"

    def __call__(self) -> None:
        """Train, and end the process with the run's exit code.

        While it trains, the handlers of submitit's signals are replaced by those of this package: they write a
        checkpoint and leave the requeue to the batch script, which goes by the exit code.

        Raises:
            SystemExit: Always, unless the run is done.
        """
        import submitit

        environment = submitit.JobEnvironment()
        restarts = os.environ.get("SLURM_RESTART_COUNT", "0")

        def work() -> int:
            current().say(f"job {environment.job_id} on {environment.hostname}, restart {restarts}")
            with local_kernel_cache():
                return self.run(self.settings, self.command, self.folder_name(environment.job_id), restarts != "0")

        # A full disk below the job's log must not change the exit code either.
        with standard_streams():
            code = exit_code_of(work)
        # SIGINT comes from a person, scancel --signal=INT, who wants a checkpoint and no requeue.
        if was_stopped(code) and code != ExitCode.INTERRUPTED:
            code = ExitCode.PREEMPTED
        if code == ExitCode.PREEMPTED and environment.cluster == "local":
            from submitit.local.local import LOCAL_REQUEUE_RETURN_CODE

            code = LOCAL_REQUEUE_RETURN_CODE
        if code != ExitCode.OK:
            sys.exit(code)
