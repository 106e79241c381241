# SPDX-License-Identifier: BSD-3-Clause
"""A search over two learning rates on real physics, with Ray Tune on this machine."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.sim, pytest.mark.physx, pytest.mark.slow, pytest.mark.timeout(1800)]

ROOT = Path(__file__).parents[2]
SMALL = ("num_envs=8", "device=cpu", "agent.samples_per_update=64", "eval.episodes=8", "env.episode_length_s=1")


def test_two_learning_rates_are_two_runs_that_can_be_played(tmp_path: Path) -> None:
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}

    def run(name: str, *arguments: str) -> str:
        command = [sys.executable, str(ROOT / "scripts" / name), *arguments]
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=1500, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    searched = "agent.algorithm.learning_rate=1e-3,1e-4"
    output = run("tune.py", "task=reach", "algorithm=ppo", "max_iterations=4", "concurrent=1", *SMALL, searched)
    (folder,) = (tmp_path / "logs" / "tune" / "reach").iterdir()
    records = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*/run.json"))]
    assert {record["status"] for record in records} <= {"completed", "interrupted"}
    assert len(records) == 2
    texts = [(folder / name / "config.yaml").read_text(encoding="utf-8") for name in ("000", "001")]
    assert sum("agent.algorithm.learning_rate=0.0001" in text for text in texts) == 1

    done = next(record for record in records if record["status"] == "completed")
    assert done["evaluation"]["episodes"] == 8
    assert "the best is" in output
    assert (folder / "results.png").is_file()
    played = run("play.py", f"resume={folder / '000'}", "eval.episodes=8")
    assert " at the end, " in played
