# SPDX-License-Identifier: BSD-3-Clause
"""Which workspaces are refused since the scene's fixed camera cannot see them."""

from contextlib import nullcontext
from typing import Any

import pytest
from isaaclab.sim import PinholeCameraCfg
from isaaclab.sim.spawners.sensors.sensors_cfg import OpenCvDistortionCfg

from isaaclab_pc.envs import workspace_points_cfg
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.settings import PointsSettings
from isaaclab_pc.tasks.reach.reach_env_cfg import ReachEnvCfg
from isaaclab_pc.workers.points import check_crop

SEEN = [[0.4, 0.6], [-0.1, 0.1], [0.0, 0.2]]
UNSEEN = [[99.0, 100.0], [0.0, 1.0], [0.0, 1.0]]


@pytest.mark.parametrize(
    ("camera", "cameras", "crop", "refused"),
    [
        ({}, ("camera",), UNSEEN, True),
        ({}, ("camera",), SEEN, False),
        ({}, ("camera",), None, False),
        # Another one may see it.
        ({}, ("wrist_camera",), UNSEEN, False),
        ({}, ("camera", "wrist_camera"), UNSEEN, False),
        ({"prim_path": "{ENV_REGEX_NS}/Robot/panda_hand/Camera"}, ("camera",), UNSEEN, False),
        ({"spawn": PinholeCameraCfg(distortion=OpenCvDistortionCfg())}, ("camera",), UNSEEN, False),
    ],
)
def test_a_workspace_that_the_only_camera_cannot_see_is_refused(
    camera: dict[str, Any], cameras: tuple[str, ...], crop: Any, refused: bool
) -> None:
    scene: Any = ReachEnvCfg().scene
    for name, value in camera.items():
        setattr(scene.camera, name, value)
    cloud = workspace_points_cfg(64, (0.2, -0.4, 0.0), (0.8, 0.4, 0.6), cameras)
    with pytest.raises(ConfigError, match=r"^points\.crop=") if refused else nullcontext():
        check_crop(scene.camera, PointsSettings(crop=crop), cloud)
