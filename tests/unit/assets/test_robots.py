# SPDX-License-Identifier: BSD-3-Clause
"""The robots that the setting ``robot`` can name."""

import pytest

from isaaclab_pc.assets.arm import ArmCfg
from isaaclab_pc.assets.robots import DEFAULT_ROBOT, ROBOTS, find_robot
from isaaclab_pc.envs.point_cloud_env_cfg import PointCloudEnvCfg, PointCloudSceneCfg


@pytest.mark.parametrize("name", ROBOTS)
def test_every_robot_is_an_arm_that_only_lacks_its_place(name: str):
    cfg = find_robot(name)()
    assert isinstance(cfg, ArmCfg)
    assert cfg.spawn is not None
    assert cfg.arm_joints
    assert cfg.hand
    assert cfg.tcp_offset > 0.0


def test_the_default_robot_is_the_one_of_the_scene():
    scene = PointCloudSceneCfg()
    default = find_robot(DEFAULT_ROBOT)()
    assert scene.robot.spawn.usd_path == default.spawn.usd_path  # pyright: ignore
    assert PointCloudEnvCfg().robots == (DEFAULT_ROBOT,)
