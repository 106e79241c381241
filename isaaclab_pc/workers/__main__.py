# SPDX-License-Identifier: BSD-3-Clause
"""The child process that holds the simulator: ``python -m isaaclab_pc.workers <mode> <folder>/job.json``.

It reads its job and nothing else, and ends with one of :class:`~isaaclab_pc.processes.child_process.ExitCode`.
"""

import argparse
import contextlib
import faulthandler
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from isaaclab_pc.physics.idle_threads import limit_spinning
from isaaclab_pc.processes.child_process import exit_code_of
from isaaclab_pc.processes.output_filter import divert_output
from isaaclab_pc.run.folder import LOG_NAME
from isaaclab_pc.run.jobs import (
    JOBS,
    CheckJob,
    DemoJob,
    ExportJob,
    Job,
    PlanJob,
    PlayJob,
    ProbeJob,
    ReplayJob,
    StabilityJob,
    TrainJob,
    ViewJob,
)
from isaaclab_pc.terminal.screen import Screen, Wire, use
from isaaclab_pc.workers.ranks import Ranks


def work(job: Job, folder: Path, screen: Screen) -> int:
    """Do a job; each kind has its own imports."""
    match job:
        case TrainJob():
            from isaaclab_pc.workers.train import train

            return train(job, folder, screen)
        case PlayJob():
            from isaaclab_pc.workers.play import play

            return play(job, folder, screen)
        case ExportJob():
            from isaaclab_pc.workers.export import export

            return export(job, folder, screen)
        case ProbeJob():
            from isaaclab_pc.workers.probe import probe

            return probe(job)
        case PlanJob():
            from isaaclab_pc.workers.plan import plan

            return plan(job)
        case CheckJob():
            from isaaclab_pc.workers.plan import check

            return check(job)
        case DemoJob():
            # Isaac Lab's writer leaves locking to HDF5, which asks for this once, when it is loaded. DemoFile has a
            # lock of its own, and gives advice where the file system has none.
            os.environ.setdefault("HDF5_USE_FILE_LOCKING", "FALSE")
            from isaaclab_pc.workers.demo import demo

            return demo(job, screen)
        case ReplayJob():
            from isaaclab_pc.workers.replay import replay_dump

            return replay_dump(job)
        case StabilityJob():
            from isaaclab_pc.workers.stability import measure

            return measure(job.settings, job.values, job.result)
        case ViewJob():
            from isaaclab_pc.workers.view import view

            return view(job, folder, screen)
    raise AssertionError(f"no worker for {job.mode}")


def main(argv: Sequence[str]) -> int:
    """Do one job."""
    parser = argparse.ArgumentParser(
        prog="python -m isaaclab_pc.workers", description="Internal: the scripts start it."
    )
    parser.add_argument("mode", choices=JOBS)
    parser.add_argument("job", type=Path, help="the job's file; the worker writes to the folder of it")
    args = parser.parse_args(argv)
    job = JOBS[args.mode].read(args.job)
    folder = args.job.parent

    stream = _user_stream(job, folder)
    # Where a crash or a hang was: a supervisor ends a process that hangs with SIGABRT, for its stacks.
    faulthandler.enable()
    try:
        with use(Wire(stream)) as screen:
            return exit_code_of(lambda: work(job, folder, screen))
    finally:
        stream.flush()


def _user_stream(job: Job, folder: Path) -> IO[str]:
    """Send all output to a log, and return a stream that the user sees."""
    if not job.has_log:
        return sys.stdout
    stream = divert_output(folder / LOG_NAME, user=job.user)
    # Of several processes that train together, the first one speaks; the others write to the log.
    return stream if Ranks().is_first else sys.stdout


if __name__ == "__main__":
    limit_spinning(os.environ)
    code = main(sys.argv[1:])
    for log in (sys.stdout, sys.stderr):
        # On a full disk, the rest of the buffer would raise the error a second time.
        with contextlib.suppress(OSError):
            log.flush()
    # Simulators' own threads and exit handlers can hang or crash here, with everything written and closed.
    os._exit(code)
