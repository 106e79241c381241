# SPDX-License-Identifier: BSD-3-Clause
"""Exports of real policies: the actions of the runner, from depth images without a simulator."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.sim.training import run_program

AGREEMENT = re.compile(r"to (\S+e-?\d+),? over")
"""How a program tells the largest difference of its actions from others."""

pytestmark = [pytest.mark.sim, pytest.mark.physx, pytest.mark.slow]

ONE_ITERATION = [
    *("task=reach", "runner=rl_games", "algorithm=ppo", "obs=depth", "num_envs=4", "max_iterations=1"),
    *("agent.params.config.samples_per_update=64", "eval.episodes=4", "device=cpu", "env.episode_length_s=0.5"),
]
TWO_FRAMES_AND_A_MEMORY = [
    *("task=reach", "recurrent=lstm", "num_envs=4", "max_iterations=1", "agent.samples_per_update=64", "device=cpu"),
    *("eval.episodes=4", "env.history_length=2", "env.episode_length_s=0.5"),
]


def check_export(folder: Path, *arguments: str) -> dict[str, Any]:
    """Export a policy, run its files on their sample, and return what ``policy.json`` says."""
    output = run_program(folder, "scripts/export.py", *arguments)
    exported = folder / output.splitlines()[-1].removeprefix("policy: ")
    deployed = run_program(folder, "examples/deploy_onnx.py", str(exported))
    differences = [*AGREEMENT.findall(output), *AGREEMENT.findall(deployed)]
    assert len(differences) == 3
    assert max(map(float, differences)) <= 1e-4
    content = json.loads((exported / "policy.json").read_text(encoding="utf-8"))
    assert set(content["files"]) == {"policy.pt", "policy.onnx"}
    for part in (content["inputs"][0], content["output"]):
        assert part["parts"][-1]["to"] == part["shape"][1]
    return content


def test_a_policy_of_clouds_leaves_the_house(tmp_path: Path) -> None:
    content = check_export(tmp_path, "run=pretrained", "task=lift")
    assert [entry["name"] for entry in content["inputs"]] == ["policy", "points"]
    assert content["cameras"]["camera"]["mounted_on"] == "env"
    assert content["cloud"]["removed_classes"] == ["robot"]
    assert content["cloud"]["least_points"] > 0
    assert content["cameras"]["camera"]["least_seen"] > 0.5
    assert content["robot"]["base_pos"] == [0.0, 0.0, 0.0]


def test_a_policy_of_depth_images_leaves_the_house(tmp_path: Path) -> None:
    run_program(tmp_path, "scripts/train.py", *ONE_ITERATION)
    content = check_export(tmp_path, "task=reach", "runner=rl_games", "obs=depth")
    assert [entry["name"] for entry in content["inputs"]] == ["policy", "depth"]
    assert "cloud" not in content
    assert (content["history"]["length"], content["memory"]) == (1, [])


def test_a_policy_that_remembers_leaves_the_house(tmp_path: Path) -> None:
    run_program(tmp_path, "scripts/train.py", *TWO_FRAMES_AND_A_MEMORY)
    content = check_export(tmp_path, "task=reach")
    assert content["history"]["length"] == 2
    assert {entry["name"]: entry["shape"][1] for entry in content["inputs"]} == {"policy": 48, "points": 2}
    assert {part["steps_ago"] for part in content["inputs"][0]["parts"]} == {0, 1}
    assert [(entry["input"], entry["output"], entry["shape"]) for entry in content["memory"]] == [
        ("hidden", "next_hidden", [1, "batch", 256]),
        ("cell", "next_cell", [1, "batch", 256]),
    ]
