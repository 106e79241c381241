# SPDX-License-Identifier: BSD-3-Clause
"""The parent of a view, with a fake worker behind the process boundary."""

import pytest

from isaaclab_pc.commands import view

CPU = ["device=cpu", "physics=newton_mjwarp"]


@pytest.fixture
def shown(folder, seen):
    """Tell what the worker of the only view saw."""

    def read(task="lift"):
        (result,) = (folder / "logs" / "view" / task).iterdir()
        return seen(result)

    return read


def test_a_few_environments_and_whoever_can_solve_the_task(shown):
    assert view.main(["task=lift", *CPU]) == 0
    content = shown()
    assert content["settings"]["num_envs"] == 4
    assert content["settings"]["host"] == "127.0.0.1"
    given = {name: value for name, value in content.items() if name not in ("argv", "settings") and value is not None}
    assert given == {}


def test_what_is_given_reaches_the_worker(shown, tmp_path):
    arguments = ["num_envs=2", "policy=random", "record=out.mp4", "steps=5", "port=9000", "env.a=1"]
    assert view.main(["task=lift", *CPU, *arguments, "points.num_points=64", "host=0.0.0.0"]) == 0
    content = shown()
    settings = content["settings"]
    assert {name: value for name, value in content.items() if name not in ("argv", "settings")} == {
        "policy": "random",
        "checkpoint": None,
        "record": str(tmp_path / "out.mp4"),
        "steps": 5,
        "port": 9000,
    }
    assert (settings["num_envs"], settings["host"]) == (2, "0.0.0.0")
    assert (settings["points"]["num_points"], settings["env_overrides"]) == (64, ["env.a=1"])


def test_a_run_acts_under_its_own_settings_in_a_few_environments(run, shown):
    assert view.main([f"policy={run}", "env.b=2", "points.realism=stereo"]) == 0
    content = shown("reach")
    assert content["checkpoint"].endswith("checkpoints/model_3.pt")
    assert content["policy"] is None
    settings = content["settings"]
    assert (settings["num_envs"], settings["seed"]) == (4, 7)
    assert settings["env_overrides"] == ["env.a=1", "env.b=2"]
    assert settings["points"]["realism"] == "stereo"
