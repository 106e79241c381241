# SPDX-License-Identifier: BSD-3-Clause
from pathlib import Path
from typing import Any

import gymnasium
import pytest

import isaaclab_pc.tasks
from isaaclab_pc.cli import task_names as registry
from isaaclab_pc.cli.task_names import (
    describe_registered,
    our_tasks,
    registered_tasks,
    resolve_task,
    task_traits,
)
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.tasks.registration import register_task

REACH = "IsaacPC-Reach-Franka-Direct"


def test_a_tasks_short_name_is_its_folders():
    tasks = our_tasks()
    assert tasks["reach"] == REACH
    assert tasks["open_drawer"] == "IsaacPC-Open-Drawer-Franka-Direct"
    folders = {path.parent.name for path in Path(isaaclab_pc.tasks.__file__).parent.glob("*/__init__.py")}
    assert set(tasks) == folders

    assert resolve_task("reach") == resolve_task(REACH) == REACH


@pytest.mark.parametrize("name", ["Isaac-Reach-Franka", "my_task_v0", "my_task", "push_v0", "lift-v1", "Reach"])
def test_an_id_of_another_package_may_look_like_a_short_name(monkeypatch, name):
    monkeypatch.setattr(registry, "_listing", lambda: ({name: {}}, {}))
    assert resolve_task(name) == name
    with pytest.raises(ConfigError, match=f"(?i){name}"):
        resolve_task(f"{name[0]}-{name[1:]}")


def test_a_misspelt_short_name_waits_for_no_registry(monkeypatch):
    monkeypatch.setattr(registry, "_listing", lambda: pytest.fail("Isaac Lab was imported"))
    monkeypatch.setattr(registry, "our_tasks", lambda: pytest.fail("gymnasium was imported"))
    with pytest.raises(ConfigError, match=r"task=raech .*\breach\?"):
        resolve_task("raech")


BROKEN = {
    "wrong_import": "import not_installed_anywhere",
    "no_python": "def",
    "exits": "raise SystemExit('get a licence')",
    "is_interrupted": "raise KeyboardInterrupt",
    "raises_other": "class Odd(BaseException): pass\nraise Odd('two\\nlines')",
}
TASK = "import gymnasium\ngymnasium.register('{}', 'a:Env', kwargs={{'env_cfg_entry_point': 'a:Cfg'}})\n"
TALKS = """
import atexit, os, sys, threading, time
input_is_empty = sys.stdin.read() == ""
print('tasks: {"no": 1}')
os.write(1, b'{"tasks": 1}')
atexit.register(time.sleep, 60)
threading.Thread(target=time.sleep, args=(60,)).start()
sys.stdout = sys.stderr = open(os.devnull, "w")
"""
# After those that are broken, and registered before its package fails.
WORKING = {"whole": TASK.format("Whole"), "zz_talks": TASK.format("Talks") + TALKS, "half": TASK.format("Half") + "x"}


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Install packages of tasks, by their code, beside an Isaac Lab without tasks of its own."""
    (tmp_path / "isaaclab_tasks.py").touch()
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    def install(packages):
        for name, code in packages.items():
            info = tmp_path / f"{name}_tasks-1.0.dist-info"
            info.mkdir()
            (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}-tasks\nVersion: 1.0\n")
            (info / "entry_points.txt").write_text(f"[isaaclab.tasks]\n{name} = {name}\n")
            (tmp_path / f"{name}.py").write_text(code)
        return tmp_path

    registry._listing.cache_clear()
    yield install
    registry._listing.cache_clear()


def test_broken_packages_are_named_once_and_all_others_are_used(installed, capsys):
    installed({**BROKEN, **WORKING})
    tasks = registered_tasks()
    assert {"Whole", "Talks", "Half", REACH} <= set(tasks)
    assert resolve_task("Whole") == "Whole"

    warnings = capsys.readouterr().err.splitlines()
    errors = {
        "wrong_import": "ModuleNotFoundError: ",
        "no_python": "SyntaxError: ",
        "exits": "SystemExit: ",
        "is_interrupted": "KeyboardInterrupt: ",
        "raises_other": "Odd: two lines",
        "half": "NameError: ",
    }
    for name, error in errors.items():
        (warning,) = [line for line in warnings if f"{name}-tasks" in line]
        assert error in warning
    assert len(warnings) == len(errors)


def test_a_task_that_may_be_of_a_broken_package_is_refused_with_its_error(installed):
    installed({"exits": BROKEN["exits"]})
    with pytest.raises(ConfigError, match=r"task=Exits-Task .*exits-tasks.*SystemExit"):
        resolve_task("Exits-Task")


def test_a_package_that_ends_the_process_is_named(installed):
    installed({"deadly": "import os; os.kill(os.getpid(), 11)", **WORKING})
    with pytest.raises(ConfigError, match=r"deadly-tasks .*-11"):
        registered_tasks()
    assert resolve_task("reach") == REACH


def test_a_broken_isaac_lab_is_reported_in_one_line(installed):
    folder = installed({})
    (folder / "isaaclab_tasks.py").write_text("raise ImportError('no such library')")
    with pytest.raises(ConfigError, match=r"isaaclab_tasks .*ImportError"):
        registered_tasks()


@pytest.fixture
def own_package(tmp_path, monkeypatch):
    """A package outside of this one, whose second task has an expert."""
    for name in ("plain", "taught"):
        package = tmp_path / "own_tasks" / name
        package.mkdir(parents=True)
        for module in ("__init__", f"{name}_env"):
            (package / f"{module}.py").touch()
    (tmp_path / "own_tasks" / "taught" / "expert.py").touch()
    (tmp_path / "exits.py").write_text("raise SystemExit", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    yield
    for task_id in [task_id for task_id in gymnasium.registry if task_id.startswith("Own-")]:
        del gymnasium.registry[task_id]


@pytest.mark.usefixtures("own_package")
def test_what_a_task_of_another_package_offers_is_seen_where_it_is_registered():
    for name in ("plain", "taught"):
        register_task(f"Own-{name}", env=f"own_tasks.{name}.{name}_env:Env", env_cfg="own_tasks:Cfg")
    entry_points: dict[str, Any] = {"absent": "not_installed.env:Env", "exits": "exits.env:Env", "made": lambda: None}
    for name, entry_point in entry_points.items():
        gymnasium.register(f"Own-{name}", entry_point, kwargs={"env_cfg_entry_point": "own_tasks:Cfg"})
    gymnasium.register("Own-of-nobody", "own_tasks.taught.taught_env:Env")

    found = {key: value for key, value in describe_registered().items() if key.startswith("Own-")}
    assert found == {
        "Own-plain": {"has_expert": False, "has_sizes": True, "modules": ["own_tasks", "own_tasks.plain.plain_env"]},
        "Own-taught": {"has_expert": True, "has_sizes": True, "modules": ["own_tasks", "own_tasks.taught.taught_env"]},
        "Own-absent": {"has_expert": False, "has_sizes": False, "modules": ["not_installed.env", "own_tasks"]},
        "Own-exits": {"has_expert": False, "has_sizes": False, "modules": ["exits.env", "own_tasks"]},
        "Own-made": {"has_expert": False, "has_sizes": False, "modules": ["own_tasks", __name__]},
    }


def test_a_task_of_this_package_is_defined_in_its_own_folder():
    assert task_traits("IsaacPC-Reach-Franka-Direct")["modules"] == [
        "isaaclab_pc.tasks.reach.reach_env",
        "isaaclab_pc.tasks.reach.reach_env_cfg",
    ]
