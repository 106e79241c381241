# SPDX-License-Identifier: BSD-3-Clause
import json
import subprocess
from pathlib import Path
from typing import Any

import gymnasium
import pytest

import isaaclab_pc.tasks
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.launch import task_names as registry
from isaaclab_pc.launch.task_names import (
    all_ids,
    describe_registered,
    our_tasks,
    registered_tasks,
    resolve_task,
    task_modules,
)
from isaaclab_pc.tasks.registration import register_task

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


@pytest.mark.parametrize("name", ["my_task_v0", "my_task", "push_v0", "lift-v1", "Reach"])
def test_an_id_of_another_package_may_look_like_a_short_name(monkeypatch, name):
    monkeypatch.setattr(registry, "all_ids", lambda: [name])
    assert resolve_task(name) == name


def test_a_misspelt_short_name_waits_for_no_registry(monkeypatch):
    monkeypatch.setattr(registry, "all_ids", lambda: pytest.fail("Isaac Lab was imported"))
    monkeypatch.setattr(registry, "our_tasks", lambda: pytest.fail("gymnasium was imported"))
    with pytest.raises(ConfigError, match=r"task=raech is not a task: did you mean reach\?"):
        resolve_task("raech")


def test_a_broken_isaac_lab_is_reported_in_one_line(monkeypatch):
    broken = subprocess.CompletedProcess([], 1, stdout="", stderr="Traceback\nImportError: no such library\n")
    monkeypatch.setattr(registry.subprocess, "run", lambda *_, **__: broken)
    registered_tasks.cache_clear()
    with pytest.raises(ConfigError, match="ImportError: no such library"):
        all_ids()


@pytest.fixture
def own_package(tmp_path, monkeypatch):
    """A package outside of this one, whose second task has an expert."""
    for name in ("plain", "taught"):
        package = tmp_path / "own_tasks" / name
        package.mkdir(parents=True)
        for module in ("__init__", f"{name}_env"):
            (package / f"{module}.py").touch()
    (tmp_path / "own_tasks" / "taught" / "expert.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    yield
    for task_id in [task_id for task_id in gymnasium.registry if task_id.startswith("Own-")]:
        del gymnasium.registry[task_id]


@pytest.mark.usefixtures("own_package")
def test_what_a_task_of_another_package_offers_is_seen_where_it_is_registered():
    for name in ("plain", "taught"):
        register_task(f"Own-{name}", env=f"own_tasks.{name}.{name}_env:Env", env_cfg="own_tasks:Cfg")
    entry_points: dict[str, Any] = {"absent": "not_installed.env:Env", "made": lambda: None}
    for name, entry_point in entry_points.items():
        gymnasium.register(f"Own-{name}", entry_point, kwargs={"env_cfg_entry_point": "own_tasks:Cfg"})
    gymnasium.register("Own-of-nobody", "own_tasks.taught.taught_env:Env")

    found = {key: value for key, value in json.loads(describe_registered()).items() if key.startswith("Own-")}
    assert found == {
        "Own-plain": {"has_expert": False, "has_sizes": True, "modules": ["own_tasks", "own_tasks.plain.plain_env"]},
        "Own-taught": {"has_expert": True, "has_sizes": True, "modules": ["own_tasks", "own_tasks.taught.taught_env"]},
        "Own-absent": {"has_expert": False, "has_sizes": False, "modules": ["not_installed.env", "own_tasks"]},
        "Own-made": {"has_expert": False, "has_sizes": False, "modules": ["own_tasks", __name__]},
    }


def test_a_task_of_this_package_is_defined_in_its_own_folder():
    assert task_modules("IsaacPC-Reach-Franka-Direct") == [
        "isaaclab_pc.tasks.reach.reach_env",
        "isaaclab_pc.tasks.reach.reach_env_cfg",
    ]
