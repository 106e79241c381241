# SPDX-License-Identifier: BSD-3-Clause
"""Stands in for isaaclab_pc.workers: same jobs, files and exit codes, no simulator.

The settings' seed chooses what happens, when stability is measured at the second cell: 1 waits for a signal, 2 is
refused, 3 crashes, 4 is killed, 11 ends in a storm, 12 diverges, anything else completes.
"""

import json
import os
import signal
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

from isaaclab_pc.num_envs.trial import MemoryReport, Outcome, Trial
from isaaclab_pc.physics.stability import Cell
from isaaclab_pc.processes.child_process import ExitCode, SignalFlag
from isaaclab_pc.run.folder import SETTINGS_NAME
from isaaclab_pc.run.jobs import JOBS, PlayJob, ProbeJob, StabilityJob, TrainJob
from isaaclab_pc.run.record import CheckpointEntries, CheckpointEntry, RunRecord

WAITS, REFUSED, CRASHES, KILLED = 1, 2, 3, 4
STOPS = {11: ("storm", ExitCode.STORM), 12: ("failed", ExitCode.DIVERGED)}


def main(mode: str, path: Path) -> int:
    job: Any = JOBS[mode].read(path)
    seen = {"argv": sys.argv[1:], **job.to_dict()}
    (path.parent / "seen.json").write_text(json.dumps(seen), encoding="utf-8")
    seed = job.settings.seed
    if isinstance(job, StabilityJob):
        # The first cell of a grid is measured whatever the seed is.
        seed = seed if job.values["decimation"] == 2 else 0
    if seed == REFUSED:
        if isinstance(job, ProbeJob):
            Trial(job.num_envs, Outcome.ERROR, detail="no such field", config_error=True).write(job.result)
        print("error: no such field")
        return 2
    if seed == WAITS and isinstance(job, (ProbeJob, StabilityJob)):
        Path("waiting").touch()
        time.sleep(60)
    if isinstance(job, ProbeJob):
        tensors = {"camera buffers": job.num_envs << 12}
        memory = MemoryReport(before_env=6 << 20, after_env=8 << 20, tensors=tensors)
        Trial(job.num_envs, Outcome.FITS, frames_per_second=100.0, memory=memory).write(job.result)
    elif isinstance(job, StabilityJob):
        return measure(job, path, seed)
    elif isinstance(job, PlayJob):
        (path.parent / "result.json").write_text("{}", encoding="utf-8")
    elif isinstance(job, TrainJob):
        if "refuses" in os.environ:
            print("error: does not divide the control period")
            return 2
        job.settings.save(path.with_name(SETTINGS_NAME))
        return train(RunRecord.load(path.parent), seed)
    return 0


def measure(job: StabilityJob, path: Path, seed: int) -> int:
    if seed == CRASHES:
        path.with_name("worker.log").write_text("RuntimeError: it broke\n", encoding="utf-8")
        return 1
    decimation = job.values["decimation"]
    settings = {"dt": 1 / 30 / decimation}
    if seed == KILLED:
        Cell(settings, note="the simulator crashed").write(job.result)
        os.kill(os.getpid(), signal.SIGSEGV)
    Cell(settings, 10_000, 2 - decimation // 2, cost=decimation).write(job.result)
    return 0


def train(record: RunRecord, seed: int) -> int:
    if seed == CRASHES:
        (record.folder / "worker.log").write_text("Traceback\nRuntimeError: it broke\n", encoding="utf-8")
        return 1
    with SignalFlag() as flag:
        if seed == WAITS:
            print("training", flush=True)
            Path("waiting").touch()
        while seed == WAITS and not flag.received:
            time.sleep(0.05)
        checkpoint = record.folder / "checkpoints" / "model_3.pt"
        checkpoint.parent.mkdir(exist_ok=True)
        header = {"format": 1, "task": record.data.task, "runner": record.data.runner, "iteration": 3}
        with zipfile.ZipFile(checkpoint, "w") as archive:
            archive.writestr("archive/header.json", json.dumps(header))
        entry = CheckpointEntry(path="checkpoints/model_3.pt", iteration=3, success_rate=0.5)
        entries = CheckpointEntries(latest=entry, best=entry)
        record.update(completed_iterations=3, max_iterations=3, checkpoints=entries)
        if seed in STOPS:
            print("error: stopped, with advice", flush=True)
            record.finish(STOPS[seed][0], "stopped, with advice")
            return STOPS[seed][1]
        record.finish("interrupted" if flag.received else "completed")
        return flag.exit_code


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(main(sys.argv[1], Path(sys.argv[2])))
