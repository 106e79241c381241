# SPDX-License-Identifier: BSD-3-Clause
"""Training on real physics whose memory leaks: it is replaced before there is none left."""

import os
import signal
from pathlib import Path

import pytest

from tests.sim.training import Training, processes_of

pytestmark = [pytest.mark.sim, pytest.mark.physx, pytest.mark.slow]

# Python runs this at the start of every process. The first one that trains leaks, on a machine that looks small to it.
LEAKS = """\
import pathlib, sys, threading, time

LIMIT = 6 << 30
leaked = []

def leak():
    while "isaaclab_pc.supervise.heartbeat" not in sys.modules:
        time.sleep(0.1)
    time.sleep(1.0)
    from isaaclab_pc.supervise import heartbeat
    import psutil

    process = psutil.Process()
    heartbeat.free_host_memory = lambda: max(LIMIT - process.memory_info().rss, 0)
    while process.memory_info().rss < 0.9 * LIMIT:
        leaked.append(b"x" * (4 << 20))
        time.sleep(0.1)

if "isaaclab_pc.workers" in pathlib.Path("/proc/self/cmdline").read_text() and not pathlib.Path("leaked").exists():
    pathlib.Path("leaked").touch()
    threading.Thread(target=leak, daemon=True).start()
"""


def test_a_process_that_leaks_is_replaced_in_good_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sitecustomize.py").write_text(LEAKS, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}")
    with Training(tmp_path, "max_iterations=100000") as training:
        first = training.wait_for(1)
        training.wait_for(30, after=first.pid, seconds=240)
        assert not first.is_running()
        (restart,) = training.record["restarts"]
        assert restart["cause"] == "memory leak"
        assert "host memory grows and meets its limit of 6" in restart["detail"]
        assert restart["from_iteration"] == restart["iteration"] >= 25, "it wrote a checkpoint first"

        training.script.send_signal(signal.SIGTERM)
        assert training.script.wait(timeout=120) == 75, training.output
        assert processes_of(training.run) == []
