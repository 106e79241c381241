# SPDX-License-Identifier: BSD-3-Clause
"""SLURM's commands on one node, as shell scripts, and a job that they start."""

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from isaaclab_pc.commands import train
from tests.unit.supervise.fake_trainer import LAST
from tests.waiting import wait_until

SMALL = ("num_envs=16", "device=cpu", "algorithm=ppo")

COMMANDS = {
    "sbatch": """
cp "$1" "$FAKE_SLURM/batch.sh"
echo "Submitted batch job 4711"
""",
    "srun": """
while [[ $1 == --* ]]; do
    case $1 in --output) shift ;; esac
    shift
done
echo $$ > "$FAKE_SLURM/task"
exec "$@"
""",
    "scontrol": """
case "$*" in
    "show job --oneliner "*) echo "JobId=4712 JobName=a JobState=$(cat "$FAKE_SLURM/state") Reason=None" ;;
    "requeue "*) echo "$2" >> "$FAKE_SLURM/requeued" ;;
    *) exit 1 ;;
esac
""",
}


def node_run(trainer):
    """What a job calls in place of ``train.run``: the same, with another training process."""

    # Pickled as it stands here, so it imports what it needs on the node.
    def run(settings, command, name, requeued):
        from isaaclab_pc.commands import train
        from isaaclab_pc.run import jobs

        jobs.PROGRAM = (sys.executable, trainer)
        return train.run(settings, command, name, requeued)

    return run


class Cluster:
    """One node, and its user's working folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root = folder / "cluster"
        self.root.mkdir()
        (self.root / "bin").mkdir()
        for name, text in COMMANDS.items():
            path = self.root / "bin" / name
            path.write_text(f"#!/bin/bash{text}", encoding="utf-8")
            path.chmod(0o755)
        self.processes: list[subprocess.Popen] = []

    def submit(self, *arguments: str, launcher: str = "slurm") -> int:
        return train.main([*SMALL, f"hydra/launcher={launcher}", *arguments])

    def start(self, *faults: str, task: int | None = None, restarts: int = 0) -> subprocess.Popen:
        """Start the job, as SLURM does after its submission and after each requeue."""
        (self.folder / "faults").write_text("\n".join(faults), encoding="utf-8")
        (self.root / "state").write_text("RUNNING", encoding="utf-8")
        (self.root / "task").unlink(missing_ok=True)
        environment = {"SLURM_JOB_ID": "4711", "SLURM_RESTART_COUNT": str(restarts)}
        if task is not None:
            environment = {**environment, "SLURM_ARRAY_JOB_ID": "4711", "SLURM_ARRAY_TASK_ID": str(task)}
        with (self.root / "log").open("a", encoding="utf-8") as log:
            batch = subprocess.Popen(
                ["bash", str(self.root / "batch.sh")],
                cwd=self.folder,
                env={**os.environ, **environment},
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self.processes.append(batch)
        return batch

    def train_until(self, iteration: int) -> subprocess.Popen:
        """Submit a run and start its job; return the job once the run has completed an iteration."""
        assert self.submit() == 0
        batch = self.start("slow")
        self.wait_for(iteration)
        return batch

    def complete(self, restarts: int = 1) -> dict:
        """Start the job, after a requeue by default, to the end of its run; return the record of that."""
        assert self.start("ok", restarts=restarts).wait(60) == 0, self.log
        (run,) = self.runs()
        assert (run["status"], run["completed_iterations"]) == ("completed", LAST)
        return run

    def wait_for(self, iteration: int) -> None:
        """Wait until the job's run has completed an iteration."""
        self.until(lambda: any(run["completed_iterations"] >= iteration for run in self.runs()))

    def signal_task(self, *numbers: int) -> None:
        """Send signals to all processes of the job's step, and not to the batch script."""
        self.until((self.root / "task").exists)
        task = psutil.Process(int((self.root / "task").read_text(encoding="utf-8")))
        for number in numbers:
            with contextlib.suppress(psutil.NoSuchProcess):
                for process in [task, *task.children(recursive=True)]:
                    process.send_signal(number)
            time.sleep(0.1)

    def until(self, done: Callable[[], object]) -> None:
        wait_until(done, said=lambda: self.log)

    @property
    def log(self) -> str:
        return (self.root / "log").read_text(encoding="utf-8")

    @property
    def requeued(self) -> list[str]:
        path = self.root / "requeued"
        return path.read_text(encoding="utf-8").split() if path.exists() else []

    def runs(self) -> list[dict]:
        paths = sorted(self.folder.glob("logs/rsl_rl/*/*/run.json"))
        return [json.loads(path.read_text(encoding="utf-8")) for path in paths]

    def starts(self) -> list[str | None]:
        """Checkpoint that each training process began with."""
        lines = (self.folder / "starts").read_text(encoding="utf-8").splitlines()
        return [json.loads(line)[2] for line in lines]
