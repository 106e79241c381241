# SPDX-License-Identifier: BSD-3-Clause
"""The parent of an export, with a fake worker behind the process boundary."""

import pytest

from isaaclab_pc.commands import export, train


@pytest.fixture
def run(runs):
    """A finished run of 8 environments."""
    assert train.main(["num_envs=8", "device=cpu", "seed=7", "env.a=1", "algorithm=distill"]) == 0
    (run,) = runs()
    return run


@pytest.mark.parametrize("arguments", [[], ["run=latest"], ["run=best"], ["run=RUN"]])
def test_a_runs_policy_is_exported_into_its_folder_from_one_environment(run, seen, capsys, arguments):
    assert export.main([text.replace("RUN", str(run)) for text in arguments]) == 0
    content = seen(run / "export")
    assert content["argv"][0] == "export"
    assert content["checkpoint"].endswith("checkpoints/model_3.pt")
    settings = content["settings"]
    assert (settings["num_envs"], settings["device"], settings["seed"]) == (1, "cpu", 7)
    assert (settings["algorithm"], settings["teacher"], settings["env_overrides"]) == ("distill", None, ["env.a=1"])
    assert capsys.readouterr().out.endswith(f"{run.name}/export\n")


def test_other_points_may_be_asked_for(run, seen):
    assert export.main(["points.num_points=256", "physics=newton_mjwarp"]) == 0
    settings = seen(run / "export")["settings"]
    assert (settings["points"]["num_points"], settings["physics"]["backend"]) == (256, "newton_mjwarp")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run=nothing"], "expected latest, best, or the path"),
        (["run=RUN", "task=lift"], "comes from a run with task=IsaacPC-Reach-Franka-Direct"),
        (["resume=best"], "resume is for training, which goes on: name the policy with run=<run>"),
        (["num_envs=4"], "num_envs has no effect on a trained policy"),
    ],
)
def test_what_has_no_meaning_is_refused(run, capsys, arguments, message):
    assert export.main([text.replace("RUN", str(run)) for text in arguments]) == 2
    assert message in capsys.readouterr().err
    assert not (run / "export").exists()


def test_what_is_missing_is_said_before_anything_starts(run, capsys, monkeypatch):
    monkeypatch.setattr(export, "is_installed", lambda name: name != "onnxruntime")
    assert export.main([]) == 2
    assert 'onnxruntime is not installed: pip install "isaaclab_pc[export]"' in capsys.readouterr().err
