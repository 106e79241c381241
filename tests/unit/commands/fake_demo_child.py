# SPDX-License-Identifier: BSD-3-Clause
"""Stands in for isaaclab_pc.workers in its mode demo, with a fake environment: KILL_AT, then the same arguments.

It kills itself in that wave.
"""

import argparse
import os
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))

from isaaclab_pc.demo_file import DemoFile
from isaaclab_pc.settings import RunSettings
from isaaclab_pc.workers.demo import record
from tests.unit.commands.demo_helpers import FakeEnv

parser = argparse.ArgumentParser()
parser.add_argument("kill_at", type=int)
parser.add_argument("mode", choices=["demo"])
parser.add_argument("settings", type=Path)
parser.add_argument("--file", type=Path)
parser.add_argument("--episodes", type=int)
parser.add_argument("--keep", choices=("success", "all"))
args = parser.parse_args()
settings = RunSettings.load(args.settings)
assert settings.num_envs != "auto"
env = FakeEnv(settings.num_envs)
steps = []


def stopped() -> bool:
    steps.append(env.seeds[-1])
    if len(set(steps)) == args.kill_at and steps.count(steps[-1]) == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return False


record(
    env,
    settings,
    DemoFile(args.file),
    args.episodes,
    keep=args.keep,
    say=lambda line: print(line),
    stopped=stopped,
)
