# SPDX-License-Identifier: BSD-3-Clause
import subprocess
from pathlib import Path

import pytest

import isaaclab_pc.tasks
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.launch import task_names as registry
from isaaclab_pc.launch.task_names import all_ids, our_tasks, resolve_task

REACH = "IsaacPC-Reach-Franka-Direct"


def test_a_tasks_short_name_is_its_folders():
    tasks = our_tasks()
    assert tasks["reach"] == REACH
    assert tasks["open_drawer"] == "IsaacPC-Open-Drawer-Franka-Direct"
    folders = {path.parent.name for path in Path(isaaclab_pc.tasks.__file__).parent.glob("*/__init__.py")}
    assert set(tasks) == folders


@pytest.mark.parametrize("name", ["reach", REACH])
def test_a_task_is_found_by_either_name(name):
    assert resolve_task(name) == REACH


def test_an_id_of_another_package_is_looked_up(monkeypatch):
    monkeypatch.setattr(registry, "all_ids", lambda: ["Isaac-Reach-Franka"])
    assert resolve_task("Isaac-Reach-Franka") == "Isaac-Reach-Franka"
    with pytest.raises(ConfigError, match="did you mean Isaac-Reach-Franka"):
        resolve_task("Isaac-Reach-Frnka")


def test_a_misspelt_short_name_waits_for_no_registry(monkeypatch):
    monkeypatch.setattr(registry, "all_ids", lambda: pytest.fail("Isaac Lab was imported"))
    monkeypatch.setattr(registry, "our_tasks", lambda: pytest.fail("gymnasium was imported"))
    with pytest.raises(ConfigError, match=r"task=raech is not a task: did you mean reach\?"):
        resolve_task("raech")


def test_a_broken_isaac_lab_is_reported_in_one_line(monkeypatch):
    broken = subprocess.CompletedProcess([], 1, stdout="", stderr="Traceback\nImportError: no such library\n")
    monkeypatch.setattr(registry.subprocess, "run", lambda *_, **__: broken)
    all_ids.cache_clear()
    with pytest.raises(ConfigError, match="ImportError: no such library"):
        all_ids()
