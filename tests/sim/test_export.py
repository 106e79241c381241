# SPDX-License-Identifier: BSD-3-Clause
"""Exports of real policies: the actions of the runner, from depth images without a simulator."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.sim.training import run_program

pytestmark = [pytest.mark.sim, pytest.mark.physx, pytest.mark.slow]

ONE_ITERATION = [
    *("task=reach", "runner=rl_games", "algorithm=ppo", "obs=depth", "num_envs=4", "max_iterations=1"),
    *("agent.params.config.samples_per_update=64", "eval.episodes=4", "device=cpu", "env.episode_length_s=0.5"),
]


TWO_FRAMES_AND_A_MEMORY = [
    *("task=reach", "recurrent=lstm", "num_envs=4", "max_iterations=1", "agent.samples_per_update=64", "device=cpu"),
    *("eval.episodes=4", "env.history_length=2", "env.episode_length_s=0.5"),
]


def check_export(folder: Path, output: str) -> dict[str, Any]:
    """Check an export's files, run them on its sample, and return what ``policy.json`` says."""
    assert output.count("actions as the runner's to ") == 2
    exported = folder / output.splitlines()[-1].removeprefix("policy: ")
    assert "as recorded to" in run_program(folder, "examples/deploy_onnx.py", str(exported))
    content = json.loads((exported / "policy.json").read_text(encoding="utf-8"))
    assert set(content["files"]) == {"policy.pt", "policy.onnx"}
    for part in (content["inputs"][0], content["output"]):
        assert part["parts"][-1]["to"] == part["shape"][1]
    return content


def test_a_policy_of_clouds_leaves_the_house(tmp_path: Path) -> None:
    content = check_export(tmp_path, run_program(tmp_path, "scripts/export.py", "run=pretrained", "task=lift"))
    assert [entry["name"] for entry in content["inputs"]] == ["policy", "points"]
    assert content["cameras"]["camera"]["mounted_on"] == "env"
    assert content["cloud"]["removed_classes"] == ["robot"]
    assert content["cloud"]["least_points"] > 0
    assert content["cameras"]["camera"]["least_seen"] > 0.5
    assert content["robot"]["base_pos"] == [0.0, 0.0, 0.0]


def test_a_policy_of_depth_images_leaves_the_house(tmp_path: Path) -> None:
    run_program(tmp_path, "scripts/train.py", *ONE_ITERATION)
    content = check_export(
        tmp_path, run_program(tmp_path, "scripts/export.py", "task=reach", "runner=rl_games", "obs=depth")
    )
    assert [entry["name"] for entry in content["inputs"]] == ["policy", "depth"]
    assert "cloud" not in content
    assert (content["history"]["length"], content["memory"]) == (1, [])


def test_a_policy_that_remembers_leaves_the_house(tmp_path: Path) -> None:
    run_program(tmp_path, "scripts/train.py", *TWO_FRAMES_AND_A_MEMORY)
    content = check_export(tmp_path, run_program(tmp_path, "scripts/export.py", "task=reach"))
    assert content["history"]["length"] == 2
    assert {entry["name"]: entry["shape"][1] for entry in content["inputs"]} == {"policy": 48, "points": 2}
    assert {part["steps_ago"] for part in content["inputs"][0]["parts"]} == {0, 1}
    assert [(entry["input"], entry["output"], entry["shape"]) for entry in content["memory"]] == [
        ("hidden", "next_hidden", [1, "batch", 256]),
        ("cell", "next_cell", [1, "batch", 256]),
    ]
