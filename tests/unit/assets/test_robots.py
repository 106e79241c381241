# SPDX-License-Identifier: BSD-3-Clause
"""The robots that the setting ``robot`` can name."""

import pytest

from isaaclab_pc.assets.arm import ArmCfg
from isaaclab_pc.assets.robots import DEFAULT_ROBOT, ROBOTS
from isaaclab_pc.envs.point_cloud_env_cfg import PointCloudEnvCfg, PointCloudSceneCfg

BACKENDS = ("ovphysx", "isaacsim_physx", "newton_mjwarp")


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", ROBOTS)
def test_every_robot_is_an_arm_that_only_lacks_its_place(name: str, backend: str):
    cfg = ROBOTS[name].make_cfg(backend)
    assert isinstance(cfg, ArmCfg)
    assert cfg.spawn is not None
    assert cfg.arm_joints
    assert cfg.hand
    assert cfg.tcp_offset > 0.0
    assert ROBOTS[name].arm in ROBOTS


def test_the_default_robot_is_the_one_of_the_scene():
    scene = PointCloudSceneCfg()
    default = ROBOTS[DEFAULT_ROBOT].make_cfg("newton_mjwarp")
    assert scene.robot.spawn.usd_path == default.spawn.usd_path  # pyright: ignore
    assert (ROBOTS[DEFAULT_ROBOT].arm,) == PointCloudEnvCfg().robots
