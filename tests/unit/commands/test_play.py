# SPDX-License-Identifier: BSD-3-Clause
"""The parent of an evaluation, with a fake worker behind the process boundary."""

import json

import pytest

from isaaclab_pc.cli.task_names import our_tasks
from isaaclab_pc.commands import play, train
from isaaclab_pc.learners.common.checkpoint_file import save_checkpoint
from isaaclab_pc.run import pretrained


@pytest.fixture
def run(runs):
    """A finished run of 8 environments."""
    assert train.main(["num_envs=8", "device=cpu", "seed=7", "env.a=1", "physics=newton_mjwarp"]) == 0
    (run,) = runs()
    return run


@pytest.fixture
def evaluation(run, seen):
    """Tell what the worker of the only evaluation saw."""

    def read():
        (result,) = (run / "play").iterdir()
        return seen(result)

    return read


def test_the_latest_run_is_evaluated_under_its_own_settings(run, capsys, evaluation):
    assert play.main([]) == 0
    content = evaluation()
    assert content["argv"][0] == "play"
    assert content["checkpoint"].endswith("checkpoints/model_3.pt")
    assert content["settings"]["seed"] == 7
    assert content["settings"]["num_envs"] == 8
    assert content["settings"]["physics"]["backend"] == "newton_mjwarp"
    assert "result.json" in capsys.readouterr().out
    assert json.loads((run / "run.json").read_text(encoding="utf-8"))["status"] == "completed"


def test_what_is_given_replaces_the_runs_settings(evaluation):
    arguments = [
        "eval.episodes=1000",
        "num_envs=32",
        "physics=newton_mjwarp",
        "physics.dt=0.01",
        "guard.mode=disabled",
        "env.b=2",
    ]
    assert play.main(arguments) == 0
    settings = evaluation()["settings"]
    assert settings["eval"] == {
        "episodes": 1000,
        "seed": 1000,
        "best_episodes": 100,
        "best_share": 0.05,
        "best_seed": 2000,
    }
    assert settings["num_envs"] == 32
    assert settings["physics"]["backend"] == "newton_mjwarp"
    assert settings["physics"]["dt"] == 0.01
    assert settings["guard"]["mode"] == "disabled"
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
    said = capsys.readouterr().out
    assert "visualizer=viser shows in a browser, at the address that is printed when it is there" in said
    assert "localhost" not in said, "another program may listen on the usual port"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["max_iterations=3"], "max_iterations has no effect on a trained policy"),
        (["points.frame=env"], "points.frame has no effect on a trained policy"),
        (["agent.x=3"], "agent.x=3 has no effect on a trained policy"),
        (["num_envs=auto"], "give a number here"),
        (["resume=RUN", "task=lift"], "comes from a run with task=IsaacPC-Reach-Franka-Direct"),
    ],
)
def test_what_has_no_meaning_is_refused(run, capsys, arguments, message):
    assert play.main([argument.replace("RUN", str(run)) for argument in arguments]) == 2
    assert message in capsys.readouterr().err
    assert not (run / "play").exists()


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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["task=Isaac-Cartpole-Direct"], "has no expert; these have one: lift, open_drawer"),
        (["runner=skrl"], "runner has no effect on the expert"),
        (["agent.x=3"], "agent.x=3 has no effect on the expert"),
        (["num_envs=auto"], "give a number here"),
    ],
)
def test_what_has_no_meaning_for_the_expert_is_refused(folder, capsys, arguments, message):
    assert play.main(["resume=expert", *arguments]) == 2
    assert message in capsys.readouterr().err
    assert not (folder / "logs").exists()
