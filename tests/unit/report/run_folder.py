# SPDX-License-Identifier: BSD-3-Clause
"""Folders of runs as training leaves them, made with the package's own writers."""

import json
import math
from pathlib import Path

import numpy as np

from isaaclab_pc.cli.compose import compose
from isaaclab_pc.faults.dump import FORMAT, FaultDump
from isaaclab_pc.num_envs.trial import MemoryReport, Outcome, Trial
from isaaclab_pc.report.films import Film, add_films
from isaaclab_pc.run.evaluation import Breakdown, Evaluation, Success, Third
from isaaclab_pc.run.folder import SETTINGS_NAME
from isaaclab_pc.run.iteration_log import append_iteration
from isaaclab_pc.run.record import (
    CheckpointEntries,
    CheckpointEntry,
    CurvePoint,
    RestartEntry,
    RunRecord,
)
from isaaclab_pc.supervise.supervisor import add_event

MIB = 2**20
ITERATIONS = 6
STEPS = 1024
"""Of an iteration."""

SUCCESS = Success(rate=0.96, lower=0.923, upper=0.98)
LOW, MIDDLE, HIGH = (Third(i / 10, (i + 1) / 10, 50, Success(0.9 + i / 100, 0.8, 0.99)) for i in range(3))
EVALUATION = Evaluation(
    episodes=200,
    seed=1000,
    success=SUCCESS,
    success_once=Success(rate=0.97, lower=0.935, upper=0.986),
    mean_return=64.85,
    mean_time_to_success_s=0.63,
    breakdown=(Breakdown("target_x", (LOW, MIDDLE, HIGH)),),
)
TRIALS = [
    *(
        Trial(
            size,
            Outcome.FITS,
            frames_per_second=900.0 + size,
            host_bytes=(1000 + size) * MIB,
            host_budget=1500 * MIB,
            memory=MemoryReport(before_env=600 * MIB, after_env=800 * MIB, tensors={"clouds": 10 * MIB}),
        )
        for size in (32, 64, 128)
    ),
    Trial(512, Outcome.OVER_BUDGET, host_bytes=1500 * MIB, host_budget=1500 * MIB, detail="it passed the budget"),
]


def make_run(folder: Path, *settings: str, completed: bool = True) -> RunRecord:
    """Make the folder of a run of reach that went well."""
    folder.mkdir(parents=True)
    composed = compose(["task=reach", "num_envs=128", f"max_iterations={ITERATIONS}", *settings])
    composed.save(folder / SETTINGS_NAME)
    record = RunRecord.create(folder, composed)
    for iteration in range(1, ITERATIONS + 1):
        metrics = {
            "success_rate": iteration / 10 if iteration > 1 else math.nan,
            "mean_reward": 10.0 * iteration + 0.25,
            "collect_s": 1.5,
            "learn_s": 0.5,
            "Perf/env_fps": 1024.0 + iteration,
            "Perf/inference_fps": 768.0 + iteration,
            "Perf/total_fps": 512.0 + iteration,
            "loss/motion": 1.0 / iteration,
            "learning_rate": 1e-3,
            "Episode_Reward/distance": 2.0 * iteration,
            "Guard/per_million_steps": 0.0,
            "Learner/skipped_updates": 0.0,
            "Memory/host_bytes": (1000.0 + iteration) * MIB,
        }
        append_iteration(folder, iteration, iteration * STEPS, 2.0 * iteration, metrics)

    point = CurvePoint(iteration=3, env_steps=3 * STEPS, wall_s=6.0, evaluation_s=1.0, evaluation=EVALUATION)
    latest = CheckpointEntry(path="checkpoints/model_6.pt", iteration=6, success_rate=0.6)
    best = CheckpointEntry(path="checkpoints/model_3.pt", iteration=3, success_rate=0.3, evaluation=EVALUATION)
    record.update(
        completed_iterations=ITERATIONS,
        env_steps=ITERATIONS * STEPS,
        wall_s=14.0,
        physics="ovphysx",
        device="cpu",
        build_s=5.5,
        peak_bytes=1200 * MIB,
        guard={"joint_velocity": 0, "reward": 0},
        evaluations=[point],
        evaluation=EVALUATION,
        success=SUCCESS.rate,
        trials=[trial.to_dict() for trial in TRIALS],
        checkpoints=CheckpointEntries(latest=latest, best=best),
    )
    add_films(folder, {"first": make_film(1), "last": make_film(1), "success": make_film(8), "failure": make_film(5)})
    if completed:
        record.finish("completed")
    return record


def make_film(frames: int, *, depth: bool = False) -> Film:
    """Make a film of a cloud of 40 points that rises by 1 cm a frame, or of depth images of 3 x 4 pixels."""
    rise = 0.01 * np.arange(frames)
    cloud = np.random.default_rng(frames).uniform(-0.02, 0.02, (frames, 40, 3)) + np.array([0.5, 0.1, 0.0])
    cloud[..., 2] = rise[:, None]
    tool = np.tile(np.array([0.5, 0.0, 0.3, 1.0, 0.0, 0.0, 0.0], np.float32), (frames, 1))
    image = np.tile(np.linspace(0.0, 1.1, 12, dtype=np.float16).reshape(3, 4), (frames, 1, 1))
    return Film(
        iteration=np.array(ITERATIONS),
        times=np.arange(frames, dtype=np.float32) / 2,
        tool=tool,
        points=None if depth else cloud.astype(np.float16),
        depth=image if depth else None,
        goal=None if depth else tool[:, :3] + 0.1,
    )


def make_faulty(folder: Path) -> RunRecord:
    """Make the folder of a run with faults, a dump, a restart and a stop."""
    record = make_run(folder, completed=False)
    metrics = {"Guard/per_million_steps": 300.0, "Learner/skipped_updates": 2.0, "Perf/total_fps": 500.0}
    append_iteration(folder, ITERATIONS + 1, (ITERATIONS + 1) * STEPS, 16.0, metrics)
    entry = RestartEntry(
        time=record.data.started,
        cause="out of memory",
        detail="killed by the kernel",
        iteration=4,
        from_iteration=3,
        note="num_envs=64 instead of 128",
    )
    record.update(guard={"joint_velocity": 119, "reward": 0, "position": 9}, restarts=[entry])
    add_event(folder, "died", cause="out of memory", detail="killed by the kernel", iteration=4, num_envs=128)
    add_event(folder, "restart", from_iteration=3, lost_iterations=1, note="num_envs=64 instead of 128")
    add_event(folder, "recovered", iteration=4, seconds=31.4)
    add_event(folder, "stopped", signal="SIGTERM", iteration=7)
    (folder / "dumps").mkdir()
    make_dump().save(folder / "dumps" / "dump_0.npz")
    record.finish("failed", "too many <b>faults</b>")
    return record


def make_dump() -> FaultDump:
    """Make a dump of two environments that failed in step 77."""
    about = {
        "format": FORMAT,
        "task": "IsaacPC-Reach-Franka-Direct",
        "config": {},
        "seed": 1,
        "backend": "ovphysx",
        "versions": {},
        "dt": 0.01,
        "decimation": 2,
        "assets": {},
        "causes": ["action", "joint_velocity"],
    }
    one = np.ones(2, dtype=np.int64)
    arrays = {"env_id": np.array([3, 5]), "cause": np.array([2, 3]), "step": 77 * one, "length": one}
    per_step = {"episode": np.ones((2, 1)), "episode_step": np.ones((2, 1)), "action": np.ones((2, 1, 4))}
    return FaultDump(about, arrays | per_step)


def edit(folder: Path, **fields: object) -> None:
    """Write fields into a record, whatever they are, as a stranger could."""
    path = folder / "run.json"
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | fields), encoding="utf-8")
