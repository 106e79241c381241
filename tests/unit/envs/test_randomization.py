# SPDX-License-Identifier: BSD-3-Clause
"""Levels and sizes; no simulator is started."""

import copy
from typing import Any, Literal

import isaaclab.sim as sim_utils
import numpy as np
import pytest

from isaaclab_pc.envs.randomization import LEVELS, Randomization, randomize_sizes, scaled
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.tasks.lift.lift_env_cfg import CUBE_EDGE, LiftEnvCfg


def cfg_with(level: Literal["none", "default", "hard"], seed: int = 3) -> Any:
    cfg = LiftEnvCfg()
    cfg.randomization = level
    cfg.seed = seed
    return cfg


def test_none_changes_nothing() -> None:
    assert LEVELS["none"] == Randomization()
    cfg = cfg_with("none")
    before = copy.deepcopy(cfg.scene).to_dict()
    randomize_sizes(cfg)
    assert cfg.scene.to_dict() == before


def test_a_level_gives_the_cube_the_sizes_of_its_range_and_leaves_the_rest_of_it() -> None:
    cfg = cfg_with("default")
    single = cfg.scene.cube.spawn
    randomize_sizes(cfg)
    spawn = cfg.scene.cube.spawn
    assert isinstance(spawn, sim_utils.MultiAssetSpawnerCfg)
    variants: list[Any] = spawn.assets_cfg
    edges = [variant.size for variant in variants]
    assert edges[0] == pytest.approx([CUBE_EDGE * LEVELS["default"].size[0]] * 3)
    assert edges[-1] == pytest.approx([CUBE_EDGE * LEVELS["default"].size[1]] * 3)
    assert all(variant.mass_props == single.mass_props for variant in variants)


def test_an_environments_size_depends_on_the_seed_and_not_on_how_many_there_are() -> None:
    chosen = {}
    for seed in (3, 4):
        cfg = cfg_with("hard", seed)
        randomize_sizes(cfg)
        chosen[seed] = cfg.scene.clone_cfg.clone_strategy(np.ones(5), 64)
        assert set(chosen[seed]) == set(range(5))
        np.testing.assert_array_equal(cfg.scene.clone_cfg.clone_strategy(np.ones(5), 8), chosen[seed][:8])
    assert (chosen[3] != chosen[4]).any()


def test_primitives_are_scaled_in_all_their_lengths() -> None:
    cylinder: Any = scaled(sim_utils.CylinderCfg(radius=0.1, height=0.4), 1.5)
    assert (cylinder.radius, cylinder.height) == pytest.approx((0.15, 0.6))


def test_what_has_no_size_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match=r"^env\.randomization: .*UsdFileCfg"):
        scaled(sim_utils.UsdFileCfg(usd_path="x.usd"), 1.1)
