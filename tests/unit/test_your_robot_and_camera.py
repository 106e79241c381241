# SPDX-License-Identifier: BSD-3-Clause
"""The code of the page about robots and cameras, up to where a simulator would start."""

import re
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

from isaaclab_pc.envs.point_cloud_env_cfg import remove_unused_sensors

PAGE = Path(__file__).parents[2] / "docs" / "your_robot_and_camera.md"


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    module = types.ModuleType("code_of_the_page")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    before = dict(gym.registry)
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    exec("\n".join(blocks), vars(module))
    yield module
    gym.registry.clear()
    gym.registry.update(before)


def test_the_cameras_fill_the_clouds(page: Any) -> None:
    cfg = page.LiftWithTwoCamerasCfg()
    cfg.check()
    remove_unused_sensors(cfg)
    assert cfg.scene.points.num_points == 256
    assert (cfg.scene.camera.width, cfg.scene.camera.height) == (212, 120)
    assert cfg.scene.points.cameras == ("camera", "wrist_camera")


def test_the_arm_takes_the_place_of_the_other_and_the_task_has_its_name(page: Any) -> None:
    kwargs = gym.spec("My-Reach-Arm-Direct").kwargs
    module, _, name = kwargs["env_cfg_entry_point"].partition(":")
    cfg = getattr(sys.modules[module], name)()
    assert cfg.scene.robot.prim_path == "{ENV_REGEX_NS}/Robot"
    assert cfg.scene.points.gripper_offset == (0.0, 0.0, page.MY_ARM.tcp_offset)
    assert kwargs["rsl_rl_cfg_entry_point"]().max_iterations == 100
