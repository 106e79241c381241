# SPDX-License-Identifier: BSD-3-Clause
"""The parent of an evaluation, with a fake worker behind the process boundary."""

import pytest

from isaaclab_pc.cli.task_names import our_tasks
from isaaclab_pc.commands import play
from isaaclab_pc.learners.common.checkpoint_file import save_checkpoint
from isaaclab_pc.run import pretrained


@pytest.fixture
def evaluation(run, seen):
    """Tell what the worker of the only evaluation saw."""

    def read():
        (result,) = (run / "play").iterdir()
        return seen(result)

    return read


def test_the_latest_run_is_evaluated_under_its_own_settings(run, record, capsys, evaluation):
    assert play.main([]) == 0
    content = evaluation()
    assert content["argv"][0] == "play"
    assert content["checkpoint"].endswith("checkpoints/model_3.pt")
    settings = content["settings"]
    assert (settings["seed"], settings["num_envs"], settings["physics"]["backend"]) == (7, 8, "newton_mjwarp")
    assert "result.json" in capsys.readouterr().out
    assert record(run)["status"] == "completed"


def test_what_is_given_replaces_the_runs_settings(evaluation):
    physics = ["physics=newton_mjwarp", "physics.dt=0.01"]
    assert play.main(["eval.episodes=1000", "num_envs=32", *physics, "guard.mode=disabled", "env.b=2"]) == 0
    settings = evaluation()["settings"]
    assert (settings["eval"]["episodes"], settings["eval"]["seed"]) == (1000, 1000)
    assert (settings["num_envs"], settings["guard"]["mode"]) == (32, "disabled")
    assert (settings["physics"]["backend"], settings["physics"]["dt"]) == ("newton_mjwarp", 0.01)
    assert settings["env_overrides"] == ["env.a=1", "env.b=2"]


def test_no_more_environments_than_episodes_are_started(evaluation):
    assert play.main(["eval.episodes=5"]) == 0
    assert evaluation()["settings"]["num_envs"] == 5


@pytest.mark.parametrize(
    ("arguments", "num_envs"), [([], 4), (["num_envs=auto"], 4), (["num_envs=6", "eval.episodes=3"], 6)]
)
def test_who_watches_sees_few_environments_unless_told_otherwise(
    evaluation, capsys, has_visualizers, arguments, num_envs
):
    has_visualizers("viser")
    assert play.main(["visualizer=viser", *arguments]) == 0
    settings = evaluation()["settings"]
    assert (settings["visualizer"], settings["num_envs"]) == ("viser", num_envs)
    assert "localhost" not in capsys.readouterr().out, "another program may listen on the usual port"


def test_a_policy_that_comes_with_the_package_is_played_without_a_run(folder, seen, tmp_path, monkeypatch, capsys):
    policy = tmp_path / "package" / "policy.pt"
    settings = {"task": our_tasks()["reach"], "num_envs": 8, "algorithm": "distill"}
    header = {"runner": "rsl_rl", "task": settings["task"], "algorithm": "distill", "settings": settings}
    save_checkpoint(policy, {"algorithm": {}}, header)
    monkeypatch.setattr(pretrained, "policy_file", lambda task: policy)

    assert play.main(["resume=pretrained", "eval.episodes=100"]) == 0
    (result,) = (folder / "logs" / "pretrained" / "reach").iterdir()
    assert seen(result)["checkpoint"] == str(policy)
    assert seen(result)["settings"]["eval"]["episodes"] == 100
    assert seen(result)["settings"]["algorithm"] == "distill"
    assert "result.json" in capsys.readouterr().out


def test_the_expert_is_evaluated_without_a_run_and_without_cameras(folder, seen):
    assert play.main(["resume=expert", "task=lift", "eval.episodes=512", "env.randomization=hard"]) == 0

    (result,) = (folder / "logs" / "expert" / "lift").iterdir()
    content = seen(result)
    assert content["checkpoint"] is None
    settings = content["settings"]
    assert (settings["obs"], settings["num_envs"]) == ("state", 256)
    assert (settings["eval"]["episodes"], settings["env_overrides"]) == (512, ["env.randomization=hard"])
