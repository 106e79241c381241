# SPDX-License-Identifier: BSD-3-Clause
"""The child process that holds the simulator: ``python -m isaaclab_pc.workers <mode> <folder>/job.json``.

It reads its job and nothing else, and ends with one of :class:`~isaaclab_pc.processes.child_process.ExitCode`.
"""

import contextlib
import faulthandler
import os
import pkgutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from isaaclab_pc.physics.idle_threads import limit_spinning
from isaaclab_pc.processes.child_process import exit_code_of
from isaaclab_pc.processes.output_filter import divert_output
from isaaclab_pc.run.folder import LOG_NAME
from isaaclab_pc.run.jobs import JOBS, DemoJob, Job
from isaaclab_pc.terminal.screen import Screen, Wire, use
from isaaclab_pc.workers.ranks import Ranks


def work(job: Job, folder: Path, screen: Screen) -> int:
    """Do a job by the function of its mode, which stands in the module of the same name; only that is imported."""
    if isinstance(job, DemoJob):
        # Isaac Lab's writer leaves locking to HDF5, which asks for this once, when it is loaded. DemoFile has a lock of
        # its own, and gives advice where the file system has none.
        os.environ.setdefault("HDF5_USE_FILE_LOCKING", "FALSE")
    worker = pkgutil.resolve_name(f"{__package__}.{job.mode}:{job.mode}")
    return worker(job, folder, screen)


def main(argv: Sequence[str]) -> int:
    """Do the job of a mode and a file; the worker writes to the file's folder."""
    mode, file = argv
    job = JOBS[mode].read(Path(file))
    folder = Path(file).parent

    stream = _user_stream(job, folder)
    # Where a crash or a hang was: a supervisor ends a process that hangs with SIGABRT, for its stacks. They come in
    # fragments, between which the filter of native output would write its lines, did they not pass through it too.
    faulthandler.enable(file=2)
    try:
        with use(Wire(stream)) as screen:
            return exit_code_of(lambda: work(job, folder, screen))
    finally:
        stream.flush()


def _user_stream(job: Job, folder: Path) -> IO[str]:
    """Send all output to a log, and return a stream that the user sees."""
    if not job.has_log:
        return sys.stdout
    stream = divert_output(folder / LOG_NAME)
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
