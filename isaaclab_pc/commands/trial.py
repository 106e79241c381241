# SPDX-License-Identifier: BSD-3-Clause
"""One trial of ``scripts/tune.py``, in a process of its own: ``python -m isaaclab_pc.commands.trial FOLDER``."""

import sys
from collections.abc import Sequence
from pathlib import Path

from isaaclab_pc.commands.train_to_end import train_to_end
from isaaclab_pc.processes.child_process import GRACE_SECONDS, ExitCode, exit_code_of, was_stopped
from isaaclab_pc.run.find_checkpoint import newest_checkpoint
from isaaclab_pc.run.folder import SCRIPT_LOCK, SETTINGS_NAME, locked, wait_for_worker
from isaaclab_pc.run.jobs import TrainJob
from isaaclab_pc.run.record import RECORD_NAME, RunRecord
from isaaclab_pc.settings import RunSettings


def main(argv: Sequence[str]) -> int:
    """Train the run of a folder, the only argument, which holds its settings; return the exit code of a training."""
    code = exit_code_of(lambda: _train_in(Path(argv[0])))
    return ExitCode.PREEMPTED if was_stopped(code) else code


def _train_in(folder: Path) -> int:
    """Train from the start or the newest checkpoint, after waiting for processes of an earlier attempt to end."""
    with locked(folder, SCRIPT_LOCK, GRACE_SECONDS):
        wait_for_worker(folder)
        settings = RunSettings.load(folder / SETTINGS_NAME)
        checkpoint = None
        if (folder / RECORD_NAME).exists():
            record = RunRecord.load(folder)
            checkpoint = newest_checkpoint(record)
            resumed = record.data.resumed if checkpoint is None else [*record.data.resumed, checkpoint.name]
            record.go_on(checkpoint, resumed=resumed)
        else:
            record = RunRecord.create(folder, settings)

        code = train_to_end(record, TrainJob(settings, checkpoint))
        if code == ExitCode.REFUSED:
            record.finish("failed", "its settings were refused")
        return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
