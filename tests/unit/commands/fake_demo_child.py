# SPDX-License-Identifier: BSD-3-Clause
"""Stands in for isaaclab_pc.workers in its mode demo, with a fake environment: KILL_AT, then the mode and the job.

It kills itself in that wave.
"""

import os
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))

from isaaclab_pc.run.jobs import DemoJob
from isaaclab_pc.workers.demo import record
from tests.unit.commands.demo_helpers import FakeEnv

kill_at = int(sys.argv[1])
job = DemoJob.read(Path(sys.argv[3]))
assert job.settings.num_envs != "auto"
env = FakeEnv(job.settings.num_envs)
steps = []


def stopped() -> bool:
    steps.append(env.seeds[-1])
    if len(set(steps)) == kill_at and steps.count(steps[-1]) == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return False


record(env, job, stopped=stopped)
