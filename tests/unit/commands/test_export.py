# SPDX-License-Identifier: BSD-3-Clause
"""The parent of an export, with a fake worker behind the process boundary."""

import pytest

from isaaclab_pc.commands import export
from isaaclab_pc.run.folder import SETTINGS_NAME
from isaaclab_pc.settings import RunSettings


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


def test_a_student_of_demonstrations_needs_them_no_more(run, seen):
    path = run / SETTINGS_NAME
    RunSettings.load(path).with_values({"demos": "/gone/demos.hdf5"}).save(path)
    assert export.main([]) == 0
    assert seen(run / "export")["settings"]["demos"] is None


def test_other_points_may_be_asked_for(run, seen):
    assert export.main(["points.num_points=256", "physics=ovphysx"]) == 0
    settings = seen(run / "export")["settings"]
    assert (settings["points"]["num_points"], settings["physics"]["backend"]) == (256, "ovphysx")
