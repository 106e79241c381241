# SPDX-License-Identifier: BSD-3-Clause
"""Which workspaces are refused since the scene's fixed camera cannot see them."""

from typing import Any

import pytest
from isaaclab.sim import PinholeCameraCfg
from isaaclab.sim.spawners.sensors.sensors_cfg import OpenCvDistortionCfg

from isaaclab_pc.envs import workspace_points_cfg
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.settings import PointsSettings
from isaaclab_pc.tasks.reach.reach_env_cfg import ReachEnvCfg
from isaaclab_pc.workers.points import check_crop

UNSEEN = PointsSettings(crop=[[99.0, 100.0], [0.0, 1.0], [0.0, 1.0]])


def scene_with(camera: dict[str, Any], points: dict[str, Any]) -> tuple[Any, Any]:
    scene: Any = ReachEnvCfg().scene
    scene.points = workspace_points_cfg(64, (0.2, -0.4, 0.0), (0.8, 0.4, 0.6))
    for part, fields in ((scene.camera, camera), (scene.points, points)):
        for name, value in fields.items():
            setattr(part, name, value)
    return scene.camera, scene.points


def test_a_workspace_that_the_only_camera_cannot_see_is_refused() -> None:
    camera, cloud = scene_with({}, {})
    with pytest.raises(ConfigError, match=r"^points\.crop=.*: no pixel of the camera at .* can be in it"):
        check_crop(camera, UNSEEN, cloud)
    check_crop(camera, PointsSettings(crop=[[0.4, 0.6], [-0.1, 0.1], [0.0, 0.2]]), cloud)
    check_crop(camera, PointsSettings(), cloud)


@pytest.mark.parametrize(
    ("camera", "points"),
    [
        ({}, {"cameras": ("wrist_camera",)}),
        ({}, {"cameras": ("camera", "wrist_camera")}),
        ({"prim_path": "{ENV_REGEX_NS}/Robot/panda_hand/Camera"}, {}),
        ({"spawn": PinholeCameraCfg(distortion=OpenCvDistortionCfg())}, {}),
    ],
)
def test_where_a_workspace_may_be_seen_none_is_refused(camera: dict[str, Any], points: dict[str, Any]) -> None:
    check_crop(scene_with(camera, {})[0], UNSEEN, scene_with({}, points)[1])
