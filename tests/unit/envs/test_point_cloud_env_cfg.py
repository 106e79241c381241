# SPDX-License-Identifier: BSD-3-Clause
"""Changes of a task's config before its scene is built; no simulator is started."""

from typing import Any

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from isaaclab_pc.envs.point_cloud_env_cfg import append_goal, depth_camera_cfg, extend_ground, remove_unused_sensors
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.sensors import BodyPointsCfg, GivenPointsCfg
from isaaclab_pc.tasks.lift.lift_env_cfg import LiftEnvCfg


def appended(cfg: LiftEnvCfg) -> list[tuple[str, int]]:
    assert cfg.scene.points is not None
    return [(getattr(part, "name", "body"), part.num_points) for part in cfg.scene.points.append]


def test_the_goal_is_appended_once_however_often_a_config_is_built() -> None:
    cfg = LiftEnvCfg()
    assert cfg.scene.points is not None
    cfg.scene.points.append = [BodyPointsCfg(num_points=8)]
    cfg.goal_points = 4
    for _ in range(2):
        append_goal(cfg)
        remove_unused_sensors(cfg)
    assert appended(cfg) == [("body", 8), ("goal", 4)]

    cfg.goal_points = 6
    remove_unused_sensors(cfg)
    assert appended(cfg) == [("body", 8), ("goal", 6)]


def test_without_points_for_the_goal_nothing_is_appended_and_what_the_user_gave_stays() -> None:
    cfg = LiftEnvCfg()
    remove_unused_sensors(cfg)
    assert appended(cfg) == []
    assert cfg.scene.points is not None
    cfg.scene.points.append = [GivenPointsCfg(num_points=2, name="goal")]
    remove_unused_sensors(cfg)
    assert appended(cfg) == [("goal", 2)]


def test_a_scene_without_a_cloud_has_none_of_the_goal() -> None:
    cfg = LiftEnvCfg(obs="depth", goal_points=4)
    remove_unused_sensors(cfg)
    append_goal(cfg)
    assert cfg.scene.points is None


@pytest.mark.parametrize(("num_envs", "edge"), [(4096, 200.0), (16384, 340.0)])
def test_the_ground_is_below_every_environment(num_envs: int, edge: float) -> None:
    cfg = LiftEnvCfg()
    cfg.scene.num_envs = num_envs
    extend_ground(cfg)
    spawn: Any = cfg.scene.ground.spawn
    assert spawn.size == (edge, edge, 1.0)


def test_an_object_to_randomize_that_the_scene_lacks_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match=r"^env\.randomized: .*\bcub\b.*\bcube\?"):
        LiftEnvCfg(randomized=("cub",)).check()


def test_a_camera_that_looks_straight_down_is_told_what_is_up() -> None:
    size = {"width": 64, "height": 48, "fov_deg": 45.0}
    with pytest.raises(ConfigError, match=r"nothing is up .* straight down takes up=\(1\.0, 0\.0, 0\.0\)"):
        depth_camera_cfg((0.5, 0.0, 1.0), (0.5, 0.0, 0.0), **size)
    camera = depth_camera_cfg((0.5, 0.0, 1.0), (0.5, 0.0, 0.0), **size, up=(1.0, 0.0, 0.0))
    x, y, z = Rotation.from_quat(camera.offset.rot).as_matrix().T
    np.testing.assert_allclose((x, y, z), ([0, -1, 0], [-1, 0, 0], [0, 0, -1]), atol=1e-12)
