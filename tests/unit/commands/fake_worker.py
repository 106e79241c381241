# SPDX-License-Identifier: BSD-3-Clause
"""Stands in for isaaclab_pc.workers: same arguments, files and exit codes, no simulator.

The settings' seed chooses what happens: 1 waits for a signal, 2 is refused, 3 crashes, 11 ends in a storm, 12 diverges,
anything else completes.
"""

import argparse
import json
import os
import signal
import sys
import time
import zipfile
from pathlib import Path

from isaaclab_pc.launch.child_process import ExitCode, SignalFlag
from isaaclab_pc.launch.run_folder import accept_settings
from isaaclab_pc.launch.run_record import CheckpointEntries, CheckpointEntry, RunRecord
from isaaclab_pc.scaling import Outcome, Trial
from isaaclab_pc.scaling.trial import MemoryReport
from isaaclab_pc.settings import RunSettings

WAITS, REFUSED, CRASHES = 1, 2, 3
STOPS = {11: ("storm", ExitCode.STORM), 12: ("failed", ExitCode.DIVERGED)}


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("mode")
    parser.add_argument("settings", type=Path)
    parser.add_argument("--checkpoint", type=Path)
    parser.add_argument("--num-envs", type=int)
    parser.add_argument("--result", type=Path)
    args, _ = parser.parse_known_args()
    settings = RunSettings.load(args.settings)
    folder = args.settings.parent
    seen = {"argv": sys.argv[1:], "settings": settings.model_dump()}
    (folder / "seen.json").write_text(json.dumps(seen), encoding="utf-8")
    seed = settings.seed
    if seed == REFUSED:
        if args.mode == "probe":
            refusal = Trial(args.num_envs, Outcome.ERROR, detail="no such field", config_error=True)
            refusal.write(args.result)
        print("error: no such field")
        return 2
    if args.mode == "probe" and seed == WAITS:
        Path("probing").touch()
        time.sleep(60)
    if args.mode == "probe":
        tensors = {"camera buffers": args.num_envs << 12}
        memory = MemoryReport(before_env=6 << 20, after_env=8 << 20, tensors=tensors)
        Trial(args.num_envs, Outcome.FITS, frames_per_second=100.0, memory=memory).write(args.result)
        return 0
    if args.mode == "plan":
        batch = {"horizon": 8, "num_minibatches": 4, "minibatch_size": 2 * args.num_envs}
        plan = {"batch": batch, "findings": ["warning: too many threads"]}
        args.result.write_text(json.dumps(plan), encoding="utf-8")
        return 0
    if args.mode == "view":
        return 0
    if args.mode == "play":
        (folder / "result.json").write_text("{}", encoding="utf-8")
        return 0
    if args.mode == "export":
        return 0
    if "refuses" in os.environ:
        print("error: does not divide the control period")
        return 2
    accept_settings(args.settings)
    return train(RunRecord.load(folder), seed)


def train(record: RunRecord, seed: int) -> int:
    if seed == CRASHES:
        (record.folder / "worker.log").write_text("Traceback\nRuntimeError: it broke\n", encoding="utf-8")
        return 1
    with SignalFlag() as flag:
        while seed == WAITS and not flag.received:
            print("training", flush=True)
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
    sys.exit(main())
