# SPDX-License-Identifier: BSD-3-Clause
"""The child of a recording with a fake environment: KILL_AT CONFIG FILE EPISODES KEEP; it kills itself in that wave."""

import os
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))

from isaaclab_pc.demo_file import DemoFile
from isaaclab_pc.launch.compose import load_config
from isaaclab_pc.workers.demo import record
from tests.unit.commands.demo_helpers import FakeEnv

kill_at, config_path, path, episodes, keep = sys.argv[1:]
config = load_config(Path(config_path))
env = FakeEnv(config["num_envs"])
steps = []


def stopped() -> bool:
    steps.append(env.seeds[-1])
    if len(set(steps)) == int(kill_at) and steps.count(steps[-1]) == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return False


record(env, config, DemoFile(Path(path)), int(episodes), keep=keep, say=lambda line: print(line), stopped=stopped)
