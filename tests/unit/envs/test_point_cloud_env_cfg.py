# SPDX-License-Identifier: BSD-3-Clause
"""What is made of a task's config before its scene is built; no simulator is started."""

from isaaclab_pc.envs.point_cloud_env_cfg import append_goal, keep_what_is_observed
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
        keep_what_is_observed(cfg)
    assert appended(cfg) == [("body", 8), ("goal", 4)]

    cfg.goal_points = 6
    keep_what_is_observed(cfg)
    assert appended(cfg) == [("body", 8), ("goal", 6)]


def test_without_points_for_the_goal_nothing_is_appended_and_what_the_user_gave_stays() -> None:
    cfg = LiftEnvCfg()
    keep_what_is_observed(cfg)
    assert appended(cfg) == []
    assert cfg.scene.points is not None
    cfg.scene.points.append = [GivenPointsCfg(num_points=2, name="goal")]
    keep_what_is_observed(cfg)
    assert appended(cfg) == [("goal", 2)]


def test_a_scene_without_a_cloud_has_none_of_the_goal() -> None:
    cfg = LiftEnvCfg(obs="depth", goal_points=4)
    keep_what_is_observed(cfg)
    append_goal(cfg)
    assert cfg.scene.points is None
