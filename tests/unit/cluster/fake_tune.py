# SPDX-License-Identifier: BSD-3-Clause
"""``scripts/tune.py`` with the fake trainer in place of the simulator, and as the script of one trial of it."""

import sys
from pathlib import Path

from isaaclab_pc.commands import trial, tune
from isaaclab_pc.num_envs.fit import FitResult
from isaaclab_pc.run import jobs
from isaaclab_pc.supervise import supervisor

TRAINER = str(Path(__file__).parents[1] / "supervise" / "fake_trainer.py")


def found(largest, on_trial):
    return FitResult(64 if largest.num_envs == "auto" else largest.num_envs, (), "")


if __name__ == "__main__":
    jobs.PROGRAM = (sys.executable, TRAINER)
    tune.find_num_envs = found
    supervisor.LONGEST_PAUSE = 0.1
    if sys.argv[1] == "trial":
        sys.exit(trial.main(sys.argv[2:]))
    tune.TRIAL = (__file__, "trial")
    sys.exit(tune.main(sys.argv[1:]))
