# SPDX-License-Identifier: BSD-3-Clause
"""Stands in for the training worker: a run of ten short iterations with a record, heartbeats and checkpoints.

What goes wrong is written in the file ``faults`` of the working directory: one line for each process, taken by the one
that starts, ``<what>@<iteration>`` or ``ok``.
"""

import json
import os
import signal
import sys
import time
import zipfile
from pathlib import Path

from isaaclab_pc.num_envs.trial import Progress, TrainingPhase
from isaaclab_pc.processes.child_process import ExitCode, SignalFlag
from isaaclab_pc.run.folder import PROGRESS_NAME, SETTINGS_NAME
from isaaclab_pc.run.iteration_log import append_iteration
from isaaclab_pc.run.jobs import CheckJob, TrainJob
from isaaclab_pc.run.record import CheckpointEntries, CheckpointEntry, RunRecord
from isaaclab_pc.supervise.heartbeat import Heart

LAST = 10


def next_fault() -> tuple[str, int]:
    path = Path("faults")
    lines = path.read_text(encoding="utf-8").split() if path.exists() else []
    path.write_text("\n".join(lines[1:]), encoding="utf-8")
    what, _, iteration = (lines[0] if lines else "ok").partition("@")
    return what, int(iteration or 0)


def save(record: RunRecord, iteration: int, damaged: bool = False) -> None:
    path = record.folder / "checkpoints" / f"model_{iteration}.pt"
    path.parent.mkdir(exist_ok=True)
    header = {"format": 1, "task": record.data.task, "runner": record.data.runner, "iteration": iteration}
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/header.json", json.dumps(header))
    if damaged:
        path.write_bytes(path.read_bytes()[:40])
    entry = CheckpointEntry(path=f"checkpoints/{path.name}", iteration=iteration, success_rate=None)
    record.update(checkpoints=CheckpointEntries(latest=entry, best=entry))


def go_wrong(what: str, record: RunRecord, iteration: int, flag: SignalFlag) -> None:
    if what in ("kill", "segfault"):
        os.kill(os.getpid(), signal.SIGKILL if what == "kill" else signal.SIGSEGV)
    if what in ("hang", "unclean") or what.startswith("late_"):
        while not flag.received:
            time.sleep(0.05)
        if what.startswith("late_"):
            go_wrong(what.removeprefix("late_"), record, iteration, flag)
        return
    if what == "lose_rank":
        # As the launcher of several, of which one was killed.
        sys.exit(128 + signal.SIGKILL)
    if what == "stubborn":
        signal.signal(signal.SIGABRT, signal.SIG_IGN)
        time.sleep(60)
    if what == "damage":
        save(record, iteration, damaged=True)
        os.kill(os.getpid(), signal.SIGKILL)
    if what == "storm":
        record.update(harder_physics={"dt": 1 / 240, "decimation": 8})
        record.finish("storm", "too many environments failed")
        sys.exit(ExitCode.STORM)
    texts = {"oom": "torch.OutOfMemoryError: CUDA out of memory.", "lost": "CUDA error: unspecified launch failure"}
    text = texts.get(what.removeprefix("update_"), "RuntimeError: it broke")
    (record.folder / "worker.log").open("a", encoding="utf-8").write(f"Traceback\n{text}\n")
    sys.exit(1)


def main(path: Path) -> int:
    job = TrainJob.read(path)
    settings = job.settings
    record = RunRecord.load(path.parent)
    what, at = next_fault()
    with Path("starts").open("a", encoding="utf-8") as starts:
        checkpoint = job.checkpoint.name if job.checkpoint else None
        start = [settings.num_envs, settings.physics.dt, checkpoint, settings.chunk]
        starts.write(json.dumps(start) + "\n")

    heart = Heart(record.folder, "cpu")
    phase = TrainingPhase.UPDATE if what.startswith("update_") else TrainingPhase.ROLLOUT
    Progress(phase, 4096, chunk=settings.chunk or 1024).write(record.folder / PROGRESS_NAME)
    if what == "refuse":
        return 2
    if what not in ("ok", "slow") and at == 0:
        go_wrong(what, record, 0, SignalFlag())
    settings.save(path.with_name(SETTINGS_NAME))
    first = int(job.checkpoint.stem.removeprefix("model_")) if job.checkpoint else 0
    heart.beat(phase="train", iteration=first, max_iterations=LAST)
    with SignalFlag() as flag:
        for iteration in range(first + 1, LAST + 1):
            # The time without progress counts once two iterations were seen, one after the other.
            time.sleep(0.3 if what in ("slow", "hang", "stubborn") else 0.02)
            # The larger the seed, the better.
            metrics = {"success_rate": iteration * settings.seed / 1000}
            record.update(completed_iterations=iteration, metrics=metrics)
            append_iteration(record.folder, iteration, 0, 0.0, metrics)
            heart.beat(iteration=iteration)
            if flag.received:
                save(record, iteration)
                record.finish("interrupted")
                if what == "unclean":
                    os.kill(os.getpid(), signal.SIGSEGV)
                return flag.exit_code
            if what != "ok" and iteration == at:
                # Long enough for the supervisor to see the iteration.
                time.sleep(0.7)
                go_wrong(what, record, iteration, flag)
            if iteration % 3 == 0:
                save(record, iteration)
    record.finish("completed")
    if at > LAST:
        heart.beat(phase="close")
        go_wrong(what, record, LAST, flag)
    return 0


if __name__ == "__main__":
    import faulthandler

    faulthandler.enable()
    mode, job_path = sys.argv[1], Path(sys.argv[2])
    if mode == "check":
        CheckJob.read(job_path).result.write_text(f"[{LAST}]", encoding="utf-8")
        sys.exit(0)
    sys.exit(main(job_path))
