# SPDX-License-Identifier: BSD-3-Clause
"""Stands in for isaaclab_pc.workers.stability: same arguments, files and exit codes, no simulator.

The config's seed chooses what happens at the second setting: 1 waits for a signal, 2 is refused, 3 breaks off,
4 crashes.
"""

import argparse
import json
import os
import signal
import sys
import time
from dataclasses import asdict
from pathlib import Path

from isaaclab_pc.launch.child_process import interruptible
from isaaclab_pc.launch.compose import load_config
from isaaclab_pc.physics.stability import Cell

WAITS, REFUSED, BREAKS_OFF, CRASHES = 1, 2, 3, 4


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("config", type=Path)
    parser.add_argument("--settings", type=json.loads)
    parser.add_argument("--log", type=Path)
    parser.add_argument("--result", type=Path)
    args = parser.parse_args()
    config = load_config(args.config)
    (args.config.parent / "seen.json").write_text(json.dumps(config), encoding="utf-8")
    if args.settings["decimation"] == 2:
        if config["seed"] == WAITS:
            Path("waiting").touch()
            with interruptible():
                time.sleep(60)
        if config["seed"] == REFUSED:
            print("error: no such field", file=sys.stderr)
            return 2
        if config["seed"] == BREAKS_OFF:
            args.log.write_text("RuntimeError: it broke\n", encoding="utf-8")
            return 1
        if config["seed"] == CRASHES:
            os.kill(os.getpid(), signal.SIGSEGV)
    settings = {"dt": 1 / 30 / args.settings["decimation"]}
    failures, rate = {"state": 2 - args.settings["decimation"] // 2}, 1000 / args.settings["decimation"]
    cell = Cell(settings, 10_000, failures, rate, cost=1000 / rate)
    args.result.write_text(json.dumps(asdict(cell)), encoding="utf-8")
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    sys.exit(main())
