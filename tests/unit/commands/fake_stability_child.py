# SPDX-License-Identifier: BSD-3-Clause
"""Stands in for isaaclab_pc.workers in its mode stability: same job, files and exit codes, no simulator.

The settings' seed chooses what happens at the second cell: 1 waits for a signal, 2 is refused, 3 breaks off,
4 crashes.
"""

import json
import os
import signal
import sys
import time
from dataclasses import asdict
from pathlib import Path

from isaaclab_pc.physics.stability import Cell
from isaaclab_pc.processes.child_process import interruptible
from isaaclab_pc.run.jobs import StabilityJob

WAITS, REFUSED, BREAKS_OFF, CRASHES = 1, 2, 3, 4


def main() -> int:
    path = Path(sys.argv[2])
    job = StabilityJob.read(path)
    settings = job.settings
    path.with_name("seen.json").write_text(json.dumps(settings.model_dump()), encoding="utf-8")
    if job.values["decimation"] == 2:
        if settings.seed == WAITS:
            Path("waiting").touch()
            with interruptible():
                time.sleep(60)
        if settings.seed == REFUSED:
            print("error: no such field", file=sys.stderr)
            return 2
        if settings.seed == BREAKS_OFF:
            path.with_name("worker.log").write_text("RuntimeError: it broke\n", encoding="utf-8")
            return 1
        if settings.seed == CRASHES:
            Cell({"dt": 1 / 30 / 2}, note="the simulator crashed").write(job.result)
            os.kill(os.getpid(), signal.SIGSEGV)
    decimation = job.values["decimation"]
    rate = 1000 / decimation
    cell = Cell({"dt": 1 / 30 / decimation}, 10_000, {"state": 2 - decimation // 2}, rate, cost=1000 / rate)
    job.result.write_text(json.dumps(asdict(cell)), encoding="utf-8")
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    sys.exit(main())
