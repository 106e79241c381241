# SPDX-License-Identifier: BSD-3-Clause
import pytest

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.launch import pretrained
from isaaclab_pc.launch.compose import compose
from isaaclab_pc.launch.pretrained import POLICY_NAME, find_pretrained, pretrained_folder, pretrained_tasks
from isaaclab_pc.launch.run_folder import SETTINGS_NAME
from isaaclab_pc.launch.task_names import our_tasks
from isaaclab_pc.runners import read_header
from isaaclab_pc.settings import RunSettings


@pytest.mark.parametrize("task", pretrained_tasks())
def test_each_policy_comes_with_its_runs_settings(task):
    folder, checkpoint = find_pretrained(compose([f"task={task}"]))
    settings = RunSettings.load(folder / SETTINGS_NAME)
    assert settings.task == read_header(checkpoint)["task"] == our_tasks()[task]
    assert (settings.teacher, settings.resume) == (None, None)
    assert checkpoint.stat().st_size < 1 << 20


def test_a_task_without_one_is_refused_by_name(tmp_path, monkeypatch):
    monkeypatch.setattr(pretrained, "pretrained_folder", lambda task: tmp_path / task)
    (tmp_path / "push").mkdir()
    (tmp_path / "push" / POLICY_NAME).touch()
    with pytest.raises(ConfigError, match="resume=pretrained: lift comes with no policy; these do: push"):
        find_pretrained(compose(["task=lift"]))


def test_it_lies_in_the_tasks_folder():
    assert (pretrained_folder("lift").parent / "lift_env.py").is_file()
