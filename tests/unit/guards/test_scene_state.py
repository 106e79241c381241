# SPDX-License-Identifier: BSD-3-Clause
"""Mode sanitize replaces a bad state by one that lasts."""

import math
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import warp as wp

from isaaclab_pc.guards import Guard, GuardCfg, SceneState

NAN = math.nan
DEFAULT_JOINTS, DEFAULT_PLACE = [0.25, 0.5], [0.1, 0.2, 0.3]


class Asset:
    """Keeps a state, and what is written to it."""

    num_joints = 2
    is_fixed_base = True
    cfg = SimpleNamespace(spawn=None)

    def __init__(self, num_envs: int, *, limits: list | None = None) -> None:
        self.num_instances = num_envs
        self.state = {
            "joint_pos": torch.tensor(DEFAULT_JOINTS).repeat(num_envs, 1),
            "joint_vel": torch.zeros(num_envs, 2),
            "root_link_pose_w": torch.tensor([*DEFAULT_PLACE, 0.0, 0.0, 0.0, 1.0]).repeat(num_envs, 1),
            "root_com_vel_w": torch.zeros(num_envs, 6),
        }
        fixed = {
            "default_joint_pos": self.state["joint_pos"].clone(),
            "joint_pos_limits": torch.tensor(limits or [[0.0, 1.0], [-2.0, 2.0]]).repeat(num_envs, 1, 1),
            "joint_vel_limits": torch.full((num_envs, 2), 2.0),
            "default_root_pose": self.state["root_link_pose_w"].clone(),
        }
        types = {"root_link_pose_w": wp.transformf, "root_com_vel_w": wp.spatial_vectorf}
        self.data: Any = SimpleNamespace(
            **{
                name: SimpleNamespace(torch=value, warp=wp.from_torch(value, dtype=types.get(name, wp.float32)))
                for name, value in self.state.items()
            },
            **{name: SimpleNamespace(torch=value) for name, value in fixed.items()},
        )

        self.write_joint_position_to_sim_mask = partial(self._write, "joint_pos")
        self.write_joint_velocity_to_sim_mask = partial(self._write, "joint_vel")
        self.write_root_pose_to_sim_mask = partial(self._write, "root_link_pose_w")
        self.write_root_velocity_to_sim_mask = partial(self._write, "root_com_vel_w")

    def _write(self, name: str, *, env_mask: wp.array, **values: torch.Tensor) -> None:
        mask = wp.to_torch(env_mask)
        (value,) = values.values()
        self.state[name][mask] = value[mask]


def checked_twice(asset: Asset, kind: str, bad: list[bool], **fields: Any) -> None:
    """Check and repair it as a part of a scene; what was repaired is good from then on."""
    scene: Any = {"articulations": {}, "rigid_objects": {}, "env_origins": torch.full((len(bad), 3), 7.0)}
    scene[kind] = {"it": asset}
    guard = Guard(GuardCfg(mode="sanitize", **fields), len(bad), "cpu")
    state = SceneState(guard, SimpleNamespace(**scene))
    for expected in (bad, [False] * len(bad)):
        guard.begin_step()
        state.check()
        assert (guard.causes != 0).tolist() == expected


@pytest.mark.parametrize(("position", "repaired"), [(math.inf, 1.0), (-50.0, 0.0), (NAN, DEFAULT_JOINTS[0])])
def test_a_joint_is_put_at_its_limit_and_comes_to_rest(position: float, repaired: float) -> None:
    asset = Asset(2)
    asset.state["joint_pos"][1, 0] = position
    asset.state["joint_vel"][1] = torch.tensor([math.inf, 3.0])
    asset.state["joint_vel"][0] = 3.0
    checked_twice(asset, "articulations", [False, True])
    assert asset.state["joint_pos"].tolist() == [DEFAULT_JOINTS, [repaired, DEFAULT_JOINTS[1]]]
    assert asset.state["joint_vel"].tolist() == [[3.0, 3.0], [0.0, 3.0]], "what was good stays"


@pytest.mark.parametrize("limit", [math.inf, 1e10, 3.4e38])
@pytest.mark.parametrize("position", [math.inf, 1e30, -1e7, NAN])
def test_a_joint_that_turns_without_end_is_put_at_its_default(limit: float, position: float) -> None:
    asset = Asset(1, limits=[[-limit, limit], [-2.0, 2.0]])
    asset.state["joint_pos"][0, 0] = position
    checked_twice(asset, "articulations", [True], max_abs=1e6)
    assert asset.state["joint_pos"][0].tolist() == DEFAULT_JOINTS


@pytest.mark.parametrize("place", [math.inf, -101.0, NAN])
def test_a_body_that_left_the_scene_is_put_at_rest_where_it_begins(place: float) -> None:
    asset = Asset(2)
    asset.state["root_link_pose_w"][:, :3] += 7.0
    asset.state["root_link_pose_w"][1, 2] = place
    asset.state["root_com_vel_w"][:] = 4.0
    checked_twice(asset, "rigid_objects", [False, True])
    expected = torch.tensor(DEFAULT_PLACE).expand(2, 3) + 7.0
    torch.testing.assert_close(asset.state["root_link_pose_w"][:, :3], expected)
    assert asset.state["root_com_vel_w"].tolist() == [[4.0] * 6, [0.0] * 6]


@pytest.mark.parametrize("speed", [math.inf, -1e30, NAN])
def test_a_body_that_is_too_fast_stops_in_that_direction(speed: float) -> None:
    asset = Asset(1)
    asset.state["root_link_pose_w"][:, :3] += 7.0
    asset.state["root_com_vel_w"][0] = torch.tensor([speed, 1.0, 2.0, 3.0, speed, 4.0])
    checked_twice(asset, "rigid_objects", [True])
    assert asset.state["root_com_vel_w"][0].tolist() == [0.0, 1.0, 2.0, 3.0, 0.0, 4.0]


@pytest.mark.parametrize("quat", [(0.0, 0.0, 0.0, 0.0), (NAN, 0.0, 0.0, 1.0), (0.0, 0.0, 0.0, 1e30)])
def test_an_orientation_that_is_none_becomes_the_default(quat: tuple[float, ...]) -> None:
    asset = Asset(1)
    asset.state["root_link_pose_w"][:, :3] += 7.0
    asset.state["root_link_pose_w"][0, 3:] = torch.tensor(quat)
    checked_twice(asset, "rigid_objects", [True])
    assert asset.state["root_link_pose_w"][0, 3:].tolist() == [0.0, 0.0, 0.0, 1.0]
