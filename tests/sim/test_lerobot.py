# SPDX-License-Identifier: BSD-3-Clause
"""lerobot's own library reads a recording, and this package learns from it again. Its environment is downloaded."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from tests.sim.training import ROOT, run_program, uv

pytestmark = [pytest.mark.sim, pytest.mark.slow, pytest.mark.timeout(3600)]

DEPTH_STEP = 0.0005 + 0.0006 + 0.0003
"""Half a millimetre, half a code of the depth maps, and the points' float16 [m]."""


def test_depth_maps_and_their_calibration_give_the_cloud(tmp_path: Path) -> None:
    settings = ["task=lift", "physics=ovphysx", "device=cpu", "episodes=2", "depth=true"]
    run_program(tmp_path, "scripts/demo.py", *settings, "file=lift.hdf5", "format=lerobot", "out=lerobot")

    script = Path(__file__).with_name("read_lerobot.py")
    command = [uv(), "run", "--quiet", "--python", sys.executable, "--script", str(script), str(tmp_path / "lerobot")]
    read = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])

    assert (read["episodes"], read["successes"], read["fps"], read["robot"]) == (2, 2, 30, "franka")
    assert read["task"] == "Grasp a cube and bring it to a goal above the table."
    assert read["state"][0] == "arm_joint_pos.0"
    assert len(read["distances"]) > 1000
    assert max(read["distances"]) < DEPTH_STEP
    with h5py.File(tmp_path / "lift.hdf5") as file:
        data: Any = file["data"]
        recorded = np.concatenate([data[f"demo_{index}"]["actions"] for index in range(2)])
    assert np.array_equal(np.array(read["actions"], dtype=np.float32), recorded)
    assert "python scripts/demo.py task=lift" in (tmp_path / "lerobot" / "README.md").read_text(encoding="utf-8")

    learn = ["task=lift", "physics=ovphysx", "device=cpu", "num_envs=4", "max_iterations=1", "eval.episodes=4"]
    run_program(tmp_path, "scripts/train.py", *learn, "demos=lerobot")
    with h5py.File(tmp_path / "lift.hdf5") as before, h5py.File(tmp_path / "lerobot" / "demos.hdf5") as after:
        was: Any = before["data"]
        read: Any = after["data"]
        assert list(read) == list(was)
        for demo in was:
            for key in ("actions", "obs/policy", "obs/critic"):
                assert np.array_equal(read[demo][key], was[demo][key])
            np.testing.assert_allclose(read[demo]["obs/points"][:], was[demo]["obs/points"][:], atol=1e-3)
    with pytest.raises(AssertionError, match=r"rate_hz had 30\.0"):
        run_program(tmp_path, "scripts/train.py", *learn, "demos=lerobot", "env.decimation=3")


def test_policies_of_lerobot_and_ours_act_in_these_environments_by_lerobots_own_commands(tmp_path: Path) -> None:
    settings = ["task=lift", "physics=ovphysx", "device=cpu", "episodes=2", "points.num_points=128", "disturbances=0.2"]
    run_program(tmp_path, "scripts/demo.py", *settings, "file=lift.hdf5", "format=lerobot", "out=lerobot")
    run_program(tmp_path, "scripts/export.py", "run=pretrained", "task=lift")

    act = ["--policy.type=act", "--policy.device=cpu", "--policy.push_to_hub=false", "--policy.dim_model=32"]
    learn = ["--dataset.repo_id=isaaclab_pc/lift", "--dataset.root=lerobot", "--steps=1", "--batch_size=2"]
    _run_lerobot(tmp_path, "lerobot-train", *act, *learn, "--num_workers=0", "--output_dir=act")
    theirs = _evaluate(tmp_path, 2, "--policy.path=act/checkpoints/last/pretrained_model")
    assert theirs["n_episodes"] == 2

    ours = _evaluate(tmp_path, 8, "--policy.type=isaaclab_pc", "--policy.export=logs/pretrained/lift/export")
    assert ours["n_episodes"] == 8
    assert ours["pc_success"] >= 75.0
    assert len(ours["video_paths"]) == 8


def _evaluate(folder: Path, episodes: int, *policy: str) -> dict[str, Any]:
    found = ["--env.discover_packages_path=lerobot_isaaclab_pc", "--env.type=isaaclab_pc", "--env.dataset=lerobot"]
    counts = [f"--eval.batch_size={episodes}", f"--eval.n_episodes={episodes}"]
    _run_lerobot(folder, "lerobot-eval", *found, *counts, *policy, "--policy.device=cpu", "--output_dir=evaluated")
    return json.loads((folder / "evaluated" / "eval_info.json").read_text(encoding="utf-8"))["overall"]


def _run_lerobot(folder: Path, *command: str) -> None:
    environment = {"PYTHONPATH": str(ROOT / "examples"), "ISAACLAB_PC_PYTHON": sys.executable, "HF_HUB_OFFLINE": "1"}
    lerobot = ["--no-project", "--python", sys.executable, "--with", "lerobot[dataset,training]>=0.6,<0.7"]
    ended = subprocess.run(
        [uv(), "run", "--quiet", *lerobot, *command],
        check=False,
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
