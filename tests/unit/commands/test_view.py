# SPDX-License-Identifier: BSD-3-Clause
"""The parent of a view, with a fake worker behind the process boundary."""

import re

import pytest

from isaaclab_pc.commands import train, view

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
    assert given == {"color": "height"}


def test_what_is_given_reaches_the_worker(shown, tmp_path):
    arguments = ["num_envs=2", "policy=random", "record=out.rrd", "steps=5", "color=camera", "port=9000", "env.a=1"]
    assert view.main(["task=lift", *CPU, *arguments, "points.num_points=64", "host=0.0.0.0"]) == 0
    content = shown()
    settings = content["settings"]
    assert {name: value for name, value in content.items() if name not in ("argv", "settings")} == {
        "policy": "random",
        "checkpoint": None,
        "record": str(tmp_path / "out.rrd"),
        "steps": 5,
        "color": "camera",
        "port": 9000,
    }
    assert (settings["num_envs"], settings["host"]) == (2, "0.0.0.0")
    assert (settings["points"]["num_points"], settings["env_overrides"]) == (64, ["env.a=1"])


def test_a_run_acts_under_its_own_settings_in_a_few_environments(runs, shown):
    assert train.main(["num_envs=8", "seed=7", "env.a=1", *CPU]) == 0
    (run,) = runs()
    assert view.main([f"policy={run}", "env.b=2", "points.realism=stereo"]) == 0
    content = shown("reach")
    assert content["checkpoint"].endswith("checkpoints/model_3.pt")
    assert content["policy"] is None
    settings = content["settings"]
    assert (settings["num_envs"], settings["seed"]) == (4, 7)
    assert settings["env_overrides"] == ["env.a=1", "env.b=2"]
    assert settings["points"]["realism"] == "stereo"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["num_envs=65"], "num_envs=65: more than 64 environments .* force=true"),
        (["record=out.txt"], "record=out.txt: expected a path that ends in .rrd, .* or in .mp4, a film"),
        (["record=out.rrd", "policy=keyboard"], "policy=keyboard: .* Leave record out"),
        (["record=nowhere/out.rrd"], "record=nowhere/out.rrd: there is no folder"),
        (["policy=latest"], "policy=latest: .* holds no run with a checkpoint"),
        (["policy=expret"], "policy=expret: expected latest, best, or the path"),
        (["runner=sb3", "policy=pretrained"], "runner"),
    ],
)
def test_what_cannot_be_shown_is_refused(folder, capsys, arguments, message):
    assert view.main(["task=lift", *CPU, *arguments]) == 2
    assert re.search(message, capsys.readouterr().err)
    assert not (folder / "logs" / "view").exists()


@pytest.mark.parametrize(
    ("missing", "arguments", "message"),
    [
        ("viser", [], "needs viser, .* pip install 'isaaclab_pc\\[viz\\]'. record=<path>.rrd"),
        ("av", ["record=out.mp4"], "record=out.mp4 needs av, .* pip install 'isaaclab_pc\\[viz\\]'"),
        ("rerun", ["record=out.rrd"], "record=out.rrd needs rerun, .* pip install 'isaaclab_pc\\[viz\\]'"),
    ],
)
def test_a_missing_package_says_what_to_install(folder, capsys, monkeypatch, missing, arguments, message):
    monkeypatch.setattr(view, "is_installed", lambda name: name != missing)
    assert view.main(["task=lift", *CPU, *arguments]) == 2
    assert re.search(message, capsys.readouterr().err)
