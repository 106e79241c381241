# SPDX-License-Identifier: BSD-3-Clause
"""A search over two learning rates on real physics, with Ray Tune on this machine."""

import json
from pathlib import Path

import pytest

from tests.sim.training import run_program

pytestmark = [pytest.mark.sim, pytest.mark.physx, pytest.mark.slow, pytest.mark.timeout(1800)]

SMALL = ("num_envs=8", "device=cpu", "agent.samples_per_update=64", "eval.episodes=8", "env.episode_length_s=1")


def test_two_learning_rates_are_two_runs_that_can_be_played(tmp_path: Path) -> None:
    own_cache = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    searched = "agent.algorithm.learning_rate=1e-3,1e-4"
    settings = ("task=reach", "algorithm=ppo", "max_iterations=4", "concurrent=1", *SMALL, searched)
    output = run_program(tmp_path, "scripts/tune.py", *settings, **own_cache)
    (folder,) = (tmp_path / "logs" / "tune" / "reach").iterdir()
    records = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*/run.json"))]
    assert {record["status"] for record in records} <= {"completed", "interrupted"}
    assert len(records) == 2
    texts = [(folder / name / "config.yaml").read_text(encoding="utf-8") for name in ("000", "001")]
    assert sum("agent.algorithm.learning_rate=0.0001" in text for text in texts) == 1

    done = next(record for record in records if record["status"] == "completed")
    assert done["evaluation"]["episodes"] == 8
    assert "best" in output
    run_program(tmp_path, "scripts/play.py", f"resume={folder / '000'}", "eval.episodes=8", **own_cache)
    assert list(folder.glob("000/play/*/result.json"))
