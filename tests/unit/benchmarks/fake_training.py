# SPDX-License-Identifier: BSD-3-Clause
"""What a training leaves, without one. Loads no torch."""

import sys
from pathlib import Path

from isaaclab_pc.cli.compose import compose
from isaaclab_pc.run.evaluation import Evaluation, Success
from isaaclab_pc.run.record import CheckpointEntries, CheckpointEntry, CurvePoint, RunRecord


def evaluation(rate: float) -> Evaluation:
    success = Success(rate=rate, lower=0.0, upper=1.0)
    return Evaluation(
        episodes=512, seed=1, success=success, success_once=success, mean_return=1.0, mean_time_to_success_s=2.0
    )


def write_run(folder: Path, settings: list[str], completed: bool) -> None:
    """Leave a run of 100 s in all, of which evaluations took 2 x 10 s."""
    (folder / "checkpoints").mkdir(parents=True, exist_ok=True)
    (folder / "checkpoints" / "model_9.pt").touch()
    record = RunRecord.create(folder, compose(settings))
    points = [
        CurvePoint(iteration=n, env_steps=1000 * n, wall_s=40.0 * n, evaluation_s=10.0, evaluation=evaluation(rate))
        for n, rate in ((1, 0.5), (2, 0.95))
    ]
    latest = CheckpointEntry(path="checkpoints/model_9.pt", iteration=9, success_rate=None)
    record.update(
        wall_s=100.0, env_steps=8000, evaluations=points, checkpoints=CheckpointEntries(latest=latest), peak_bytes=2**31
    )
    if completed:
        record.update(evaluation=evaluation(0.97))
    record.finish("completed" if completed else "interrupted")


def train(root: Path, arguments: list[str]) -> int:
    """Note the call, write the run of a training, and return its exit code."""
    with (root / "calls").open("a", encoding="utf-8") as calls:
        print(Path.cwd().relative_to(root), *arguments, file=calls)
    interrupted = (root / "interrupt").exists()
    settings = [text for text in arguments if not text.startswith("resume=")]
    write_run(Path("logs/rsl_rl/task/2026"), settings, completed=not interrupted)
    return 75 if interrupted else 0


if __name__ == "__main__":
    # In place of scripts/train.py, in a cell's folder below the root.
    sys.exit(train(Path.cwd().parents[3], sys.argv[1:]))
