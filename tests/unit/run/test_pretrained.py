# SPDX-License-Identifier: BSD-3-Clause
import pytest

from isaaclab_pc.cli.compose import compose
from isaaclab_pc.cli.task_names import our_tasks
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.run import pretrained
from isaaclab_pc.run.pretrained import find_pretrained, pretrained_tasks


def test_all_tasks_come_with_a_policy():
    assert set(our_tasks()) == set(pretrained_tasks())


@pytest.mark.parametrize("task", pretrained_tasks())
def test_each_policy_knows_what_it_was_trained_with(task):
    settings, checkpoint = find_pretrained(compose([f"task={task}"]))
    assert settings.task == our_tasks()[task]
    assert (settings.obs, settings.device, settings.teacher) == ("points", "auto", None)
    assert isinstance(settings.num_envs, int)
    assert checkpoint.stat().st_size < 1 << 20


def test_a_task_without_one_is_refused_by_name(tmp_path, monkeypatch):
    monkeypatch.setattr(pretrained, "policy_file", lambda task: tmp_path / f"{task}.pt")
    (tmp_path / "push.pt").touch()
    with pytest.raises(ConfigError, match=r"^resume=pretrained: lift.* push"):
        find_pretrained(compose(["task=lift"]))
