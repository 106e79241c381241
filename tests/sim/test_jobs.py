# SPDX-License-Identifier: BSD-3-Clause
"""Training on real physics as submitit's job on this machine: preempted, requeued, and brought to its end."""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

pytestmark = [pytest.mark.sim, pytest.mark.physx, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
SETTINGS = (
    *("physics=ovphysx", "device=cpu", "num_envs=8", "algorithm=ppo", "max_iterations=60", "eval.episodes=8"),
    *("supervise.checkpoint_interval=1", "eval.best_share=0", "env.episode_length_s=1"),
    *("agent.samples_per_update=128", "hydra/launcher=submitit_local"),
)


def test_a_preempted_job_goes_on_in_its_folder_to_its_end(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "scripts/train.py"), *SETTINGS]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    # No pipe: the job, which outlives the script, would hold it open.
    with (tmp_path / "output").open("w", encoding="utf-8") as output:
        subprocess.run(command, cwd=tmp_path, env=environment, stdout=output, timeout=120, check=True)
    said = (tmp_path / "output").read_text(encoding="utf-8")
    submitted = re.search(r"(\d+)  run: (\S+)", said)
    assert submitted is not None, said
    job = psutil.Process(int(submitted[1]))
    run = tmp_path / submitted[2]

    def record() -> Any:
        path = run / "run.json"
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"completed_iterations": 0}

    try:
        deadline = time.monotonic() + 240
        while record()["completed_iterations"] < 5:
            assert job.is_running(), said
            assert time.monotonic() < deadline, said
            time.sleep(0.05)
        # submitit's controller hands it on to the job, and starts the job again.
        job.terminate()
        job.wait(400)
    finally:
        for process in [*job.children(recursive=True), job] if job.is_running() else []:
            process.kill()

    data = record()
    assert (data["status"], data["completed_iterations"]) == ("completed", 60)
    (checkpoint,) = data["resumed"]
    assert 5 <= int(checkpoint.removeprefix("model_").removesuffix(".pt")) < 60
    assert list(run.parent.iterdir()) == [run]
    (log,) = tmp_path.glob(".submitit/*/*_log.out")
    text = log.read_text(encoding="utf-8")
    assert text.count(f"job {submitted[1]} on ") == 2
    assert "resuming from " in text
